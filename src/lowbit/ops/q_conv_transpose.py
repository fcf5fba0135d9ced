"""q_conv_transpose: the integer transposed convolution (docs/arithmetic.md §2).

The weight is (C, O/g, *K) with one scale for each index of axis 1, so the groups share their scales: `multiplier`, one for each of the
O output channels, repeats them. `bound` sums all taps of a kernel, of which an output sees at most all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.numerics import sums_of_magnitudes
from lowbit.ops.conv_transpose import infer as infer_real
from lowbit.ops.conv_transpose import macs as real_macs
from lowbit.ops.conv_transpose import real
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_conv import Geometry, finished
from lowbit.ops.q_matmul import EXACT_IN_FLOAT64, Requantized, check_bias, need_integers, weighted
from lowbit.ops.quant import OpCall, Operands, QuantSpec, Result, quantizes
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType


@dataclass(frozen=True)
class TransposedGeometry(Geometry):
    """How a kernel moves over the result."""

    output_padding: Ints


@dataclass(frozen=True)
class QConvTranspose(Requantized, TransposedGeometry):
    """Attributes of q_conv_transpose, in this order: those of TransposedGeometry, then of Requantized."""

    @property
    def geometry(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(TransposedGeometry)}


@attributes(QConvTranspose)
def infer(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, *, a: QConvTranspose) -> TensorType:
    need_integers(input=x, weight=w)
    out = infer_real(x.with_dtype("float32"), w.with_dtype("float32"), **a.geometry)
    check_bias(bias, multiplier, out.shape[1], a.bound)
    return out.with_dtype(a.to)


@attributes(QConvTranspose)
def exact(x: Array, w: Array, multiplier: Array, bias: Array | None = None, *, a: QConvTranspose) -> Array:
    kind = np.float64 if a.bound < EXACT_IN_FLOAT64 else np.int64
    acc = real(x.astype(kind) - a.x_zero, w.astype(kind), **a.geometry).astype(np.int64)
    return finished(acc, multiplier, bias, a)


def macs(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, **_: Any) -> Dim:
    return real_macs(x, w)


def lower(operands: Operands, result: Result, *, groups: int, **geometry: Any) -> OpCall:
    def sums(w: Array) -> Array:  # (C, O/g, *K) → Σ |w| over the channels of a group and the taps: (O)
        return sums_of_magnitudes(w.reshape(groups, w.shape[0] // groups, w.shape[1], -1), (1, 3)).reshape(-1)

    call = weighted(operands, result, 1, sums, groups)
    return OpCall("q_conv_transpose", call["args"], call["attrs"] | geometry | {"groups": groups})


register(Op("q_conv_transpose", infer, exact, macs))
quantizes("conv_transpose", QuantSpec((0, 1), {1: 1}, {1: 0}, bias=2, fuses_clip=True), lower)
