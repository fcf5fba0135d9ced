"""What the search decides about: units of layers that have one width, and the widths that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lowbit.decide.widths import RECURRENT, has_weights, multiplies
from lowbit.dtypes import dtype
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE, is_clamp
from lowbit.quantization.rules import CalibratedQuantRule, RuleMatcher


@dataclass(frozen=True)
class Width:
    """What a layer reads and what its weights are; `granularity` as in a rule. `bits` of both tell what a multiplication takes."""

    activation: str
    weights: str
    granularity: str | int = "channel"

    @property
    def bits(self) -> tuple[int, int]:
        return dtype(self.activation).bits, dtype(self.weights).bits


FLOAT = "float"
WIDTHS: Mapping[str, Width] = {
    "int4": Width("int8", "int4", 32),  # blocks where a layer has them, else channels
    "int8": Width("int8", "int8"),
    "int16": Width("int16", "int8"),
    FLOAT: Width("float32", "float32"),
}


@dataclass(frozen=True)
class Unit:
    """Layers of one width: one that multiplies and the clamp that it takes in, or those between such that hang together."""

    name: str
    nodes: tuple[Node, ...]
    weighted: bool  # whether there are weights to be stored in four bits

    @property
    def multiplies(self) -> bool:
        return any(map(multiplies, self.nodes))


Choice = Mapping[str, str]  # of each unit, by name: the name of its width


def find_units(graph: Graph) -> tuple[Unit, ...]:
    """The units of a graph, in its order; what has no integer form is in none of them.

    A residual stream, its sums and norms, is one unit: to keep one of them wide and the next narrow gains nothing.
    """
    matcher = RuleMatcher([CalibratedQuantRule(".*")])
    able = {n.output.name: n for n in graph.nodes if n.op in QUANTIZABLE and _reals(n) and matcher.decide(n).mode == "static"}
    parent = {name: name for name in able}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    taken = {  # a clamp behind a layer, and the layer
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
    """Every unit in one width; int8 where four bits are meant and there are no weights."""
    return {u.name: width if width != "int4" or u.weighted else "int8" for u in units}


def _reals(node: Node) -> bool:
    return any(v is not None and v.type.dtype.is_float for v in (*node.inputs, *node.outputs))


def results(graph: Graph, units: Iterable[Unit], choice: Choice) -> dict[str, str]:
    """In which dtype each integer node keeps its result, by first output: in the widest that an integer reader wants.

    What only moves numbers keeps the width that it reads, and so does a recurrence, which reads its own result.
    """
    reads = {n.output.name: WIDTHS[choice[u.name]].activation for u in units for n in u.nodes}
    found = {}
    for unit in units:
        if choice[unit.name] == FLOAT:
            continue
        for node in unit.nodes:
            own = reads[node.output.name]
            wanted = [reads.get(u.output.name, "float32") for o in node.outputs for u in graph.users.get(o.name, ())]
            integers = [w for w in wanted if w != "float32"]
            moves = QUANTIZABLE[node.op].spec.output == "same" or node.op in RECURRENT
            found[node.output.name] = own if moves or not integers else max(integers, key=lambda w: dtype(w).bits)
    return found
