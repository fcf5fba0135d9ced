"""cast: the same numbers in another element type."""

from __future__ import annotations

import numpy as np

from lowbit.dtypes import DType, dtype, finfo
from lowbit.errors import ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType


def infer(x: TensorType, *, to: str, saturate: bool = True) -> TensorType:
    return x.with_dtype(to)


def real(x: Array, *, to: str, saturate: bool = True) -> Array:
    """Floats to integers drop the fraction, integers to narrower ones drop the upper bits, anything but 0 is True.

    float8 has no room for large numbers: with `saturate` they become the largest, else NaN (or ±inf in e5m2, which has one).
    """
    d = dtype(to)
    if x.dtype == object:  # symbolic dims, which these types hold as they are
        if d.name not in ("int32", "int64"):
            raise ShapeError(f"symbolic dims as {d} are not known before they are bound")
        return x
    if d.bits < 8 and d.is_integer:
        return _to_nibbles(x, d)
    if d.is_float and d.bits == 8:
        return _to_float8(x, d, saturate)
    if x.dtype == d.numpy:
        return x
    if x.dtype.kind in "fV" and d.is_integer:
        return np.trunc(x.astype(np.float64)).astype(np.int64 if d.bits < 64 else d.numpy).astype(d.numpy)
    if x.dtype.kind == "V":  # ml_dtypes: by way of float32, which holds them all
        x = x.astype(np.float32)
    return x.astype(d.numpy)


def _to_nibbles(x: Array, d: DType) -> Array:
    wide = np.trunc(x.astype(np.float64)) if x.dtype.kind in "fV" else x
    low = wide.astype(np.int64) & 15
    return (((low ^ 8) - 8) if d.is_signed else low).astype(d.numpy)


def _to_float8(x: Array, d: DType, saturate: bool) -> Array:
    wide = x.astype(np.float32)
    if saturate:
        top = np.float32(finfo(d).max)
        wide = np.clip(wide, -top, top)  # NaN stays NaN
    return wide.astype(d.numpy)


CAST = Op("cast", infer, real)
register(CAST)
