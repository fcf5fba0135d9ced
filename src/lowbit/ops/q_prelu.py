"""q_prelu: the integer PReLU (docs/arithmetic.md §3).

y = clamp(rne(fl32(x - x_zero) × mx + y_zero)) where x ≥ x_zero, else clamp(rne(fl32((x - x_zero)·(slope - slope_zero)) × ms + y_zero))
"""

from __future__ import annotations

import numpy as np

from lowbit.ops.activation import infer_prelu
from lowbit.ops.op import Op, register
from lowbit.ops.q_matmul import need_integers, rounded
from lowbit.ops.quant import OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.types import Array, TensorType


def infer(
    x: TensorType, slope: TensorType, *, x_zero: int, slope_zero: int, y_zero: int, mx: float, ms: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(input=x, slope=slope)
    return infer_prelu(x.with_dtype("float32"), slope.with_dtype("float32")).with_dtype(to)


def exact(x: Array, slope: Array, *, x_zero: int, slope_zero: int, y_zero: int, mx: float, ms: float, lo: int, hi: int, to: str) -> Array:
    d = x.astype(np.int64) - x_zero
    product = (d * (slope.astype(np.int64) - slope_zero)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        t = np.where(d >= 0, d.astype(np.float32) * np.float32(mx), product * np.float32(ms))
        return rounded(t + np.float32(y_zero), 0, lo, hi, to)


def lower(operands: Operands, result: Result) -> OpCall:
    x, slope = operands
    assert isinstance(x, Operand) and isinstance(slope, Operand)
    (sx, xz), (ss, sz), (sy, yz) = x.per_tensor("input"), slope.per_tensor("slope"), result.target()
    scales = {"mx": float(np.float32(sx / sy)), "ms": float(np.float32(np.float32(sx * ss) / sy))}
    return OpCall("q_prelu", (Ref(0), Ref(1)), {"x_zero": xz, "slope_zero": sz, "y_zero": yz, **scales, **result.clamp})


register(Op("q_prelu", infer, exact))
quantizes("prelu", QuantSpec((0, 1)), lower)
