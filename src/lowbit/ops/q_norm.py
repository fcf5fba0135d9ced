"""Integer normalizations (docs/arithmetic.md §5): exact sums of the integers, then a few float32 steps for each element.

    d_i = x_i - x_zero;  s1 = Σ d_i;  s2 = Σ d_i²                          exact
    mean = fl32(s1) ÷ fl32(n);  v = fl32(n·s2 - s1²) ÷ fl32(n²)            RMS: mean = 0, v = fl32(s2) ÷ fl32(n)
    t_i = (fl32(d_i) - mean) × (1 ÷ √(v + eps))                            eps of the op ÷ (sx × sx)
    y_i = clamp(rne(t_i × gain + offset) + y_zero)                         gain = gamma ÷ sy, offset = beta ÷ sy

n·s2 fits int64 while n · largest |d| < 2^31.5: shapes and dtype prove it, or the norm stays float.
A batch norm that no convolution took in has its statistics as constants: y = clamp(rne(fl32(d) × gain[c] + offset[c]) + y_zero).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import DTypeError
from lowbit.ops import quant
from lowbit.ops.norm import infer_batch, infer_group, infer_instance, infer_layer, infer_rms
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_matmul import need_integers, rounded
from lowbit.types import Array, TensorType, normalize_axis


def standardized(d: Array, axes: tuple[int, ...], eps: float, center: bool = True) -> Array:
    """t_i of the head of this file, for int64 d."""
    n = int(np.prod([d.shape[a] for a in axes]))
    s1, s2 = d.sum(axis=axes, keepdims=True), np.square(d).sum(axis=axes, keepdims=True)
    count = np.asarray(n).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        if center:
            centered = d.astype(np.float32) - s1.astype(np.float32) / count
            v = (n * s2 - s1 * s1).astype(np.float32) / np.asarray(n * n).astype(np.float32)
        else:
            centered, v = d.astype(np.float32), s2.astype(np.float32) / count
        return np.asarray(centered * (np.float32(1) / np.sqrt(v + np.float32(eps))))


def affine(t: Array, gain: Array, offset: Array | None, y_zero: int, lo: int, hi: int, to: str) -> Array:
    y = t * gain
    return rounded(y if offset is None else y + offset, y_zero, lo, hi, to)


def _channels(v: Array | None, rank: int) -> Any:
    """A vector over the channels (axis 1), ready to broadcast; one number for all as it is."""
    return v if v is None or v.ndim == 0 else v.reshape(-1, *[1] * (rank - 2))


def _reals(*types: TensorType | None) -> list[TensorType | None]:
    """The types for an `infer` that knows no integers: gain and offset are float32, one number (not a vector) is left out."""
    x, *vectors = types
    need_integers(input=x)
    assert x is not None
    wrong = next((t for t in vectors if t is not None and t.dtype.name != "float32"), None)
    if wrong is not None:
        raise DTypeError(f"{wrong} given, gain and offset are float32")
    return [x.with_dtype("float32"), *(None if t is not None and t.rank == 0 else t for t in vectors)]


@dataclass(frozen=True)
class QNorm:
    """Attributes of q_instance_norm, and the last ones of the other norms: zero points, limits and the dtype of the result."""

    eps: float
    x_zero: int
    y_zero: int
    lo: int
    hi: int
    to: str

    def result(self, standard: Array, gain: Array, offset: Array | None) -> Array:
        return affine(standard, gain, offset, self.y_zero, self.lo, self.hi, self.to)


@dataclass(frozen=True)
class _Axis:
    axis: int


@dataclass(frozen=True)
class QLayerNorm(QNorm, _Axis):
    """Attributes of q_layer_norm and q_rms_norm: axis, then those of QNorm."""


@dataclass(frozen=True)
class _Groups:
    groups: int


@dataclass(frozen=True)
class QGroupNorm(QNorm, _Groups):
    """Attributes of q_group_norm: groups, then those of QNorm."""


def _typed(infer: Callable[..., TensorType], a: QNorm, *types: TensorType | None, **own: int) -> TensorType:
    """The result's type: that of the float norm, in the dtype of the integers."""
    return infer(*_reals(*types), eps=a.eps, **own).with_dtype(a.to)


@attributes(QLayerNorm)
def infer_q_layer(x: TensorType, gain: TensorType, offset: TensorType | None = None, *, a: QLayerNorm) -> TensorType:
    return _typed(infer_layer, a, x, gain, offset, axis=a.axis)


@attributes(QLayerNorm)
def layer_norm(x: Array, gain: Array, offset: Array | None = None, *, a: QLayerNorm) -> Array:
    axes = tuple(range(normalize_axis(a.axis, x.ndim), x.ndim))
    return a.result(standardized(x.astype(np.int64) - a.x_zero, axes, a.eps), gain, offset)


@attributes(QLayerNorm)
def infer_q_rms(x: TensorType, gain: TensorType, *, a: QLayerNorm) -> TensorType:
    return _typed(infer_rms, a, x, gain, axis=a.axis)


@attributes(QLayerNorm)
def rms_norm(x: Array, gain: Array, *, a: QLayerNorm) -> Array:
    axes = tuple(range(normalize_axis(a.axis, x.ndim), x.ndim))
    return a.result(standardized(x.astype(np.int64) - a.x_zero, axes, a.eps, center=False), gain, None)


@attributes(QNorm)
def infer_q_instance(x: TensorType, gain: TensorType, offset: TensorType, *, a: QNorm) -> TensorType:
    return _typed(infer_instance, a, x, gain, offset)


@attributes(QNorm)
def instance_norm(x: Array, gain: Array, offset: Array, *, a: QNorm) -> Array:
    t = standardized(x.astype(np.int64) - a.x_zero, tuple(range(2, x.ndim)), a.eps)
    return a.result(t, _channels(gain, x.ndim), _channels(offset, x.ndim))


@attributes(QGroupNorm)
def infer_q_group(x: TensorType, gain: TensorType, offset: TensorType | None = None, *, a: QGroupNorm) -> TensorType:
    return _typed(infer_group, a, x, gain, offset, groups=a.groups)


@attributes(QGroupNorm)
def group_norm(x: Array, gain: Array, offset: Array | None = None, *, a: QGroupNorm) -> Array:
    d = (x.astype(np.int64) - a.x_zero).reshape(x.shape[0], a.groups, x.shape[1] // a.groups, *x.shape[2:])
    t = standardized(d, tuple(range(2, d.ndim)), a.eps).reshape(x.shape)
    return a.result(t, _channels(gain, x.ndim), _channels(offset, x.ndim))


def infer_q_batch(
    x: TensorType, gain: TensorType, offset: TensorType, *, x_zero: int, y_zero: int, lo: int, hi: int, to: str
) -> TensorType:
    real, g, b = _reals(x, gain, offset)
    assert real is not None and g is not None and b is not None
    return infer_batch(real, g, b, g, g, eps=0.0).with_dtype(to)


def batch_norm(x: Array, gain: Array, offset: Array, *, x_zero: int, y_zero: int, lo: int, hi: int, to: str) -> Array:
    d = (x.astype(np.int32) - x_zero).astype(np.float32)
    return affine(d, _channels(gain, x.ndim), _channels(offset, x.ndim), y_zero, lo, hi, to)


def over(dims: tuple[Dim, ...], x: quant.Operand) -> None:
    """Raises NotLowered unless n·s2 - s1² over this many elements is proved to fit int64."""
    n = product(dims)
    if not isinstance(n, int):
        raise quant.NotLowered(f"the range of its sums cannot be proved while '{n}' is not bound")
    if (n * quant.largest_magnitude(x)) ** 2 >= 2**63:
        raise quant.NotLowered(f"its sums of squares over {n} elements of {x.params.dtype} do not fit 64 bits")


def constant(operand: Any, what: str) -> Array | None:
    if operand is None:
        return None
    if not isinstance(operand, quant.FloatOperand) or operand.data is None:
        raise quant.NotLowered(f"its {what} is not constant")
    return operand.data


def lower(op: str) -> quant.Lower:
    def lowered(operands: quant.Operands, result: quant.Result, *, eps: float, **attrs: Any) -> quant.OpCall:
        x = operands[0]
        assert isinstance(x, quant.Operand)
        (sx, xz), (sy, yz) = x.per_tensor("input"), result.target()
        shape = x.type.shape
        if "axis" in attrs:
            over(shape[normalize_axis(attrs["axis"], x.type.rank) :], x)
        else:
            over((*shape[2:], shape[1] // attrs["groups"] if "groups" in attrs else 1), x)
        scale = constant(operands[1] if len(operands) > 1 else None, "scale")
        bias = constant(operands[2] if len(operands) > 2 else None, "bias")
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            small = np.float32(np.float32(eps) / np.float32(sx * sx))
        if not np.isfinite(small):
            raise quant.NotLowered("its eps ÷ (input scale)² leaves the range of float32")
        gain = np.asarray((np.float32(1) if scale is None else scale.astype(np.float32)) / sy, np.float32)
        offset = None if bias is None else quant.Const(np.asarray(bias.astype(np.float32) / sy, np.float32), "offset")
        args = (quant.Ref(0), quant.Const(gain, "gain")) if offset is None else (quant.Ref(0), quant.Const(gain, "gain"), offset)
        return quant.OpCall(op, args, {**attrs, "eps": float(small), "x_zero": xz, "y_zero": yz, **result.clamp})

    return lowered


def lower_batch(operands: quant.Operands, result: quant.Result, *, eps: float) -> quant.OpCall:
    x = operands[0]
    assert isinstance(x, quant.Operand)
    (sx, xz), (sy, yz) = x.per_tensor("input"), result.target()
    wide = [constant(o, what) for o, what in zip(operands[1:], ("scale", "bias", "mean", "variance"), strict=True)]
    scale, bias, mean, var = (np.asarray(t, np.float64) for t in wide)
    a = scale / np.sqrt(var + eps)
    gain, offset = (a * float(sx) / float(sy)).astype(np.float32), ((bias - mean * a) / float(sy)).astype(np.float32)
    if not (np.all(np.isfinite(gain)) and np.all(np.isfinite(offset))):
        raise quant.NotLowered("its factors leave the range of float32")
    attrs = {"x_zero": xz, "y_zero": yz, **result.clamp}
    return quant.OpCall("q_batch_norm", (quant.Ref(0), quant.Const(gain, "gain"), quant.Const(offset, "offset")), attrs)


register(
    Op("q_layer_norm", infer_q_layer, layer_norm),
    Op("q_rms_norm", infer_q_rms, rms_norm),
    Op("q_instance_norm", infer_q_instance, instance_norm),
    Op("q_group_norm", infer_q_group, group_norm),
    Op("q_batch_norm", infer_q_batch, batch_norm),
)
for _op in ("layer_norm", "rms_norm", "instance_norm", "group_norm"):
    quant.quantizes(_op, quant.QuantSpec((0,), fuses_clip=True), lower(f"q_{_op}"))
quant.quantizes("batch_norm", quant.QuantSpec((0,), fuses_clip=True), lower_batch)
