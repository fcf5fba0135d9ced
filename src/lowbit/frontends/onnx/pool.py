"""Pools. Global ones are reductions over the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowbit.errors import ShapeError
from lowbit.frontends.onnx.conv import geometry
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.ops.window import check_geometry
from lowbit.types import shape_text


def _window(c: Importer, node: OnnxNode) -> dict[str, Any]:
    x = c.input(node, 0)
    kernel = tuple(node.attr("kernel_shape") or ())
    if len(kernel) != x.type.rank - 2:
        raise ShapeError(f"kernel_shape {kernel} does not fit input {shape_text(x.shape)}")
    return {"kernel": kernel, "ceil_mode": bool(node.attr("ceil_mode", 0)), **geometry(node, x, kernel)}


@onnx_op("MaxPool")
def max_pool(c: Importer, node: OnnxNode) -> Value | Sequence[Value]:
    if len(node.outputs) > 1 and node.outputs[1]:
        return c.add_node("max_pool_indices", c.input(node, 0), **_window(c, node), column_major=bool(node.attr("storage_order", 0)))
    return c.add("max_pool", c.input(node, 0), **_window(c, node))


@onnx_op("AveragePool")
def average_pool(c: Importer, node: OnnxNode) -> Value:
    return c.add("avg_pool", c.input(node, 0), **_window(c, node), count_include_pad=bool(node.attr("count_include_pad", 0)))


@onnx_op("LpPool")
def lp_pool(c: Importer, node: OnnxNode) -> Value:
    return c.add("lp_pool", c.input(node, 0), **_window(c, node), p=node.attr("p", 2))


def _spatial(x: Value) -> tuple[int, ...]:
    return tuple(range(2, x.type.rank))


@onnx_op("GlobalAveragePool")
def global_average_pool(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("reduce_mean", x, axes=_spatial(x), keepdims=True)


@onnx_op("GlobalMaxPool")
def global_max_pool(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("reduce_max", x, axes=_spatial(x), keepdims=True)


@onnx_op("GlobalLpPool")
def global_lp_pool(c: Importer, node: OnnxNode) -> Value:
    x, p = c.input(node, 0), node.attr("p", 2)
    if p in (1, 2):
        return c.add(f"reduce_l{p}", x, axes=_spatial(x), keepdims=True)
    powers = c.add("pow", c.add("abs", x), c.scalar(p, x))
    return c.add("pow", c.add("reduce_sum", powers, axes=_spatial(x), keepdims=True), c.scalar(1 / p, x))


@onnx_op("MaxUnpool")
def max_unpool(c: Importer, node: OnnxNode) -> Value:
    """Indices count in the output that the pooling parameters give; a larger output_shape pads that at the end."""
    x, indices = c.input(node, 0), c.input(node, 1)
    kernel = node.attr("kernel_shape")
    n = len(kernel)
    stride, pads = node.attr("strides") or [1] * n, node.attr("pads") or [0] * 2 * n
    check_geometry(x.type.rank - 2, kernel, stride, pads, [1] * n)
    inferred = [(s - 1) * stride[i] - pads[i] - pads[n + i] + kernel[i] for i, s in enumerate(x.shape[2:])]
    y = c.add("max_unpool", x, indices, shape=(*x.shape[:2], *inferred))
    wanted = c.ints(node, 2, "output shape")
    if wanted is None or tuple(wanted) == y.shape:
        return y
    return c.add("pad", y, pads=[0] * len(wanted) + [w - int(s) for w, s in zip(wanted, y.shape, strict=True)], mode="constant", value=0.0)
