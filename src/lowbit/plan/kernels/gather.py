"""Rows by index: gather, where the indices can be checked before anything runs."""

from __future__ import annotations

from math import prod

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.plan.kernels.call import Context, Index, KernelCall, kernels_for
from lowbit.plan.kernels.movement import item_bytes, shape_of
from lowbit.types import normalize_axis


def given(graph: Graph, value: Value) -> Value | None:
    """The input of the graph whose bytes a value has; None where it is computed."""
    while value.name in graph.producers:
        node = graph.producers[value.name]
        if node.op not in ("reshape", "identity") or node.inputs[0] is None:
            return None
        value = node.inputs[0]
    return value


@kernels_for("gather")
def gather(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, index = node.inputs[0], node.inputs[1]
    assert x is not None and index is not None
    shape = shape_of(x)
    axis = normalize_axis(node.attrs["axis"], len(shape))  # type: ignore[arg-type]
    source, data = given(ctx.graph, index), ctx.constant(index)
    size, count = shape[axis], prod(shape_of(index))
    if source is None or index.type.dtype.name not in ("int32", "int64") or not size or not count or not prod(shape):
        return None
    if data is not None and (data.min() < -size or data.max() >= size):
        return None  # the interpreter says what is wrong
    outer, slice_bytes = prod(shape[:axis]), prod(shape[axis + 1 :]) * item_bytes(x)
    fields = {"size": size, "count": count, "bytes": slice_bytes, "index_bytes": item_bytes(index)}
    args = (ctx.argument(x), ctx.argument(index), node.output)
    checks = () if data is not None else (Index(source, size, node.where),)
    cost = float(np.float64(outer) * count * slice_bytes * 0.05)
    return [KernelCall(ctx.kernel("gather"), fields, args, outer * count, cost, checks=checks)]
