"""Quantization parameters from a range: which scale and zero point cover [lo, hi], with every degenerate range decided.

All in float64, rounded to float32 once. 0.0 is always made part of the range, so that it is exact (padding and ReLU need it):

    asymmetric            scale = (hi - lo) / (qmax - qmin),              zero_point = clamp(rne(qmin - lo / scale))
    symmetric             scale = max(-lo / (mid - qmin), hi / (qmax - mid)), zero_point = mid: int8 divides by 128 and 127
    symmetric_restricted  the same with qmin + 1: max(|lo|, |hi|) / 127
    logarithmic           scale = max(|lo|, |hi|), the largest power's magnitude
    binary                scale = max(|lo|, |hi|) / 2, which has the least worst error when only the range is known

* A range that is only 0 gives scale 1.
* A scale below 2^-126 becomes 2^-126: subnormal scales would lose bits in x / scale (and are flushed on some chips).
* A scale whose largest product with q - zero_point is not a float32 becomes the largest one whose product is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowbit.dtypes import DType
from lowbit.errors import CalibrationError, QuantError
from lowbit.numerics import F32, as_array, as_float32
from lowbit.quant_params import (
    Granularity,
    PerAxis,
    PerBlock,
    PerTensor,
    QuantParams,
    Scheme,
    code_range,
    known_scheme,
    middle,
    quant_dtype,
    scale_shape,
)

F64 = NDArray[np.float64]
_TINY = float(np.finfo(np.float32).tiny)
_HUGE = float(np.finfo(np.float32).max)
_PER_TENSOR = PerTensor()


def default_scheme(dtype: str | DType) -> Scheme:
    """Symmetric for signed dtypes, asymmetric for unsigned ones, whose zero point is useful mostly when it moves."""
    return "symmetric" if quant_dtype(dtype).is_signed else "asymmetric"


def params_from_range(
    lo: ArrayLike, hi: ArrayLike, dtype: str | DType, scheme: Scheme | None = None, granularity: Granularity = _PER_TENSOR
) -> QuantParams:
    """Parameters that cover [lo, hi] and 0.0. `lo` and `hi` have the shape of the granularity's scales.

    >>> params_from_range(-1.0, 3.0, "uint8")
    QuantParams(uint8, asymmetric, per tensor, scale=0.0156863, zero_point=64)
    """
    d = quant_dtype(dtype)
    scheme = default_scheme(d) if scheme is None else scheme
    known_scheme(scheme)
    low, high = (as_range_end(v, name) for v, name in ((lo, "lo"), (hi, "hi")))
    if low.shape != high.shape:
        raise QuantError(f"lo has shape {low.shape}, hi has {high.shape}", hint="one pair for each scale")
    if np.any(low > high):
        i = int(np.argmax(low > high))
        raise QuantError(f"range {low.flat[i]:.6g}..{high.flat[i]:.6g} is upside down", hint="swap lo and hi")
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    qmin, qmax = code_range(d, scheme)
    mid, largest = middle(d), np.maximum(-low, high)
    zero_point: NDArray[Any] | int | None = None
    if scheme == "asymmetric":
        scale = _legal((high - low) / (qmax - qmin))
        zero_point = np.where(largest > 0, np.clip(np.rint(qmin - low / scale), qmin, qmax), np.clip(0, qmin, qmax)).astype(np.int64)
        scale = _capped(scale, np.maximum(qmax - zero_point, zero_point - qmin))
    elif scheme == "logarithmic":
        scale = _legal(largest if d.is_signed else high)
    elif d.name == "binary":
        scale = _legal(largest / 2)
    else:
        scale = _capped(_legal(np.maximum(-low / (mid - qmin), high / (qmax - mid))), np.asarray(mid - qmin))
    return QuantParams(d, scale, zero_point, scheme, granularity)


def params_from_data(x: ArrayLike, dtype: str | DType, scheme: Scheme | None = None, granularity: Granularity = _PER_TENSOR) -> QuantParams:
    """Parameters that cover the values of `x`; for binary the scale is the mean of |x|, which has the least squared error.

    >>> params_from_data([[1.0, 2.0], [0.0, 0.0]], "int8", granularity=PerAxis(0)).scale.tolist() == [float(np.float32(2 / 127)), 1.0]
    True
    """
    array = as_float32(x)
    lo, hi = range_of(array, granularity)
    if quant_dtype(dtype).name == "binary":
        params_from_range(lo, hi, dtype, scheme, granularity)  # the same complaints
        return QuantParams(dtype, _legal(_mean_magnitude(array, granularity)), None, scheme, granularity)
    return params_from_range(lo, hi, dtype, scheme, granularity)


def range_of(x: F32, granularity: Granularity = _PER_TENSOR) -> tuple[F32, F32]:
    """Smallest and largest value for each scale of the granularity; CalibrationError where there are none."""
    shape = scale_shape(granularity, x.shape)
    if x.size == 0:
        raise CalibrationError(f"an array of shape {x.shape} has no values to take a range from", hint="give scale= and zero_point=")
    if isinstance(granularity, PerBlock):
        starts = np.arange(0, x.shape[granularity.axis], granularity.size)
        return np.minimum.reduceat(x, starts, granularity.axis), np.maximum.reduceat(x, starts, granularity.axis)
    axes = None if isinstance(granularity, PerTensor) else tuple(i for i in range(x.ndim) if i != granularity.axis % x.ndim)
    return np.asarray(x.min(axis=axes)).reshape(shape), np.asarray(x.max(axis=axes)).reshape(shape)


def as_range_end(value: ArrayLike, name: str) -> F64:
    """`value` in float64, finite."""
    end = as_array(value, what=name)
    if end.dtype.kind not in "fiub":
        raise CalibrationError(f"{name} is {end.dtype}, real numbers are needed")
    end = end.astype(np.float64)
    bad = end[~np.isfinite(end)]
    if bad.size:
        what = "NaN" if np.isnan(bad).any() else "infinity"
        raise CalibrationError(
            f"the range holds {what} ({bad.size} of {end.size} ends)",
            hint="clean the data (np.nan_to_num, np.clip), or give scale= and zero_point=",
        )
    return end


def _mean_magnitude(x: F32, granularity: Granularity) -> F64:
    magnitude = np.abs(x, dtype=np.float64)
    if isinstance(granularity, PerBlock):
        dim = x.shape[granularity.axis]
        starts = np.arange(0, dim, granularity.size)
        counts = np.minimum(starts + granularity.size, dim) - starts
        last = np.moveaxis(np.add.reduceat(magnitude, starts, granularity.axis), granularity.axis, -1) / counts
        return np.moveaxis(last, -1, granularity.axis)
    if isinstance(granularity, PerAxis):
        axis = granularity.axis % x.ndim
        return np.asarray(magnitude.mean(axis=tuple(i for i in range(x.ndim) if i != axis)))
    return np.asarray(magnitude.mean())


def _legal(scale: F64) -> F32:
    """Rounded to float32; 1 for zero, and never subnormal."""
    with np.errstate(under="ignore"):
        return np.where(scale == 0, 1.0, np.clip(scale, _TINY, _HUGE)).astype(np.float32)


def _capped(scale: F32, steps: NDArray[Any]) -> F32:
    """At most the largest float32 whose product with `steps` is finite."""
    cap = (_HUGE / steps.astype(np.float64)).astype(np.float32)
    over = cap.astype(np.float64) * steps > _HUGE
    return np.minimum(scale, np.where(over, np.nextafter(cap, np.float32(0)), cap))
