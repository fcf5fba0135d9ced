"""attention: softmax(q kᵀ * scale + mask) v, and rotary_embedding, which turns pairs of features by an angle that grows with position."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.checks import broadcasts_to, differ, need_float, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, broadcast, shape_text


def infer(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, scale: float, causal: bool) -> TensorType:
    need_float(q)
    same_dtype(q=q, k=k, v=v)
    texts = f"q {shape_text(q.shape)}, k {shape_text(k.shape)}, v {shape_text(v.shape)}"
    if min(q.rank, k.rank, v.rank) < 2:
        raise ShapeError(f"{texts}: (…, length, features) needed")
    if differ(q.shape[-1], k.shape[-1]):
        raise ShapeError(f"{texts}: q and k must have the same number of features")
    if differ(k.shape[-2], v.shape[-2]):
        raise ShapeError(f"{texts}: k and v must have the same length")
    lead = broadcast(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if mask is not None:
        if mask.dtype.name != "bool" and mask.dtype != q.dtype:
            raise DTypeError(f"mask is {mask.dtype}, bool or {q.dtype} needed")
        scores = (*lead, q.shape[-2], k.shape[-2])
        if not broadcasts_to(mask.shape, scores):
            raise ShapeError(f"mask {shape_text(mask.shape)} does not broadcast to {shape_text(scores)}")
    return TensorType((*lead, q.shape[-2], v.shape[-1]), q.dtype)


def real(q: Array, k: Array, v: Array, mask: Array | None = None, *, scale: float, causal: bool) -> Array:
    """A row that may attend to nothing gives zeros. `causal`: row i sees columns up to i."""
    wq, wk, wv = wide(q), wide(k), wide(v)
    scores = np.matmul(wq * wq.dtype.type(scale), wk.swapaxes(-1, -2))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + wide(mask)
    if causal:
        scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    weights = (e / np.where(total == 0, 1, total)).astype(wq.dtype, copy=False)
    return np.matmul(weights, wv).astype(q.dtype, copy=False)


def macs(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, scale: float, causal: bool) -> Dim:
    out = infer(q, k, v, mask, scale=scale, causal=causal)
    return product(out.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


def infer_rotary(x: TensorType, cos: TensorType, sin: TensorType, *, interleaved: bool) -> TensorType:
    need_float(x)
    same_dtype(x=x, cos=cos, sin=sin)
    if x.rank < 1 or (isinstance(x.shape[-1], int) and x.shape[-1] % 2):
        raise ShapeError(f"input {shape_text(x.shape)} given, an even number of features needed")
    half = (*x.shape[:-1], x.shape[-1] // 2)
    for what, t in (("cos", cos), ("sin", sin)):
        if not broadcasts_to(t.shape, half):
            raise ShapeError(f"{what} {shape_text(t.shape)} does not broadcast to {shape_text(half)}")
    return x.with_dtype(x.dtype)


def rotary_embedding(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Array:
    """(a, b) becomes (a cos - b sin, a sin + b cos); pairs are neighbours (interleaved) or the two halves of the features."""
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (a * cos - b * sin, a * sin + b * cos)
    y = np.stack(turned, axis=-1).reshape(x.shape) if interleaved else np.concatenate(turned, axis=-1)
    return y.astype(x.dtype, copy=False)


register(Op("attention", infer, real, macs), Op("rotary_embedding", infer_rotary, rotary_embedding))
