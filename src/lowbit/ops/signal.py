"""Fourier transforms on real pairs, and the determinant. A last axis of 2 holds (real, imaginary), of 1 real numbers."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, normalize_axis, shape_text


def infer_dft(x: TensorType, *, axis: int, length: Dim, inverse: bool, onesided: bool) -> TensorType:
    """`length` cuts the axis or fills it with zeros. One-sided: n//2 + 1 bins of a real signal, or the real signal of those bins."""
    axis = normalize_axis(axis, x.rank)
    if not x.dtype.is_float:
        raise DTypeError(f"{x.dtype} given, a float type needed", hint="cast it before")
    if axis == x.rank - 1 or x.shape[-1] not in (1, 2):
        raise ShapeError(f"input {shape_text(x.shape)}: its last axis must hold 1 or 2 numbers, and is not transformed")
    out = length // 2 + 1 if onesided and not inverse else length
    pair = 1 if onesided and inverse else 2
    return TensorType((*x.shape[:axis], out, *x.shape[axis + 1 : -1], pair), x.dtype)


def dft(x: Array, *, axis: int, length: int, inverse: bool, onesided: bool) -> Array:
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1].astype(np.float64) if x.shape[-1] == 2 else 0)
    if onesided and inverse:
        return np.fft.irfft(z, length, axis)[..., None].astype(x.dtype)
    if onesided:
        y = np.fft.rfft(z.real, length, axis)
    else:
        y = np.fft.ifft(z, length, axis) if inverse else np.fft.fft(z, length, axis)
    return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)


def infer_det(x: TensorType) -> TensorType:
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"input {shape_text(x.shape)}: a square matrix or a stack of them needed")
    return TensorType(x.shape[:-2], x.dtype)


def det(x: Array) -> Array:
    return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)


register(Op("dft", infer_dft, dft), Op("det", infer_det, det))
