"""Integer means and sums: average pools, global means (docs/arithmetic.md §3).

    y = clamp(rne(fl32(Σ (x - x_zero)) × (multiplier ÷ fl32(count))) + y_zero)          multiplier = sx ÷ sy

`count` is how many elements the mean is of, padding included or not as the op says; a plain sum has none. The sum is exact: int32 is
enough while count × largest |x - x_zero| < 2³¹, which the shapes tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lowbit.ops.op import Op, attributes, register
from lowbit.ops.pool import infer_adaptive_avg, infer_avg, over_bins, window_sums
from lowbit.ops.q_matmul import Rescaled, need_integers, requantized
from lowbit.ops.quant import Lower, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.ops.reduce import infer as infer_reduce
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType, normalize_axis


def mean(total: Array, count: Array, multiplier: float, y_zero: int, lo: int, hi: int, to: str) -> Array:
    """The end of every mean; the mean of nothing is NaN, which gives the zero point."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return requantized(total, np.float32(multiplier) / count.astype(np.float32), y_zero, lo, hi, to)


@dataclass(frozen=True)
class Pool:
    """The windows of q_avg_pool."""

    kernel: Ints
    stride: Ints
    pads: Ints
    dilation: Ints
    ceil_mode: bool
    count_include_pad: bool


@dataclass(frozen=True)
class QAvgPool(Rescaled, Pool):
    """Attributes of q_avg_pool, in this order: those of Pool, then of Rescaled."""


@attributes(QAvgPool)
def infer_avg_pool(x: TensorType, *, a: QAvgPool) -> TensorType:
    need_integers(input=x)
    geometry = {"kernel": a.kernel, "stride": a.stride, "pads": a.pads, "dilation": a.dilation}
    real = infer_avg(x.with_dtype("float32"), **geometry, ceil_mode=a.ceil_mode, count_include_pad=a.count_include_pad)
    return real.with_dtype(a.to)


@attributes(QAvgPool)
def avg_pool(x: Array, *, a: QAvgPool) -> Array:
    total, count = window_sums(x.astype(np.int64) - a.x_zero, a.kernel, a.stride, a.pads, a.dilation, a.ceil_mode, a.count_include_pad)
    return mean(total, count, a.multiplier, a.y_zero, a.lo, a.hi, a.to)


def infer_adaptive_avg_pool(
    x: TensorType, *, output_size: Ints, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(input=x)
    return infer_adaptive_avg(x.with_dtype("float32"), output_size=output_size).with_dtype(to)


def adaptive_avg_pool(x: Array, *, output_size: Ints, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    total = over_bins(x.astype(np.int64) - x_zero, output_size, np.sum)
    count = over_bins(np.ones((1, 1, *x.shape[2:]), np.int64), output_size, np.sum)
    return mean(total, count, multiplier, y_zero, lo, hi, to)


def infer_total(
    x: TensorType, *, axes: Ints, keepdims: bool, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(input=x)
    return infer_reduce(x, axes=axes, keepdims=keepdims).with_dtype(to)


def _total(x: Array, axes: Ints, keepdims: bool, x_zero: int) -> tuple[Array, Array]:
    over = tuple(normalize_axis(a, x.ndim) for a in axes)
    total = (x.astype(np.int64) - x_zero).sum(axis=over, keepdims=keepdims)
    return np.asarray(total), np.asarray(prod(x.shape[a] for a in over))


def reduce_mean(x: Array, *, axes: Ints, keepdims: bool, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    return mean(*_total(x, axes, keepdims, x_zero), multiplier, y_zero, lo, hi, to)


def reduce_sum(x: Array, *, axes: Ints, keepdims: bool, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    return requantized(_total(x, axes, keepdims, x_zero)[0], np.float32(multiplier), y_zero, lo, hi, to)


def lower(op: str) -> Lower:
    def lowered(operands: Operands, result: Result, **attrs: Any) -> OpCall:
        x = operands[0]
        assert isinstance(x, Operand)
        (sx, xz), (sy, yz) = x.per_tensor("input"), result.target()
        return OpCall(op, (Ref(0),), {**attrs, "x_zero": xz, "y_zero": yz, "multiplier": float(np.float32(sx / sy)), **result.clamp})

    return lowered


register(
    Op("q_avg_pool", infer_avg_pool, avg_pool),
    Op("q_adaptive_avg_pool", infer_adaptive_avg_pool, adaptive_avg_pool),
    Op("q_reduce_mean", infer_total, reduce_mean),
    Op("q_reduce_sum", infer_total, reduce_sum),
)
for _op in ("avg_pool", "adaptive_avg_pool", "reduce_mean", "reduce_sum"):
    quantizes(_op, QuantSpec((0,), fuses_clip=True), lower(f"q_{_op}"))
