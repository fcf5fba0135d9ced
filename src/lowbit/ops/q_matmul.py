"""Integer linear layers and matrix products: exact sums, then one fp32 multiplication (docs/arithmetic.md §2).

    acc = bias + Σ (x - x_zero)·w          y = clamp(rne(fl32(acc) × multiplier[c]) + y_zero, lo, hi)

`bound` is the largest |acc| that any input can give, proved from the weights; below 2³¹ accumulator and bias are int32, else int64.
With `to="float32"` the result is fl32(acc) × multiplier[c].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import requantize_with, round_clamp, sums_of_magnitudes
from lowbit.ops.linear import infer as infer_linear
from lowbit.ops.matmul import infer as infer_matmul
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.quant import (
    Const,
    NotLowered,
    OpCall,
    Operand,
    Operands,
    Ref,
    Result,
    bias_on_grid,
    largest_magnitude,
    symmetric_weights,
)
from lowbit.types import Array, TensorType

EXACT_IN_FLOAT64 = 1 << 53
LONGEST = 2**31 - 1  # no axis is longer: taken for one whose length is not known yet; 16-bit products then still fit 63 bits


def requantized(acc: Array, multiplier: Array, y_zero: int, lo: int, hi: int, to: str) -> Array:
    """The end of every integer layer; `multiplier` broadcasts against the accumulators."""
    if to == "float32":
        return acc.astype(np.float32) * multiplier
    return requantize_with(acc, multiplier, y_zero, to, qmin=lo, qmax=hi)


def rounded(t: Array, y_zero: int, lo: int, hi: int, to: str) -> Array:
    """clamp(rne(t) + y_zero), or `t` itself where the result stays float."""
    return t if to == "float32" else round_clamp(np.array(t), np.asarray(y_zero), dtype(to), qmin=lo, qmax=hi)


def exact_product(a: Array, b: Array, bound: int) -> Array:
    """The product of integer matrices as int64. Float64 is exact while no partial sum can reach 2⁵³, and BLAS makes it fast."""
    if bound < EXACT_IN_FLOAT64:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


def need_integers(**inputs: TensorType | None) -> None:
    for name, t in inputs.items():
        if t is not None and not t.dtype.is_integer and t.dtype.kind != "binary":
            raise DTypeError(f"{name} is {t.dtype}, integers are needed")


def accumulator(bound: int) -> str:
    return "int32" if bound < 2**31 else "int64"


def check_bias(bias: TensorType | None, multiplier: TensorType, channels: Dim, bound: int) -> None:
    if bias is not None and (bias.shape != (channels,) or bias.dtype.name != accumulator(bound)):
        raise ShapeError(f"bias {bias} given, {accumulator(bound)}[{channels}] needed: the accumulator is bounded by {bound}")
    if multiplier.shape not in ((), (channels,)):
        raise ShapeError(f"multiplier {multiplier} given, one or ({channels}) needed")


@dataclass(frozen=True)
class Requantized:
    """How sums of products become the result: zero points, limits, its dtype ("float32": no integers), and the largest sum of any input."""

    x_zero: int
    y_zero: int
    lo: int
    hi: int
    to: str
    bound: int


@dataclass(frozen=True)
class Rescaled:
    """How other sums become the result: by one multiplier."""

    x_zero: int
    y_zero: int
    multiplier: float
    lo: int
    hi: int
    to: str


# -- linear -------------------------------------------------------------------------------------------------------------------


@attributes(Requantized)
def infer_q_linear(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, *, a: Requantized) -> TensorType:
    need_integers(input=x, weight=w)
    check_bias(bias, multiplier, w.shape[0], a.bound)
    return infer_linear(x.with_dtype("float32"), w.with_dtype("float32")).with_dtype(a.to)


@attributes(Requantized)
def q_linear(x: Array, w: Array, multiplier: Array, bias: Array | None = None, *, a: Requantized) -> Array:
    acc = exact_product(x.astype(np.int64) - a.x_zero, w.T, a.bound)
    return requantized(acc if bias is None else acc + bias, multiplier, a.y_zero, a.lo, a.hi, a.to)


def macs_linear(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, **_: Any) -> Dim:
    return x.size * w.shape[0]


def row_sums(weights: Array) -> Array:
    """Σ |w| for each output channel, which is the first axis."""
    return sums_of_magnitudes(weights, tuple(range(1, weights.ndim)))


def weighted(operands: Operands, result: Result, axis: int, sums: Callable[[Array], Array] = row_sums, groups: int = 1) -> dict[str, Any]:
    """The common lowering of linear and conv: weights without zero points, bias on the grid, multipliers, and the range proof.

    `sums` gives Σ |w| for each output channel. Scales that `groups` groups of channels share are repeated for each group.
    """
    x, w = operands[0], operands[1]
    bias = operands[2] if len(operands) > 2 else None
    assert isinstance(x, Operand) and isinstance(w, Operand)
    sx, xz = x.per_tensor("input")
    if w.params.scale.ndim > 1:
        raise NotLowered("its weight has block-wise scales")
    if w.params.axis(w.type.rank) not in (None, axis):
        raise NotLowered(f"its weight is quantized {w.params.granularity}, axis {axis} is needed")
    weights, dtype = symmetric_weights(w)
    channels = weights.shape[axis] * groups
    grid = (sx * w.params.scale).astype(np.float32)
    if grid.ndim:
        grid = np.tile(grid, groups)
    if not np.all(np.isfinite(grid) & (grid > 0)):
        raise NotLowered("input scale × weight scale leaves the range of float32")
    bias_q = bias_on_grid(bias, grid, channels)
    bound = int((sums(weights) * largest_magnitude(x) + (0 if bias_q is None else np.abs(bias_q))).max(initial=0))
    multiplier, yz = result.rescaled(grid)
    return {
        "args": (
            Ref(0),
            Const(weights, "weight", dtype),
            Const(multiplier, "multiplier"),
            None if bias_q is None else Const(bias_q.astype(accumulator(bound)), "bias"),
        ),
        "attrs": {"x_zero": xz, "y_zero": yz, **result.clamp, "bound": bound},
    }


def lower_linear(operands: Operands, result: Result) -> OpCall:
    return OpCall("q_linear", **weighted(operands, result, 0))


# -- matmul -------------------------------------------------------------------------------------------------------------------


def infer_q_matmul(
    a: TensorType, b: TensorType, multiplier: TensorType, *, a_zero: int, b_zero: int, y_zero: int, lo: int, hi: int, to: str, bound: int
) -> TensorType:
    need_integers(left=a, right=b)
    out = infer_matmul(a.with_dtype("float32"), b.with_dtype("float32"))
    rows = out.shape[-2:-1] if a.rank > 1 < b.rank else a.shape[-2:-1]
    if multiplier.shape not in ((), out.shape[-1:], (*rows, 1)):
        raise ShapeError(f"multiplier {multiplier} given, one or one for each of the {out.shape[-1:]} columns or {rows} rows needed")
    return out.with_dtype(to)


def q_matmul(
    a: Array, b: Array, multiplier: Array, *, a_zero: int, b_zero: int, y_zero: int, lo: int, hi: int, to: str, bound: int
) -> Array:
    acc = exact_product(a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero, bound)
    return requantized(acc, multiplier, y_zero, lo, hi, to)


def macs_matmul(a: TensorType, b: TensorType, multiplier: TensorType, **_: Any) -> Dim:
    from lowbit.ops.matmul import macs

    return macs(a, b)


def lower_matmul(operands: Operands, result: Result) -> OpCall:
    a, b = operands
    assert isinstance(a, Operand) and isinstance(b, Operand)
    rank = b.type.rank
    if a.data is not None and b.data is None and a.type.rank >= 2:
        return rows_on_the_left(a, b, result)
    sa, az = a.per_tensor("left operand")
    if b.data is not None and rank >= 2:
        if b.params.axis(rank) not in (None, rank - 1):
            raise NotLowered(f"its right operand is quantized {b.params.granularity}, axis {rank - 1} is needed")
        data, dtype = symmetric_weights(b)
        right: Ref | Const = Const(data, "weight", dtype)
        bz, sb = 0, b.params.scale
        bound = int(sums_of_magnitudes(data, -2).max(initial=0)) * largest_magnitude(a)
    else:
        sb, bz = b.per_tensor("right operand")
        right = Ref(1)
        known = [k for k in (a.type.shape[-1], b.type.shape[-2 if rank > 1 else -1]) if isinstance(k, int)]
        bound = (known[0] if known else LONGEST) * largest_magnitude(a) * largest_magnitude(b)
    grid = np.asarray(sa * sb, np.float32)
    sy, yz = result.target()
    multiplier = np.asarray(grid / sy, np.float32)
    attrs = {"a_zero": az, "b_zero": bz, "y_zero": yz, **result.clamp, "bound": bound}
    return OpCall("q_matmul", (Ref(0), right, Const(multiplier, "multiplier")), attrs)


def rows_on_the_left(a: Operand, b: Operand, result: Result) -> OpCall:
    """A constant left operand with a scale for each of its rows, which all of its matrices share."""
    rank = a.type.rank
    if a.params.axis(rank) not in (None, rank - 2) or a.params.scale.ndim > 1:
        raise NotLowered(f"its left operand is quantized {a.params.granularity}, axis {rank - 2} is needed")
    sb, bz = b.per_tensor("right operand")
    data, dtype = symmetric_weights(a)
    bound = int(sums_of_magnitudes(data, -1).max(initial=0)) * largest_magnitude(b)
    sy, yz = result.target()
    grid = np.asarray(a.params.scale * sb, np.float32)
    multiplier = np.asarray(grid / sy, np.float32)
    multiplier = multiplier[:, None] if multiplier.ndim and b.type.rank > 1 else multiplier  # of a vector, rows are the last axis
    attrs = {"a_zero": 0, "b_zero": bz, "y_zero": yz, **result.clamp, "bound": bound}
    return OpCall("q_matmul", (Const(data, "weight", dtype), Ref(1), Const(multiplier, "multiplier")), attrs)


register(Op("q_linear", infer_q_linear, q_linear, macs_linear), Op("q_matmul", infer_q_matmul, q_matmul, macs_matmul))
