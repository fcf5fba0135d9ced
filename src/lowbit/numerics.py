"""The arithmetic contract on arrays: quantize, dequantize, requantize. `csrc/base/numerics.h` is the same page in C.

    real = scale * (q - zero_point)

    quantize     q = clamp(rne(x / scale) + zero_point)          one fp32 division
    dequantize   x = fl32(q - zero_point) * scale                one fp32 multiplication
    requantize   q = clamp(rne(fl32(acc) * m) + zero_point)      one fp32 multiplication, m = (sx * sw) / sy in fp32

`rne` rounds half to even, `fl32` rounds an exact integer to the nearest float32, ±inf saturates, NaN gives the zero point.
Scales and zero points here are arrays that broadcast against the data; `lowbit.quant_params` is the same by named parameters.

Two formats are not affine and have their own pair of functions:

* **binary**: `real = scale * q` with q in {-1, +1}; `q = -1 where x < 0, else +1` (so 0.0, -0.0 and NaN give +1). 0.0 is not representable.
  Example: scale 0.5, x = [-0.2, 0.0, 3.0] → q = [-1, 1, 1] → [-0.5, 0.5, 0.5].
* **logarithmic**: sign and power of two, `real = sign(c) * scale * 2^(|c| - top)`, and code 0 is 0.0; `top` is the largest code of the
  dtype, so `scale` is the largest magnitude. A magnitude goes to the nearest power of two (the midpoint 1.5·2^e, and half of the
  smallest power, go up), so the error is at most a third of |x| between the smallest power and the scale. NaN gives 0, magnitudes
  above the scale saturate; an unsigned dtype has no sign, and there x < 0 gives 0.
  Example: int4 has top 7; scale 1.0, x = [0.0, 0.3, -0.75, 9.0, 0.007] → c = [0, 5, -7, 7, 0] → [0.0, 0.25, -1.0, 1.0, 0.0].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, InputError

F32 = NDArray[np.float32]
Ints = NDArray[Any]

# A chunk's float32 temporaries stay in the L2 cache: four passes over them cost about as much as one over memory.
_CHUNK = 1 << 15


def as_array(x: ArrayLike, *, what: str = "x") -> NDArray[Any]:
    """`x` as a NumPy array; an InputError when there is none for it, or when it would be another one."""
    if np.ma.is_masked(x):
        raise InputError(f"{what} is a masked array, and its mask would be lost", hint="x.filled(0), or x.compressed()")
    try:
        return np.asarray(x)
    except Exception as e:  # NumPy's ValueError for ragged lists; whatever the `__array__` of another library's object raises
        first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise InputError(
            f"{what} cannot become a NumPy array ({first})",
            hint="a rectangular array of numbers; of a torch tensor, x.detach().float().numpy()",
        ) from e


def as_float32(x: ArrayLike, *, what: str = "x") -> F32:
    """`x` as a float32 array: wider floats are rounded to nearest (too large becomes ±inf), integers and bools are converted.

    Integers beyond ±2^24 are rounded too: float32 is what is quantized.
    """
    array = as_array(x, what=what)
    if array.dtype.kind not in "fiub":
        raise DTypeError(
            f"{what} is an array of {array.dtype}, real numbers are needed",
            hint="a rectangular array of floats or integers, e.g. np.asarray(x, np.float32)",
        )
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def quantize_with(
    x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, dtype: str | DType, *, qmin: int | None = None, qmax: int | None = None
) -> Ints:
    """clamp(rne(x / scale) + zero_point) in the dtype's unpacked integers; `qmin`/`qmax` narrow the clamp.

    >>> quantize_with([0.0, 0.25, 0.75, -9.0, float("nan")], 0.5, 1, "int4")
    array([ 1,  1,  3, -8,  1], dtype=int8)
    """
    d = dtype_of(dtype)
    xf, s, zp = as_float32(x), np.asarray(scale, np.float32), np.asarray(zero_point)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        if s.ndim or zp.ndim or xf.size <= _CHUNK:
            return round_clamp(np.asarray(np.divide(xf, s)), zp, d, qmin=qmin, qmax=qmax)
        flat, out = xf.reshape(-1), np.empty(xf.size, d.numpy)
        t = np.empty(_CHUNK, np.float32)
        for start in range(0, xf.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            out[start : start + _CHUNK] = round_clamp(np.divide(part, s, out=t[: part.size]), zp, d, qmin=qmin, qmax=qmax)
        return out.reshape(xf.shape)


def dequantize_with(q: ArrayLike, scale: ArrayLike, zero_point: ArrayLike) -> F32:
    """fl32(q - zero_point) * scale, float32.

    >>> dequantize_with(np.array([1, 3, -8], np.int8), 0.5, 1)
    array([ 0. ,  1. , -4.5], dtype=float32)
    """
    qi, zp = np.asarray(q), np.asarray(zero_point)
    if qi.dtype.itemsize <= 2:  # both fit 17 bits: the fp32 subtraction is exact
        t = np.subtract(qi, zp.astype(np.float32), dtype=np.float32)
    else:
        t = np.subtract(qi, zp, dtype=np.int64).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        s = np.asarray(scale, np.float32)
        if isinstance(t, np.ndarray) and np.broadcast_shapes(t.shape, s.shape) == t.shape:
            return np.multiply(t, s, out=t)
        return np.asarray(t * s)


def requantize_with(
    acc: ArrayLike, multiplier: ArrayLike, zero_point: ArrayLike, dtype: str | DType, *, qmin: int | None = None, qmax: int | None = None
) -> Ints:
    """clamp(rne(fl32(acc) * multiplier) + zero_point): exact integer accumulators to a narrow dtype, one fp32 multiplication.

    >>> requantize_with(np.array([1000, -3, 5], np.int32), np.float32(0.5), 0, "int8")
    array([127,  -2,   2], dtype=int8)
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        t = np.asarray(acc).astype(np.float32) * np.asarray(multiplier, np.float32)
        return round_clamp(np.asarray(t), np.asarray(zero_point), dtype_of(dtype), qmin=qmin, qmax=qmax)


def round_clamp(t: F32, zero_point: NDArray[Any], dtype: DType, *, qmin: int | None = None, qmax: int | None = None) -> Ints:
    """clamp(rne(t) + zero_point) as unpacked integers; NaN gives the zero point. `t` is overwritten.

    binary needs its limits: integer layers give signs as clamp(rne(2·acc) + 1, -1, 1), which is never 0.
    """
    if dtype.min is None or dtype.max is None or (dtype.kind == "binary" and qmin is None):
        raise DTypeError(f"cannot round to {dtype.name}", hint="an integer dtype, such as int8 or uint8")
    lo, hi = dtype.min if qmin is None else qmin, dtype.max if qmax is None else qmax
    # Up to 16 bits lo - zp, hi - zp and the sum are exact in float32; wider ones need float64 (53 bits).
    wide = np.float32 if dtype.bits <= 16 else np.float64
    zp = zero_point.astype(wide)
    r = np.rint(t, out=t).astype(wide, copy=False)
    if zp.ndim and np.broadcast_shapes(r.shape, zp.shape) != r.shape:
        r = np.array(np.broadcast_to(r, np.broadcast_shapes(r.shape, zp.shape)))
    np.clip(r, lo - zp, hi - zp, out=r)
    if r.size and np.isnan(r.min()):  # min() is NaN if any element is
        r[np.isnan(r)] = 0.0
    if zp.ndim or zp != 0:
        r += zp
    return r.astype(dtype.numpy)


def sums_of_magnitudes(ints: NDArray[Any], axis: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Σ|q| along the axes, exactly, without a wide copy of what may be a large weight: the bound of every sum over it follows from this."""
    up, down = (side(ints, 0).sum(axis=axis, dtype=np.int64) for side in (np.maximum, np.minimum))
    return np.asarray(up - down, np.int64)


def quantize_binary(x: ArrayLike) -> NDArray[np.int8]:
    """-1 where x < 0, +1 elsewhere (zeros and NaN too)."""
    return np.asarray(np.where(as_float32(x) < 0, np.int8(-1), np.int8(1)))


def quantize_log(x: ArrayLike, scale: ArrayLike, dtype: str | DType) -> Ints:
    """The code of the nearest ±scale·2^(|c|-top), or 0; all float32, see the head of this file.

    >>> quantize_log([0.0, 0.3, -0.75, 9.0, 0.007], 1.0, "int4")
    array([ 0,  5, -7,  7,  0], dtype=int8)
    """
    d = dtype_of(dtype)
    top = log_top(d)
    xf = as_float32(x)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        ratio = np.asarray(np.abs(xf) / np.asarray(scale, np.float32))
    fraction, exponent = np.frexp(ratio)  # ratio = fraction · 2^exponent, fraction in [0.5, 1)
    code = np.clip(exponent - 1 + (fraction >= 0.75) + top, 1, top)
    code = np.where(ratio > 1.0, top, code)  # infinity has no exponent of its own
    code = np.where(ratio >= np.ldexp(np.float32(1), -top), code, 0)  # false for NaN too
    negative = -code if d.is_signed else 0
    return np.where(xf < 0, negative, code).astype(d.numpy)


def dequantize_log(codes: ArrayLike, scale: ArrayLike, dtype: str | DType) -> F32:
    """sign(c)·scale·2^(|c|-top), 0.0 for code 0.

    >>> dequantize_log(np.array([0, 5, -7, 7], np.int8), 1.0, "int4")
    array([ 0.  ,  0.25, -1.  ,  1.  ], dtype=float32)
    """
    c = np.asarray(codes).astype(np.int32)
    with np.errstate(under="ignore"):
        magnitude = np.ldexp(np.asarray(scale, np.float32), np.abs(c) - log_top(dtype_of(dtype)))
    return np.asarray(magnitude * np.sign(c).astype(np.float32), np.float32)


def log_top(dtype: DType) -> int:
    """The largest code of a logarithmic dtype. Float32 has no more than 127 powers of two below 1, so int8 is the widest."""
    if dtype.name not in LOG_DTYPES or dtype.max is None:
        raise DTypeError(f"the logarithmic scheme has no {dtype.name}", hint="one of " + ", ".join(LOG_DTYPES))
    return dtype.max


LOG_DTYPES = ("int4", "uint4", "int8")

_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_EXP = tuple(np.float32(c) for c in (1.98756912e-4, 1.39819994e-3, 8.33345205e-3, 4.16657962e-2, 1.66666657e-1, 0.5))


def lb_exp(x: ArrayLike) -> F32:
    """exp(x) for x ≤ 0 in float32 steps that every backend can take (docs/arithmetic.md §6); below -87, and for NaN, 0.

    Off from the true value by at most 0.982 ulp (the largest of all float32 in -87 … 0); exp(0) is 1.

    >>> lb_exp(np.float32([0.0, -1.0, -100.0]))
    array([1.        , 0.36787945, 0.        ], dtype=float32)
    """
    xf = as_float32(x)
    inside = xf >= -87
    t = np.where(inside, xf, np.float32(0))
    n = np.rint(t * np.float32(1.44269502))
    r = (t - n * _LN2_HIGH) - n * _LN2_LOW  # the first product is exact: 7 bits times 9
    p = np.full_like(r, _EXP[0])
    for c in _EXP[1:]:
        p = p * r + c
    e = ((p * (r * r)) + r) + np.float32(1)
    return np.asarray(np.where(inside, np.ldexp(e, n.astype(np.int32)), np.float32(0)), np.float32)


_SQRT_HALF = np.float32(0.70710678)
_LOG = tuple(
    np.float32(c)
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
        -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip


def lb_log(x: ArrayLike) -> F32:
    """ln(x) for normal x > 0 in float32 steps that every backend can take (docs/arithmetic.md §4); ln(1) is 0.

    Off from the true value by at most 0.824 ulp (the largest of all float32 in 1 … 4; above them it is less).

    >>> lb_log(np.float32([1.0, 2.0, 10.0]))
    array([0.       , 0.6931472, 2.3025851], dtype=float32)
    """
    m, e = np.frexp(as_float32(x))  # x = m · 2^e, m in [0.5, 1)
    low = m < _SQRT_HALF
    n = np.where(low, e - 1, e).astype(np.float32)
    r = np.where(low, m + m, m) - np.float32(1)  # exact
    z = r * r
    p = np.full_like(r, _LOG[0])
    for c in _LOG[1:]:
        p = p * r + c
    y = ((p * r) * z + n * _LN2_LOW) - np.float32(0.5) * z
    return np.asarray((r + y) + n * _LN2_HIGH)


def lb_sigmoid(x: ArrayLike) -> F32:
    """1 / (1 + exp(-x)) in float32 steps: e = lb_exp(-|x|), then 1 ÷ (1 + e), or e ÷ (1 + e) where x < 0. NaN gives 1.

    >>> lb_sigmoid(np.float32([0.0, 100.0, -100.0])).tolist()
    [0.5, 1.0, 0.0]
    """
    xf, one = as_float32(x), np.float32(1)
    e = lb_exp(-np.abs(xf))
    return np.asarray(np.where(xf < 0, e, one) / (one + e), np.float32)


def lb_tanh(x: ArrayLike) -> F32:
    """tanh in float32 steps: e = lb_exp(-(|x| + |x|)), then (1 - e) ÷ (1 + e), negated where x < 0. NaN gives 1.

    >>> lb_tanh(np.float32([0.0, 100.0, -100.0])).tolist()
    [0.0, 1.0, -1.0]
    """
    xf, one = as_float32(x), np.float32(1)
    a = np.abs(xf)
    e = lb_exp(-(a + a))
    t = (one - e) / (one + e)
    return np.asarray(np.where(xf < 0, -t, t), np.float32)
