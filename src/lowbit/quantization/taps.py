"""The values that are quantized, and which of them share parameters. Follows from the decisions, without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowbit.dtypes import DType
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.quant import QUANTIZABLE, Fixed, is_clamp
from lowbit.quant_params import QuantParams, Scheme
from lowbit.quantization.chains import inner_values
from lowbit.quantization.rules import QuantNode


@dataclass(frozen=True)
class Tap:
    """A value that becomes integers of `dtype` right after its producer; `fixed` is its range if it is known without data."""

    value: Value
    dtype: DType
    decided: QuantNode  # of the node that makes the value, or of the first that reads it
    fixed: Fixed | None = None
    own: bool = False  # whether its producer decided: then the rule's own output parameters apply to it

    @property
    def given(self) -> QuantParams | None:
        """Parameters that a rule gives for this value."""
        return self.decided.params if self.own else None

    @property
    def scheme(self) -> Scheme:
        if self.dtype.bits in (1, 16):
            return "symmetric"
        signs = self.decided.activation is not None and self.decided.activation.bits == 1  # whose results of 8 bits have a zero point
        return "asymmetric" if signs else self.decided.activation_scheme


@dataclass(frozen=True)
class Taps:
    """Every tap by value name, and for each the names (itself included) that share its parameters, in graph order."""

    taps: Mapping[str, Tap]
    groups: Mapping[str, tuple[str, ...]]

    @property
    def observed(self) -> list[str]:
        """Names of the values that calibration must see."""
        return [n for n, t in self.taps.items() if t.fixed is None and t.given is None]

    @property
    def required(self) -> list[str]:
        """The observed values that need data. Others take the parameters that the rule of their reader gives."""
        return [n for n in self.observed if self.taps[n].decided.params is None]


def fused_clip(graph: Graph, node: Node, decisions: Mapping[str, QuantNode]) -> Node | None:
    """The relu or clip after a node that is fused into the node's clamp; the value between them is never quantized."""
    entry = QUANTIZABLE.get(node.op)
    if entry is None or not entry.spec.fuses_clip or any(v.name == node.output.name for v in graph.outputs.values()):
        return None
    users = graph.users.get(node.output.name, ())
    if len(users) == 1 and is_clamp(users[0].op) and decisions[users[0].output.name].mode == "static":
        return users[0]
    return None


def with_params(graph: Graph, node: Node, decisions: Mapping[str, QuantNode]) -> QuantNode:
    """The decision about a node. A clamp fused into a layer is the layer's output with its parameters, unless its own rule gives some."""
    own, first = decisions[node.output.name], node.input(0)
    before = graph.producers.get(first.name) if first is not None else None
    if own.params is None and before is not None and is_clamp(node.op) and fused_clip(graph, before, decisions) is node:
        return replace(own, params=decisions[before.output.name].params)
    return own


def find_taps(graph: Graph, decisions: Mapping[str, QuantNode]) -> Taps:
    """The taps of a graph, given the decisions for its nodes (by first output name)."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.get(name, name) != name:
            name = parent[name]
        return name

    inner = inner_values(graph, decisions)
    wanted: dict[str, QuantNode] = {}  # value -> the first static node that reads it
    widest: dict[str, DType] = {}  # value -> the widest dtype that a static node reads it in
    for node in graph.nodes:
        decided = decisions[node.output.name]
        if decided.mode == "static":
            for i in QUANTIZABLE[node.op].spec.positions(len(node.inputs)):
                v = node.inputs[i]
                if v is not None and v.name not in graph.constants and v.type.dtype.is_float and v.name not in inner:
                    wanted.setdefault(v.name, decided)
                    assert decided.activation is not None
                    widest[v.name] = max(widest.get(v.name, decided.activation), decided.activation, key=lambda d: d.bits)
            if decided.params is not None:  # whatever reads it: the user gave its scale
                end = fused_clip(graph, node, decisions) or node
                wanted.setdefault(end.output.name, decided)
            for state in QUANTIZABLE[node.op].spec.states.values():
                wanted.setdefault(node.outputs[state.outputs[0]].name, decided)  # it is passed on in integers, whatever reads it
    taps: dict[str, Tap] = {}
    for name, value in graph.values.items():
        if name not in wanted:
            continue
        producer = graph.producers.get(name)
        decided, fixed, made_here = wanted[name], None, False
        if producer is not None:
            own = decisions[producer.output.name]
            if own.mode == "static":
                if fused_clip(graph, producer, decisions) is not None:
                    continue
                decided, made_here = with_params(graph, producer, decisions), True
                output = QUANTIZABLE[producer.op].spec.output
                fixed = output if isinstance(output, Fixed) else None
        kept = decided.result if made_here else widest[name]
        assert kept is not None
        taps[name] = Tap(value, kept, decided, fixed, made_here)
    for node in graph.nodes:
        if decisions[node.output.name].mode != "static":
            continue
        spec = QUANTIZABLE[node.op].spec
        shared: list[list[Value | None]] = []  # one set of parameters on all sides
        if spec.output == "same":
            shared.append([*(node.inputs[i] for i in spec.positions(len(node.inputs))), *node.outputs])
        for i, state in spec.states.items():
            shared.append([*(node.outputs[o] for o in state.outputs), node.input(i)])
        for sides in shared:
            names = [v.name for v in sides if v is not None and v.name in taps]
            for other in names[1:]:
                if taps[other].dtype == taps[names[0]].dtype:
                    a, b = root(names[0]), root(other)
                    parent[max(a, b)] = min(a, b)
    members: dict[str, list[str]] = {}
    for name in taps:
        members.setdefault(root(name), []).append(name)
    return Taps(taps, {n: tuple(group) for group in members.values() for n in group})
