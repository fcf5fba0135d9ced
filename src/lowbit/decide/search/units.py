"""Units of layers that share one width, and the widths that a unit can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lowbit.decide.widths import Widths, has_weights, inputs_of, multiplies
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE, is_clamp
from lowbit.quantization.rules import CalibratedQuantRule, QuantNode, RuleMatcher
from lowbit.quantization.taps import Taps

FLOAT = "float"
WIDTHS: Mapping[str, tuple[int, int]] = {"int4": (8, 4), "int8": (8, 8), "int16": (16, 8), FLOAT: (32, 32)}  # bits of input and weights


@dataclass(frozen=True)
class Unit:
    """Layers of one width: a layer that multiplies and the clamp fused into it, or connected layers between such layers."""

    name: str
    nodes: tuple[Node, ...]
    weighted: bool  # whether there are weights to be stored in four bits

    @property
    def multiplies(self) -> bool:
        return any(map(multiplies, self.nodes))


Choice = Mapping[str, str]  # of each unit, by name: the name of its width


def find_units(graph: Graph) -> tuple[Unit, ...]:
    """The units of a graph, in its order. Nodes without an integer form are in no unit.

    A residual stream with its sums and norms is one unit: keeping one of them wide and the next narrow gains nothing.
    """
    matcher = RuleMatcher([CalibratedQuantRule(".*")])
    able = {n.output.name: n for n in graph.nodes if n.op in QUANTIZABLE and _reals(n) and matcher.decide(n).mode == "static"}
    parent = {name: name for name in able}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    taken = {  # a clamp after a layer, and the layer
        users[0].output.name: n.output.name
        for n in able.values()
        if multiplies(n)
        and len(users := graph.users.get(n.output.name, ())) == 1
        and is_clamp(users[0].op)
        and users[0].output.name in able
    }
    for name, node in able.items():
        if name in taken:
            parent[root(name)] = root(taken[name])
        elif not multiplies(node):
            for v in node.inputs:
                before = graph.producers.get(v.name) if v is not None else None
                key = before.output.name if before is not None else ""
                if before is not None and key in able and not multiplies(before) and key not in taken:
                    parent[root(name)] = root(key)
    members: dict[str, list[Node]] = {}
    for name, node in able.items():
        members.setdefault(root(name), []).append(node)
    found: dict[str, tuple[Node, ...]] = {}
    for nodes in members.values():
        first = nodes[0].name or nodes[0].output.name
        found[first if first not in found else nodes[0].output.name] = tuple(nodes)
    return tuple(Unit(name, nodes, any(has_weights(graph, n) for n in nodes)) for name, nodes in found.items())


def uniform(units: Iterable[Unit], width: str) -> dict[str, str]:
    """Every unit in one width; int8 instead of four bits if a unit has no weights."""
    return {u.name: width if width != "int4" or u.weighted else "int8" for u in units}


def _reals(node: Node) -> bool:
    return any(v is not None and v.type.dtype.is_float for v in (*node.inputs, *node.outputs))


def widths_of(graph: Graph, taps: Taps, units: Iterable[Unit], choice: Choice) -> Widths:
    """The choice as `Widths` of the engine. A value is kept in 16 bits if a layer of 16 bits reads it."""
    of = {w: frozenset(n.output.name for u in units if choice[u.name] == w for n in u.nodes) for w in WIDTHS}
    return Widths(
        taps=inputs_of(graph, taps, of["int16"]),
        layers=frozenset(k for k in of["int16"] if multiplies(graph.producers[k])),
        floats=of[FLOAT],
        fours=frozenset(k for k in of["int4"] if has_weights(graph, graph.producers[k])),
    )


def width_of(graph: Graph, unit: Unit, decide: Callable[[Node], QuantNode]) -> str:
    """The width of a unit by the decisions about its nodes. A unit without multiplications is as wide as the values that it reads."""
    found = [decide(n) for n in unit.nodes]
    if any(d.activation is None for d in found):
        return FLOAT
    if any(d.activation is not None and d.activation.bits == 16 for d in found):
        return "int16"
    four = any(d.weight is not None and d.weight.bits == 4 and has_weights(graph, n) for n, d in zip(unit.nodes, found, strict=True))
    return "int4" if four else "int8"
