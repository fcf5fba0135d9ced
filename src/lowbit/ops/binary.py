"""Elementwise functions of two tensors with NumPy broadcasting: arithmetic, comparison, logic, bits. And `where`.

The arithmetic of whole numbers works on object arrays of symbolic dims too: frontends follow shape arithmetic with it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowbit.dims import Dim, at_least, extreme
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, broadcast

Binary = Callable[[Array, Array], Array]


def infer(x: TensorType, y: TensorType) -> TensorType:
    if x.dtype != y.dtype:
        raise DTypeError(f"inputs are {x.dtype} and {y.dtype}, one element type needed", hint="cast one of them")
    return TensorType(broadcast(x.shape, y.shape), x.dtype)


def infer_number(x: TensorType, y: TensorType) -> TensorType:
    if "bool" in (x.dtype.name, y.dtype.name):
        raise DTypeError(f"inputs are {x.dtype} and {y.dtype}, numbers needed", hint="cast them before")
    return infer(x, y)


def infer_compare(x: TensorType, y: TensorType) -> TensorType:
    return infer(x, y).with_dtype("bool")


def infer_bool(x: TensorType, y: TensorType) -> TensorType:
    if x.dtype.name != "bool" or y.dtype.name != "bool":
        raise DTypeError(f"inputs are {x.dtype} and {y.dtype}, bool needed")
    return infer(x, y)


def infer_bits(x: TensorType, y: TensorType) -> TensorType:
    if not x.dtype.is_integer:
        raise DTypeError(f"inputs are {x.dtype}, an integer type needed")
    return infer(x, y)


def infer_pow(x: TensorType, y: TensorType) -> TensorType:
    return TensorType(broadcast(x.shape, y.shape), x.dtype)


def infer_where(cond: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if cond.dtype.name != "bool":
        raise DTypeError(f"condition is {cond.dtype}, bool needed")
    return TensorType(broadcast(cond.shape, infer(x, y).shape), x.dtype)


def div(x: Array, y: Array) -> Array:
    """Floats: the quotient. Integers: the quotient without its fraction (-7 / 2 is -3); a division by 0 gives 0."""
    if x.dtype == object:
        return np.asarray(np.frompyfunc(_truncated, 2, 1)(x, y))
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    q = np.floor_divide(x, y)
    return q + ((q < 0) & (q * y != x)).astype(x.dtype) if x.dtype.kind == "i" else q


def _truncated(a: Dim, b: Dim) -> Dim:
    """The quotient of dims without its fraction, where their signs are known: floor and truncation differ below 0."""
    if b == 0:
        return 0
    if a // b * b == a:
        return a // b
    negative = at_least(0, a, unknown=False) != at_least(0, b, unknown=False)
    size_a, size_b = (-d if at_least(0, d, unknown=False) else d for d in (a, b))
    if not (at_least(size_a, 0) and at_least(size_b, 0)):
        raise ShapeError(f"whether {a} / {b} is negative depends on the sizes")
    return -(size_a // size_b) if negative else size_a // size_b


def power(x: Array, y: Array) -> Array:
    """x ** y in the wider of both types, given in the type of x."""
    if x.dtype.kind in "iu" and y.dtype.kind in "iu" and (y.dtype.kind == "u" or not (y < 0).any()):
        return np.power(x, y.astype(x.dtype))
    if x.dtype.kind in "iu":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return np.power(x, y.astype(x.dtype))


def _on_dims(f: Callable[[Dim, Dim], object], g: Binary) -> Binary:
    """`g` on numbers, `f` element by element on dims."""
    each = np.frompyfunc(f, 2, 1)
    return lambda x, y: np.asarray(each(x, y)) if x.dtype == object else g(x, y)


def _equal(a: Dim, b: Dim) -> bool:
    """Equal, or surely different: a size never is -1. Anything else is not known before the symbols are."""
    if a == b:
        return True
    if (isinstance(a, int) and isinstance(b, int)) or at_least(a, b + 1, unknown=False) or at_least(b, a + 1, unknown=False):
        return False
    raise ShapeError(f"whether {a} equals {b} is not known before they are bound")


maximum = _on_dims(lambda a, b: extreme("max", a, b), np.maximum)
minimum = _on_dims(lambda a, b: extreme("min", a, b), np.minimum)
equal = _on_dims(_equal, np.equal)


def where(cond: Array, x: Array, y: Array) -> Array:
    return np.where(cond.astype(np.bool_), x, y)


_ARITHMETIC: dict[str, Binary] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": div,
    "floor_div": np.floor_divide,
    "mod": np.mod,  # sign of the divisor
    "fmod": np.fmod,  # sign of the dividend
    "maximum": maximum,
    "minimum": minimum,
    "atan2": np.arctan2,
}
_COMPARE: dict[str, Binary] = {
    "equal": equal,
    "not_equal": _on_dims(lambda a, b: not _equal(a, b), np.not_equal),
    "less": _on_dims(lambda a, b: not at_least(a, b), np.less),
    "less_equal": _on_dims(lambda a, b: at_least(b, a), np.less_equal),
    "greater": _on_dims(lambda a, b: not at_least(b, a), np.greater),
    "greater_equal": _on_dims(at_least, np.greater_equal),
}
_LOGIC: dict[str, Binary] = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
_BITS: dict[str, Binary] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}

_OF_BOOL_TOO = ("add", "mul", "maximum", "minimum")
register(*(Op(name, infer if name in _OF_BOOL_TOO else infer_number, f) for name, f in _ARITHMETIC.items()))
register(*(Op(name, infer_compare, f) for name, f in _COMPARE.items()))
register(*(Op(name, infer_bool, f) for name, f in _LOGIC.items()))
register(*(Op(name, infer_bits, f) for name, f in _BITS.items()))
register(Op("pow", infer_pow, power), Op("where", infer_where, where))
