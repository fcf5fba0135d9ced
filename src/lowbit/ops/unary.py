"""Elementwise functions of one tensor without attributes: y = f(x), the shape stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowbit.errors import DTypeError
from lowbit.ops.checks import rounded_once
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType


def infer_same(x: TensorType) -> TensorType:
    return x.with_dtype(x.dtype)


def infer_number(x: TensorType) -> TensorType:
    if x.dtype.kind == "bool":
        raise DTypeError("bool given, a number needed", hint="cast it before")
    return x.with_dtype(x.dtype)


def infer_float(x: TensorType) -> TensorType:
    if not x.dtype.is_float:
        raise DTypeError(f"{x.dtype} given, a float type needed", hint="cast it before")
    return x.with_dtype(x.dtype)


def infer_bool(x: TensorType) -> TensorType:
    if x.dtype.name != "bool":
        raise DTypeError(f"{x.dtype} given, bool needed", hint="compare it with something before")
    return x.with_dtype("bool")


def infer_bits(x: TensorType) -> TensorType:
    if not x.dtype.is_integer:
        raise DTypeError(f"{x.dtype} given, an integer type needed", hint="cast it before")
    return x.with_dtype(x.dtype)


def infer_test(x: TensorType) -> TensorType:
    return infer_float(x).with_dtype("bool")


def relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


@rounded_once
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow on either side: exp(x) / (1 + exp(x)) where x is negative."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, x.dtype.type(1), e) / (1 + e)


@rounded_once
def softplus(x: Array) -> Array:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)): large x stays x."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@rounded_once
def softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


@rounded_once
def silu(x: Array) -> Array:
    return x * sigmoid(x)


@rounded_once
def mish(x: Array) -> Array:
    return x * np.tanh(softplus(x))


@rounded_once
def hardswish(x: Array) -> Array:
    return x * np.clip(x + x.dtype.type(3), 0, 6) / x.dtype.type(6)


_FLOAT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "softsign": softsign,
    "silu": silu,
    "mish": mish,
    "hardswish": hardswish,
    "relu6": lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(6)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,  # half to even
}
_NUMBER: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": relu,
}

register(*(Op(name, infer_float, f) for name, f in _FLOAT.items()))
register(Op("identity", infer_same, lambda x: x, moves=True), *(Op(name, infer_number, f) for name, f in _NUMBER.items()))
register(
    Op("isnan", infer_test, np.isnan),
    Op("logical_not", infer_bool, np.logical_not),
    Op("bitwise_not", infer_bits, np.invert),
)
