"""Deviations from the recipe's bits: the layers that get 16 bits, stay float or get 4 bits, as one rule beside the recipe's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lowbit.dtypes import dtype
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quantization.rules import QuantNode, QuantRule
from lowbit.quantization.taps import Taps

FEWER = "4-bit weights: fewer bytes"
LOSE, LOSE_4 = "8 bits lose too much here", "4 bits lose too much here"
FASTER = "float is faster here"
RECURRENT = ("lstm", "gru", "rnn")  # their states are read as they are stored: one width for both


@dataclass(frozen=True)
class Widths:
    """The values and layers that are wider than the recipe says, and (`fours`) narrower, by names of values.

    A layer has one width: one that is float is nothing else, and one by rows has neither 16-bit inputs nor 16-bit weights.


    taps     are kept in 16 bits; one name out of each group that shares its parameters
    layers   multiply 16-bit inputs; by first output, as the rest
    weights  have 16-bit weights
    floats   stay float
    eights   have 8-bit weights where the recipe has fewer
    rows     quantize their inputs at run time, each row by a scale of its own; their results are float
    fours    have 4-bit weights where the recipe has 8
    """

    taps: frozenset[str] = frozenset()
    layers: frozenset[str] = frozenset()
    weights: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    eights: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    fours: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        rows = self.rows - self.floats
        weights = self.weights - self.floats - rows
        only = {
            "rows": rows, "layers": self.layers - self.floats - rows, "weights": weights,
            "eights": self.eights - self.floats - weights, "fours": self.fours - self.floats - weights,
        }  # fmt: skip
        for name, layers in only.items():
            object.__setattr__(self, name, layers)

    def __sub__(self, other: Widths) -> frozenset[str]:
        """The names that are wider here than there."""
        return frozenset().union(*(a - b for a, b in zip(self.sets, other.sets, strict=True)))

    def __or__(self, other: Widths) -> Widths:
        """Both; of two widths of a layer the wider one."""
        return Widths(*(a | b for a, b in zip(self.sets, other.sets, strict=True)))

    @property
    def sets(self) -> tuple[frozenset[str], ...]:
        return self.taps, self.layers, self.weights, self.floats, self.eights, self.rows, self.fours

    @property
    def named(self) -> list[tuple[str, frozenset[str]]]:
        """The name of each deviation, and the layers that have it; without empty ones."""
        kinds = [("float", self.floats), ("by rows", self.rows), ("16-bit inputs", self.layers), ("16-bit values", self.taps)]
        kinds += [("16-bit weights", self.weights), ("8-bit weights", self.eights), ("4-bit weights", self.fours)]
        return [(what, names) for what, names in kinds if names]


@dataclass(frozen=True)
class WidthsRule(QuantRule):
    """The base rule's decisions, changed for the nodes in `choices`."""

    pattern: str = ".*"
    base: QuantRule = field(default_factory=lambda: QuantRule(".*"))
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by first output: activation, output, weight, or mode

    def matches(self, node: Node) -> bool:
        return node.output.name in self.choices and self.base.matches(node)

    def create_quant_node(self, node: Node) -> QuantNode:
        decided, choice = self.base.create_quant_node(node), self.choices[node.output.name]
        if choice.get("mode") == "float":
            return replace(decided, mode="float", activation=None, weight=None, because=choice.get("because", self.because))
        weight = dtype(choice["weight"]) if "weight" in choice else decided.weight
        because = FEWER if choice.get("weight") == "int4" else choice.get("because", self.because)
        if choice.get("mode") == "dynamic":
            return replace(decided, mode="dynamic", weight=weight, because=because)
        activation = dtype(choice["activation"])
        return replace(
            decided,
            activation=activation,
            output=dtype(choice["output"]),
            activation_scheme="symmetric" if activation.name == "int16" else decided.activation_scheme,
            weight=weight,
            because=because,
        )


def multiplies(node: Node) -> bool:
    """Whether the node's multiplications are counted: convolutions, matrix products, attention, recurrences."""
    return node.definition.macs is not None


def has_weights(graph: Graph, node: Node) -> bool:
    """Whether the node sums products with a constant. Rows of a table are looked up, not summed, and do not get few bits."""
    spec = QUANTIZABLE[node.op].spec if node.op in QUANTIZABLE else None
    return spec is not None and spec.output != "same" and any(graph.constant(node.input(i)) is not None for i in spec.channel_axis)


def rule_for(
    graph: Graph, taps: Taps, widths: Widths, base: QuantRule, own: frozenset[str] = frozenset(), faster: frozenset[str] = frozenset()
) -> WidthsRule | None:
    """The rule that gives these widths; None if there are none. Another rule decides the values in `own`.

    `faster` are the layers that are float because that takes less time.
    """
    raised = {m for name in widths.taps for m in taps.groups.get(name, (name,))} - own
    choices: dict[str, dict[str, str]] = {}
    for node in graph.nodes:
        if node.op not in QUANTIZABLE:
            continue
        key = node.output.name
        if key in widths.floats:
            choices[key] = {"mode": "float", "because": FASTER if key in faster else LOSE}
            continue
        if key in widths.rows:
            bits = "int4" if key in widths.fours else "int8" if key in widths.eights else None
            choices[key] = {"mode": "dynamic", **({"weight": bits} if bits else {})}
            continue
        reads = {v.name for v in node.inputs if v is not None}
        wide = key in widths.layers or (not multiplies(node) and bool(reads & raised))
        kept = wide if node.op in RECURRENT else bool(raised & {o.name for o in node.outputs})
        choice = {"activation": "int16" if wide else base.dtype, "output": "int16" if kept else base.dtype}
        if key in widths.weights:
            choice["weight"] = "int16"
        elif key in widths.eights:
            choice["weight"] = "int8"
            if not wide and not kept:
                choice["because"] = LOSE_4
        elif key in widths.fours:
            choice["weight"] = "int4"
        if choice != {"activation": base.dtype, "output": base.dtype}:
            choices[key] = choice
    return WidthsRule(base=base, choices=choices, because=LOSE) if choices else None


def by_rows(graph: Graph, own: frozenset[str] = frozenset()) -> frozenset[str]:
    """The layers (by first output) that can quantize their inputs per row at run time: linear layers and products with a constant."""
    return frozenset(
        n.output.name
        for n in graph.nodes
        if n.op in ("linear", "matmul") and n.output.name not in own and graph.constant(n.input(1)) is not None
    )


def inputs_of(graph: Graph, taps: Taps, keys: Iterable[str]) -> frozenset[str]:
    """The taps that the layers read."""
    found = set()
    for key in keys:
        node = graph.producers[key]
        found |= {v.name for v in node.inputs if v is not None and v.name in taps.taps}
    return frozenset(found)
