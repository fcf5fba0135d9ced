"""Normalizations: (x - mean) / sqrt(var + eps) over different groups of elements, then scale and bias. Sums are in float32 at least."""

from __future__ import annotations

import numpy as np

from lowbit.errors import ShapeError
from lowbit.ops.checks import broadcasts_to, need_float, need_order, need_vector, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, normalize_axis, shape_text


def _channels(t: Array, rank: int) -> Array:
    """A vector over the channels (axis 1), ready to broadcast."""
    return wide(t).reshape(-1, *[1] * (rank - 2))


def _check_channels(x: TensorType, least: int, **vectors: TensorType | None) -> TensorType:
    need_float(x)
    if x.rank < least:
        raise ShapeError(f"input {shape_text(x.shape)} given, (N, C, …) needed")
    for what, t in vectors.items():
        need_vector(what, t, x.shape[1])
    return x.with_dtype(x.dtype)


def standardize(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """x with mean 0 and variance 1 (nearly: eps) over the axes."""
    centered = x - mean(x, axes)
    return np.asarray(centered / np.sqrt(mean(np.square(centered), axes) + x.dtype.type(eps)))


def mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over the axes, which stay; over nothing it is NaN."""
    count = np.prod([x.shape[a] for a in axes])
    return np.asarray(x.sum(axis=axes, keepdims=True) / x.dtype.type(count))


def _affine(y: Array, scale: Array | None, bias: Array | None) -> Array:
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def infer_batch(x: TensorType, scale: TensorType, bias: TensorType, mean: TensorType, var: TensorType, *, eps: float) -> TensorType:
    return _check_channels(x, 2, scale=scale, bias=bias, mean=mean, var=var)


def batch_norm(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, eps: float) -> Array:
    """scale * (x - mean) / sqrt(var + eps) + bias with given statistics, per channel."""
    s, b, m, v = (_channels(t, x.ndim) for t in (scale, bias, mean, var))
    y = np.asarray(wide(x) - m)
    y *= s / np.sqrt(v + v.dtype.type(eps))
    y += b
    return y.astype(x.dtype, copy=False)


def _check_tail(x: TensorType, axis: int, **tensors: TensorType | None) -> TensorType:
    need_float(x)
    same_dtype(input=x, **tensors)
    tail = x.shape[normalize_axis(axis, x.rank) :]
    for what, t in tensors.items():
        if t is not None and not broadcasts_to(t.shape, tail):
            raise ShapeError(f"{what} {shape_text(t.shape)} does not broadcast to the normalized dimensions {shape_text(tail)}")
    return x.with_dtype(x.dtype)


def infer_layer(x: TensorType, scale: TensorType | None = None, bias: TensorType | None = None, *, axis: int, eps: float) -> TensorType:
    return _check_tail(x, axis, scale=scale, bias=bias)


def layer_norm(x: Array, scale: Array | None = None, bias: Array | None = None, *, axis: int, eps: float) -> Array:
    """x standardized over the axes from `axis` to the last."""
    axes = tuple(range(normalize_axis(axis, x.ndim), x.ndim))
    y = standardize(wide(x), axes, eps)
    return _affine(y, None if scale is None else wide(scale), None if bias is None else wide(bias)).astype(x.dtype, copy=False)


def infer_rms(x: TensorType, scale: TensorType | None = None, *, axis: int, eps: float) -> TensorType:
    return _check_tail(x, axis, scale=scale)


def rms_norm(x: Array, scale: Array | None = None, *, axis: int, eps: float) -> Array:
    """x / sqrt(mean(x²) + eps) over the axes from `axis` to the last; no mean is subtracted."""
    axes = tuple(range(normalize_axis(axis, x.ndim), x.ndim))
    w = wide(x)
    y = w / np.sqrt(mean(np.square(w), axes) + w.dtype.type(eps))
    return _affine(y, None if scale is None else wide(scale), None).astype(x.dtype, copy=False)


def infer_instance(x: TensorType, scale: TensorType, bias: TensorType, *, eps: float) -> TensorType:
    return _check_channels(x, 3, scale=scale, bias=bias)


def instance_norm(x: Array, scale: Array, bias: Array, *, eps: float) -> Array:
    """Each channel of each image standardized by itself."""
    y = standardize(wide(x), tuple(range(2, x.ndim)), eps)
    return _affine(y, _channels(scale, x.ndim), _channels(bias, x.ndim)).astype(x.dtype, copy=False)


def infer_group(x: TensorType, scale: TensorType | None = None, bias: TensorType | None = None, *, groups: int, eps: float) -> TensorType:
    out = _check_channels(x, 2, scale=scale, bias=bias)
    if groups < 1 or (isinstance(x.shape[1], int) and x.shape[1] % groups):
        raise ShapeError(f"{x.shape[1]} channels cannot be split into {groups} groups")
    return out


def group_norm(x: Array, scale: Array | None = None, bias: Array | None = None, *, groups: int, eps: float) -> Array:
    """Each group of channels of each image standardized by itself; scale and bias are per channel."""
    grouped = wide(x).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    y = standardize(grouped, tuple(range(2, grouped.ndim)), eps).reshape(x.shape)
    s = None if scale is None else _channels(scale, x.ndim)
    return _affine(y, s, None if bias is None else _channels(bias, x.ndim)).astype(x.dtype, copy=False)


def infer_lrn(x: TensorType, *, size: int, alpha: float, beta: float, bias: float) -> TensorType:
    if size < 1:
        raise ShapeError(f"size {size} given, 1 or more needed")
    return _check_channels(x, 2)


def lrn(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    """x / (bias + alpha/size * Σ x²)^beta, the sum over `size` neighbouring channels."""
    before, after = (size - 1) // 2, size // 2
    squares = np.square(wide(x))
    total = np.empty_like(squares)
    for c in range(x.shape[1]):
        total[:, c] = squares[:, max(c - before, 0) : c + after + 1].sum(axis=1)
    t = squares.dtype.type
    return np.asarray(wide(x) / (t(bias) + t(alpha / size) * total) ** t(beta)).astype(x.dtype)


def infer_lp(x: TensorType, *, axis: int, p: int) -> TensorType:
    need_float(x)
    need_order(p)
    normalize_axis(axis, x.rank)
    return x.with_dtype(x.dtype)


def lp_norm(x: Array, *, axis: int, p: int) -> Array:
    """x divided by its p-norm along an axis; 0/0 is NaN, as ONNX defines it."""
    w = wide(x)
    norm = (np.abs(w) ** p).sum(axis=axis, keepdims=True) ** w.dtype.type(1.0 / p)
    return np.asarray(w / norm).astype(x.dtype)


register(
    Op("batch_norm", infer_batch, batch_norm),
    Op("layer_norm", infer_layer, layer_norm),
    Op("rms_norm", infer_rms, rms_norm),
    Op("instance_norm", infer_instance, instance_norm),
    Op("group_norm", infer_group, group_norm),
    Op("lrn", infer_lrn, lrn),
    Op("lp_norm", infer_lp, lp_norm),
)
