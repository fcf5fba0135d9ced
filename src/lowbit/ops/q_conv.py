"""q_conv: integer convolution of any rank, groups and dilation (docs/arithmetic.md §2). Padding holds the zero point: it adds nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.ops.conv import convolve, output_shape
from lowbit.ops.conv import macs as conv_macs
from lowbit.ops.op import Op, register
from lowbit.ops.q_matmul import EXACT_IN_FLOAT64, check_bias, need_integers, requantized, weighted
from lowbit.ops.quant import OpCall, Operands, QuantSpec, Result, quantizes
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType


def infer(
    x: TensorType,
    w: TensorType,
    multiplier: TensorType,
    bias: TensorType | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
    x_zero: int,
    y_zero: int,
    lo: int,
    hi: int,
    to: str,
    bound: int,
) -> TensorType:
    need_integers(input=x, weight=w)
    check_bias(bias, multiplier, w.shape[0], bound)
    return TensorType(output_shape(x, w, stride, pads, dilation, groups), to)


def exact(
    x: Array,
    w: Array,
    multiplier: Array,
    bias: Array | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
    x_zero: int,
    y_zero: int,
    lo: int,
    hi: int,
    to: str,
    bound: int,
) -> Array:
    kind = np.float64 if bound < EXACT_IN_FLOAT64 else np.int64
    acc = convolve(x.astype(kind) - x_zero, w.astype(kind), stride, pads, dilation, groups).astype(np.int64)
    per_channel = (-1, *[1] * (x.ndim - 2))
    if bias is not None:
        acc = acc + bias.reshape(per_channel)
    return requantized(acc, multiplier.reshape(per_channel) if multiplier.ndim else multiplier, y_zero, lo, hi, to)


def macs(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, **attrs: Any) -> Dim:
    geometry = {k: attrs[k] for k in ("stride", "pads", "dilation", "groups")}
    return conv_macs(x.with_dtype("float32"), w.with_dtype("float32"), **geometry)


def lower(operands: Operands, result: Result, **geometry: Any) -> OpCall:
    call = weighted(operands, result, 0)
    return OpCall("q_conv", call["args"], call["attrs"] | geometry)


register(Op("q_conv", infer, exact, macs))
quantizes("conv", QuantSpec((0, 1), {1: 0}, {1: 1}, bias=2, fuses_clip=True), lower)
