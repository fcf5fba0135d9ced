"""Movement by index: gather, gather_elements, gather_nd, scatter_elements, scatter_nd. Negative indices count from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.errors import DTypeError, InputError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, axis_of, shape_text

REDUCE: dict[str, Callable[..., Any]] = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}


def _need_indices(idx: TensorType) -> None:
    if not idx.dtype.is_integer:
        raise DTypeError(f"indices are {idx.dtype}, integers needed")


def _inside(idx: Array, size: int) -> Array:
    """The indices as integers; an InputError when one lies outside (data decides that, so only running can tell)."""
    i = idx.astype(np.int64, copy=False)
    if i.size and (i.min() < -size or i.max() >= size):
        bad = int(i.max()) if i.max() >= size else int(i.min())
        raise InputError(f"index {bad} is outside an axis of {size} elements")
    return i


def infer_gather(x: TensorType, idx: TensorType, *, axis: int) -> TensorType:
    _need_indices(idx)
    axis = axis_of(axis, x.shape)
    return TensorType((*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :]), x.dtype)


def gather(x: Array, idx: Array, *, axis: int) -> Array:
    return np.take(x, _inside(idx, x.shape[axis]), axis=axis)


def infer_gather_elements(x: TensorType, idx: TensorType, *, axis: int) -> TensorType:
    _need_indices(idx)
    axis = axis_of(axis, x.shape)
    if idx.rank != x.rank:
        raise ShapeError(f"indices {shape_text(idx.shape)} and input {shape_text(x.shape)} differ in rank")
    if any(isinstance(i, int) and isinstance(n, int) and i > n for a, (i, n) in enumerate(zip(idx.shape, x.shape)) if a != axis):
        raise ShapeError(f"indices {shape_text(idx.shape)} reach outside the input {shape_text(x.shape)} along other axes than {axis}")
    return TensorType(idx.shape, x.dtype)


def gather_elements(x: Array, idx: Array, *, axis: int) -> Array:
    return x[_element_index(x, idx, axis)]


def _element_index(x: Array, idx: Array, axis: int) -> tuple[Array, ...]:
    """Index arrays that name, for every element of idx, its own place with the axis replaced."""
    places = list(np.ogrid[tuple(slice(n) for n in idx.shape)])
    places[axis] = _inside(idx, x.shape[axis])
    return tuple(np.broadcast_arrays(*places)) if places else ()


def infer_gather_nd(x: TensorType, idx: TensorType, *, batch_dims: int = 0) -> TensorType:
    _need_indices(idx)
    k = idx.shape[-1] if idx.rank else None
    if not isinstance(k, int) or batch_dims + k > x.rank or batch_dims >= idx.rank:
        raise ShapeError(f"indices {shape_text(idx.shape)} with {batch_dims} batch dimensions do not fit input {shape_text(x.shape)}")
    return TensorType((*idx.shape[:-1], *x.shape[batch_dims + k :]), x.dtype)


def gather_nd(x: Array, idx: Array, *, batch_dims: int = 0) -> Array:
    k = idx.shape[-1]
    batch = np.ogrid[tuple(slice(n) for n in idx.shape[:batch_dims])] if batch_dims else []
    # batch positions are (B1, …, 1, …): they broadcast against the remaining dimensions of the indices
    places = [b.reshape(b.shape + (1,) * (idx.ndim - 1 - batch_dims)) for b in batch]
    places += [_inside(idx[..., j], x.shape[batch_dims + j]) for j in range(k)]
    if not places:
        return np.broadcast_to(x, (*idx.shape[:-1], *x.shape))
    return np.asarray(x[tuple(places)])


def infer_scatter_elements(x: TensorType, idx: TensorType, updates: TensorType, *, axis: int, reduction: str = "none") -> TensorType:
    infer_gather_elements(x, idx, axis=axis)
    _need_updates(x, updates, reduction)
    if updates.shape != idx.shape and updates.is_static and idx.is_static:
        raise ShapeError(f"updates {shape_text(updates.shape)} and indices {shape_text(idx.shape)} differ")
    return TensorType(x.shape, x.dtype)


def _need_updates(x: TensorType, updates: TensorType, reduction: str) -> None:
    if updates.dtype != x.dtype:
        raise DTypeError(f"input is {x.dtype}, updates {updates.dtype}")
    if reduction not in ("none", *REDUCE):
        raise ShapeError(f"reduction is {reduction!r}, one of none, {', '.join(REDUCE)} needed")


def scatter_elements(x: Array, idx: Array, updates: Array, *, axis: int, reduction: str = "none") -> Array:
    out = x.copy()
    _put(out, _element_index(x, idx, axis), updates, reduction)
    return out


def _put(out: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> None:
    """Writes the updates, or joins them to what stands there; an index that occurs twice takes part twice."""
    if reduction == "none":
        out[places] = updates
    else:
        REDUCE[reduction](out, places, updates)


def infer_scatter_nd(x: TensorType, idx: TensorType, updates: TensorType, *, reduction: str = "none") -> TensorType:
    row = infer_gather_nd(x, idx, batch_dims=0)
    _need_updates(x, updates, reduction)
    if updates.shape != row.shape and updates.is_static and row.is_static:
        raise ShapeError(f"updates {shape_text(updates.shape)} given, {shape_text(row.shape)} needed")
    return TensorType(x.shape, x.dtype)


def scatter_nd(x: Array, idx: Array, updates: Array, *, reduction: str = "none") -> Array:
    out = x.copy()
    places = tuple(_inside(idx[..., j], x.shape[j]) for j in range(idx.shape[-1]))
    _put(out, places if places else (...,), updates, reduction)  # type: ignore[arg-type]
    return out


register(
    Op("gather", infer_gather, gather, moves=True),
    Op("gather_elements", infer_gather_elements, gather_elements, moves=True),
    Op("gather_nd", infer_gather_nd, gather_nd, moves=True),
    Op("scatter_elements", infer_scatter_elements, scatter_elements),
    Op("scatter_nd", infer_scatter_nd, scatter_nd),
)
