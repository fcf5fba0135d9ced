"""q_conv_transpose: the integer transposed convolution (docs/arithmetic.md §2).

The weight is (C, O/g, *K) with one scale for each index of axis 1, so the groups share their scales: `multiplier`, one for each of the
O output channels, repeats them. `bound` sums all taps of a kernel, of which an output sees at most all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.numerics import sums_of_magnitudes
from lowbit.ops.conv_transpose import infer as infer_real
from lowbit.ops.conv_transpose import macs as real_macs
from lowbit.ops.conv_transpose import real
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
    output_padding: Ints,
    x_zero: int,
    y_zero: int,
    lo: int,
    hi: int,
    to: str,
    bound: int,
) -> TensorType:
    need_integers(input=x, weight=w)
    geometry: dict[str, Any] = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups, "output_padding": output_padding}
    out = infer_real(x.with_dtype("float32"), w.with_dtype("float32"), **geometry)
    check_bias(bias, multiplier, out.shape[1], bound)
    return out.with_dtype(to)


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
    output_padding: Ints,
    x_zero: int,
    y_zero: int,
    lo: int,
    hi: int,
    to: str,
    bound: int,
) -> Array:
    kind = np.float64 if bound < EXACT_IN_FLOAT64 else np.int64
    geometry: dict[str, Any] = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups, "output_padding": output_padding}
    acc = real(x.astype(kind) - x_zero, w.astype(kind), **geometry).astype(np.int64)
    per_channel = (-1, *[1] * (x.ndim - 2))
    if bias is not None:
        acc = acc + bias.reshape(per_channel)
    return requantized(acc, multiplier.reshape(per_channel) if multiplier.ndim else multiplier, y_zero, lo, hi, to)


def macs(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, **_: Any) -> Dim:
    return real_macs(x, w)


def lower(operands: Operands, result: Result, *, groups: int, **geometry: Any) -> OpCall:
    def sums(w: Array) -> Array:  # (C, O/g, *K) → Σ |w| over the channels of a group and the taps: (O)
        return sums_of_magnitudes(w.reshape(groups, w.shape[0] // groups, w.shape[1], -1), (1, 3)).reshape(-1)

    call = weighted(operands, result, 1, sums, groups)
    return OpCall("q_conv_transpose", call["args"], call["attrs"] | geometry | {"groups": groups})


register(Op("q_conv_transpose", infer, exact, macs))
quantizes("conv_transpose", QuantSpec((0, 1), {1: 1}, {1: 0}, bias=2, fuses_clip=True), lower)
