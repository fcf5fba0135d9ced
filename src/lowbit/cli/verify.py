"""lowbit verify MODEL.lowbit: every backend on the same inputs, bit by bit."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np

from lowbit.cli.common import binding_arguments, load_model, print_json, say, table, whole
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.cli.run import random_array
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph
from lowbit.report.verify import BackendResult, Difference, told, verify_backends

HELP = "run a quantized network on every backend and compare the bits"


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("model", help="the .lowbit file that lowbit quantize wrote, or a quantized .onnx")
    binding_arguments(p)
    add_data_arguments(p, random=False)
    p.add_argument("--random", type=whole(1), default=2, metavar="N", help="without --data: how many random batches (2)")
    p.add_argument("--seed", type=whole(0), default=0, help="of the random numbers (0)")
    p.add_argument("--layers", action="store_true", help="compare every integer inside, and show each layer")
    p.set_defaults(no_simplify=True)


def main(args: argparse.Namespace) -> None:
    graph = load_model(args)
    data: Iterable[Any] = data_from(args, graph) if args.data else random_samples(graph, args.random, args.seed)
    found = verify_backends(graph, data, layers=args.layers)
    if args.json:
        print_json(found.to_dict())
    else:
        if args.layers:
            for result in found.results:
                show(result)
        say(found)
    for wrong in found.results:
        for first in wrong.broken[:1]:
            raise LowbitError(f"{told([first])}, and this backend promises the same bits", where=f"{wrong.backend}, {first.value!r}")


def random_samples(graph: Graph, count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{v.name: random_array(v.name, v.type, rng) for v in graph.inputs} for _ in range(count)]


def show(result: BackendResult) -> None:
    columns = {"value": "left", "numbers": "right", "different": "right", "by one": "right", "largest": "right"}

    def row(d: Difference) -> list[str]:
        return [d.value, f"{d.elements:,}", f"{d.different:,}", f"{d.off_by_one:,}" if d.integers else "", f"{d.largest:g}"]

    table(result.backend, columns, [row(d) for d in (*result.layers, *result.outputs)])
