"""The layers of a Q/DQ graph with weights: the constants that store these, and the layers' inputs as columns of a matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowbit.decide.brackets import source_name
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.quant import QUANTIZABLE
from lowbit.ops.window import output_size, windows
from lowbit.types import Array

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Layer:
    """A node whose weight is a stored constant that no other node reads; likewise its bias."""

    node: Node
    weight: Node  # dequantize
    bias: Node | None  # dequantize
    source: str  # the float weight
    bias_source: str | None
    data: int  # the position of the activation among the node's inputs
    input_scale: Value | None  # of the activation's bracket

    @property
    def stored(self) -> str:
        assert self.weight.inputs[0] is not None
        return self.weight.inputs[0].name

    @property
    def scale(self) -> str:
        assert self.weight.inputs[1] is not None
        return self.weight.inputs[1].name


def weighted_layers(graph: Graph, quantized: Graph) -> Iterator[Layer]:
    """The layers in graph order; `graph` is the float graph."""
    for node in quantized.nodes:
        entry = QUANTIZABLE.get(node.op)
        if entry is None or not entry.spec.channel_axis:
            continue
        spec = entry.spec
        found = ((i, _stored(quantized, node.input(i))) for i in spec.channel_axis)
        position, weight = next(((i, w) for i, w in found if w is not None), (0, None))
        if weight is None or weight.inputs[0] is None:
            continue
        source = source_name(weight.inputs[0].name, graph)
        if source is None:
            continue
        bias = _stored(quantized, node.input(spec.bias)) if spec.bias is not None else None
        b_source = source_name(bias.inputs[0].name, graph) if bias is not None and bias.inputs[0] is not None else None
        data = 0 if position else 1
        x = quantized.producers.get(v.name) if (v := node.input(data)) is not None else None
        input_scale = x.input(1) if x is not None and x.op == "dequantize_linear" else None
        yield Layer(node, weight, bias if b_source is not None else None, source, b_source, data, input_scale)


def all_weights(quantized: Graph, node: Node) -> tuple[str, ...]:
    """The dequantized weights that a node reads: a recurrence has those of its inputs and those of its state."""
    found = (_stored(quantized, node.input(i)) for i in QUANTIZABLE[node.op].spec.channel_axis)
    return tuple(n.output.name for n in found if n is not None)


def _stored(graph: Graph, value: Value | None) -> Node | None:
    """The dequantize of a constant that only one node reads."""
    node = graph.producers.get(value.name) if value is not None else None
    if node is None or value is None or node.op != "dequantize_linear" or node.inputs[0] is None:
        return None
    stored = node.inputs[0].name
    alone = len(graph.users[value.name]) == 1 and len(graph.users[stored]) == 1
    return node if stored in graph.constants and alone else None


def rows(layer: Layer, weight: Array) -> Array | None:
    """The weight as rows of a matrix product, one for each output channel; None for ops that are no matrix product."""
    op = layer.node.op
    if op == "linear":
        return weight
    if op == "matmul" and weight.ndim == 2:
        return weight if layer.data else np.asarray(weight.T)
    if op == "conv":
        return np.asarray(weight.reshape(weight.shape[0], -1))
    return None


def unrows(layer: Layer, matrix: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `rows`."""
    return np.ascontiguousarray(matrix.T if layer.node.op == "matmul" and not layer.data else matrix.reshape(shape))


def columns(layer: Layer, x: Array, weight_shape: tuple[int, ...], limit: int) -> Array:
    """Inputs of the matrix product, (groups, inputs of a row, at most `limit` of the positions, evenly spread)."""
    node = layer.node
    if node.op == "matmul" and layer.data:
        x = np.swapaxes(x, -1, -2) if x.ndim > 1 else x
    if node.op in ("linear", "matmul"):
        flat = x.reshape(-1, x.shape[-1])
        return np.asarray(flat[spread(len(flat), limit)].T[None])
    attrs = node.attrs
    stride, pads, dilation, groups = attrs["stride"], attrs["pads"], attrs["dilation"], attrs["groups"]
    kernel = weight_shape[2:]
    out = tuple(int(d) for d in output_size(x.shape[2:], kernel, stride, pads, dilation))  # type: ignore[arg-type]
    view = windows(x, kernel, stride, pads, dilation, out)  # type: ignore[arg-type]  # (N, C, *out, *K)
    s = len(kernel)
    moved = view.transpose(1, *range(2 + s, 2 + 2 * s), 0, *range(2, 2 + s))  # (C, *K, N, *out)
    count = x.shape[0] * int(np.prod(out))
    picked = np.unravel_index(spread(count, limit), (x.shape[0], *out))
    taken = moved[(slice(None),) * (1 + s) + picked]  # (C, *K, n)
    assert isinstance(groups, int)
    return np.asarray(taken.reshape(groups, -1, taken.shape[-1]))


def spread(count: int, limit: int) -> NDArray[np.intp]:
    """At most `limit` of `count` positions: one out of each of as many equal parts. Equal distances might hit the width of an image row."""
    if count <= limit:
        return np.arange(count)
    starts = np.arange(limit + 1) * count // limit
    return starts[:-1] + (np.diff(starts) * (np.arange(limit) * GOLDEN % 1)).astype(np.intp)
