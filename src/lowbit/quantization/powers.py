"""Weights and scales that are powers of two: layers shift where they would multiply.

A logarithmic weight is 0 or ±s·2^e, e = 0 … 6, and s is a power of two. It is stored as the int8 number ±2^e with the scale s: every layer
that multiplies int8 computes with it, and the kernels of csrc/log keep it as a nibble and shift.
"""

from __future__ import annotations

import numpy as np

from lowbit.numerics import quantize_log
from lowbit.quant_params import Granularity, QuantParams
from lowbit.ranges import range_of
from lowbit.types import Array

TOP = 6  # the largest exponent
LEAST, MOST = -120, 120  # exponents of scales: products of two stay normal float32


def power_params(data: Array, granularity: Granularity) -> QuantParams:
    """Parameters whose largest code, 64, is the power of two nearest to the largest weight.

    >>> power_params(np.array([0.9, -0.3], np.float32), PerTensor()).scale.item() * 64
    1.0
    """
    low, high = range_of(data.astype(np.float32), granularity)
    fraction, exponent = np.frexp(np.maximum(-low, high).astype(np.float64))
    nearest = exponent - 1 + (fraction >= 0.75)
    scale = np.ldexp(1.0, np.clip(np.where(fraction == 0, TOP, nearest) - TOP, LEAST, MOST)).astype(np.float32)
    return QuantParams("int8", scale, None, "symmetric", granularity)


def power_codes(data: Array, params: QuantParams) -> Array:
    """The int8 numbers 0, ±1, ±2, … ±64 nearest to the weights, by ratio.

    >>> power_codes(np.array([1.0, -0.3, 0.0, 0.1], np.float32), QuantParams("int8", 1 / 64)).tolist()
    [64, -16, 0, 8]
    """
    scale, _ = params.expand(data.shape)
    codes = quantize_log(data, np.ldexp(scale, TOP), "int4").astype(np.int32)
    return (np.sign(codes) * (1 << np.maximum(np.abs(codes) - 1, 0))).astype(np.int8)


def with_power_scale(params: QuantParams) -> QuantParams:
    """The parameters with the next power of two as scale: the range stays covered.

    >>> with_power_scale(QuantParams("int8", 0.3, 10))
    QuantParams(int8, asymmetric, per tensor, scale=0.5, zero_point=-45)
    """
    fraction, exponent = np.frexp(params.scale.astype(np.float64))
    scale = np.ldexp(1.0, np.clip(np.where(fraction == 0.5, exponent - 1, exponent), LEAST, MOST))
    zero = params.zero_point
    if params.scheme == "asymmetric":
        low, high = params.code_range
        zero = np.clip(np.rint(low - (low - zero) * params.scale.astype(np.float64) / scale), low, high).astype(np.int32)
    return QuantParams(params.dtype, scale.astype(np.float32), zero, params.scheme, params.granularity)
