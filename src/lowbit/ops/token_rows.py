"""rms_norm_rows, gate, rotary: rows of a language model, a token each. Unlike rms_norm and silu they promise bits (docs/arithmetic.md)."""

from __future__ import annotations

import numpy as np

from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import lb_sigmoid, lb_tanh
from lowbit.ops.checks import differ
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, shape_text

LANES = 16
FUNCTIONS = ("silu", "gelu_tanh")
STYLES = ("halves", "neighbours")


def need_f32(**given: TensorType) -> None:
    for name, t in given.items():
        if t.dtype.name != "float32":
            raise DTypeError(f"{name} is {t.dtype}, float32 needed")


def lane_sums(x: Array) -> Array:
    """Sums over the last axis: lane j of 16 sums elements j, j + 16, … in order; then lanes are added 8 apart, 4, 2, 1."""
    size = x.shape[-1]
    lanes = np.zeros((*x.shape[:-1], LANES), np.float32)
    for i in range(0, size, LANES):
        width = min(LANES, size - i)
        lanes[..., :width] += x[..., i : i + width]
    for width in (8, 4, 2, 1):
        lanes = lanes[..., :width] + lanes[..., width : 2 * width]
    return lanes


def infer_norm(x: TensorType, weight: TensorType, *, eps: float) -> TensorType:
    need_f32(x=x, weight=weight)
    if x.rank < 1 or weight.rank != 1 or differ(weight.shape[0], x.shape[-1]):
        raise ShapeError(f"x {shape_text(x.shape)} and weight {shape_text(weight.shape)}: one weight for each feature needed")
    return x


def rms_norm_rows(x: Array, weight: Array, *, eps: float) -> Array:
    """(x · r) · weight with r = 1 ÷ √(Σ x² ÷ n + eps), for each row."""
    mean = lane_sums(x * x) / np.float32(x.shape[-1])
    return np.asarray((x * (np.float32(1) / np.sqrt(mean + np.float32(eps)))) * weight)


def infer_gate(g: TensorType, up: TensorType, *, function: str) -> TensorType:
    need_f32(g=g, up=up)
    if function not in FUNCTIONS:
        raise ShapeError(f"function {function!r} given, one of {', '.join(FUNCTIONS)} needed")
    if g.shape != up.shape:
        raise ShapeError(f"g {shape_text(g.shape)} and up {shape_text(up.shape)} differ")
    return g


def gate(g: Array, up: Array, *, function: str) -> Array:
    """f(g) · up."""
    if function == "silu":
        return np.asarray(g * lb_sigmoid(g) * up)
    inner = np.float32(0.7978845608) * (g + ((np.float32(0.044715) * g) * g) * g)
    return np.asarray((np.float32(0.5) * g) * (np.float32(1) + lb_tanh(inner)) * up)


def infer_rotary(x: TensorType, cos: TensorType, sin: TensorType, *, style: str, dims: int) -> TensorType:
    need_f32(x=x, cos=cos, sin=sin)
    if style not in STYLES:
        raise ShapeError(f"style {style!r} given, one of {', '.join(STYLES)} needed")
    if x.rank != 3 or dims % 2 or (isinstance(x.shape[2], int) and not 0 <= dims <= x.shape[2]):
        raise ShapeError(f"x {shape_text(x.shape)} given, (rows, heads, features) and an even number of dims ({dims}) needed")
    for name, t in (("cos", cos), ("sin", sin)):
        if t.shape != (x.shape[0], dims // 2):
            raise ShapeError(f"{name} {shape_text(t.shape)} given, {shape_text((x.shape[0], dims // 2))} needed")
    return x


def rotary(x: Array, cos: Array, sin: Array, *, style: str, dims: int) -> Array:
    """Pairs (a, b) of the first `dims` features become (a · cos - b · sin, b · cos + a · sin): halves, or neighbours."""
    y, half = x.copy(), dims // 2
    first, second = (slice(0, half), slice(half, dims)) if style == "halves" else (slice(0, dims, 2), slice(1, dims, 2))
    a, b, c, s = x[..., first], x[..., second], cos[:, None], sin[:, None]
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s
    return y


register(Op("rms_norm_rows", infer_norm, rms_norm_rows), Op("gate", infer_gate, gate), Op("rotary", infer_rotary, rotary))
