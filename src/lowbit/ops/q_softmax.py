"""Integer softmax and its logarithm along one axis (docs/arithmetic.md §4): a table of exponentials, an exact sum, one division.

    M = max x;  e_i = E[M - x_i];  S = Σ e_i                               E[d] = rne64(2^F · exp(-d · sx)), a constant
    softmax       y_i = clamp(rne(fl32(e_i) × (multiplier ÷ fl32(S))) + y_zero)            multiplier = 1 ÷ sy
    log softmax   y_i = clamp(rne(fl32(x_i - M) × multiplier - lb_log(fl32(S) × 2^-F) ÷ sy) + y_zero)     multiplier = sx ÷ sy

F is 23 for results of up to 8 bits, so that fl32(e_i) is exact and the roundings of E, of which S has one for each element, stay far
below one step of the result; it is 30 for wider ones.
"""

from __future__ import annotations

import numpy as np

from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import lb_log
from lowbit.ops.op import Op, register
from lowbit.ops.q_matmul import need_integers, rounded
from lowbit.ops.quant import Const, Fixed, NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.types import Array, TensorType, normalize_axis


def infer(x: TensorType, table: TensorType, *, axis: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> TensorType:
    need_integers(input=x)
    normalize_axis(axis, x.rank)
    if table.dtype.name != "int32":
        raise DTypeError(f"table is {table.dtype}, int32 needed")
    if table.shape != (1 << x.dtype.bits,):
        raise ShapeError(f"table {table} given, {1 << x.dtype.bits} entries needed for {x.dtype}")
    return x.with_dtype(to)


def _exponentials(x: Array, table: Array, axis: int) -> tuple[Array, Array, Array]:
    """x less its maximum, the exponentials of that, and their exact sum."""
    d = x.astype(np.int64)
    d = d - d.max(axis=axis, keepdims=True, initial=np.iinfo(x.dtype).min)
    e = table[-d]
    return d, e, e.sum(axis=axis, keepdims=True, dtype=np.int64)


def softmax(x: Array, table: Array, *, axis: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    _, e, total = _exponentials(x, table, axis)
    r = np.float32(multiplier) / total.astype(np.float32)
    return rounded(e.astype(np.float32) * r, y_zero, lo, hi, to)


def infer_log(
    x: TensorType, table: TensorType, *, axis: int, y_zero: int, multiplier: float, y_scale: float, lo: int, hi: int, to: str
) -> TensorType:
    return infer(x, table, axis=axis, y_zero=y_zero, multiplier=multiplier, lo=lo, hi=hi, to=to)


def log_softmax(x: Array, table: Array, *, axis: int, y_zero: int, multiplier: float, y_scale: float, lo: int, hi: int, to: str) -> Array:
    d, _, total = _exponentials(x, table, axis)
    log = lb_log(total.astype(np.float32) / table[0].astype(np.float32))  # E[0] is 2^F: the quotient is exact
    t = d.astype(np.float32) * np.float32(multiplier) - log / np.float32(y_scale)
    return rounded(t, y_zero, lo, hi, to)


def exponentials(x: Operand, result: Result) -> Const:
    """The table E for an input's scale, as fine as the result needs."""
    sx, _ = x.per_tensor("input")
    bits = x.params.dtype.bits
    if bits > 16:
        raise NotLowered(f"a table for {x.params.dtype} would have 2^{bits} entries")
    fraction = 23 if result.params is not None and result.params.dtype.bits <= 8 else 30
    entries = np.rint(2.0**fraction * np.exp(-np.float64(sx) * np.arange(1 << bits)))
    return Const(entries.astype(np.int32), "table")


def lower_softmax(operands: Operands, result: Result, *, axis: int) -> OpCall:
    x = operands[0]
    assert isinstance(x, Operand)
    sy, yz = result.target()
    attrs = {"axis": axis, "y_zero": yz, "multiplier": float(np.float32(1) / np.float32(sy)), **result.clamp}
    return OpCall("q_softmax", (Ref(0), exponentials(x, result)), attrs)


def lower_log(operands: Operands, result: Result, *, axis: int) -> OpCall:
    x = operands[0]
    assert isinstance(x, Operand)
    (sx, _), (sy, yz) = x.per_tensor("input"), result.target()
    scales = {"multiplier": float(np.float32(sx / sy)), "y_scale": float(sy)}
    return OpCall("q_log_softmax", (Ref(0), exponentials(x, result)), {"axis": axis, "y_zero": yz, **scales, **result.clamp})


register(Op("q_softmax", infer, softmax), Op("q_log_softmax", infer_log, log_softmax))
quantizes("softmax", QuantSpec((0,), output=Fixed(0.0, 1.0)), lower_softmax)
quantizes("log_softmax", QuantSpec((0,)), lower_log)
