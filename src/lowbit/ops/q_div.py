"""q_div: the integer quotient (docs/arithmetic.md §3). And powers with a constant exponent, which are tables.

    z = clamp(rne((fl32(x - x_zero) ÷ fl32(y - y_zero)) × multiplier) + z_zero)          multiplier = (sx ÷ sy) ÷ sz

Division by zero saturates, zero by zero is the zero point: the rules of quantization for ±inf and NaN.
"""

from __future__ import annotations

import numpy as np

from lowbit.ops.op import Op, register
from lowbit.ops.q_elementwise import table_call
from lowbit.ops.q_matmul import need_integers, rounded
from lowbit.ops.quant import FloatOperand, NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.types import Array, TensorType, broadcast


def infer(
    x: TensorType, y: TensorType, *, x_zero: int, y_zero: int, z_zero: int, multiplier: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(left=x, right=y)
    return TensorType(broadcast(x.shape, y.shape), to)


def exact(x: Array, y: Array, *, x_zero: int, y_zero: int, z_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    dividend = (x.astype(np.int32) - x_zero).astype(np.float32)
    divisor = (y.astype(np.int32) - y_zero).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return rounded(dividend / divisor * np.float32(multiplier), z_zero, lo, hi, to)


def lower(operands: Operands, result: Result) -> OpCall:
    x, y = operands
    assert isinstance(x, Operand) and isinstance(y, Operand)
    (sx, xz), (sy, yz), (sz, zz) = x.per_tensor("dividend"), y.per_tensor("divisor"), result.target()
    multiplier = float(np.float32(np.float32(sx / sy) / sz))
    return OpCall("q_div", (Ref(0), Ref(1)), {"x_zero": xz, "y_zero": yz, "z_zero": zz, "multiplier": multiplier, **result.clamp})


def lower_pow(operands: Operands, result: Result) -> OpCall:
    x, y = operands
    assert isinstance(x, Operand)
    if not isinstance(y, FloatOperand) or y.data is None or y.data.size != 1:
        raise NotLowered("its exponent is not one constant number")
    if y.type.rank > x.type.rank:
        raise NotLowered("its exponent has more dimensions than its base")
    exponent = y.data.astype(np.float64).reshape(())
    return table_call(x, result, lambda reals: np.power(reals, exponent))


register(Op("q_div", infer, exact))
quantizes("div", QuantSpec((0, 1), fuses_clip=True), lower)
quantizes("pow", QuantSpec((0,)), lower_pow)
