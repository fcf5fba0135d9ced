"""Searching and scanning along an axis: argmax, argmin, topk, cumsum, cumprod, trilu."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import ShapeError
from lowbit.ops.checks import rounded_once
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, axis_of, normalize_axis, shape_text


def infer_arg(x: TensorType, *, axis: int, keepdims: bool, select_last: bool = False) -> TensorType:
    axis = axis_of(axis, x.shape)
    if x.shape[axis] == 0:
        raise ShapeError(f"axis {axis} of {shape_text(x.shape)} is empty: nothing is largest")
    one = (1,) if keepdims else ()
    return TensorType((*x.shape[:axis], *one, *x.shape[axis + 1 :]), "int64")


def _arg(find: Callable[..., Array]) -> Callable[..., Array]:
    def real(x: Array, *, axis: int, keepdims: bool, select_last: bool = False) -> Array:
        axis = normalize_axis(axis, x.ndim)
        if select_last:  # of equal elements the last one: the first one of the reversed axis
            found = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis)
        else:
            found = find(x, axis=axis)
        return np.expand_dims(found, axis).astype(np.int64) if keepdims else np.asarray(found).astype(np.int64)

    return real


def infer_topk(x: TensorType, *, k: Dim, axis: int, largest: bool, sorted: bool) -> tuple[TensorType, TensorType]:
    axis = axis_of(axis, x.shape)
    have = x.shape[axis]
    if isinstance(k, int) and isinstance(have, int) and not 0 <= k <= have:
        raise ShapeError(f"k is {k}, axis {axis} of {shape_text(x.shape)} has {have} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(shape, x.dtype), TensorType(shape, "int64")


def topk(x: Array, *, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """Of equal elements the one with the smaller index comes first; the result is sorted whether asked for or not."""
    axis = normalize_axis(axis, x.ndim)
    if largest:  # a stable sort of the reversed axis, read backwards, keeps the smaller index first
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices = np.take(order, np.arange(k), axis=axis).astype(np.int64)
    return np.take_along_axis(x, indices, axis), indices


def infer_scan(x: TensorType, *, axis: int, exclusive: bool = False, reverse: bool = False) -> TensorType:
    axis_of(axis, x.shape)
    return x.with_dtype(x.dtype)


def _scan(step: Callable[..., Array], start: int) -> Callable[..., Array]:
    @rounded_once
    def real(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
        axis = normalize_axis(axis, x.ndim)
        t = np.flip(x, axis) if reverse else x
        if exclusive and x.shape[axis]:  # each element holds what came before it
            first = np.full_like(np.take(t, [0], axis), start)
            t = np.concatenate([first, np.take(t, np.arange(x.shape[axis] - 1), axis)], axis)
        y = step(t, axis=axis, dtype=x.dtype)
        return np.ascontiguousarray(np.flip(y, axis)) if reverse else y

    return real


def infer_trilu(x: TensorType, *, k: int, upper: bool) -> TensorType:
    if x.rank < 2:
        raise ShapeError(f"rank {x.rank} given, a matrix or a stack of matrices needed")
    return x.with_dtype(x.dtype)


def trilu(x: Array, *, k: int, upper: bool) -> Array:
    """The part on and above (below) the k-th diagonal; the rest is 0."""
    mask = np.tri(x.shape[-2], x.shape[-1], k - 1 if upper else k, dtype=np.bool_)
    return np.where(mask ^ upper, x, np.zeros((), x.dtype))


register(
    Op("argmax", infer_arg, _arg(np.argmax)),
    Op("argmin", infer_arg, _arg(np.argmin)),
    Op("topk", infer_topk, topk),
    Op("cumsum", infer_scan, _scan(np.cumsum, 0)),
    Op("cumprod", infer_scan, _scan(np.cumprod, 1)),
    Op("trilu", infer_trilu, trilu),
)
