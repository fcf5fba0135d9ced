"""The nodes of an .onnx file as they are in it, for `inspect --onnx`, and for `inspect` of a file that cannot be loaded."""

from __future__ import annotations

import argparse

from lowbit.cli.common import UsageError, print_json, table
from lowbit.errors import UnsupportedOp
from lowbit.frontends.onnx.serialize import read_model
from lowbit.frontends.onnx.survey import survey


def show_file(args: argparse.Namespace, error: UnsupportedOp | None = None) -> None:
    """Prints the nodes, those that are not supported marked; raises the error, without the hint to look here."""
    nodes = survey(read_model(args.model), error)
    if args.node is not None and error is None:
        nodes = tuple(n for n in nodes if args.node in (n.number, n.name))
        if not nodes:
            raise UsageError(f"no node of the file is number or name {args.node!r}", where=args.model, hint="without --node: all of them")
    if args.json:
        print_json({"error": None if error is None else error.message, "nodes": [n._asdict() for n in nodes]})
    else:
        columns = {"node": "right", "name": "left", "operator": "left", "inputs": "left", "outputs": "left", "": "left"}
        table(args.model, columns, [[n.number, n.name, n.op, ", ".join(n.inputs), ", ".join(n.outputs), n.problem or ""] for n in nodes])
    if error is not None:
        error.hint = None if error.hint and error.hint.startswith("lowbit inspect") else error.hint
        raise error
