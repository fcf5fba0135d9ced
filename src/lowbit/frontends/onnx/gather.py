"""Gathering and scattering by index."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Sym
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis


@onnx_op("Gather")
def gather(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("gather", x, c.input(node, 1), axis=normalize_axis(node.attr("axis", 0), x.type.rank))


@onnx_op("GatherElements")
def gather_elements(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("gather_elements", x, c.input(node, 1), axis=normalize_axis(node.attr("axis", 0), x.type.rank))


@onnx_op("GatherND")
def gather_nd(c: Importer, node: OnnxNode) -> Value:
    return c.add("gather_nd", c.input(node, 0), c.input(node, 1), batch_dims=node.attr("batch_dims", 0))


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axis = normalize_axis(node.attr("axis", 0), x.type.rank)
    return c.add("scatter_elements", x, c.input(node, 1), c.input(node, 2), axis=axis, reduction=node.attr("reduction", "none"))


@onnx_op("ScatterND")
def scatter_nd(c: Importer, node: OnnxNode) -> Value:
    return c.add("scatter_nd", c.input(node, 0), c.input(node, 1), c.input(node, 2), reduction=node.attr("reduction", "none"))


@onnx_op("Compress")
def compress(c: Importer, node: OnnxNode) -> Value:
    """The elements whose condition is true. How many there are decides the shape, so the condition must be known."""
    x, condition = c.input(node, 0), c.needed(node, 1, "condition")
    chosen = c.constant(np.flatnonzero(condition).astype(np.int64))
    axis = node.attr("axis")
    if axis is None:
        return c.add("gather", c.add("reshape", x, shape=(x.type.size,)), chosen, axis=0)
    return c.add("gather", x, chosen, axis=normalize_axis(axis, x.type.rank))


@onnx_op("TensorScatter")
def tensor_scatter(c: Importer, node: OnnxNode) -> Value:
    """Writes the update into the cache from each batch entry's index on; `circular` begins again at the front."""
    cache, update, where = c.input(node, 0), c.input(node, 1), c.optional(node, 2)
    rank, mode = cache.type.rank, node.attr("mode", "linear")
    if update.type.rank != rank or (where is not None and where.type.rank != 1):
        raise ShapeError(f"cache {cache.type} does not fit update {update.type}, or the indices are not one per batch entry")
    axis = normalize_axis(node.attr("axis", -2), rank)
    size, length = cache.shape[axis], update.shape[axis]
    if isinstance(size, Sym) or isinstance(length, Sym):
        raise UnsupportedOp("its cache or update has a symbolic length", hint="bind it with shapes=")
    if axis == 0:
        raise ShapeError("axis 0 is the batch, it cannot be written along")
    steps = c.constant(np.arange(length, dtype=np.int64).reshape([length if i == axis else 1 for i in range(rank)]))
    if where is not None:
        first = c.add("reshape", c.add("cast", where, to="int64"), shape=[where.shape[0], *[1] * (rank - 1)])
        steps = c.add("add", first, steps)
    if mode == "circular":
        steps = c.add("mod", steps, c.scalar(size, like=steps))
    index = c.add("expand", steps, shape=update.shape)
    return c.add("scatter_elements", cache, index, update, axis=axis, reduction="none")
