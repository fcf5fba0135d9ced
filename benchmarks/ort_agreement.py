"""Integer layers against ONNX Runtime: each layer alone, both fed with the same integers, bytes compared.

    python benchmarks/ort_agreement.py [--networks resnet9 vit …] [--recipes int8 uint8] [--recurrences float] [--markdown] [--json o.json]

A layer is what stands between integers in the Q/DQ graph: dequantize → op → quantize. It is lowered and run by lowbit's interpreter,
and exported and run by ONNX Runtime (its integer kernels, where it has them). Both activations and weights are signed (int8) or
unsigned (uint8): kernels for unsigned by signed products saturate in 16 bits on CPUs without VNNI. Told are the bytes compared, of all
that ops between integers make: what stays float, in whole or in part, is not compared. LSTM and GRU, for which ONNX has no integer op, are
exported by their integer arithmetic (a Scan); --recurrences float takes ONNX's float ops between brackets instead.

Where the two differ by one, and why:
    attention   ONNX Runtime has none in integers; its softmax is float, lowbit's probabilities are integers of 20 bits
    add         the sum before rounding is a float32 on both sides; a few in a million differ in its last bit
    linear      of rank 3: MatMulIntegerToFloat, then Add in float, then QuantizeLinear round three times, lowbit once
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from lowbit.export.onnx import RECURRENCES, onnx_bytes
from lowbit.export.onnx.check import run_onnx
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.lower.integer import BRACKETS
from lowbit.lower.layer_graphs import layer_graphs
from lowbit.types import Array

WIDTHS = (18, 6, 4, 26, 6, 9, 2, 4)  # network, recipe, layers, bytes compared of all, differing, equal, off by at most, holds


@dataclass(frozen=True)
class Layer:
    """One layer's result: how many of its output bytes differ between the two, and by how much at most."""

    network: str
    recipe: str
    layer: str
    op: str
    integer_op: str
    bytes: int
    differ: int
    most: int


@dataclass(frozen=True)
class Compared:
    """The layers that were compared, and the bytes that all ops between integers make."""

    layers: list[Layer]
    total: int

    @property
    def bytes(self) -> int:
        return sum(r.bytes for r in self.layers)

    @property
    def differ(self) -> int:
        return sum(r.differ for r in self.layers)

    @property
    def most(self) -> int:
        return max((r.most for r in self.layers), default=0)

    @property
    def holds(self) -> bool:
        """99.99 % of the bytes are equal, and none is off by more than one."""
        return self.differ <= 1e-4 * self.bytes and self.most <= 1


def compare(network: str, recipe: str, graph: Graph, feed: Mapping[str, Array], recurrences: str = "integer") -> Compared:
    """Every integer layer of a Q/DQ graph, on the integers that this input gives."""
    seen: dict[str, Array] = {}
    run(graph, feed, on_value=lambda v, x: seen.__setitem__(v.name, x) if not v.type.dtype.is_float else None)
    results, total = [], 0
    for node, alone in layer_graphs(graph):
        lowered = lower(alone)
        total += seen[alone.outputs["y"].name].size
        if lowered.islands or any(n.op in BRACKETS for n in lowered.graph.nodes):
            continue  # stays float, in whole or in part
        inputs = {v.name: seen[v.name] for v in alone.inputs}
        ours = run(lowered.graph, inputs)["y"].astype(np.int32)
        theirs = run_onnx(onnx_bytes(alone, recurrences=recurrences), inputs, optimize=True)["y"].astype(np.int32)
        error = np.abs(ours - theirs)
        made = "+".join(dict.fromkeys(n.op for n in lowered.graph.nodes))
        found = (int((error != 0).sum()), int(error.max(initial=0)))
        results.append(Layer(network, recipe, node.name or node.output.name, node.op, made, int(error.size), *found))
    return Compared(results, total)


def quantized(name: str, recipe: str, batch: int = 8) -> tuple[Graph, dict[str, Array]]:
    """A network in integers, and an input that calibration did not see: of the zoo, or a public one of accuracy_cases.py."""
    import lowbit
    from lowbit.pipeline import quantize
    from zoo import ZOO

    if name not in ZOO:
        from accuracy_cases import CASES

        case = CASES[name]()
        return quantize(case.graph, case.calibration[:4], recipe=recipe, guard=False), case.test[0]
    entry = ZOO[name]
    graph = lowbit.load(entry.make(), inputs=entry.example(), dynamic=entry.dynamic)
    sample = [{k: v.numpy() for k, v in entry.example(seed, batch=batch).items()} for seed in range(3)]
    return quantize(graph, sample[:2], recipe=recipe, guard=False), sample[2]  # 8 bits throughout: what ORT has integer kernels for


def main() -> None:
    from zoo import ZOO

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--networks", nargs="*", default=list(ZOO), help="default: the zoo; public ones by their names in accuracy_cases.py")
    p.add_argument("--recipes", nargs="*", default=["int8", "uint8"])
    p.add_argument("--recurrences", choices=RECURRENCES, default="integer", help="how LSTM and GRU are exported")
    p.add_argument("--markdown", action="store_true", help="the rows of the table in docs/accuracy.md")
    p.add_argument("--json")
    args = p.parse_args()
    rows: list[Layer] = []
    for name in args.networks:
        for recipe in args.recipes:
            found = compare(name, recipe, *quantized(name, recipe), args.recurrences)
            rows += found.layers
            equal = 1 - found.differ / max(found.bytes, 1)
            cells = [name, recipe, str(len(found.layers)), f"{found.bytes:,} of {found.total:,}", f"{found.differ:,}", f"{equal:.4%}"]
            cells += [str(found.most), "yes" if found.holds else "NO"]
            text = " ".join(f"{c:>{w}}" for c, w in zip(cells, WIDTHS, strict=True))
            print(f"| {' | '.join(cells)} |" if args.markdown else text, flush=True)
            for r in found.layers if not args.markdown else ():
                if r.most > 1 or r.differ > 1e-4 * r.bytes:
                    print(f"    {r.op} '{r.layer}' ({r.integer_op}): {r.differ} of {r.bytes} differ, by at most {r.most}")
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(r) for r in rows], indent=1))


if __name__ == "__main__":
    main()
