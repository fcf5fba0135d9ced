"""What `lowbit quantize -o` writes: a .lowbit file, an .onnx file or a folder of C, by the name."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowbit.arguments import path
from lowbit.cli.common import UsageError, check_out
from lowbit.codegen import TARGETS
from lowbit.codegen.folder import check_folder
from lowbit.errors import FormatError
from lowbit.ir.bind import bind
from lowbit.ir.graph import Graph

FILES = (".lowbit", ".onnx")


def check_kind(args: argparse.Namespace) -> str:
    """The kind of output that the name says, checked before any work: ".lowbit", ".onnx" or "C"."""
    suffix = Path(args.out).suffix
    if suffix in FILES:
        check_out(args.out, "a quantized network", FILES, args.model)
        if args.target is not None:
            raise UsageError("--target is for a folder of C", where=args.out, hint="-o firmware/ --target cortex-m4")
        return suffix
    if suffix and not Path(args.out).is_dir():
        hint = "-o small.lowbit, -o small.onnx, or a folder for C"
        raise UsageError(f"a quantized network is written as {' or '.join(FILES)}, or as a folder of C", where=args.out, hint=hint)
    if args.target is not None and args.target not in TARGETS:
        raise UsageError(f"--target {args.target!r} does not exist", hint="one of " + ", ".join(TARGETS))
    check_folder(path(args.out, "the path of a folder"))
    return "C"


def write(kind: str, graph: Graph, args: argparse.Namespace) -> str:
    """Writes the network; what a reader of the verdict should know of it."""
    if kind == ".lowbit":
        graph.save(args.out)
        return ""
    if kind == ".onnx":
        from lowbit.export.onnx import export_onnx

        report = export_onnx(graph, args.out)
        return f"checked: {report.ran}" + (f"; {report.safety}" if report.safety else "")
    from lowbit.pipeline import emit_c

    batch = {str(v.shape[0]): 1 for v in graph.inputs if v.shape and not isinstance(v.shape[0], int)}
    bound = bind(graph, {k: n for k, n in batch.items() if k in graph.symbols})
    if bound.symbols:
        names = " ".join(f"--shapes {s}=1" for s in bound.symbols)
        raise FormatError("C needs sizes that are known", where=args.out, hint=names)
    done = emit_c(bound, args.out, target=args.target or "portable")
    return f"C for {done.target}: {done.arena_bytes:,} bytes of RAM, {done.weight_bytes:,} bytes of weights"
