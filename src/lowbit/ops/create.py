"""Tensors out of attributes: fill, range, eye; and one_hot."""

from __future__ import annotations

import math

import numpy as np

from lowbit.assumptions import larger
from lowbit.dims import Dim, Sym, ceil_div
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, Shape, TensorType, normalize_axis


def infer_fill(*, shape: Shape, value: float, dtype: str) -> TensorType:
    return TensorType(shape, dtype)


def fill(*, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    return np.full(shape, value).astype(dtype_of(dtype).numpy)


def infer_range(*, start: Dim | float, limit: Dim | float, step: Dim | float, dtype: str) -> TensorType:
    return TensorType((range_length(start, limit, step),), dtype)


def range_length(start: Dim | float, limit: Dim | float, step: Dim | float) -> Dim:
    """max(ceil((limit - start) / step), 0)."""
    if step == 0:
        raise ShapeError("a step of 0 goes nowhere")
    if isinstance(start, float) or isinstance(limit, float) or isinstance(step, float):
        return max(math.ceil((float(limit) - float(start)) / float(step)), 0)
    if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int):
        return max(ceil_div(limit - start, step), 0)
    if not isinstance(step, Sym) and step < 0:
        return larger(ceil_div(start - limit, -step), 0)
    return larger(ceil_div(limit - start, step), 0)


def range_(*, start: float, limit: float, step: float, dtype: str) -> Array:
    count = int(range_length(start, limit, step))
    return (start + np.arange(count) * step).astype(dtype_of(dtype).numpy)


def infer_eye(*, rows: Dim, cols: Dim, k: int, dtype: str) -> TensorType:
    return TensorType((rows, cols), dtype)


def eye(*, rows: int, cols: int, k: int, dtype: str) -> Array:
    return np.eye(rows, cols, k).astype(dtype_of(dtype).numpy)


def infer_one_hot(idx: TensorType, *, depth: Dim, axis: int, on: float, off: float, dtype: str) -> TensorType:
    if not (idx.dtype.is_integer or idx.dtype.is_float):
        raise DTypeError(f"indices are {idx.dtype}, integers needed")
    axis = normalize_axis(axis, idx.rank + 1)
    return TensorType((*idx.shape[:axis], depth, *idx.shape[axis:]), dtype)


def one_hot(idx: Array, *, depth: int, axis: int, on: float, off: float, dtype: str) -> Array:
    """`on` where the position along the new axis is the index, `off` elsewhere; an index outside -depth..depth-1 is never on."""
    axis = normalize_axis(axis, idx.ndim + 1)
    i = idx.astype(np.int64)
    i = np.where(i < 0, i + depth, i)
    hot = np.expand_dims(i, axis) == np.arange(depth).reshape((depth,) + (1,) * (idx.ndim - axis))
    t = dtype_of(dtype).numpy
    return np.where(hot, np.asarray(on).astype(t), np.asarray(off).astype(t))


register(
    Op("fill", infer_fill, fill),
    Op("range", infer_range, range_),
    Op("eye", infer_eye, eye),
    Op("one_hot", infer_one_hot, one_hot),
)
