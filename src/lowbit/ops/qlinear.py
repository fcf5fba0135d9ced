"""Integer convolution and matrix product, exact; and their quantized forms, whose result is requantized with one fp32 multiplication.

Products of 8- and 16-bit integers are summed in float64 (BLAS), which is exact below 2⁵³.
"""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import requantize_with
from lowbit.ops.conv import convolve
from lowbit.ops.conv import output_shape as conv_shape
from lowbit.ops.matmul import output_shape as matmul_shape
from lowbit.ops.op import Op, register
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType, shape_text


def _narrow(**operands: TensorType | None) -> None:
    for name, t in operands.items():
        if t is not None and not (t.dtype.is_integer and t.dtype.bits <= 16):
            raise DTypeError(f"{name} is {t.dtype}, an integer of 16 bits or fewer needed")


def _centred(q: Array, zero_point: Array | None) -> Array:
    """q - zero_point in float64, which holds it exactly."""
    return q.astype(np.float64) if zero_point is None else q.astype(np.float64) - zero_point.astype(np.float64)


def _channels(p: Array, rank: int) -> Array:
    """A value per output channel, laid along axis 0 of a weight or axis 1 of a result."""
    return p.reshape(()) if p.size == 1 else p.reshape(-1, *[1] * (rank - 1))


def _rows(p: Array, matrix: Array) -> Array:
    """A vector of the left factor is per row; of higher rank it broadcasts as it is."""
    return p.reshape(()) if p.size == 1 else p.reshape(-1, 1) if p.ndim == 1 and matrix.ndim > 1 else p


def _columns(p: Array) -> Array:
    return p.reshape(()) if p.size == 1 else p  # a vector broadcasts along the last axis, which is the columns


def _wrap32(acc: Array) -> Array:
    return np.asarray(acc).astype(np.int64).astype(np.int32)


def infer_conv_integer(
    x: TensorType,
    w: TensorType,
    x_zp: TensorType | None = None,
    w_zp: TensorType | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
) -> TensorType:
    _narrow(input=x, weight=w)
    return TensorType(conv_shape(x, w, stride, pads, dilation, groups), "int32")


def conv_integer(
    x: Array, w: Array, x_zp: Array | None = None, w_zp: Array | None = None, *, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> Array:
    """Padding holds the zero point, so that it stands for 0."""
    xc = _centred(x, None if x_zp is None else x_zp.reshape(()))
    wc = _centred(w, None if w_zp is None else _channels(w_zp, w.ndim))
    return _wrap32(convolve(xc, wc, stride, pads, dilation, groups))


def infer_matmul_integer(a: TensorType, b: TensorType, a_zp: TensorType | None = None, b_zp: TensorType | None = None) -> TensorType:
    _narrow(a=a, b=b)
    return TensorType(matmul_shape(a, b), "int32")


def matmul_integer(a: Array, b: Array, a_zp: Array | None = None, b_zp: Array | None = None) -> Array:
    ac = _centred(a, None if a_zp is None else _rows(a_zp, a))
    bc = _centred(b, None if b_zp is None else _columns(b_zp))
    return _wrap32(np.matmul(ac, bc))


def infer_qlinear_conv(
    x: TensorType,
    x_scale: TensorType,
    x_zp: TensorType,
    w: TensorType,
    w_scale: TensorType,
    w_zp: TensorType,
    y_scale: TensorType,
    y_zp: TensorType,
    b: TensorType | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
) -> TensorType:
    _narrow(input=x, weight=w, output=y_zp)
    if b is not None and (b.shape != (w.shape[0],) or b.dtype.name != "int32"):
        raise ShapeError(f"bias {b} given, int32[{w.shape[0]}] needed")
    if w_scale.size not in (1, w.shape[0]):
        raise ShapeError(f"weight scale {shape_text(w_scale.shape)} given, one or {w.shape[0]} needed")
    return TensorType(conv_shape(x, w, stride, pads, dilation, groups), y_zp.dtype)


def qlinear_conv(
    x: Array,
    x_scale: Array,
    x_zp: Array,
    w: Array,
    w_scale: Array,
    w_zp: Array,
    y_scale: Array,
    y_zp: Array,
    b: Array | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    acc = convolve(_centred(x, x_zp.reshape(())), _centred(w, _channels(w_zp, w.ndim)), stride, pads, dilation, groups).astype(np.int64)
    if b is not None:
        acc = acc + b.reshape(-1, *[1] * (x.ndim - 2))
    m = x_scale.reshape(()) * _channels(w_scale, x.ndim - 1) / y_scale.reshape(())
    return requantize_with(acc, m, y_zp.reshape(()), str(y_zp.dtype))


def infer_qlinear_matmul(
    a: TensorType,
    a_scale: TensorType,
    a_zp: TensorType,
    b: TensorType,
    b_scale: TensorType,
    b_zp: TensorType,
    y_scale: TensorType,
    y_zp: TensorType,
) -> TensorType:
    _narrow(a=a, b=b, output=y_zp)
    return TensorType(matmul_shape(a, b), y_zp.dtype)


def qlinear_matmul(a: Array, a_scale: Array, a_zp: Array, b: Array, b_scale: Array, b_zp: Array, y_scale: Array, y_zp: Array) -> Array:
    acc = np.matmul(_centred(a, _rows(a_zp, a)), _centred(b, _columns(b_zp))).astype(np.int64)
    m = _rows(a_scale, a).astype(np.float32) * _columns(b_scale).astype(np.float32) / _rows(y_scale, a).astype(np.float32)
    return requantize_with(acc, m, _rows(y_zp, a), str(y_zp.dtype))


def macs_conv_integer(
    x: TensorType, w: TensorType, *zero_points: TensorType | None, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> Dim:
    return product(conv_shape(x, w, stride, pads, dilation, groups)) * product(w.shape[1:])


def macs_qlinear_conv(
    x: TensorType,
    xs: TensorType,
    xz: TensorType,
    w: TensorType,
    *others: TensorType | None,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
) -> Dim:
    return macs_conv_integer(x, w, stride=stride, pads=pads, dilation=dilation, groups=groups)


def macs_matmul_integer(a: TensorType, b: TensorType, *zero_points: TensorType | None) -> Dim:
    return product(matmul_shape(a, b)) * a.shape[-1]


def macs_qlinear_matmul(a: TensorType, a_scale: TensorType, a_zp: TensorType, b: TensorType, *others: TensorType) -> Dim:
    return macs_matmul_integer(a, b)


register(
    Op("conv_integer", infer_conv_integer, conv_integer, macs_conv_integer),
    Op("matmul_integer", infer_matmul_integer, matmul_integer, macs_matmul_integer),
    Op("qlinear_conv", infer_qlinear_conv, qlinear_conv, macs_qlinear_conv),
    Op("qlinear_matmul", infer_qlinear_matmul, qlinear_matmul, macs_qlinear_matmul),
)
