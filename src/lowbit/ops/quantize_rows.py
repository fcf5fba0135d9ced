"""quantize_rows, dequantize_rows: activations quantized at run time, each row (last axis) by a scale of its own (docs/arithmetic.md §2)."""

from __future__ import annotations

import numpy as np

from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import dequantize_with, quantize_with
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType


def infer_quantize(x: TensorType) -> tuple[TensorType, TensorType]:
    if x.dtype.name != "float32":
        raise DTypeError(f"{x.dtype} given, float32 needed", hint="cast it before")
    if x.rank < 1:
        raise ShapeError("a scalar has no rows")
    return x.with_dtype("int8"), TensorType((*x.shape[:-1], 1), "float32")


def quantize_rows(x: Array) -> tuple[Array, Array]:
    """s = max |x| ÷ 127 (1 where that is 0 or not finite; NaN is passed over), q = clamp(rne(x ÷ s), -127, 127)."""
    largest = np.fmax.reduce(np.abs(x), axis=-1, keepdims=True, initial=np.float32(0))
    scale = largest / np.float32(127)
    scale = np.where((scale > 0) & np.isfinite(scale), scale, np.float32(1))
    return quantize_with(x, scale, 0, "int8", qmin=-127), scale


def infer_dequantize(q: TensorType, scale: TensorType) -> TensorType:
    if not q.dtype.is_integer:
        raise DTypeError(f"{q.dtype} given, integers needed")
    if scale != TensorType((*q.shape[:-1], 1), "float32"):
        raise ShapeError(f"scale {scale} given, {TensorType((*q.shape[:-1], 1), 'float32')} needed")
    return q.with_dtype("float32")


def dequantize_rows(q: Array, scale: Array) -> Array:
    """fl32(q) × s."""
    return dequantize_with(q, scale, 0)


register(Op("quantize_rows", infer_quantize, quantize_rows), Op("dequantize_rows", infer_dequantize, dequantize_rows))
