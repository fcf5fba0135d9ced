"""The physical graph: images in channels-last layout, transposes only where a node needs the other order.

A value has the layout of its producer, and is transposed for readers that need the other one. Ops that work in any layout take that of
their inputs, with adapted attributes. So there are no transposes between convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.nhwc import TWINS, to_first, to_last
from lowbit.types import Array, normalize_axis

Attrs = dict[str, Any]
Perm = tuple[int, ...]
Moved = Callable[[Mapping[str, Any], Perm], "Attrs | None"]  # the attributes for axes in the order `perm`; None: not possible


def _same(attrs: Mapping[str, Any], perm: Perm) -> Attrs:
    return dict(attrs)


def _axis(attrs: Mapping[str, Any], perm: Perm) -> Attrs:
    return {**attrs, "axis": perm.index(normalize_axis(attrs["axis"], len(perm)))}


def _pads(attrs: Mapping[str, Any], perm: Perm) -> Attrs:
    pads, rank = attrs["pads"], len(perm)
    return {**attrs, "pads": tuple(pads[p + side] for side in (0, rank) for p in perm)}


def _axes(attrs: Mapping[str, Any], perm: Perm) -> Attrs | None:
    """Reductions. Without keepdims, the remaining axes must be in the original order."""
    over = {normalize_axis(a, len(perm)) for a in attrs["axes"]}
    left = [p for p in perm if p not in over]
    if not attrs["keepdims"] and left != sorted(left):
        return None
    return {**attrs, "axes": tuple(sorted(perm.index(a) for a in over))}


def _slices(attrs: Mapping[str, Any], perm: Perm) -> Attrs:
    return {**attrs, "axes": tuple(perm.index(normalize_axis(a, len(perm))) for a in attrs["axes"])}


def _sizes(attrs: Mapping[str, Any], perm: Perm) -> Attrs | None:
    """Nearest resize. Float interpolation sums in an order of its own."""
    if attrs["mode"] != "nearest" or attrs["roi"] is not None:
        return None
    return {**attrs, **{k: tuple(attrs[k][p] for p in perm) for k in ("sizes", "scales")}}


def _resized(attrs: Mapping[str, Any], perm: Perm) -> Attrs:
    """Integer interpolation: its sums are exact in any order."""
    moved = {k: tuple(attrs[k][p] for p in perm) for k in ("sizes", "scales")}
    return {**attrs, **moved, "axes": tuple(sorted(perm.index(axis) for axis in attrs["axes"]))}


def _per_tensor(attrs: Mapping[str, Any], perm: Perm) -> Attrs | None:
    return dict(attrs) if not attrs["block_size"] else None


ELEMENTWISE = (
    "requantize q_add q_mul q_table identity relu relu6 clip sigmoid silu swish hardswish hardsigmoid tanh gelu erf exp log sqrt abs neg "
    "reciprocal leaky_relu elu softplus mish floor ceil round prelu q_prelu add mul sub div maximum minimum pow where"
)
FOLLOWS: dict[str, Moved] = {
    **dict.fromkeys(ELEMENTWISE.split(), _same),
    **dict.fromkeys(["concat", "split", "softmax"], _axis),
    **dict.fromkeys(["q_reduce_mean", "q_reduce_sum", "reduce_mean", "reduce_sum", "reduce_max", "reduce_min"], _axes),
    "pad": _pads,
    "resize": _sizes,
    "q_resize": _resized,
    "slice": _slices,
    "quantize_linear": _per_tensor,
    "dequantize_linear": _per_tensor,
}


def channels_last(graph: Graph) -> Graph:
    """The graph with images in channels-last layout where kernels want it; the same function of the same inputs, bit for bit."""
    return laid_out(graph)[0]


def laid_out(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """The graph with images in channels-last layout, and the values of the old graph that it has in this layout.

    A value keeps its name in the layout in which its node makes it.
    """
    if not any(map(has_twin, graph.nodes)):
        return graph, frozenset()
    layout = _Layout(graph)
    return layout.run(), frozenset(old for old, new in layout.last.items() if new.name == old)


def has_twin(node: Node) -> bool:
    """Whether the node's op has a channels-last form and kernels for it: these support integers, float32, and images of one or two axes."""
    x = node.input(0)
    if node.op not in TWINS or x is None:
        return False
    if node.op == "resize" and not x.type.dtype.is_float:
        return False  # it follows: elements are picked along any axes
    return not x.type.dtype.is_float or (x.type.dtype.name == "float32" and x.type.rank in (3, 4))


class _Layout:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph.name)
        self.first: dict[str, Value] = {}  # old name → the value as the graph has it
        self.last: dict[str, Value] = {}  # old name → the value with its channels last

    def run(self) -> Graph:
        for v in self.graph.inputs:
            self.first[v.name] = self.builder.input(v.name, v.type)
        for c in self.graph.constants.values():
            self.first[c.value.name] = self.builder.constant(c.data, name=c.value.name, dtype=c.value.type.dtype)
        for node in self.graph.nodes:
            if not (self._twin(node) or self._follow(node)):
                self._plain(node)
        return self.builder.finish({name: self._first(v) for name, v in self.graph.outputs.items()})

    def _first(self, value: Value) -> Value:
        return self._turned(value, self.first, self.last, to_first)

    def _last(self, value: Value) -> Value:
        return self._turned(value, self.last, self.first, to_last)

    def _turned(self, value: Value, wanted: dict[str, Value], other: dict[str, Value], order: Callable[[int], Perm]) -> Value:
        if value.name not in wanted:
            have = other[value.name]
            perm = order(have.type.rank)
            data = self.builder.constant_data(have)
            if data is not None:
                turned = self._constant(np.ascontiguousarray(data.transpose(perm)), have)
            else:
                layer = self._layer(value)
                turned = self.builder.add("transpose", have, name=layer, out=self._unused(layer), perm=perm)
            wanted[value.name] = turned
        return wanted[value.name]

    def _constant(self, data: Array, of: Value) -> Value:
        return self.builder.constant(data, name=self._unused(of.name), dtype=of.type.dtype)

    def _unused(self, hint: str) -> str:
        """A name that no value of the old graph has: those keep theirs."""
        name, number = hint, 1
        while name in self.graph.values:
            name, number = f"{hint}:turned{number}", number + 1
        return name

    def _layer(self, value: Value) -> str:
        made = self.graph.producers.get(value.name)
        return made.name if made is not None else value.name

    def _twin(self, node: Node) -> bool:
        if not has_twin(node):
            return False
        x, *rest = node.inputs
        assert x is not None
        inputs = [self._last(x), *(self._first(v) if v is not None else None for v in rest)]
        made = self.builder.add(TWINS[node.op], *inputs, name=node.name, out=node.output.name, **node.attrs)
        self.last[node.output.name] = made
        return True

    def _follow(self, node: Node) -> bool:
        """An op that works in any layout takes that of its inputs, if one of them exists in channels-last layout only."""
        move = FOLLOWS.get(node.op)
        whole = [v for v in node.inputs if v is not None and self.graph.constant(v) is None]
        if move is None or not any(v.name in self.last and v.name not in self.first for v in whole):
            return False
        rank = max(v.type.rank for v in whole)
        if rank < 3 or any(v.type.rank != rank for v in whole):
            return False
        operands = [v for v in node.inputs if v is not None and v not in whole] if node.op != "q_table" else []  # a table is none
        if any(v.type.rank > rank for v in operands):  # the result has more axes than the image
            return False
        attrs = move(node.attrs, to_last(rank))
        if attrs is None:
            return False
        inputs = [self._operand(node, v, rank) for v in node.inputs]
        outputs = self.builder.add_node(node.op, *inputs, name=node.name, outputs=tuple(o.name for o in node.outputs), **attrs)
        for old, new in zip(node.outputs, outputs, strict=True):
            (self.last if old.type.rank == rank else self.first)[old.name] = new
        return True

    def _operand(self, node: Node, value: Value | None, rank: int) -> Value | None:
        if value is None:
            return None
        data = self.graph.constant(value)
        if data is None:
            return self._last(value)
        if data.size == 1 or node.op in ("q_table", "quantize_linear", "dequantize_linear"):
            return self._first(value)
        if data.ndim == rank:
            return self._last(value)
        full = data.reshape((1,) * (rank - data.ndim) + data.shape).transpose(to_last(rank))
        return self._constant(np.ascontiguousarray(full), value)

    def _plain(self, node: Node) -> None:
        inputs = [self._first(v) if v is not None else None for v in node.inputs]
        outputs = self.builder.add_node(node.op, *inputs, name=node.name, outputs=tuple(o.name for o in node.outputs), **node.attrs)
        for old, new in zip(node.outputs, outputs, strict=True):
            self.first[old.name] = new
