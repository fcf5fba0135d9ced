"""lowbit export MODEL -o out.onnx: the network as a standard ONNX file, checked and run before it is written."""

from __future__ import annotations

import argparse

from lowbit.cli.common import add_model_arguments, check_out, load_model, print_json, say, size, whole
from lowbit.export.onnx import RECURRENCES, export_onnx
from lowbit.export.onnx.saturation import Safe

HELP = "write a network, float or quantized, as standard ONNX; checked, and compared with ONNX Runtime, before it is written"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument("-o", "--out", required=True, metavar="FILE.onnx", help="the file to write; an old one stays until the new one is whole")
    p.add_argument("--opset", type=whole(1), metavar="N", help="17 to 23 (default: the least that can say the network)")
    p.add_argument("--matmul-nbits", action="store_true", help="four-bit linear layers as MatMulNBits of ONNX Runtime")
    p.add_argument(
        "--recurrences",
        choices=RECURRENCES,
        default="float",
        help="LSTM and GRU as ONNX's ops, in float between integers, or by their integer arithmetic (default: float)",
    )
    p.add_argument(
        "--safe",
        choices=("yes", "7-bit", "no"),
        default="yes",
        help="layers that would saturate on CPUs without VNNI: weights as uint8, the same results on every CPU (yes); of 7 bits in the "
        "channels that need it, faster with VNNI (7-bit); as they are (no)",
    )
    p.add_argument("--no-check", action="store_true", help="write the file without checking and running it")


def main(args: argparse.Namespace) -> None:
    check_out(args.out, "an exported network", (".onnx",), args.model)
    graph = load_model(args)
    options = {"opset": args.opset, "matmul_nbits": args.matmul_nbits, "recurrences": args.recurrences}
    safe: Safe = {"yes": True, "no": False, "7-bit": "7-bit"}[args.safe]  # type: ignore[assignment]
    report = export_onnx(graph, args.out, check=not args.no_check, safe=safe, **options)
    if args.json:
        print_json(report.to_json())
        return
    say(f"written  {report.path}: {size(report.bytes)}, opset {report.opset}, {report.nodes} nodes")
    checked = "onnx.checker passed" if report.checked else "not checked"
    say(f"checked  {checked}; {report.ran}")
    if report.safety:
        say(f"safe     {report.safety}")
    say(f"next     lowbit inspect {report.path}")
