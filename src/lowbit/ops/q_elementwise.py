"""Integer elementwise ops (docs/arithmetic.md §3): requantize, add, sub, mul, and tables for every function of one 8-bit tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import GraphError, ShapeError
from lowbit.numerics import requantize_with
from lowbit.ops.op import BY_FLAG, Op, get_op, register
from lowbit.ops.q_matmul import need_integers, rounded
from lowbit.ops.quant import Bounds, Const, Fixed, Lower, NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.types import Array, TensorType, broadcast

# -- requantize ---------------------------------------------------------------------------------------------------------------


def infer_requantize(x: TensorType, *, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> TensorType:
    need_integers(input=x)
    return x.with_dtype(to)


def requantize(x: Array, *, x_zero: int, y_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    """Other parameters for the same reals: clamp(rne(fl32(x - x_zero) × m) + y_zero)."""
    return requantize_with(x.astype(np.int64) - x_zero, np.float32(multiplier), y_zero, to, qmin=lo, qmax=hi)


def requantize_call(arg: Any, x: Operand, result: Result) -> OpCall:
    """The argument, whose parameters are those of `x`, brought to those of the result."""
    sx, xz = x.per_tensor("input")
    if result.params is None:
        raise NotLowered("its result stays float")
    multiplier, yz = result.rescaled(np.asarray(sx, np.float32))
    attrs = {"x_zero": xz, "y_zero": yz, "multiplier": float(multiplier), **result.clamp}
    return OpCall("requantize", (arg,), attrs)


def lower_clip(operands: Operands, result: Result, **_: Any) -> OpCall:
    """relu and clip alone: the clamp of a requantization. The limits of `result` hold their bounds already (lower/integer.py)."""
    x = operands[0]
    assert isinstance(x, Operand)
    return requantize_call(Ref(0), x, result)


# -- add, sub, mul ------------------------------------------------------------------------------------------------------------


def infer_add(
    x: TensorType, y: TensorType, *, x_zero: int, y_zero: int, z_zero: int, mx: float, my: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(left=x, right=y)
    return TensorType(broadcast(x.shape, y.shape), to)


def add(x: Array, y: Array, *, x_zero: int, y_zero: int, z_zero: int, mx: float, my: float, lo: int, hi: int, to: str) -> Array:
    """clamp(rne((fl32(x) × mx + k) + fl32(y) × my)), where k takes in the zero points; a subtraction has my < 0."""
    offset = sum_offset(x_zero, y_zero, z_zero, mx, my)
    with np.errstate(over="ignore", invalid="ignore"):
        total = (x.astype(np.float32) * np.float32(mx) + offset) + y.astype(np.float32) * np.float32(my)
    return rounded(total, 0, lo, hi, to)


def sum_offset(x_zero: int, y_zero: int, z_zero: int, mx: float, my: float) -> np.float32:
    """The offset of a sum by its zero points: z - (mx × x_zero + my × y_zero), each operation rounded to float32.

    Sums are rounded to integers with the zero point in them, as ONNX Runtime's QLinearAdd does: where the scales are alike, every other
    sum is a tie, and rounding before adding an odd zero point would send it the other way.
    """
    f = np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        return f(f(z_zero) - f(f(mx) * f(x_zero) + f(my) * f(y_zero)))


def lower_sum(sign: int) -> Lower:
    def lower(operands: Operands, result: Result) -> OpCall:
        x, y = operands
        assert isinstance(x, Operand) and isinstance(y, Operand)
        (sx, xz), (sy, yz), (sz, zz) = x.per_tensor("left operand"), y.per_tensor("right operand"), result.target()
        scales = {"mx": float(np.float32(sx / sz)), "my": sign * float(np.float32(sy / sz))}
        zeros = {"x_zero": xz, "y_zero": yz, "z_zero": zz}
        return OpCall("q_add", (Ref(0), Ref(1)), {**zeros, **scales, **result.clamp})

    return lower


def infer_mul(
    x: TensorType, y: TensorType, *, x_zero: int, y_zero: int, z_zero: int, multiplier: float, lo: int, hi: int, to: str
) -> TensorType:
    need_integers(left=x, right=y)
    return TensorType(broadcast(x.shape, y.shape), to)


def mul(x: Array, y: Array, *, x_zero: int, y_zero: int, z_zero: int, multiplier: float, lo: int, hi: int, to: str) -> Array:
    """clamp(rne(fl32((x - x_zero)·(y - y_zero)) × m + z_zero)): rounded with the zero point in it, as ONNX Runtime's QLinearMul does."""
    product = (x.astype(np.int64) - x_zero) * (y.astype(np.int64) - y_zero)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = product.astype(np.float32) * np.float32(multiplier) + np.float32(z_zero)
    return rounded(scaled, 0, lo, hi, to)


def lower_mul(operands: Operands, result: Result) -> OpCall:
    x, y = operands
    assert isinstance(x, Operand) and isinstance(y, Operand)
    (sx, xz), (sy, yz), (sz, zz) = x.per_tensor("left operand"), y.per_tensor("right operand"), result.target()
    attrs = {"x_zero": xz, "y_zero": yz, "z_zero": zz, "multiplier": float(np.float32(np.float32(sx * sy) / sz))}
    return OpCall("q_mul", (Ref(0), Ref(1)), {**attrs, **result.clamp})


# -- tables -------------------------------------------------------------------------------------------------------------------


def infer_table(x: TensorType, table: TensorType) -> TensorType:
    need_integers(input=x)
    if table.shape != (1 << x.dtype.bits,):
        raise ShapeError(f"table {table} given, {1 << x.dtype.bits} entries needed for {x.dtype}")
    return x.with_dtype(table.dtype)


def look_up(x: Array, table: Array) -> Array:
    """y = table[x - least x]."""
    least = (
        np.iinfo(x.dtype).min if x.dtype.itemsize * 8 == table.size.bit_length() - 1 else -(table.size // 2) if x.dtype.kind == "i" else 0
    )
    return table[x.astype(np.int64) - least]


def table_call(x: Operand, result: Result, f: Callable[[Array], Array]) -> OpCall:
    """A function of one tensor as a table: its float64 meaning at every one of the 256 (65,536) inputs.

    A result that stays float has the values themselves in its table, rounded to float32, if that is not too large.
    """
    sx, xz = x.per_tensor("input")
    d = x.params.dtype
    assert d.min is not None and d.max is not None
    if d.bits > 16:
        raise NotLowered(f"a table for {d} would have 2^{d.bits} entries")
    with np.errstate(all="ignore"):
        values = f(np.float64(sx) * (np.arange(d.min, d.max + 1) - xz))
    if result.params is None:
        if d.bits > 8:
            raise NotLowered(f"its result stays float, and a float table for {d} would have 2^{d.bits} entries")
        return OpCall("q_table", (Ref(0), Const(values.astype(np.float32), "table")))
    sy, yz = result.per_tensor()
    target = dtype(result.dtype)
    with np.errstate(all="ignore"):
        ints = np.clip(np.rint(values / np.float64(sy)), result.lo - yz, result.hi - yz)
    table = (np.where(np.isnan(ints), 0, ints) + yz).astype(target.numpy)
    return OpCall("q_table", (Ref(0), Const(table, "table", target.name)))


def lower_table(op: str) -> Lower:
    """The table of an elementwise op."""

    def lower(operands: Operands, result: Result, **attrs: Any) -> OpCall:
        x = operands[0]
        assert isinstance(x, Operand)
        return table_call(x, result, lambda reals: get_op(op).run([reals], attrs)[0])

    return lower


def data_of_link(op: str, constants: Sequence[Array | None]) -> int | None:
    """Which operand a node is a function of, all others being single numbers: 0 for a table's op; None where it is no such function."""
    if op in _FIXED or op in _TABLES:
        return 0
    if op not in ARITHMETIC or len(constants) != 2:
        return None
    numbers = [i for i, c in enumerate(constants) if c is not None and c.size == 1]
    return 1 - numbers[0] if len(numbers) == 1 else None


def link(op: str, attrs: Mapping[str, Any], constants: Sequence[Array | None]) -> Callable[[Array], Array]:
    """The function of reals that such a node is."""
    at = data_of_link(op, constants)
    assert at is not None
    numbers = [None if c is None else np.float64(c.reshape(())) for c in constants]
    return lambda x: get_op(op).run([x if i == at else np.asarray(c) for i, c in enumerate(numbers)], attrs)[0]


ARITHMETIC = ("add", "sub", "mul", "div")  # with a number on one side
register(
    Op("requantize", infer_requantize, requantize),
    Op("q_add", infer_add, add),
    Op("q_mul", infer_mul, mul),
    Op("q_table", infer_table, look_up),
)
quantizes("relu", QuantSpec((0,)), lower_clip, bounds=lambda: (0.0, None))
quantizes("relu6", QuantSpec((0,)), lower_clip, bounds=lambda: (0.0, 6.0))
quantizes("clip", QuantSpec((0,)), lower_clip, bounds=lambda min, max: (min, max))
quantizes("add", QuantSpec((0, 1), fuses_clip=True), lower_sum(1))
quantizes("sub", QuantSpec((0, 1), fuses_clip=True), lower_sum(-1))
quantizes("mul", QuantSpec((0, 1), fuses_clip=True), lower_mul)

_FIXED = {
    "sigmoid": Fixed(0.0, 1.0), "hardsigmoid": Fixed(0.0, 1.0), "tanh": Fixed(-1.0, 1.0), "erf": Fixed(-1.0, 1.0),
    "softsign": Fixed(-1.0, 1.0), "sin": Fixed(-1.0, 1.0), "cos": Fixed(-1.0, 1.0),
}  # fmt: skip
_TABLES = [
    "silu", "swish", "mish", "hardswish", "gelu", "elu", "selu", "celu", "leaky_relu", "softplus", "thresholded_relu", "shrink", "neg",
    "abs", "sqrt", "exp", "log", "reciprocal", "floor", "ceil", "round", "sign", "log1p", "expm1", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh",
]  # fmt: skip
_FLAT: dict[str, Bounds] = {
    "hardswish": lambda: (-3.0, None),
    "hardsigmoid": lambda alpha, beta: (-beta / alpha, (1 - beta) / alpha) if alpha > 0 else (None, None),
    "gelu": lambda **_: (-5.0, None),
    "sigmoid": lambda: (-10.0, 10.0),
    "tanh": lambda: (-5.0, 5.0),
    "erf": lambda: (-4.0, 4.0),
    "swish": lambda alpha: (-10.0 / alpha, None) if alpha > 0 else (None, None),
    **dict.fromkeys(("silu", "mish", "softplus"), lambda **_: (-10.0, None)),
}
for _op in (*_FIXED, *_TABLES):
    quantizes(_op, QuantSpec((0,), output=_FIXED.get(_op, "own")), lower_table(_op), flat=_FLAT.get(_op))


def quantizes_by_table(op: Op) -> None:
    """Says that a user's op, a function of one value, can be quantized: by its table."""
    inputs = op.signature.inputs
    if len(inputs) != 1 or op.signature.variadic:
        raise GraphError(
            f"op {op.name!r} has inputs {', '.join(inputs) or 'of none'}; quantizable=True is for functions of one value",
            hint=f"lowbit.ops.quant.quantizes({op.name!r}, QuantSpec(inputs=…), lower)",
        )

    def lower(operands: Operands, result: Result, **attrs: Any) -> OpCall:
        x = operands[0]
        assert isinstance(x, Operand)
        return table_call(x, result, lambda reals: of_one_value(op, reals, attrs))

    quantizes(op.name, QuantSpec((0,)), lower)
    _TABLES.append(op.name)


def of_one_value(op: Op, reals: Array, attrs: Mapping[str, Any]) -> Array:
    """The op's values at the reals; an error where an element depends on the others."""
    values = np.asarray(op.run([reals], attrs)[0])
    other = np.asarray(op.run([reals[:3][::-1].copy()], attrs)[0])  # fewer of them, in another order
    if values.shape != reals.shape or not np.array_equal(values[:3][::-1], other, equal_nan=True):
        raise GraphError(
            f"op {op.name!r} is no function of one value: its elements depend on each other",
            hint=f"quantizable=False, and lowbit.ops.quant.quantizes({op.name!r}, QuantSpec(inputs=(0,)), lower)",
        )
    return values


BY_FLAG.append(quantizes_by_table)
