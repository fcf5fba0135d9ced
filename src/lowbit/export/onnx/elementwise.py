"""Elementwise ops: arithmetic, comparison, logic, activations, casts. Mostly the same name in capitals."""

from __future__ import annotations

import math

from lowbit.dtypes import dtype
from lowbit.errors import DTypeError
from lowbit.export.onnx.tensors import element_type
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node, Value

UNARY = {
    **{
        t.lower(): t
        for t in (
            *("Relu", "Exp", "Log", "Sqrt", "Neg", "Abs", "Sign", "Identity", "Reciprocal", "Floor", "Ceil", "Round"),
            *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh"),
            *("Erf", "Sigmoid", "Softplus", "Softsign", "HardSwish", "IsNaN"),
        )
    },
    "logical_not": "Not",
}
BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "prelu": "PRelu",
    "maximum": "Max",
    "minimum": "Min",
    "where": "Where",
}
BITS = {"bit_and": "BitwiseAnd", "bit_or": "BitwiseOr", "bit_xor": "BitwiseXor", "bitwise_not": "BitwiseNot", "mish": "Mish"}
ACTIVATIONS = {
    "leaky_relu": "LeakyRelu",
    "elu": "Elu",
    "celu": "Celu",
    "thresholded_relu": "ThresholdedRelu",
    "selu": "Selu",
    "hardsigmoid": "HardSigmoid",
    "shrink": "Shrink",
}


@spells(*UNARY, *BINARY)
def same(w: Writer, node: Node) -> None:
    w.node(node, {**UNARY, **BINARY}[node.op], *node.inputs)


@spells(*BITS, since=18)
def same_since_18(w: Writer, node: Node) -> None:
    w.node(node, BITS[node.op], *node.inputs)


@spells(*ACTIVATIONS)
def activation(w: Writer, node: Node) -> None:
    w.node(node, ACTIVATIONS[node.op], *node.inputs, **node.attrs)


@spells("gelu", since=20)
def gelu(w: Writer, node: Node) -> None:
    w.node(node, "Gelu", *node.inputs, approximate=node.attrs["approximate"])


@spells("silu")
def silu(w: Writer, node: Node) -> None:
    """Swish is an op from opset 24 on."""
    w.node(node, "Mul", node.inputs[0], w.step(node, "Sigmoid", node.inputs[0]))


@spells("swish")
def swish(w: Writer, node: Node) -> None:
    """Swish is an op from opset 24 on."""
    x, alpha = node.inputs[0], node.attrs["alpha"]
    assert isinstance(alpha, float)
    w.node(node, "Mul", x, w.step(node, "Sigmoid", w.step(node, "Mul", x, w.scalar(alpha, like=node.output))))


@spells("log1p")
def log1p(w: Writer, node: Node) -> None:
    w.node(node, "Log", w.step(node, "Add", node.inputs[0], w.scalar(1, like=node.output)))


@spells("expm1")
def expm1(w: Writer, node: Node) -> None:
    w.node(node, "Sub", w.step(node, "Exp", node.inputs[0]), w.scalar(1, like=node.output))


def _half(node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and x.type.dtype.bits < 32


@spells("isinf", since=lambda node: 20 if _half(node) else 17)
def isinf(w: Writer, node: Node) -> None:
    w.node(node, "IsInf", *node.inputs, detect_positive=node.attrs["positive"], detect_negative=node.attrs["negative"])


@spells("not_equal")
def not_equal(w: Writer, node: Node) -> None:
    w.node(node, "Not", w.step(node, "Equal", *node.inputs))


@spells("mod", "fmod")
def mod(w: Writer, node: Node) -> None:
    """Mod has the sign of the divisor for integers only; for floats x - floor(x / y) · y."""
    x, y = node.inputs
    if node.op == "mod" and node.output.type.dtype.is_float:
        whole = w.step(node, "Floor", w.step(node, "Div", x, y))
        w.node(node, "Sub", x, w.step(node, "Mul", whole, y))
    else:
        w.node(node, "Mod", x, y, fmod=node.op == "fmod")


@spells("floor_div")
def floor_div(w: Writer, node: Node) -> None:
    x, y = node.inputs
    if node.output.type.dtype.is_float:
        w.node(node, "Floor", w.step(node, "Div", x, y))
    else:  # Div cuts towards zero: take the remainder, which has the divisor's sign, off first
        w.node(node, "Div", w.step(node, "Sub", x, w.step(node, "Mod", x, y)), y)


@spells("shift_left", "shift_right")
def shift(w: Writer, node: Node) -> None:
    if node.output.type.dtype.is_signed:
        raise DTypeError(f"BitShift takes unsigned integers, not {node.output.type.dtype}", hint="cast before it")
    w.node(node, "BitShift", *node.inputs, direction="LEFT" if node.op == "shift_left" else "RIGHT")


@spells("cast")
def cast(w: Writer, node: Node) -> None:
    to = dtype(str(node.attrs["to"]))
    saturate = None if node.attrs["saturate"] or w.opset < 19 else 0
    w.node(node, "Cast", *node.inputs, to=element_type(to), saturate=saturate)


@spells("clip")
def clip(w: Writer, node: Node) -> None:
    x = node.inputs[0]
    assert x is not None
    w.node(node, "Clip", x, _bound(w, node.attrs["min"], x), _bound(w, node.attrs["max"], x))


@spells("relu6", respelled=True)
def relu6(w: Writer, node: Node) -> None:
    w.node(node, "Clip", node.inputs[0], w.scalar(0, like=node.output), w.scalar(6, like=node.output))


def _bound(w: Writer, bound: object, like: Value) -> str | None:
    return w.scalar(bound, like) if isinstance(bound, int | float) else None


@spells("atan2")
def atan2(w: Writer, node: Node) -> None:
    """atan(y / x), and half a turn more where x < 0: towards the sign of y."""
    y, x = node.inputs
    like = node.output
    zero, half = w.scalar(0, like), w.scalar(math.pi, like)
    plain = w.step(node, "Atan", w.step(node, "Div", y, x))
    up = w.step(node, "GreaterOrEqual", y, zero)
    turned = w.step(node, "Add", plain, w.step(node, "Where", up, half, w.step(node, "Neg", half)))
    told = w.step(node, "Where", w.step(node, "Less", x, zero), turned, plain)
    both = w.step(node, "And", w.step(node, "Equal", x, zero), w.step(node, "Equal", y, zero))
    w.node(node, "Where", both, zero, told)
