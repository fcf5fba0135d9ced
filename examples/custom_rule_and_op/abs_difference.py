"""An op of your own, in one file: y = |a - b|, as networks that compare two things use it. Importing the file makes it known.

What lowbit needs is the types (`infer`) and the meaning (`real`). With `quantizes` it also gets an integer form: `lower` says which integer
op stands for it, and that op's meaning is exact, so that every backend can be held to the same bits. `kernels/` has the same in C:
a contract and its portable kernel; `kernels_for` says how a node becomes a call of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowbit import Node, Op, TensorType, load_kernels, register
from lowbit.dtypes import dtype
from lowbit.numerics import round_clamp
from lowbit.ops.quant import OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.plan.kernels import Context, KernelCall, kernels_for
from lowbit.types import Array, broadcast


def infer(a: TensorType, b: TensorType) -> TensorType:
    return TensorType(broadcast(a.shape, b.shape), a.dtype)


def real(a: Array, b: Array) -> Array:
    return np.abs(a - b)


# The keyword arguments of an op's `infer` are its attributes; lo, hi and to are the clamp that ends every integer op.
def infer_q(
    a: TensorType, b: TensorType, *, a_zero: int, b_zero: int, ma: float, mb: float, y_zero: int, lo: int, hi: int, to: str
) -> TensorType:
    return TensorType(broadcast(a.shape, b.shape), to)


def exact(a: Array, b: Array, *, a_zero: int, b_zero: int, ma: float, mb: float, y_zero: int, lo: int, hi: int, to: str) -> Array:
    """clamp(rne(|fl32(a - a_zero) × ma - fl32(b - b_zero) × mb|) + y_zero), every step in fp32."""
    left = (a.astype(np.int32) - a_zero).astype(np.float32) * np.float32(ma)
    right = (b.astype(np.int32) - b_zero).astype(np.float32) * np.float32(mb)
    return round_clamp(np.abs(left - right), np.asarray(y_zero), dtype(to), qmin=lo, qmax=hi)


def lower(operands: Operands, result: Result) -> OpCall:
    """The integer op for these operands: a multiplier for each side, from its scale and the result's."""
    a, b = operands
    assert isinstance(a, Operand) and isinstance(b, Operand)
    (sa, za), (sb, zb), (sy, zy) = a.per_tensor("left side"), b.per_tensor("right side"), result.per_tensor()
    attrs = {"a_zero": za, "b_zero": zb, "ma": float(np.float32(sa / sy)), "mb": float(np.float32(sb / sy)), "y_zero": zy}
    return OpCall("q_abs_difference", (Ref(0), Ref(1)), attrs | result.clamp)


register(Op("abs_difference", infer, real), Op("q_abs_difference", infer_q, exact))
quantizes("abs_difference", QuantSpec(inputs=(0, 1)), lower)


@kernels_for("q_abs_difference")
def kernel_call(node: Node, ctx: Context) -> list[KernelCall] | None:
    """The C kernel, where both sides are 8-bit tensors of one shape; elsewhere None: the interpreter runs the node."""
    a, b = node.inputs
    assert a is not None and b is not None
    if any(v.type.dtype.name != "int8" or v.shape != node.output.shape for v in (a, b, node.output)):
        return None
    names = {"a_multiplier": "ma", "b_multiplier": "mb"} | {n: n for n in ("a_zero", "b_zero", "y_zero", "lo", "hi")}
    params = {field: node.attrs[attribute] for field, attribute in names.items()}
    args = (ctx.argument(a), ctx.argument(b), node.output)
    n = int(node.output.type.size)
    return [KernelCall(ctx.kernel("abs_difference_s8"), params, args, items=n, cost=n * 1.0, in_place=(0, 1))]


load_kernels(Path(__file__).parent / "kernels")
