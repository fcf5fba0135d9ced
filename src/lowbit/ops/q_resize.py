"""q_resize: integer interpolation (docs/arithmetic.md §8). Nearest moves, so there the op itself works on integers.

    acc = Σ w1·w2·… ·(x - x_zero)          exact; the weights of an axis are integers that sum to 2^fraction
    y   = clamp(rne(fl32(acc) × multiplier) + y_zero)          multiplier = 2^(-fraction × resized axes) × (sx ÷ sy)

`fraction` is 11 where input and result have up to 8 bits: two axes then fit int32. Else the weights are finer, the sums int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_elementwise import requantize_call
from lowbit.ops.q_matmul import Rescaled, need_integers, requantized
from lowbit.ops.quant import NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.ops.resize import Sampling, Scales, coordinates, interpolation_matrix
from lowbit.ops.resize import infer as infer_resize
from lowbit.quant_params import QuantParams, quantize
from lowbit.types import Array, TensorType

SPAN = (0.0, 1.0)  # no region of interest


@dataclass(frozen=True)
class Interpolation(Sampling):
    """The weights of q_resize."""

    cubic_coeff_a: float
    exclude_outside: bool
    antialias: bool
    axes: tuple[int, ...]
    fraction: int


@dataclass(frozen=True)
class QResize(Rescaled, Interpolation):
    """Attributes of q_resize, in this order: those of Interpolation, then of Rescaled."""


@attributes(QResize)
def infer(x: TensorType, *, a: QResize) -> TensorType:
    need_integers(input=x)
    return infer_resize(x, sizes=a.sizes, scales=a.scales, mode=a.mode, coordinate_mode=a.coordinate_mode).with_dtype(a.to)


@attributes(QResize)
def exact(x: Array, *, a: QResize) -> Array:
    acc = x.astype(np.int64) - a.x_zero
    for axis in a.axes:
        size = x.shape[axis], int(a.sizes[axis]), a.scales[axis]
        weights = axis_weights(*size, a.mode, a.coordinate_mode, a.cubic_coeff_a, a.exclude_outside, a.antialias, a.fraction)
        acc = np.moveaxis(np.tensordot(weights, acc, axes=(1, axis)), 0, axis)
    return requantized(acc, np.float32(a.multiplier), a.y_zero, a.lo, a.hi, a.to)


def axis_weights(
    n: int, out: int, scale: float | None, mode: str, coordinate_mode: str, a: float, exclude_outside: bool, antialias: bool, fraction: int
) -> Array:
    """(out, n) integers: what each element of the result is made of along an axis."""
    used = out / n if scale is None else scale
    stretch = min(used, 1.0) if antialias else 1.0
    return whole(interpolation_matrix(coordinates(n, out, used, coordinate_mode, SPAN), n, mode, stretch, a, exclude_outside), fraction)


def whole(weights: Array, fraction: int) -> Array:
    """rne64(2^fraction · w) for each row of weights; the largest of a row (the first of equals) takes what is missing to 2^fraction."""
    ints = np.rint(weights * 2.0**fraction).astype(np.int64)
    if ints.size:
        ints[np.arange(len(ints)), ints.argmax(axis=1)] += (1 << fraction) - ints.sum(axis=1)
    return ints


def nearest_attrs(params: QuantParams, *, extrapolation_value: float, **attrs: Any) -> dict[str, Any]:
    """Elements outside a region of interest hold the integer of its value."""
    return {**attrs, "extrapolation_value": float(quantize(np.float32(extrapolation_value), params))}


def lower(
    operands: Operands,
    result: Result,
    *,
    sizes: tuple[Dim, ...],
    scales: Scales,
    mode: str,
    coordinate_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    antialias: bool,
    extrapolation_value: float,
    roi: tuple[float, ...] | None,
) -> OpCall | None:
    x = operands[0]
    assert isinstance(x, Operand)
    if mode == "nearest":
        return None
    if coordinate_mode == "tf_crop_and_resize":
        raise NotLowered("it crops (tf_crop_and_resize): integers have no interpolation with a value beyond the edge")
    (sx, xz), (sy, yz) = x.per_tensor("input"), result.target()
    axes = tuple(i for i, (n, s, f) in enumerate(zip(x.type.shape, sizes, scales, strict=True)) if n != s or f not in (None, 1.0))
    if not axes and result.params is not None:
        return requantize_call(Ref(0), x, result)  # nothing is interpolated
    narrow = x.params.dtype.bits <= 8 and result.params is not None and result.params.dtype.bits <= 8
    # else the finest weights (at most 20 bits) whose products over all axes fit int64 beside 17 bits and a cubic's overshoot
    fraction = 11 if narrow else min(20, 40 // max(len(axes), 1))
    multiplier = np.float32(2.0 ** (-fraction * len(axes))) * np.float32(sx / sy)
    attrs = {"sizes": sizes, "scales": scales, "mode": mode, "coordinate_mode": coordinate_mode, "cubic_coeff_a": cubic_coeff_a}
    attrs |= {"exclude_outside": exclude_outside, "antialias": antialias, "axes": axes, "fraction": fraction}
    return OpCall("q_resize", (Ref(0),), attrs | {"x_zero": xz, "y_zero": yz, "multiplier": float(multiplier), **result.clamp})


register(Op("q_resize", infer, exact))
# Interpolated values lie between their neighbours (nearly so with a cubic): the parameters of the input fit them.
quantizes("resize", QuantSpec((0,), output="same"), lower, integer_attrs=nearest_attrs)
