"""Programs that PyTorch has quantized: `quantized_decomposed` ops (PT2E, torchao) and `fake_quantize` modules become Q/DQ brackets.

torch multiplies by 1 / scale where lowbit divides by scale, so a value on the border of two codes may be one step off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dtypes import DType, dtype
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value
from lowbit.numerics import quantize_with
from lowbit.types import Array

WIDTHS = ("int4", "uint4", "int8", "uint8", "int16", "uint16", "int32")


def codes(qmin: int, qmax: int, stored: str | None = None) -> DType:
    """The narrowest dtype whose codes hold qmin … qmax; of a program that says how it stores them, of that signedness."""
    for d in map(dtype, WIDTHS):
        assert d.min is not None and d.max is not None
        signed = stored is None or d.is_signed == dtype(stored).is_signed
        restricted = qmin in (d.min, d.min + 1) and qmax == d.max  # -127 … 127 are codes of int8
        if signed and (restricted or (d.bits >= 8 and d.min <= qmin and qmax <= d.max)):
            return d
    raise UnsupportedOp(f"codes from {qmin} to {qmax} fit no dtype", hint="quant_min and quant_max of 4, 8, 16 or 32 bits")


def numbers(c: Importer, given: Any, what: str) -> Array:
    """Scales or zero points as an array; they must be known."""
    if not isinstance(given, Value):
        return np.asarray(given)
    data = c.constant_data(given)
    if data is None:
        raise UnsupportedOp(f"its {what} is computed at run time", hint="static quantization, or lowbit.quantize(g, recipe='int8-dynamic')")
    return data


def parameters(c: Importer, scale: Any, zero: Any, d: DType) -> tuple[Array, Array]:
    s = numbers(c, scale, "scale").astype(np.float32)
    z = numbers(c, zero, "zero point")
    z = np.zeros(s.shape, np.int64) if z.size == 0 else z
    shape = () if s.size == 1 and z.size == 1 else (max(s.size, z.size),)
    return np.broadcast_to(s.reshape(-1) if shape else s.reshape(()), shape).copy(), np.broadcast_to(
        z.reshape(-1) if shape else z.reshape(()), shape
    ).astype(d.numpy)


def quantized(c: Importer, x: Value, s: Array, z: Array, axis: int, qmin: int, qmax: int, d: DType) -> Value:
    """The codes of a value; of a constant they are a constant."""
    axis = axis if s.ndim else 0
    data = c.constant_data(x)
    if data is not None:
        at = tuple(-1 if i == axis else 1 for i in range(data.ndim)) if s.ndim else ()
        scale, zero = (v.reshape(at) if at else v for v in (s, z.astype(np.int32)))
        return c.constant(quantize_with(data.astype(np.float32), scale, zero, d, qmin=qmin, qmax=qmax), dtype=d)
    assert d.min is not None and d.max is not None
    if (qmin, qmax) != (d.min, d.max) and not s.ndim:  # fewer codes than the dtype has: the reals are clipped before
        x = c.add("clip", x, min=float(s) * (qmin - int(z)), max=float(s) * (qmax - int(z)))
    return c.add("quantize_linear", x, c.constant(s), c.constant(z, dtype=d), to=d.name, axis=axis, block_size=0)


def reals(c: Importer, q: Value, s: Array, z: Array, axis: int) -> Value:
    zero = c.constant(z, dtype=q.type.dtype) if np.any(z) else None
    return c.add("dequantize_linear", q, c.constant(s), zero, axis=axis if s.ndim else 0, block_size=0)


@aten("quantized_decomposed.quantize_per_tensor")
def quantize_per_tensor(c: Importer, x: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any) -> Value:
    qmin, qmax = (int(numbers(c, v, "range")) for v in (quant_min, quant_max))
    d = codes(qmin, qmax, stored(dtype))
    return quantized(c, x, *parameters(c, scale, zero_point, d), 0, qmin, qmax, d)


@aten("quantized_decomposed.dequantize_per_tensor")
def dequantize_per_tensor(
    c: Importer, q: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any, *, out_dtype: Any = None
) -> Value:
    return reals(c, q, *parameters(c, scale, zero_point, q.type.dtype), 0)


@aten("quantized_decomposed.quantize_per_channel")
def quantize_per_channel(
    c: Importer, x: Value, scales: Value, zero_points: Any, axis: int, quant_min: int, quant_max: int, dtype: Any
) -> Value:
    d = codes(quant_min, quant_max, stored(dtype))
    return quantized(c, x, *parameters(c, scales, zero_points, d), axis % x.type.rank, quant_min, quant_max, d)


@aten("quantized_decomposed.dequantize_per_channel")
def dequantize_per_channel(
    c: Importer, q: Value, scales: Value, zero_points: Any, axis: int, quant_min: int, quant_max: int, dtype: Any, *, out_dtype: Any = None
) -> Value:
    zero = np.zeros(()) if zero_points is None else zero_points
    return reals(c, q, *parameters(c, scales, zero, q.type.dtype), axis % q.type.rank)


@aten("fake_quantize_per_tensor_affine")
def fake_quantize_per_tensor(c: Importer, x: Value, scale: Any, zero_point: Any, *rest: Any) -> Value:
    *switch, quant_min, quant_max = rest  # of learned parameters one says whether it is on at all
    if switch and not numbers(c, switch[0], "switch").any():
        return x
    d = codes(quant_min, quant_max)
    s, z = parameters(c, scale, zero_point, d)
    return reals(c, quantized(c, x, s, z, 0, quant_min, quant_max, d), s, z, 0)


@aten("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(c: Importer, x: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int) -> Value:
    d = codes(quant_min, quant_max)
    s, z = parameters(c, scale, zero_point, d)
    return reals(c, quantized(c, x, s, z, axis % x.type.rank, quant_min, quant_max, d), s, z, axis % x.type.rank)


def stored(kind: Any) -> str:
    return str(kind).removeprefix("torch.")
