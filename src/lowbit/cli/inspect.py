"""lowbit inspect MODEL: the structure of a network."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowbit.cli.common import UsageError, add_model_arguments, count, load_model, print_json, say, size, table
from lowbit.cli.onnx_file import show_file
from lowbit.errors import UnsupportedOp
from lowbit.report.inspection import Inspection, LayerRow, inspect

HELP = "show the layers of a network: shapes, parameters, MACs, bytes, and what is not supported"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument("--node", metavar="N", help="show one layer in full: its number or its name")
    p.add_argument("--onnx", action="store_true", help="show the nodes as they stand in the .onnx file, numbered as in errors of loading")
    p.add_argument("--text", action="store_true", help="print the graph itself")


def main(args: argparse.Namespace) -> None:
    if args.onnx:
        return show_file(args)
    try:
        graph = load_model(args)
    except UnsupportedOp as e:
        if Path(args.model).suffix == ".onnx":
            show_file(args, e)
        raise
    if args.text:
        print(graph, end="")
        return
    found = inspect(graph)
    if args.node is not None:
        show_node(pick(found, args.node), args.json)
    elif args.json:
        print_json(found.to_dict())
    else:
        show(found)


def pick(found: Inspection, wanted: str) -> LayerRow:
    for row in found.rows:
        if wanted in (str(row.index), row.layer):
            return row
    raise UsageError(
        f"no layer is number or name {wanted!r}", where=found.name, hint=f"--node with a number from 0 to {len(found.rows) - 1}"
    )


def show(found: Inspection) -> None:
    rows = [
        [str(r.index), r.layer, r.op, r.output, count(r.parameters), count(r.macs), size(r.weight_bytes) if r.weight_bytes else ""]
        for r in found.rows
    ]
    columns = {"#": "right", "layer": "left", "op": "left", "output": "left", "parameters": "right", "MACs": "right", "weights": "right"}
    table(found.name, columns, rows)
    for kind, values in (("input", found.inputs), ("output", found.outputs)):
        for name, type_ in values.items():
            say(f"{kind:7}{name}: {type_}")
    totals = f"{count(found.parameters) or 0} parameters, {count(found.macs) or 0} MACs, {size(found.parameter_bytes)}"
    say(f"total  {len(found.rows)} nodes, {totals}")
    if found.symbols:
        say(f"open   dimensions {', '.join(found.symbols)}: bind with " + " ".join(f"--shapes {s}=1" for s in found.symbols))


def show_node(row: LayerRow, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json(asdict(row))
        return
    say(f"{row.op} '{row.layer}' (node {row.index})")
    for i, t in enumerate(row.inputs):
        say(f"  input {i}: {t or 'left out'}")
    say(f"  output: {row.output}")
    for name, value in row.attrs.items():
        say(f"  {name} = {value}")
    say(f"  {count(row.parameters) or 0} parameters, {count(row.macs) or 0} MACs")
