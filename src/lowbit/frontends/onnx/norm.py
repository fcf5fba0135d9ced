"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from lowbit.dims import product
from lowbit.errors import UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis


@onnx_op("BatchNormalization")
def batch_norm(c: Importer, node: OnnxNode) -> Value:
    if node.attr("training_mode", 0) or any(node.outputs[1:]):
        raise UnsupportedOp("batch normalization in training mode is not supported", hint="call model.eval() before exporting")
    if not node.attr("spatial", 1):
        raise UnsupportedOp("batch normalization with spatial=0 (one mean per element) is not supported", hint="export with a newer opset")
    return c.add("batch_norm", *(c.input(node, i) for i in range(5)), eps=node.attr("epsilon", 1e-5))


def _tail_scaled(c: Importer, y: Value, scale: Value | None, bias: Value | None) -> Value:
    y = y if scale is None else c.add("mul", y, scale)
    return y if bias is None else c.add("add", y, bias)


def _layer_norm(c: Importer, x: Value, scale: Value | None, bias: Value | None, axis: int, eps: float) -> Value:
    """The op, or for a scale of more dimensions than are normalized the op and a multiplication."""
    if any(v is not None and v.type.rank > x.type.rank - axis for v in (scale, bias)):
        return _tail_scaled(c, c.add("layer_norm", x, axis=axis, eps=eps), scale, bias)
    return c.add("layer_norm", x, scale, bias, axis=axis, eps=eps)


def _rms_norm(c: Importer, x: Value, scale: Value, axis: int, eps: float) -> Value:
    """The result has the scale's type; the norm is computed in the input's."""
    if scale.type.dtype == x.type.dtype and scale.type.rank <= x.type.rank - axis:
        return c.add("rms_norm", x, scale, axis=axis, eps=eps)
    y = c.add("rms_norm", x, axis=axis, eps=eps)
    if scale.type.dtype != x.type.dtype:
        y = c.add("cast", y, to=scale.type.dtype.name)
    return c.add("mul", y, scale)


def _statistics(c: Importer, x: Value, axis: int, eps: float) -> tuple[Value, Value]:
    """Mean and 1/sqrt(var + eps) over the axes from `axis` on, in float32 as ONNX says (stash_type)."""
    axes = tuple(range(axis, x.type.rank))
    if x.type.dtype.bits < 32:
        x = c.add("cast", x, to="float32")
    mean = c.add("reduce_mean", x, axes=axes, keepdims=True)
    centered = c.add("sub", x, mean)
    var = c.add("reduce_mean", c.add("mul", centered, centered), axes=axes, keepdims=True)
    return mean, c.add("reciprocal", c.add("sqrt", c.add("add", var, c.scalar(eps, var))))


def _asked(node: OnnxNode, i: int) -> bool:
    return len(node.outputs) > i and bool(node.outputs[i])


@onnx_op("LayerNormalization")
def layer_norm(c: Importer, node: OnnxNode) -> Sequence[Value | None]:
    x = c.input(node, 0)
    axis, eps = normalize_axis(node.attr("axis", -1), x.type.rank), node.attr("epsilon", 1e-5)
    y = _layer_norm(c, x, c.optional(node, 1), c.optional(node, 2), axis, eps)
    if not (_asked(node, 1) or _asked(node, 2)):
        return [y]
    return [y, *_statistics(c, x, axis, eps)]


@onnx_op("RMSNormalization")
@onnx_op("SimplifiedLayerNormalization")  # ONNX Runtime puts it into the default domain
@onnx_op("SimplifiedLayerNormalization", domain="com.microsoft")
def rms_norm(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return _rms_norm(c, x, c.input(node, 1), normalize_axis(node.attr("axis", -1), x.type.rank), node.attr("epsilon", 1e-5))


@onnx_op("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_norm(c: Importer, node: OnnxNode) -> Sequence[Value | None]:
    """Inputs x, skip, gamma, beta, bias; the last output is the sum before the norm."""
    total = _skip_sum(c, node, 4)
    y = _layer_norm(c, total, c.input(node, 2), c.optional(node, 3), total.type.rank - 1, node.attr("epsilon", 1e-5))
    return [y, None, None, total]


@onnx_op("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_rms_norm(c: Importer, node: OnnxNode) -> Sequence[Value | None]:
    total = _skip_sum(c, node, 3)
    return [_rms_norm(c, total, c.input(node, 2), total.type.rank - 1, node.attr("epsilon", 1e-5)), None, None, total]


def _skip_sum(c: Importer, node: OnnxNode, bias: int) -> Value:
    total = c.add("add", c.input(node, 0), c.input(node, 1))
    extra = c.optional(node, bias)
    return total if extra is None else c.add("add", total, extra)


@onnx_op("InstanceNormalization")
def instance_norm(c: Importer, node: OnnxNode) -> Value:
    return c.add("instance_norm", *(c.input(node, i) for i in range(3)), eps=node.attr("epsilon", 1e-5))


@onnx_op("GroupNormalization")
def group_norm(c: Importer, node: OnnxNode) -> Value:
    x, scale, bias = (c.input(node, i) for i in range(3))
    groups = node.attr("num_groups")
    if c.opset < 21:  # one scale per group then, one per channel since
        scale, bias = (_per_channel(c, v, x, groups) for v in (scale, bias))
    return c.add("group_norm", x, scale, bias, groups=groups, eps=node.attr("epsilon", 1e-5))


def _per_channel(c: Importer, v: Value, x: Value, groups: int) -> Value:
    column = c.add("reshape", v, shape=(groups, 1))
    return c.add("reshape", c.add("expand", column, shape=(groups, x.shape[1] // groups)), shape=(x.shape[1],))


@onnx_op("LRN")
def lrn(c: Importer, node: OnnxNode) -> Value:
    return c.add(
        "lrn",
        c.input(node, 0),
        size=node.attr("size"),
        alpha=node.attr("alpha", 1e-4),
        beta=node.attr("beta", 0.75),
        bias=node.attr("bias", 1.0),
    )


@onnx_op("LpNormalization")
def lp_norm(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("lp_norm", x, axis=normalize_axis(node.attr("axis", -1), x.type.rank), p=node.attr("p", 2))


@onnx_op("MeanVarianceNormalization")
def mean_variance_norm(c: Importer, node: OnnxNode) -> Value:
    """(x - mean) / (sqrt(var) + 1e-9): the small number is outside of the root, unlike in the other norms."""
    x = c.input(node, 0)
    axes = tuple(normalize_axis(a, x.type.rank) for a in node.attr("axes", [0, 2, 3]))
    centered = c.add("sub", x, c.add("reduce_mean", x, axes=axes, keepdims=True))
    deviation = c.add("sqrt", c.add("reduce_mean", c.add("mul", centered, centered), axes=axes, keepdims=True))
    return c.add("div", centered, c.add("add", deviation, c.scalar(1e-9, x)))


SOFTMAX = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}


@onnx_op(*SOFTMAX)
def softmax(c: Importer, node: OnnxNode) -> Value:
    x, op = c.input(node, 0), SOFTMAX[node.op_type]
    rank = x.type.rank
    axis = normalize_axis(node.attr("axis", -1 if c.opset >= 13 else 1), rank)
    if c.opset >= 13 or axis == rank - 1:
        return c.add(op, x, axis=axis)
    # Before opset 13 the dimensions from `axis` on are one.
    flat = c.add("reshape", x, shape=(product(x.shape[:axis]), product(x.shape[axis:])))
    return c.add("reshape", c.add(op, flat, axis=1), shape=x.shape)
