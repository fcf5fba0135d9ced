"""The form of each layer of a float graph in its quantized graph (integer, weight-only, float), and the reason.

The layers are the nodes of the float graph. A value keeps its name through quantization: if it becomes integers, the quantized graph has a
`quantize_linear` of it, and the integer graph a value with the name of that quantize.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lowbit.dims import Dim
from lowbit.ir.graph import PREPROCESSING, SCALED, STAYS_FLOAT, Graph, Node, Value, layer_names
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import BRACKETS, Lowered, bracket_params, lower
from lowbit.lower.signed import signed
from lowbit.quant_params import QUANT_DTYPES, QuantParams, dequantize
from lowbit.report.inspection import node_macs
from lowbit.types import Array

# inside   computed by another layer's integer op: a relu in the clamp of a convolution
# indices  neither inputs nor outputs are real: shapes and positions, which are not quantized
Kind = Literal["integer", "weights", "float", "inside", "indices"]
TOLD = 4  # float layers that the one-line summary names for each reason
SMALL = tuple(d for d in QUANT_DTYPES if d != "int32")  # int32 is also what indices are made of


@dataclass(frozen=True)
class LayerState:
    """The form of one layer after quantization."""

    layer: str
    op: str
    value: str  # the value that is measured: its first output, or that of the clamp fused into it; "" if it has none
    kind: Kind
    became: str  # the op that computes it now
    types: str  # "int8 × int8 → int8"
    weights: str  # "int8 per axis 0"; "" without quantized weights
    because: str
    proof: str  # why no accumulator can overflow; "" without an accumulator
    bound: int | None  # the largest accumulator that any input can give
    macs: Dim
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Seen:
    """The place of a float graph's value in the integer graph, and the parameters of its integers (None: it is float there)."""

    name: str
    params: QuantParams | None
    unscale: Array | None = None  # factors that restore the channels of the float graph, if they were scaled

    def real(self, held: Array) -> Array:
        """The value of the integer graph in the terms of the float graph."""
        x = held if self.params is None else dequantize(held, self.params)
        return x if self.unscale is None else x * self.unscale


@dataclass(frozen=True)
class Coverage:
    """The state of every layer, the integer graph, and the places of values in it."""

    layers: tuple[LayerState, ...]
    lowered: Lowered
    seen: Mapping[str, Seen]
    bytes_before: int
    bytes_after: int
    remarks: tuple[str, ...]

    @property
    def macs(self) -> Dim:
        return _sum(s.macs for s in self.layers)

    @property
    def integer_macs(self) -> Dim:
        return _sum(s.macs for s in self.layers if s.kind in ("integer", "inside"))

    def __str__(self) -> str:
        """41 of 43 layers integer; float: softmax (rule), …"""
        return summary((s.layer, s.kind, s.because) for s in self.layers)


def summary(layers: Iterable[tuple[str, Kind, str]]) -> str:
    """One line from (layer, kind, reason): how many layers are integer, and which are not, with reasons."""
    counted = [row for row in layers if row[1] != "indices"]
    integer = sum(kind in ("integer", "inside") for _, kind, _ in counted)
    text = f"{integer} of {len(counted)} layers integer"
    weights = sum(kind == "weights" for _, kind, _ in counted)
    if weights:
        text += f", {weights} with integer weights"
    reasons: dict[str, list[str]] = {}
    for name, kind, because in counted:
        if kind == "float":
            reasons.setdefault(because, []).append(name)
    told = []
    for because, names in reasons.items():
        more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
        told.append(f"{', '.join(names[:TOLD])}{more} ({because})")
    if told:
        text += "; float: " + ", ".join(told)
    return text


def coverage(graph: Graph, quantized: Graph) -> Coverage:
    """The form of every layer of `graph` in `quantized`."""
    quantized = signed(quantized)  # as it runs: uint8 is int8 there
    lowered, editor = lower(quantized), Editor(quantized)
    seen = find_values(graph, editor, lowered.graph)
    reasons = {(i.layer, i.op): i.because for i in lowered.islands}
    only_weights = {(i.layer, i.op): i.because for i in lowered.weights_only}
    counted: tuple[set[str], set[str]] = (set(), set())
    named = {(n.name, n.op): n for n in quantized.nodes}
    owners: dict[str, Node] = {}  # a node of the integer graph, by its first output -> the first layer it stands for
    layers = []
    called = {n.output.name: name for n, name in zip(graph.nodes, layer_names(graph.nodes), strict=True)}
    for node in graph.nodes:
        layer = node.name or node.output.name
        end = measured_at(graph, seen, node)
        standing = stands_for(lowered.graph, seen, end)
        owner = owners.setdefault(standing.output.name, node) if standing is not None else node
        now = quantized.producers.get(node.output.name)
        if now is not None and now.op != node.op:  # weights with offsets: the layer's value is a sum, the layer stands before it
            now = named.get((node.name, node.op), now)
        kind: Kind = kind_of(node, standing, (layer, node.op) in only_weights)
        because = quantized.notes.get(node.output.name, "")
        if kind in ("weights", "float") and not because.startswith(STAYS_FLOAT):  # a rule wanted integers: lowering knows why not
            found = {"weights": only_weights, "float": reasons}[kind].get((layer, node.op))
            if kind == "weights":  # as the rule wants it: its reason, and the result of lowering
                because = "; ".join(filter(None, (because, found)))
            else:
                because = found or (because and "what is beside it is float")
        because = because.removeprefix(STAYS_FLOAT)
        if kind == "integer" and owner is not node:
            kind, because = "inside", f"part of {called[owner.output.name]}"
        bound = bound_of(standing) if kind == "integer" and standing is not None else None
        layers.append(
            LayerState(
                called[node.output.name],
                node.op,
                end if end is not None and kind != "inside" else "",
                kind,
                standing.op if standing is not None else "",
                types_text(standing) if standing is not None else "",
                weights_text(editor, now),
                because or ("no reason is noted" if kind == "integer" else "not quantized"),
                proof_text(bound),
                bound,
                node_macs(node),
                _fresh_bytes(graph, node, counted[0]),
                _fresh_bytes(quantized, now, counted[1]),
            )
        )
    values = {*graph.values, *quantized.values}
    notes = {k: text for k, text in quantized.notes.items() if k not in values and not k.startswith((SCALED, PREPROCESSING))}
    noted = (f"{name}: {notes[name]}" for name in sorted(notes, key=in_order))
    remarks = (*noted, *wide_tables(lowered.graph), *stored_twice(graph, quantized))
    return Coverage(tuple(layers), lowered, seen, graph.parameter_bytes, quantized.parameter_bytes, remarks)


def wide_tables(integer: Graph) -> tuple[str, ...]:
    """A remark on the tables of 16-bit functions: they are not in the file, but take memory at run time."""
    looks = [(n, n.inputs[0], n.inputs[1]) for n in integer.nodes if n.op == "q_table"]
    found = {table.name: (n, table) for n, x, table in looks if x is not None and table is not None and x.type.dtype.bits == 16}
    if not found:
        return ()
    total = sum(table.type.nbytes for _, table in found.values())
    named = [n.name or n.output.name for n, _ in found.values()]
    shown = ", ".join(named[:TOLD]) + (f" and {len(named) - TOLD} more" if len(named) > TOLD else "")
    bytes_told = f"{total:,} bytes beside the weights"
    return (f"tables: {shown} read 16 bits by tables, {bytes_told}; wide=False (--no-wide) does without them",)


def stored_twice(graph: Graph, quantized: Graph) -> tuple[str, ...]:
    """A remark on each weight that layers share in the float network but store separately, because they quantize it differently.

    Rows that are looked up have at least eight bits, so an embedding that is also the head's weight is stored twice if the head has four.
    """
    stored: dict[str, list[Value]] = {}
    for c in quantized.constants.values():
        source = c.value.name.rpartition(":")[0]
        if source in graph.constants and c.value.type.rank > 1:
            stored.setdefault(source, []).append(c.value)
    said = []
    for source, values in stored.items():
        if len(values) < 2:
            continue
        of = [(v.type.dtype, [n.name or n.output.name for n in reading(quantized, v)]) for v in values]
        ways = ", ".join(f"{dtype} for {' and '.join(layers)}" for dtype, layers in of)
        narrow = [layer for dtype, layers in of for layer in layers if dtype.bits < 8]
        hint = f"; a rule that gives {' and '.join(narrow)} 8 bits stores it once" if narrow else ""
        said.append(f"shared: {source} is stored {len(values)} times ({ways}), {sum(v.type.nbytes for v in values):,} bytes{hint}")
    return tuple(said)


def reading(quantized: Graph, stored: Value) -> list[Node]:
    """The layers that read a stored constant, directly or through its dequantize."""
    direct = quantized.users.get(stored.name, ())
    behind = [u for n in direct if n.op in BRACKETS for u in quantized.users.get(n.output.name, ())]
    return [*(n for n in direct if n.op not in BRACKETS), *behind]


def in_order(name: str) -> tuple[bool, str, float]:
    """The key of a remark: rules first, "decided 2" before "decided 10", and "decided", the result, after all its steps."""
    what, _, number = name.rpartition(" ")
    return (what != "rule", what, int(number)) if number.isdecimal() else (True, name, float("inf"))


def find_values(graph: Graph, quantized: Editor, integer: Graph) -> dict[str, Seen]:
    """The place of each value of the float graph; integers first, because the next layers read them."""
    found: dict[str, Seen] = {}
    notes = integer.notes
    for name in graph.values:
        if name in graph.constants:
            continue
        value = graph.values[name]
        unscale = scaled_by(notes.get(f"{SCALED}{name}"), value.type.rank)
        if name in integer.values:
            found[name] = Seen(name, None, unscale)
        for user in quantized.users(value):
            params = bracket_params(quantized, user) if user.op == "quantize_linear" else None
            if params is not None and user.output.name in integer.values:
                found[name] = Seen(user.output.name, params, unscale)
    return found


def scaled_by(note: str | None, rank: int) -> Array | None:
    """The powers of two in a note on scaled channels, to be multiplied with the value."""
    if note is None:
        return None
    axis, powers = json.loads(note)
    return np.exp2(np.asarray(powers, np.float32)).reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def measured_at(graph: Graph, seen: Mapping[str, Seen], node: Node) -> str | None:
    """The value that represents a node: its own, or that of the only reader it was fused with."""
    while True:
        found = next((o.name for o in node.outputs if o.name in seen), None)
        users = graph.users.get(node.output.name, ())
        if found is not None or len(users) != 1:
            return found
        node = users[0]


def stands_for(integer: Graph, seen: Mapping[str, Seen], value: str | None) -> Node | None:
    """The node of the integer graph that computes the value, past brackets."""
    found = integer.producers.get(seen[value].name) if value is not None else None
    while found is not None and found.op in BRACKETS and found.inputs[0] is not None:
        before = integer.producers.get(found.inputs[0].name)
        if before is None:
            break
        found = before
    return found


def kind_of(node: Node, standing: Node | None, weights: bool) -> Kind:
    reals = [v for v in (*node.inputs, *node.outputs) if v is not None and v.type.dtype.is_float]
    if not reals:
        return "indices"
    if weights:
        return "weights"
    if standing is None:
        return "float"
    if reads_integers(standing) and [_dtype(v) for v in standing.inputs] != [_dtype(v) for v in node.inputs]:
        return "integer"
    return "float"


def reads_integers(node: Node) -> bool:
    return any(v is not None and v.type.dtype.name in SMALL for v in node.inputs)


def types_text(node: Node) -> str:
    """The element types of the tensors that are multiplied or moved, and of the result."""
    ins = [_dtype(v) for v in node.inputs if v is not None and (v.type.dtype.name in SMALL or not reads_integers(node))]
    return f"{' × '.join(ins[:3])} → {node.output.type.dtype}"


def weights_text(editor: Editor, node: Node | None) -> str:
    """Type and granularity of the quantized constants that the node reads."""
    texts = []
    for v in node.inputs if node is not None else ():
        before = editor.producer(v)
        if before is not None and before.op == "dequantize_linear" and editor.constant_data(before.inputs[0]) is not None:
            params = bracket_params(editor, before)
            if params is not None and params.dtype.name != "int32":
                texts.append(f"{params.dtype} {params.granularity}")
    return ", ".join(dict.fromkeys(texts))


def bound_of(node: Node) -> int | None:
    """The largest accumulator of an integer node for any input, as lowering computed it from the weights; None without one."""
    bound = node.attrs.get("bound")
    return bound if isinstance(bound, int) else None


def proofs(bounds: Iterable[tuple[str, int | None]]) -> str:
    """One line from (layer, bound): the width of the accumulators, and that none can overflow; "" if there are none."""
    found = [(bound, layer) for layer, bound in bounds if bound is not None]
    if not found:
        return ""
    narrow = sum(bound < 2**31 for bound, _ in found)
    widths = ", ".join(f"{n} of {bits} bits" for n, bits in ((narrow, 32), (len(found) - narrow, 64)) if n)
    largest, layer = max(found)
    return f"accumulators: {widths}; proved from the weights that none overflows, whatever comes in (at most {largest:,}, in {layer})"


def proof_text(bound: int | None) -> str:
    """The range proof that lowering made from the weights; it holds for every input."""
    if bound is None:
        return ""
    if bound < 2**31:
        return f"accumulator ≤ {bound:,} < 2³¹: int32 exact for any input"
    return f"accumulator ≤ {bound:,} ≥ 2³¹: int64, exact for any input"


def _fresh_bytes(graph: Graph, node: Node | None, counted: set[str]) -> int:
    """Bytes of the constants that a node reads, directly or through a bracket, and no earlier node reads."""
    total = 0
    stack = list(node.inputs) if node is not None else []
    while stack:
        v = stack.pop()
        if v is None:
            continue
        before = graph.producers.get(v.name)
        if v.name in graph.constants and v.name not in counted:
            counted.add(v.name)
            total += v.type.nbytes
        elif before is not None and before.op in BRACKETS:
            stack += before.inputs
    return total


def _dtype(v: Value | None) -> str:
    return "" if v is None else v.type.dtype.name


def _sum(numbers: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for n in numbers:
        total = total + n
    return total
