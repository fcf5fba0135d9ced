"""quantize_linear, dequantize_linear, dynamic_quantize_linear: the boundary between reals and few bits, as ONNX spells it.

Scale and zero point are scalars (per tensor), vectors along `axis` (per axis), or tensors whose `axis` counts blocks of `block_size`.
The arithmetic is that of `lowbit.numerics`; float8 is rounded by its own format.
"""

from __future__ import annotations

import numpy as np

from lowbit.dims import ceil_div
from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import dequantize_with, quantize_binary, quantize_with, round_clamp
from lowbit.ops.cast import real as cast
from lowbit.ops.op import Op, register
from lowbit.types import Array, Shape, TensorType, normalize_axis, shape_text


def check_params(x: Shape, scale: TensorType, zero_point: TensorType | None, axis: int, block_size: int) -> None:
    """A ShapeError when scale and zero point do not lie on x."""
    if zero_point is not None and zero_point.shape != scale.shape and not (zero_point.size == scale.size == 1):
        raise ShapeError(f"scale {shape_text(scale.shape)} and zero point {shape_text(zero_point.shape)} differ")
    if scale.size == 1 and not block_size:
        return
    axis = normalize_axis(axis, len(x))
    if block_size:
        need = tuple(ceil_div(d, block_size) if i == axis else d for i, d in enumerate(x))
    else:
        need = (x[axis],)
    if scale.shape != need and all(isinstance(d, int) for d in (*need, *scale.shape)):
        how = f"blocks of {block_size} along axis {axis}" if block_size else f"axis {axis}"
        raise ShapeError(f"scale {shape_text(scale.shape)} does not fit input {shape_text(x)}: {how} needs {shape_text(need)}")


def spread(p: Array, shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """The parameter as an array that broadcasts against the data."""
    if p.size == 1 and not block_size:
        return p.reshape(())
    if block_size:
        return np.take(np.repeat(p, block_size, axis), np.arange(shape[axis]), axis)
    return p.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def infer_quantize(
    x: TensorType, scale: TensorType, zero_point: TensorType | None = None, *, axis: int, block_size: int, to: str, saturate: bool = True
) -> TensorType:
    check_params(x.shape, scale, zero_point, axis, block_size)
    if zero_point is not None and zero_point.dtype.name != to:
        raise DTypeError(f"zero point is {zero_point.dtype}, output {to}")
    d = dtype(to)
    if not (d.is_integer or d.kind == "binary" or (d.is_float and d.bits == 8)):
        raise DTypeError(f"cannot quantize to {to}", hint="an integer type, binary or float8")
    return x.with_dtype(d)


def quantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int, block_size: int, to: str, saturate: bool = True
) -> Array:
    s = spread(scale, x.shape, axis, block_size)
    d = dtype(to)
    zp = np.zeros((), np.int32) if zero_point is None else spread(zero_point, x.shape, axis, block_size)
    if d.kind == "binary":
        return quantize_binary(x)
    if d.is_float:
        return cast(x.astype(np.float32) / s.astype(np.float32) + zp.astype(np.float32), to=to, saturate=saturate)
    if s.dtype != np.float32:  # the type of the scale is the precision of the division
        return round_clamp(np.asarray(np.divide(x.astype(s.dtype), s), np.float32), zp, d)
    return quantize_with(x.astype(np.float32), s, zp, d)


def infer_dequantize(
    q: TensorType, scale: TensorType, zero_point: TensorType | None = None, *, axis: int, block_size: int, to: str = "float32"
) -> TensorType:
    check_params(q.shape, scale, zero_point, axis, block_size)
    if zero_point is not None and zero_point.dtype != q.dtype:
        raise DTypeError(f"zero point is {zero_point.dtype}, input {q.dtype}")
    return q.with_dtype(to)


def dequantize(q: Array, scale: Array, zero_point: Array | None = None, *, axis: int, block_size: int, to: str = "float32") -> Array:
    s = spread(scale, q.shape, axis, block_size).astype(np.float32, copy=False)
    zp = np.zeros((), np.int32) if zero_point is None else spread(zero_point, q.shape, axis, block_size)
    if q.dtype.kind not in "iu":
        return ((q.astype(np.float32) - zp.astype(np.float32)) * s).astype(dtype(to).numpy)
    return dequantize_with(q, s, zp).astype(dtype(to).numpy, copy=False)  # tables have hundreds of megabytes


def infer_dynamic(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    if x.dtype.name != "float32":
        raise DTypeError(f"{x.dtype} given, float32 needed", hint="cast it before")
    return x.with_dtype("uint8"), TensorType((), "float32"), TensorType((), "uint8")


def dynamic(x: Array) -> tuple[Array, Array, Array]:
    """uint8 over the range of the data, which always holds 0: scale = (max - min) / 255, zero_point = rne(-min / scale)."""
    low = np.minimum(x.min(initial=0), np.float32(0))
    high = np.maximum(x.max(initial=0), np.float32(0))
    scale = np.asarray((high - low) / np.float32(255), np.float32)
    if scale == 0:  # all zeros: any scale will do
        return np.zeros(x.shape, np.uint8), scale, np.zeros((), np.uint8)
    zero_point = quantize_with(-low, scale, 0, "uint8").reshape(())
    return quantize_with(x, scale, zero_point, "uint8"), scale, zero_point


register(
    Op("quantize_linear", infer_quantize, quantize),
    Op("dequantize_linear", infer_dequantize, dequantize),
    Op("dynamic_quantize_linear", infer_dynamic, dynamic),
)
