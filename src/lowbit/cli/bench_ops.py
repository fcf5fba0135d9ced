"""lowbit bench --ops: single operations by dtype, scheme, granularity and size, beside NumPy, torch and ONNX Runtime."""

from __future__ import annotations

import argparse

from lowbit.cli.common import UsageError, check_out, print_json, say, size, table, whole
from lowbit.files import write_whole
from lowbit.hardware import Hardware
from lowbit.recommend.ops import ENGINES, OPS, OpRow, bench_ops, installed
from lowbit.recommend.picture import svg


def add_ops_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--ops", nargs="*", choices=OPS, metavar="OP", help=f"single operations instead of networks: {', '.join(OPS)} (all)")
    p.add_argument("--sizes", nargs="+", type=whole(1), metavar="N", help="of --ops: elements, the side of a matrix, channels of a conv")
    p.add_argument("--svg", metavar="PICTURE.svg", help="of --ops: a picture of the times")


def need_no_ops(args: argparse.Namespace) -> None:
    for name, given in (("--sizes", args.sizes), ("--svg", args.svg)):
        if given is not None:
            raise UsageError(f"{name} is for single operations", hint=f"lowbit bench --ops {name} …")


def main_ops(args: argparse.Namespace) -> None:
    if args.models:
        raise UsageError("networks and --ops are two benchmarks", where=args.models[0], hint="lowbit bench --ops, without a network")
    if args.svg:
        check_out(args.svg, "a picture", (".svg",))
    rows = bench_ops(args.ops or None, sizes=args.sizes, against=["ort"] if args.against else None)
    if args.svg:
        write_whole(args.svg, svg(rows).encode())
    missing = [e for e in ENGINES if not installed(e)]
    if args.json:
        hw = Hardware.detect()
        print_json(
            {"machine": {"cpu": hw.cpu, "cpus": hw.usable_cpus, "load": hw.load}, "rows": [r.to_dict() for r in rows], "missing": missing}
        )
        return
    show(rows)
    say("one thread, the least time of runs in turns; bytes: of the operands as stored; peak: memory beyond them while it runs")
    if missing:
        say(f"not installed here: {', '.join(missing)}")
    if args.svg:
        say(f"written: {args.svg}")


def show(rows: list[OpRow]) -> None:
    columns = {"op": "left", "size": "right", "engine": "left", "dtype": "left", "scheme": "left", "granularity": "left"}
    cells = [[r.op, f"{r.size:,}", r.engine, r.dtype, r.scheme, r.granularity, f"{r.ms:.4g}", size(r.nbytes), size(r.peak)] for r in rows]
    table("", {**columns, "ms": "right", "bytes": "right", "peak": "right"}, cells)
