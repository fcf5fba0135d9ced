"""Activation functions with attributes, and prelu whose slope is a tensor. The shape stays."""

from __future__ import annotations

import math

import numpy as np

from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.checks import rounded_once
from lowbit.ops.erf import erf
from lowbit.ops.op import Op, register
from lowbit.ops.unary import infer_float, sigmoid
from lowbit.types import Array, TensorType, broadcast, shape_text


def infer_clip(x: TensorType, *, min: float | None, max: float | None) -> TensorType:
    return x.with_dtype(x.dtype)


def clip(x: Array, *, min: float | None, max: float | None) -> Array:
    """max(x, min), then min(_, max): where the bounds cross, every element is `max`. NaN stays."""
    if min is None:
        return x if max is None else np.minimum(x, np.asarray(max).astype(x.dtype))
    y = np.asarray(np.maximum(x, np.asarray(min).astype(x.dtype)))
    return y if max is None else np.minimum(y, np.asarray(max).astype(x.dtype), out=y)


def infer_alpha(x: TensorType, *, alpha: float) -> TensorType:
    return infer_float(x)


@rounded_once
def leaky_relu(x: Array, *, alpha: float) -> Array:
    return np.where(x >= 0, x, x * x.dtype.type(alpha))


@rounded_once
def elu(x: Array, *, alpha: float) -> Array:
    return np.where(x >= 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


@rounded_once
def celu(x: Array, *, alpha: float) -> Array:
    a = x.dtype.type(alpha)
    return np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0) / a))


def thresholded_relu(x: Array, *, alpha: float) -> Array:
    return np.where(x > alpha, x, x.dtype.type(0))


def infer_selu(x: TensorType, *, alpha: float, gamma: float) -> TensorType:
    return infer_float(x)


@rounded_once
def selu(x: Array, *, alpha: float, gamma: float) -> Array:
    return x.dtype.type(gamma) * elu(x, alpha=alpha)


def infer_hardsigmoid(x: TensorType, *, alpha: float, beta: float) -> TensorType:
    return infer_float(x)


@rounded_once
def hardsigmoid(x: Array, *, alpha: float, beta: float) -> Array:
    t = x.dtype.type
    return np.clip(x * t(alpha) + t(beta), t(0), t(1))


def infer_gelu(x: TensorType, *, approximate: str = "none") -> TensorType:
    if approximate not in ("none", "tanh"):
        raise ShapeError(f"approximate is {approximate!r}, 'none' or 'tanh' needed")
    return infer_float(x)


@rounded_once
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """x·Φ(x): exactly 0.5x(1 + erf(x/√2)), or 0.5x(1 + tanh(√(2/π)(x + 0.044715x³)))."""
    t = x.dtype.type
    if approximate == "tanh":
        inner = np.tanh(t(math.sqrt(2 / math.pi)) * (x + t(0.044715) * x * x * x))
    else:
        inner = erf(x * t(math.sqrt(0.5)))
    return t(0.5) * x * (t(1) + inner)


@rounded_once
def swish(x: Array, *, alpha: float) -> Array:
    """x · sigmoid(alpha · x): silu for alpha = 1, the quick GELU for 1.702."""
    return x * sigmoid(x.dtype.type(alpha) * x)


def infer_shrink(x: TensorType, *, lambd: float, bias: float) -> TensorType:
    return x.with_dtype(x.dtype)


@rounded_once
def shrink(x: Array, *, lambd: float, bias: float) -> Array:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def infer_isinf(x: TensorType, *, positive: bool = True, negative: bool = True) -> TensorType:
    return infer_float(x).with_dtype("bool")


def isinf(x: Array, *, positive: bool = True, negative: bool = True) -> Array:
    return np.isinf(x) & ((positive & (x > 0)) | (negative & (x < 0)))


def infer_prelu(x: TensorType, slope: TensorType) -> TensorType:
    if x.dtype != slope.dtype:
        raise DTypeError(f"input is {x.dtype}, slope {slope.dtype}")
    if broadcast(x.shape, slope.shape) != x.shape:
        raise ShapeError(f"slope {shape_text(slope.shape)} does not broadcast to input {shape_text(x.shape)}")
    return x.with_dtype(x.dtype)


@rounded_once
def prelu(x: Array, slope: Array) -> Array:
    return np.where(x >= 0, x, x * slope)


register(
    Op("clip", infer_clip, clip),
    Op("leaky_relu", infer_alpha, leaky_relu),
    Op("elu", infer_alpha, elu),
    Op("celu", infer_alpha, celu),
    Op("thresholded_relu", infer_alpha, thresholded_relu),
    Op("selu", infer_selu, selu),
    Op("hardsigmoid", infer_hardsigmoid, hardsigmoid),
    Op("gelu", infer_gelu, gelu),
    Op("swish", infer_alpha, swish),
    Op("shrink", infer_shrink, shrink),
    Op("isinf", infer_isinf, isinf),
    Op("prelu", infer_prelu, prelu),
)
