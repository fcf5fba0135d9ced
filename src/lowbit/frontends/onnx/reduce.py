"""Reductions, searches and scans; and the losses, which are made of them."""

from __future__ import annotations

from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis, shape_text

REDUCE = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


@onnx_op(*REDUCE)
def reduce(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axes = c.ints_attr_or_input(node, "axes", 1) or []
    if not axes and node.attr("noop_with_empty_axes", 0):
        if node.op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
            return c.add("identity", x)
    elif not axes:
        axes = list(range(x.type.rank))
    axes = sorted(normalize_axis(a, x.type.rank) for a in axes)
    return c.add(REDUCE[node.op_type], x, axes=axes, keepdims=bool(node.attr("keepdims", 1)))


@onnx_op("ArgMax", "ArgMin")
def arg(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axis = normalize_axis(node.attr("axis", 0), x.type.rank)
    last = bool(node.attr("select_last_index", 0))
    return c.add(node.op_type.lower(), x, axis=axis, keepdims=bool(node.attr("keepdims", 1)), select_last=last)


@onnx_op("TopK")
def topk(c: Importer, node: OnnxNode) -> tuple[Value, ...]:
    x = c.input(node, 0)
    k = node.attr("k") if c.opset < 10 else (c.dims(node, 1, "k") or [1])[0]
    axis = normalize_axis(node.attr("axis", -1), x.type.rank)
    return c.add_node("topk", x, k=k, axis=axis, largest=bool(node.attr("largest", 1)), sorted=bool(node.attr("sorted", 1)))


@onnx_op("CumSum", "CumProd")
def scan(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axis = normalize_axis((c.ints(node, 1, "axis") or [0])[0], x.type.rank)
    return c.add(node.op_type.lower(), x, axis=axis, exclusive=bool(node.attr("exclusive", 0)), reverse=bool(node.attr("reverse", 0)))


@onnx_op("Trilu")
def trilu(c: Importer, node: OnnxNode) -> Value:
    k = c.ints(node, 1, "k") or [0]
    return c.add("trilu", c.input(node, 0), k=k[0], upper=bool(node.attr("upper", 1)))


@onnx_op("NegativeLogLikelihoodLoss")
def nll_loss(c: Importer, node: OnnxNode) -> Value:
    return _nll(c, node, c.input(node, 0))


@onnx_op("SoftmaxCrossEntropyLoss")
def cross_entropy_loss(c: Importer, node: OnnxNode) -> list[Value]:
    log_prob = c.add("log_softmax", c.input(node, 0), axis=1)
    return [_nll(c, node, log_prob), log_prob][: len(node.outputs)]


def _nll(c: Importer, node: OnnxNode, x: Value) -> Value:
    """-w[target] · x[target], over the classes on axis 1; an ignored target weighs 0, and the mean divides by the weights."""
    target, weight = c.input(node, 1), c.optional(node, 2)
    ignore, reduction = node.attr("ignore_index"), node.attr("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise UnsupportedOp(f"reduction {reduction!r} is not known")
    if x.type.rank < 2 or target.type.rank != x.type.rank - 1:
        raise ShapeError(
            f"targets {shape_text(target.shape)} do not fit scores {shape_text(x.shape)}: one for each but the class axis needed"
        )
    zero = c.scalar(0, like=x)
    ignored = None if ignore is None else c.add("equal", target, c.scalar(ignore, like=target))
    if ignored is not None:
        target = c.add("where", ignored, c.scalar(0, like=target), target)
    column = c.add("reshape", target, shape=(target.shape[0], 1, *target.shape[1:]))
    loss = c.add("reshape", c.add("neg", c.add("gather_elements", x, column, axis=1)), shape=target.shape)
    w = c.add("gather", weight, target, axis=0) if weight is not None else None
    if ignored is not None:
        w = c.add("where", ignored, zero, w if w is not None else c.scalar(1, like=x))
    if w is not None:
        loss = c.add("mul", loss, w)
    axes = tuple(range(len(target.shape)))
    if reduction == "none":
        return loss
    if reduction == "mean" and w is None:
        return c.add("reduce_mean", loss, axes=axes, keepdims=False)
    total = c.add("reduce_sum", loss, axes=axes, keepdims=False)
    return total if reduction == "sum" or w is None else c.add("div", total, c.add("reduce_sum", w, axes=axes, keepdims=False))
