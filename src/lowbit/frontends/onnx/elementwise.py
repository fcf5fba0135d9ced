"""Elementwise ops: arithmetic, comparison, logic, activations, casts. Mostly the same name in lower case."""

from __future__ import annotations

from functools import reduce

from lowbit.errors import UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode, dtype_name, number_of
from lowbit.ir.graph import Value

UNARY = {
    **{
        t: t.lower()
        for t in (
            *("Relu", "Exp", "Log", "Sqrt", "Neg", "Abs", "Sign", "Identity", "Reciprocal", "Floor", "Ceil", "Round"),
            *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh"),
            *("Erf", "Sigmoid", "Softplus", "Softsign", "Mish", "HardSwish", "IsNaN"),
        )
    },
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
}
BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Pow": "pow",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "PRelu": "prelu",
}
VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
# op type -> lowbit's name, and its attributes with ONNX's defaults
ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "HardSigmoid": ("hardsigmoid", {"alpha": 0.2, "beta": 0.5}),
    "Shrink": ("shrink", {"lambd": 0.5, "bias": 0.0}),
}


@onnx_op(*UNARY)
def unary(c: Importer, node: OnnxNode) -> Value:
    return c.add(UNARY[node.op_type], c.input(node, 0))


@onnx_op(*BINARY)
def binary(c: Importer, node: OnnxNode) -> Value:
    return c.add(BINARY[node.op_type], c.input(node, 0), c.input(node, 1))


@onnx_op(*VARIADIC)
def variadic(c: Importer, node: OnnxNode) -> Value:
    op = VARIADIC[node.op_type]
    first, rest = c.input(node, 0), [c.input(node, i) for i in range(1, len(node.inputs))]
    return reduce(lambda a, b: c.add(op, a, b), rest, first)


@onnx_op("Mean")
def mean(c: Importer, node: OnnxNode) -> Value:
    first, rest = c.input(node, 0), [c.input(node, i) for i in range(1, len(node.inputs))]
    total = reduce(lambda a, b: c.add("add", a, b), rest, first)
    return c.add("div", total, c.scalar(len(node.inputs), like=total)) if rest else total


@onnx_op(*ACTIVATIONS)
def activation(c: Importer, node: OnnxNode) -> Value:
    op, defaults = ACTIVATIONS[node.op_type]
    return c.add(op, c.input(node, 0), **{k: node.attr(k, v) for k, v in defaults.items()})


@onnx_op("Gelu")
@onnx_op("Gelu", domain="com.microsoft")
def gelu(c: Importer, node: OnnxNode) -> Value:
    return c.add("gelu", c.input(node, 0), approximate=node.attr("approximate", "none"))


@onnx_op("Swish")
@onnx_op("QuickGelu", domain="com.microsoft")
def swish(c: Importer, node: OnnxNode) -> Value:
    """x · sigmoid(alpha · x)"""
    x, alpha = c.input(node, 0), node.attr("alpha", 1.0 if node.op_type == "Swish" else 1.702)
    if alpha == 1.0:
        return c.add("silu", x)
    return c.add("swish", x, alpha=float(alpha))


@onnx_op("IsInf")
def isinf(c: Importer, node: OnnxNode) -> Value:
    return c.add("isinf", c.input(node, 0), positive=bool(node.attr("detect_positive", 1)), negative=bool(node.attr("detect_negative", 1)))


@onnx_op("Mod")
def mod(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    if x.type.dtype.is_float and not node.attr("fmod", 0):
        raise UnsupportedOp("floats need fmod=1", hint="the standard defines Mod without fmod for integers only")
    return c.add("fmod" if node.attr("fmod", 0) else "mod", x, c.input(node, 1))


@onnx_op("BitShift")
def bit_shift(c: Importer, node: OnnxNode) -> Value:
    return c.add("shift_left" if node.attr("direction") == "LEFT" else "shift_right", c.input(node, 0), c.input(node, 1))


@onnx_op("Where")
def where(c: Importer, node: OnnxNode) -> Value:
    return c.add("where", c.input(node, 0), c.input(node, 1), c.input(node, 2))


@onnx_op("Cast")
def cast(c: Importer, node: OnnxNode) -> Value:
    return c.add("cast", c.input(node, 0), to=dtype_name(node.attr("to", 0)), saturate=bool(node.attr("saturate", 1)))


@onnx_op("CastLike")
def cast_like(c: Importer, node: OnnxNode) -> Value:
    return c.add("cast", c.input(node, 0), to=c.input(node, 1).type.dtype.name, saturate=bool(node.attr("saturate", 1)))


@onnx_op("Clip")
def clip(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    if c.opset < 11:
        return c.add("clip", x, min=node.attr("min"), max=node.attr("max"))
    low, high = c.optional(node, 1), c.optional(node, 2)
    known = [None if v is None else c.constant_data(v) for v in (low, high)]
    if (low is None) == (known[0] is None) and (high is None) == (known[1] is None):
        bounds = [None if k is None else number_of(k) for k in known]
        return c.add("clip", x, min=bounds[0], max=bounds[1])
    x = x if low is None else c.add("maximum", x, low)
    return x if high is None else c.add("minimum", x, high)


@onnx_op("Dropout")
def dropout(c: Importer, node: OnnxNode) -> list[Value]:
    """At inference nothing is dropped. A node that says it trains would be random, unless it drops nothing."""
    x = c.input(node, 0)
    training = c.const(node, 2, "training_mode") if c.opset >= 12 else None
    ratio = c.const(node, 1, "ratio") if training is not None and training.any() else None
    if training is not None and training.any() and (ratio is None or ratio.any()):
        raise UnsupportedOp("it is in training mode, which is random", hint="export the model in eval mode")
    outputs = [c.add("identity", x)]
    if len(node.outputs) > 1:
        outputs.append(c.add("fill", shape=x.shape, value=True, dtype="bool"))
    return outputs
