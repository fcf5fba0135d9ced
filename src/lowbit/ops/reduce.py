"""Reductions over axes: (x, *, axes, keepdims). No axes: no reduction. Over nothing, a sum is 0, a product 1, a maximum -inf."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.binary import div
from lowbit.ops.checks import rounded_once
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, normalize_axis

Axes = tuple[int, ...]


def infer(x: TensorType, *, axes: Axes, keepdims: bool) -> TensorType:
    gone = [normalize_axis(a, x.rank) for a in axes]
    if len(set(gone)) != len(gone):
        raise ShapeError(f"axes {axes} name one axis twice")
    if keepdims:
        return TensorType([1 if i in gone else d for i, d in enumerate(x.shape)], x.dtype)
    return TensorType([d for i, d in enumerate(x.shape) if i not in gone], x.dtype)


def infer_float(x: TensorType, *, axes: Axes, keepdims: bool) -> TensorType:
    if not x.dtype.is_float:
        raise DTypeError(f"{x.dtype} given, a float type needed", hint="cast it before")
    return infer(x, axes=axes, keepdims=keepdims)


def _sum(x: Array, axes: Axes, keep: bool) -> Array:
    return np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _mean(x: Array, axes: Axes, keep: bool) -> Array:
    if x.dtype.kind in "iu":  # the sum is exact, its quotient drops the fraction
        total = np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=np.int64))
        return div(total, np.array(math.prod(x.shape[a] for a in axes), np.int64)).astype(x.dtype)
    return np.mean(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _limit(x: Array, largest: bool) -> Any:
    d = dtype(x.dtype)
    if d.min is None or d.max is None:
        return np.array(np.inf if largest else -np.inf).astype(x.dtype)[()]
    return bool(d.max if largest else d.min) if d.kind == "bool" else x.dtype.type(d.max if largest else d.min)


def _max(x: Array, axes: Axes, keep: bool) -> Array:
    if x.size == 0:
        return np.max(x, axis=axes, keepdims=keep, initial=_limit(x, largest=False))
    return np.max(x, axis=axes, keepdims=keep)


def _min(x: Array, axes: Axes, keep: bool) -> Array:
    if x.size == 0:
        return np.min(x, axis=axes, keepdims=keep, initial=_limit(x, largest=True))
    return np.min(x, axis=axes, keepdims=keep)


def _prod(x: Array, axes: Axes, keep: bool) -> Array:
    return np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    """max + log(sum(exp(x - max))): no overflow; a maximum of ±inf is the answer itself."""
    top = _max(x, axes, True)
    finite = np.where(np.isfinite(top), top, x.dtype.type(0))
    y = np.log(_sum(np.exp(x - finite), axes, True)) + finite
    return y if keep else np.squeeze(y, axis=axes)


_ANY: dict[str, Callable[[Array, Axes, bool], Array]] = {
    "reduce_sum": _sum,
    "reduce_mean": _mean,
    "reduce_max": _max,
    "reduce_min": _min,
    "reduce_prod": _prod,
    "reduce_l1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "reduce_sum_square": lambda x, axes, keep: _sum(x * x, axes, keep),
}
_FLOAT: dict[str, Callable[[Array, Axes, bool], Array]] = {
    "reduce_l2": lambda x, axes, keep: np.sqrt(_sum(x * x, axes, keep)),
    "reduce_log_sum": lambda x, axes, keep: np.log(_sum(x, axes, keep)),
    "reduce_log_sum_exp": _log_sum_exp,
}


def _real(f: Callable[[Array, Axes, bool], Array]) -> Callable[..., Array]:
    @rounded_once
    def real(x: Array, *, axes: Axes, keepdims: bool) -> Array:
        return f(x, tuple(normalize_axis(a, x.ndim) for a in axes), keepdims) if axes else _no_axes(f, x)

    return real


def _no_axes(f: Callable[[Array, Axes, bool], Array], x: Array) -> Array:
    """Each element is reduced alone: |x| for l1, x² for sum_square, x itself for sums and maxima."""
    return f(x[..., None], (x.ndim,), False)


register(*(Op(name, infer, _real(f)) for name, f in _ANY.items()))
register(*(Op(name, infer_float, _real(f)) for name, f in _FLOAT.items()))
