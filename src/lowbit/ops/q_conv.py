"""q_conv: integer convolution of any rank, groups and dilation (docs/arithmetic.md §2). Padding holds the zero point: it adds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.ops.conv import convolve, output_shape
from lowbit.ops.conv import macs as conv_macs
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_matmul import EXACT_IN_FLOAT64, Requantized, check_bias, need_integers, requantized, weighted
from lowbit.ops.quant import OpCall, Operands, QuantSpec, Result, quantizes
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over an image."""

    stride: Ints
    pads: Ints
    dilation: Ints
    groups: int


@dataclass(frozen=True)
class QConv(Requantized, Geometry):
    """Attributes of q_conv, in this order: those of Geometry, then of Requantized."""


@attributes(QConv)
def infer(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, *, a: QConv) -> TensorType:
    need_integers(input=x, weight=w)
    check_bias(bias, multiplier, w.shape[0], a.bound)
    return TensorType(output_shape(x, w, a.stride, a.pads, a.dilation, a.groups), a.to)


@attributes(QConv)
def exact(x: Array, w: Array, multiplier: Array, bias: Array | None = None, *, a: QConv) -> Array:
    kind = np.float64 if a.bound < EXACT_IN_FLOAT64 else np.int64
    acc = convolve(x.astype(kind) - a.x_zero, w.astype(kind), a.stride, a.pads, a.dilation, a.groups).astype(np.int64)
    return finished(acc, multiplier, bias, a)


def finished(acc: Array, multiplier: Array, bias: Array | None, a: Requantized) -> Array:
    """Sums (N, channels, …) with their channels' bias, requantized by their channels' multipliers."""
    per_channel = (-1, *[1] * (acc.ndim - 2))
    if bias is not None:
        acc = acc + bias.reshape(per_channel)
    return requantized(acc, multiplier.reshape(per_channel) if multiplier.ndim else multiplier, a.y_zero, a.lo, a.hi, a.to)


def macs(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, **attrs: Any) -> Dim:
    geometry = {k: attrs[k] for k in ("stride", "pads", "dilation", "groups")}
    return conv_macs(x.with_dtype("float32"), w.with_dtype("float32"), **geometry)


def lower(operands: Operands, result: Result, **geometry: Any) -> OpCall:
    call = weighted(operands, result, 0)
    return OpCall("q_conv", call["args"], call["attrs"] | geometry)


register(Op("q_conv", infer, exact, macs))
quantizes("conv", QuantSpec((0, 1), {1: 0}, {1: 1}, bias=2, fuses_clip=True), lower)
