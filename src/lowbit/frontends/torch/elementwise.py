"""Elementwise ATen ops. torch's implicit promotion becomes explicit casts; numbers become constants of the dtype computed in."""

from __future__ import annotations

import math

from lowbit.dims import Sym
from lowbit.dtypes import finfo
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import HANDLERS, Handler, Importer, Operand, aten
from lowbit.ir.graph import Value

# ATen name -> lowbit op, for functions of one tensor without options. Integers are promoted as torch says.
UNARY = {
    "abs": "abs", "neg": "neg", "relu": "relu", "exp": "exp", "log": "log", "sqrt": "sqrt", "reciprocal": "reciprocal",
    "floor": "floor", "ceil": "ceil", "sign": "sign", "sgn": "sign", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "sigmoid": "sigmoid", "silu": "silu", "mish": "mish", "hardswish": "hardswish", "relu6": "relu6",
    "log1p": "log1p", "expm1": "expm1",
}  # fmt: skip
COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
LOGIC = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
BITS = {"bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor"}
ROUNDING = frozenset({"floor", "ceil", "round", "trunc"})  # of integers: the integers


def _register() -> None:
    for name, op in UNARY.items():
        HANDLERS[name] = _unary(op)
    for name, op in COMPARE.items():
        HANDLERS[name] = _compare(op)
    for name, op in LOGIC.items():
        HANDLERS[name] = _logic(op)
    for name, op in BITS.items():
        HANDLERS[name] = _bits(op)
    for name in ("maximum", "minimum", "atan2", "fmod"):
        HANDLERS[name] = _arithmetic(name)
    HANDLERS["remainder"] = _arithmetic("mod")


def _unary(op: str) -> Handler:
    def handler(c: Importer, x: Value) -> Value:
        if op in ROUNDING and x.type.dtype.is_integer:
            return x
        return c.add(op, c.cast(x, c.dtype()))

    return handler


def _arithmetic(op: str) -> Handler:
    def handler(c: Importer, a: Operand, b: Operand) -> Value:
        return c.add(op, c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))

    return handler


def _compare(op: str) -> Handler:
    def handler(c: Importer, a: Operand, b: Operand) -> Value:
        common = c.promote(a, b)
        if common.kind == "bool" and op not in ("equal", "not_equal"):
            return c.add(op, c.tensor(a, "int32"), c.tensor(b, "int32"))
        return c.add(op, c.tensor(a, common), c.tensor(b, common))

    return handler


def _logic(op: str) -> Handler:
    def handler(c: Importer, a: Operand, b: Operand) -> Value:
        return c.add(op, c.tensor(a, "bool"), c.tensor(b, "bool"))

    return handler


def _bits(op: str) -> Handler:
    def handler(c: Importer, a: Operand, b: Operand) -> Value:
        name = op.replace("bit_", "logical_") if c.dtype().kind == "bool" else op
        return c.add(name, c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))

    return handler


_register()


# -- arithmetic ----------------------------------------------------------------------------------------------------------


def scaled(c: Importer, x: Operand, alpha: float | int) -> Operand:
    if alpha == 1:
        return x
    return c.add("mul", c.tensor(x, c.dtype()), c.tensor(alpha, c.dtype()))


@aten("add")
def add(c: Importer, a: Operand, b: Operand, *, alpha: float = 1) -> Value:
    if c.dtype().kind == "bool":
        return c.add("logical_or", c.tensor(a, "bool"), c.tensor(b, "bool"))
    return c.add("add", c.tensor(a, c.dtype()), c.tensor(scaled(c, b, alpha), c.dtype()))


@aten("sub", "subtract")
def sub(c: Importer, a: Operand, b: Operand, *, alpha: float = 1) -> Value:
    return c.add("sub", c.tensor(a, c.dtype()), c.tensor(scaled(c, b, alpha), c.dtype()))


@aten("rsub")
def rsub(c: Importer, a: Operand, b: Operand, alpha: float = 1) -> Value:
    return c.add("sub", c.tensor(b, c.dtype()), c.tensor(scaled(c, a, alpha), c.dtype()))


@aten("mul", "multiply")
def mul(c: Importer, a: Operand, b: Operand) -> Value:
    op = "logical_and" if c.dtype().kind == "bool" else "mul"
    return c.add(op, c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))


@aten("div", "divide", "true_divide")
def div(c: Importer, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Value:
    x, y = c.tensor(a, c.dtype()), c.tensor(b, c.dtype())
    if rounding_mode == "floor":
        return c.add("floor_div", x, y)
    quotient = c.add("div", x, y)  # of integers: toward zero, which is what rounding_mode="trunc" asks for
    return truncated(c, quotient) if rounding_mode == "trunc" and c.dtype().is_float else quotient


@aten("floor_divide")
def floor_divide(c: Importer, a: Operand, b: Operand) -> Value:
    return c.add("floor_div", c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))


@aten("pow")
def pow_(c: Importer, a: Operand, b: Operand) -> Value:
    x = c.tensor(a, c.dtype())
    if not isinstance(b, Value | Sym):
        if b == 1:
            return x
        if b == 2:
            return c.add("mul", x, x)
        if c.dtype().is_float and b in (0.5, -0.5, -1):
            root = x if b == -1 else c.add("sqrt", x)
            return root if b == 0.5 else c.add("reciprocal", root)
    return c.add("pow", x, c.tensor(b, c.dtype()))


@aten("hypot")
def hypot(c: Importer, a: Value, b: Value) -> Value:
    return c.add("sqrt", c.add("add", c.add("mul", a, a), c.add("mul", b, b)))


@aten("square")
def square(c: Importer, x: Value) -> Value:
    return c.add("mul", x, x)


@aten("rsqrt")
def rsqrt(c: Importer, x: Value) -> Value:
    return c.add("reciprocal", c.add("sqrt", c.cast(x, c.dtype())))


@aten("log2")
def log2(c: Importer, x: Value) -> Value:
    return c.add("mul", c.add("log", c.cast(x, c.dtype())), c.tensor(1 / math.log(2), c.dtype()))


@aten("log10")
def log10(c: Importer, x: Value) -> Value:
    return c.add("mul", c.add("log", c.cast(x, c.dtype())), c.tensor(1 / math.log(10), c.dtype()))


@aten("exp2")
def exp2(c: Importer, x: Value) -> Value:
    return c.add("pow", c.tensor(2.0, c.dtype()), c.cast(x, c.dtype()))


@aten("erfc")
def erfc(c: Importer, x: Value) -> Value:
    return c.add("sub", c.tensor(1.0, c.dtype()), c.add("erf", c.cast(x, c.dtype())))


@aten("round")
def round_(c: Importer, x: Value, *, decimals: int = 0) -> Value:
    if x.type.dtype.is_integer:
        return x
    if decimals == 0:
        return c.add("round", x)
    scale = c.tensor(10.0**decimals, x.type.dtype)
    return c.add("div", c.add("round", c.add("mul", x, scale)), scale)


def truncated(c: Importer, x: Value) -> Value:
    return c.add("where", c.add("less", x, c.tensor(0, x.type.dtype)), c.add("ceil", x), c.add("floor", x))


@aten("trunc", "fix")
def trunc(c: Importer, x: Value) -> Value:
    return x if x.type.dtype.is_integer else truncated(c, x)


@aten("frac")
def frac(c: Importer, x: Value) -> Value:
    return c.add("sub", x, truncated(c, x))


@aten("lerp")
def lerp(c: Importer, a: Value, b: Value, weight: Operand) -> Value:
    return c.add("add", a, c.add("mul", c.tensor(weight, c.dtype()), c.add("sub", b, a)))


@aten("addcmul")
def addcmul(c: Importer, x: Value, a: Value, b: Value, *, value: float = 1) -> Value:
    return c.add("add", c.cast(x, c.dtype()), c.tensor(scaled(c, c.add("mul", a, b), value), c.dtype()))


@aten("addcdiv")
def addcdiv(c: Importer, x: Value, a: Value, b: Value, *, value: float = 1) -> Value:
    return c.add("add", c.cast(x, c.dtype()), c.tensor(scaled(c, c.add("div", a, b), value), c.dtype()))


# -- tests and choices ---------------------------------------------------------------------------------------------------


@aten("isnan")
def isnan(c: Importer, x: Value) -> Value:
    return c.add("isnan", c.cast(x, "float32") if not x.type.dtype.is_float else x)


@aten("isinf")
def isinf(c: Importer, x: Value) -> Value:
    return c.add("isinf", c.cast(x, "float32") if not x.type.dtype.is_float else x, positive=True, negative=True)


@aten("isfinite")
def isfinite(c: Importer, x: Value) -> Value:
    return c.add("logical_not", c.add("logical_or", isnan(c, x), isinf(c, x)))


@aten("logical_not")
def logical_not(c: Importer, x: Value) -> Value:
    return c.add("logical_not", c.cast(x, "bool"))


@aten("bitwise_not")
def bitwise_not(c: Importer, x: Value) -> Value:
    return c.add("logical_not" if x.type.dtype.kind == "bool" else "bitwise_not", x)


@aten("bitwise_left_shift", "__lshift__")
def shift_left(c: Importer, a: Operand, b: Operand) -> Value:
    return c.add("shift_left", c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))


@aten("bitwise_right_shift", "__rshift__")
def shift_right(c: Importer, a: Operand, b: Operand) -> Value:
    return c.add("shift_right", c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))


HANDLERS.update({"__and__": HANDLERS["bitwise_and"], "__or__": HANDLERS["bitwise_or"], "__xor__": HANDLERS["bitwise_xor"]})


@aten("where")
def where(c: Importer, condition: Value, a: Operand | None = None, b: Operand | None = None) -> Value:
    if a is None or b is None:
        raise UnsupportedOp("where with a condition alone gives a shape that depends on data")
    return c.add("where", c.cast(condition, "bool"), c.tensor(a, c.dtype()), c.tensor(b, c.dtype()))


@aten("masked_fill")
def masked_fill(c: Importer, x: Value, mask: Value, value: Operand) -> Value:
    return c.expand(c.add("where", mask, c.tensor(value, c.dtype()), x), c.shape())


@aten("nan_to_num")
def nan_to_num(c: Importer, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Value:
    if not x.type.dtype.is_float:
        return x
    largest = float(finfo(x.type.dtype).max)
    y = c.add("where", c.add("isnan", x), c.tensor(nan or 0.0, c.dtype()), x)
    for value, positive in ((largest if posinf is None else posinf, True), (-largest if neginf is None else neginf, False)):
        y = c.add("where", c.add("isinf", x, positive=positive, negative=not positive), c.tensor(value, c.dtype()), y)
    return y


@aten("clamp", "clip")
def clamp(c: Importer, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    x = c.cast(x, c.dtype())
    if isinstance(min, Value | Sym) or isinstance(max, Value | Sym):
        y = x if min is None else c.add("maximum", x, c.tensor(min, c.dtype()))
        return y if max is None else c.add("minimum", y, c.tensor(max, c.dtype()))
    kind = int if c.dtype().is_integer else float
    return c.add("clip", x, min=None if min is None else kind(min), max=None if max is None else kind(max))


@aten("clamp_min")
def clamp_min(c: Importer, x: Value, min: Operand) -> Value:
    return clamp(c, x, min)


@aten("clamp_max")
def clamp_max(c: Importer, x: Value, max: Operand) -> Value:
    return clamp(c, x, None, max)
