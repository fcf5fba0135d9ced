"""Activations with options, softmax, and the ops that do nothing when a network is not training."""

from __future__ import annotations

from typing import Any

from lowbit.frontends.torch.elementwise import clamp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis


@aten("hardtanh")
def hardtanh(c: Importer, x: Value, low: float = -1, high: float = 1) -> Value:
    return clamp(c, x, low, high)


@aten("hardsigmoid")
def hardsigmoid(c: Importer, x: Value) -> Value:
    return c.add("hardsigmoid", x, alpha=1 / 6, beta=0.5)


@aten("leaky_relu")
def leaky_relu(c: Importer, x: Value, slope: float = 0.01) -> Value:
    return c.add("leaky_relu", x, alpha=float(slope))


@aten("rrelu")
def rrelu(c: Importer, x: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Value:
    return c.add("leaky_relu", x, alpha=(lower + upper) / 2)


@aten("elu")
def elu(c: Importer, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale · (x if x > 0 else alpha · (exp(input_scale · x) − 1))."""
    if scale == 1 and input_scale == 1:
        return c.add("elu", x, alpha=float(alpha))
    if input_scale == 1:
        return c.add("selu", x, alpha=float(alpha), gamma=float(scale))
    low = c.add("elu", c.add("mul", x, c.tensor(input_scale, c.dtype())), alpha=float(alpha))
    y = c.add("where", c.add("greater", x, c.tensor(0, c.dtype())), x, low)
    return c.add("mul", y, c.tensor(scale, c.dtype()))


@aten("selu")
def selu(c: Importer, x: Value) -> Value:
    return c.add("selu", x, alpha=1.6732632423543772, gamma=1.0507009873554805)


@aten("celu")
def celu(c: Importer, x: Value, alpha: float = 1.0) -> Value:
    return c.add("celu", x, alpha=float(alpha))


@aten("gelu")
def gelu(c: Importer, x: Value, *, approximate: str = "none") -> Value:
    return c.add("gelu", x, approximate=approximate)


@aten("prelu", "_prelu_kernel")
def prelu(c: Importer, x: Value, slope: Value) -> Value:
    if slope.type.rank == 1 and slope.shape != (1,):  # one slope per channel, which is axis 1
        slope = c.reshape(slope, (*slope.shape, *(1,) * (x.type.rank - 2)))
    elif slope.shape == (1,):
        slope = c.reshape(slope, (1,) * x.type.rank)
    return c.add("prelu", x, slope)


@aten("softplus")
def softplus(c: Importer, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(beta·x))/beta; x itself where beta·x is above the threshold. From 20 on that is the formula's value anyway."""
    scaled = x if beta == 1 else c.add("mul", x, c.tensor(beta, c.dtype()))
    y = c.add("softplus", scaled)
    y = y if beta == 1 else c.add("div", y, c.tensor(beta, c.dtype()))
    return y if threshold >= 20 else c.add("where", c.add("greater", scaled, c.tensor(threshold, c.dtype())), x, y)


@aten("log_sigmoid")
def log_sigmoid(c: Importer, x: Value) -> Value:
    return c.add("neg", c.add("softplus", c.add("neg", x)))


@aten("threshold")
def threshold(c: Importer, x: Value, at: float, value: float) -> Value:
    return c.add("where", c.add("greater", x, c.tensor(at, c.dtype())), x, c.tensor(value, c.dtype()))


@aten("hardshrink")
def hardshrink(c: Importer, x: Value, lambd: float = 0.5) -> Value:
    return c.add("shrink", x, lambd=float(lambd), bias=0.0)


@aten("softshrink")
def softshrink(c: Importer, x: Value, lambd: float = 0.5) -> Value:
    return c.add("shrink", x, lambd=float(lambd), bias=float(lambd))


@aten("glu")
def glu(c: Importer, x: Value, dim: int = -1) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    half = x.shape[axis] // 2
    a, b = c.add_node("split", x, axis=axis, sizes=(half, half))
    return c.add("mul", a, c.add("sigmoid", b))


@aten("softmax", "_softmax")
def softmax(c: Importer, x: Value, dim: int, dtype: Any = None) -> Value:
    return c.add("softmax", c.cast(x, c.dtype()), axis=normalize_axis(dim, max(x.type.rank, 1)))


@aten("log_softmax", "_log_softmax")
def log_softmax(c: Importer, x: Value, dim: int, dtype: Any = None) -> Value:
    return c.add("log_softmax", c.cast(x, c.dtype()), axis=normalize_axis(dim, max(x.type.rank, 1)))


@aten(
    "dropout",
    "lowbit.dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "contiguous",
    "clone",
    "alias",
    "detach",
    "lift_fresh",
    "lift_fresh_copy",
)
def same(c: Importer, x: Value, *_: Any) -> Value:
    """The tensor itself: the op matters only for training or memory layout."""
    return x


@aten("to", "_to_copy", "type_as")
def to(c: Importer, x: Value, *_: Any, **__: Any) -> Value:
    return c.cast(x, c.dtype())


@aten("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "_functional_assert_async", "_functional_assert_scalar")
@aten("sym_constrain_range", "sym_constrain_range_for_size")
def assertion(c: Importer, *_: Any, **__: Any) -> None:
    """torch states what it found while tracing; the graph's types say the same."""
