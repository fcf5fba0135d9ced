"""softmax and its kin: along one axis, exp(x) / Σ exp(x), its logarithm, and its limit (one at the first maximum, zero elsewhere)."""

from __future__ import annotations

import numpy as np

from lowbit.ops.checks import need_float, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, normalize_axis


def infer(x: TensorType, *, axis: int) -> TensorType:
    need_float(x)
    normalize_axis(axis, x.rank)
    return x.with_dtype(x.dtype)


def _shifted(x: Array, axis: int) -> Array:
    """x less its maximum, so that no exp overflows."""
    w = wide(x)
    return np.asarray(w - w.max(axis=axis, keepdims=True, initial=-np.inf))


def softmax(x: Array, *, axis: int) -> Array:
    e = np.exp(_shifted(x, axis))
    return np.asarray(e / e.sum(axis=axis, keepdims=True)).astype(x.dtype, copy=False)


def log_softmax(x: Array, *, axis: int) -> Array:
    s = _shifted(x, axis)
    return np.asarray(s - np.log(np.exp(s).sum(axis=axis, keepdims=True))).astype(x.dtype, copy=False)


def hardmax(x: Array, *, axis: int) -> Array:
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.expand_dims(x.argmax(axis=axis), axis), 1, axis=axis)
    return y


register(Op("softmax", infer, softmax), Op("log_softmax", infer, log_softmax), Op("hardmax", infer, hardmax))
