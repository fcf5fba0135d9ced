"""Gather and scatter: embedding, index_select, tensor indexing, scatter and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, Operand, aten
from lowbit.ir.graph import Value
from lowbit.types import broadcast, normalize_axis


@aten("embedding")
def embedding(c: Importer, table: Value, ids: Value, *_: Any) -> Value:
    return c.add("gather", table, ids, axis=0)


@aten("index_select")
def index_select(c: Importer, x: Value, dim: int, index: Value) -> Value:
    return c.add("gather", x, c.reshape(index, (index.type.size,)), axis=normalize_axis(dim, x.type.rank))


@aten("take")
def take(c: Importer, x: Value, index: Value) -> Value:
    return c.add("gather", c.reshape(x, (x.type.size,)), index, axis=0)


def integer_indices(c: Importer, indices: Sequence[Value | None]) -> list[Value | None]:
    """The indices with masks that are known turned into positions; a mask computed at run time decides a shape."""
    found: list[Value | None] = []
    for index in indices:
        if index is None or index.type.dtype.is_integer:
            found.append(None if index is None else c.cast(index, "int64"))
            continue
        mask = c.constant_data(index)
        if mask is None:
            raise UnsupportedOp("indexing with a mask gives a shape that depends on data", hint="use torch.where or masked_fill")
        found += [c.constant(axis.astype(np.int64)) for axis in np.nonzero(mask)]
    return found


@aten("index", "_unsafe_index")
def index(c: Importer, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[i, :, j]: one index is a gather; several are joined to positions and gathered at once."""
    given = integer_indices(c, indices)
    axes = [a for a, i in enumerate(given) if i is not None]
    if len(axes) == 1:
        return c.add("gather", x, given[axes[0]], axis=axes[0])
    picked = [i for i in given if i is not None]
    shape = broadcast(*(i.shape for i in picked))
    positions = _positions(c, picked, shape)
    rest = [a for a in range(x.type.rank) if a not in axes]
    y = c.add("gather_nd", c.transpose(x, [*axes, *rest]), positions, batch_dims=0)  # (*shape, *rest)
    n, first = len(shape), _first_axis(axes)
    return c.transpose(y, [*range(n, n + first), *range(n), *range(n + first, n + len(rest))])


def _first_axis(axes: list[int]) -> int:
    """Where the picked axes stand in x[i, :, j]: neighbours stay where the first of them was, others come to the front."""
    return axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0


def _positions(c: Importer, picked: Sequence[Value], shape: tuple[Dim, ...]) -> Value:
    columns = [c.reshape(c.expand(i, shape), (*shape, 1)) for i in picked]
    return columns[0] if len(columns) == 1 else c.add("concat", *columns, axis=len(shape))


@aten("index_put", "_unsafe_index_put")
def index_put(c: Importer, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.type.dtype.kind == "bool" and values.type.rank == 0 and not accumulate:
        wide = c.reshape(mask, (*mask.shape, *(1,) * (x.type.rank - mask.type.rank)))
        return c.add("where", wide, c.cast(values, x.type.dtype), x)
    given = integer_indices(c, indices)
    axes = [a for a, i in enumerate(given) if i is not None]
    rest = [a for a in range(x.type.rank) if a not in axes]
    picked = [i for i in given if i is not None]
    shape = broadcast(*(i.shape for i in picked))
    first = _first_axis(axes)
    before, after = [x.shape[a] for a in rest[:first]], [x.shape[a] for a in rest[first:]]
    wide = c.expand(c.cast(values, x.type.dtype), (*before, *shape, *after))
    n = len(shape)
    updates = c.transpose(wide, [*range(first, first + n), *range(first), *range(first + n, n + len(rest))])  # (*shape, *rest)
    order = [*axes, *rest]
    y = c.add("scatter_nd", c.transpose(x, order), _positions(c, picked, shape), updates, reduction="add" if accumulate else "none")
    return c.transpose(y, [order.index(a) for a in range(x.type.rank)])


@aten("gather")
def gather(c: Importer, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if x.type.rank == 0:
        return c.expand(x, index.shape)
    axis = normalize_axis(dim, x.type.rank)
    for a in range(x.type.rank):  # torch lets the index be smaller than x on the other axes
        if a != axis and index.shape[a] != x.shape[a]:
            x = c.narrow(x, a, 0, index.shape[a])
    return c.add("gather_elements", x, c.cast(index, "int64"), axis=axis)


@aten("take_along_dim")
def take_along_dim(c: Importer, x: Value, index: Value, dim: int | None = None) -> Value:
    if dim is None:
        return gather(c, c.reshape(x, (x.type.size,)), 0, c.reshape(index, (index.type.size,)))
    axis = normalize_axis(dim, x.type.rank)

    def wide(v: Value, other: Value) -> Value:
        joined = broadcast(*((*s[:axis], 1, *s[axis + 1 :]) for s in (v.shape, other.shape)))
        return c.expand(v, (*joined[:axis], v.shape[axis], *joined[axis + 1 :]))

    return c.add("gather_elements", wide(x, index), c.cast(wide(index, x), "int64"), axis=axis)


REDUCTIONS = {None: "none", "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@aten("scatter")
def scatter(c: Importer, x: Value, dim: int, index: Value, src: Operand, *, reduce: str | None = None) -> Value:
    if isinstance(src, Value) and src.shape != () and src.shape != index.shape:
        for a, n in enumerate(index.shape):
            src = c.narrow(src, a, 0, n)
    updates = c.expand(c.tensor(src, x.type.dtype), index.shape)
    axis = normalize_axis(dim, x.type.rank)
    return c.add("scatter_elements", x, c.cast(index, "int64"), updates, axis=axis, reduction=REDUCTIONS[reduce])


@aten("scatter_add")
def scatter_add(c: Importer, x: Value, dim: int, index: Value, src: Value) -> Value:
    return scatter(c, x, dim, index, src, reduce="sum")


@aten("scatter_reduce")
def scatter_reduce(c: Importer, x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True) -> Value:
    if reduce not in REDUCTIONS or not include_self:
        raise UnsupportedOp(f"scatter_reduce with reduce={reduce!r}, include_self={include_self} is not supported")
    return scatter(c, x, dim, index, src, reduce=reduce)


@aten("index_copy")
def index_copy(c: Importer, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _index_rows(c, x, dim, index, src, "none")


@aten("index_add")
def index_add(c: Importer, x: Value, dim: int, index: Value, src: Value, *, alpha: float = 1) -> Value:
    src = src if alpha == 1 else c.add("mul", src, c.tensor(alpha, src.type.dtype))
    return _index_rows(c, x, dim, index, src, "add")


@aten("index_fill")
def index_fill(c: Importer, x: Value, dim: int, index: Value, value: Operand) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    shape = (*x.shape[:axis], index.type.size, *x.shape[axis + 1 :])
    return _index_rows(c, x, dim, index, c.expand(c.tensor(value, x.type.dtype), shape), "none")


def _index_rows(c: Importer, x: Value, dim: int, index: Value, src: Value, reduction: str) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    column = c.reshape(c.cast(index, "int64"), (*(1,) * axis, index.type.size, *(1,) * (x.type.rank - axis - 1)))
    return c.add("scatter_elements", x, c.expand(column, src.shape), src, axis=axis, reduction=reduction)


@aten("one_hot")
def one_hot(c: Importer, ids: Value, classes: int = -1) -> Value:
    if classes < 0:
        raise UnsupportedOp("one_hot without num_classes gives a shape that depends on data", hint="pass num_classes")
    return c.add("one_hot", ids, depth=classes, axis=ids.type.rank, on=1, off=0, dtype="int64")
