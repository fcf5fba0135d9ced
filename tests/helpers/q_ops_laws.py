"""Helpers of the laws of integer ops: a float graph, its brackets from data, the lowered graph, and all their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lowbit.calibration.run import calibrate
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.lower.integer import Lowered
from lowbit.quantization.rules import CalibratedQuantRule, QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array, TensorType

Make = Callable[..., Value | tuple[Value, ...]]


def graph_of(make: Make, *shapes: Sequence[Any], dtypes: Sequence[str] = ()) -> Graph:
    """The graph of `make(builder, *inputs)`, with inputs x0, x1, … and outputs y0, y1, …"""
    b = Builder("law")
    kinds = [*dtypes, *["float32"] * (len(shapes) - len(dtypes))]
    inputs = [b.input(f"x{i}", TensorType(s, d)) for i, (s, d) in enumerate(zip(shapes, kinds, strict=True))]
    made = make(b, *inputs)
    outs = made if isinstance(made, tuple) else (made,)
    return verify(b.finish({f"y{i}": v for i, v in enumerate(outs)}))


@dataclass(frozen=True)
class Road:
    """A float graph on its way to integers."""

    graph: Graph
    brackets: Graph
    lowered: Lowered

    @property
    def integers(self) -> Graph:
        return self.lowered.graph

    def node(self, op: str) -> Node:
        return next(n for n in self.integers.nodes if n.op == op)

    @property
    def ops(self) -> list[str]:
        return [n.op for n in self.integers.nodes]

    def answers(self, *arrays: Array) -> tuple[list[Array], list[Array], list[Array]]:
        """Outputs of the float graph, the bracketed one and the integer one."""
        sample = named(self.graph, arrays)
        a, b, c = (list(run(g, sample).values()) for g in (self.graph, self.brackets, self.integers))
        return a, b, c


def named(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    return {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)}


def road(graph: Graph, data: Sequence[Sequence[Array]] = (), rules: Sequence[QuantRule] | None = None) -> Road:
    """The graph quantized by rules (int8 unless given) with ranges from data, and lowered; both graphs are verified."""
    transform = QuantizationTransform(rules if rules is not None else [CalibratedQuantRule(".*", "int8")])
    taps = transform.taps(graph).observed
    record = calibrate(graph, [named(graph, arrays) for arrays in data], taps) if data else None
    brackets = verify(transform.apply(graph, record))
    lowered = lower(brackets)
    verify(lowered.graph)
    return Road(graph, brackets, lowered)


def inner(road: Road, op: str, *arrays: Array) -> tuple[list[Array | None], list[Array]]:
    """What the node of that integer op reads and gives, on these inputs."""
    node = road.node(op)
    graph = road.integers
    names = [v.name for v in (*node.inputs, *node.outputs) if v is not None]
    found = run(
        graph, named(graph, arrays), keep=[n for n in names if n not in graph.constants and n not in {v.name for v in graph.inputs}]
    )
    env = {**{k: c.data for k, c in graph.constants.items()}, **named(graph, arrays), **found}
    return [None if v is None else env[v.name] for v in node.inputs], [env[v.name] for v in node.outputs]
