"""block_linear, block_gather: linear layers and embeddings whose weights are the bytes of a GGUF file (docs/arithmetic.md)."""

from __future__ import annotations

import numpy as np

from lowbit.block_formats import RUN, block_format, dequantize, floats_of, parts_of, records_of
from lowbit.dims import Dim, product
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.checks import differ
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, shape_text


def _row_size(w: TensorType, format: str) -> int:
    """Elements of a row of the file's bytes (N, bytes of a row)."""
    if w.dtype.name != "uint8" or w.rank != 2:
        raise DTypeError(f"weights are {w}, the file's bytes needed: uint8[outputs, bytes of a row]")
    return block_format(format).row_size(int(w.shape[1]))


def infer(x: TensorType, w: TensorType, bias: TensorType | None = None, residual: TensorType | None = None, *, format: str) -> TensorType:
    k = _row_size(w, format)
    if x.dtype.name != "float32" or x.rank != 2:
        raise DTypeError(f"activations are {x}, rows of float32 needed")
    if differ(x.shape[1], k):
        raise ShapeError(f"activations {shape_text(x.shape)} and weights of {k} inputs ({format}, {w.shape[1]} bytes a row)")
    out = TensorType((x.shape[0], w.shape[0]), "float32")
    if bias is not None and bias != TensorType((w.shape[0],), "float32"):
        raise ShapeError(f"bias {bias} given, float32[{w.shape[0]}] needed")
    if residual is not None and residual != out:
        raise ShapeError(f"residual {residual} given, {out} needed")
    return out


def block_linear(x: Array, w: Array, bias: Array | None = None, residual: Array | None = None, *, format: str) -> Array:
    """x wᵀ + bias + residual: activations are rounded to int8 in blocks of 32, blocks are summed in float32 in ascending order."""
    y = _float_product(x, floats_of(format, w)) if block_format(format).is_float else _int_product(x, w, format)
    y = y if bias is None else y + bias
    return y if residual is None else y + residual


def _float_product(x: Array, w: Array) -> Array:
    """In the order of k, without fused multiply-adds."""
    y = np.zeros((x.shape[0], w.shape[0]), np.float32)
    for i in range(x.shape[1]):
        y += x[:, i : i + 1] * w[:, i]
    return y


def _int_product(x: Array, w: Array, format: str) -> Array:
    p, r = parts_of(format, w), records_of(x)
    y, v = np.zeros((2, x.shape[0], w.shape[0]), np.float32)
    ints = (p.ints * np.repeat(p.factors, 16, axis=-1)).astype(np.float64)  # exact: their sums have 24 bits
    q = r.q.astype(np.float64)
    for b in range(x.shape[1] // RUN):
        run, halves = slice(b * RUN, (b + 1) * RUN), slice(2 * b, 2 * b + 2)
        scale = r.scale[:, b : b + 1]
        y += (q[:, run] @ ints[:, run].T).astype(np.float32) * (p.d[:, b] * scale)
        if p.m is not None and p.offset_factors is not None:
            v += (r.halves[:, halves] @ p.offset_factors[:, halves].T).astype(np.float32) * (p.m[:, b] * scale)
        elif p.m is not None:
            v += p.m[:, b] * r.scaled_sum[:, b : b + 1]
    return y if p.m is None else y + v


def macs(x: TensorType, w: TensorType, bias: TensorType | None = None, residual: TensorType | None = None, *, format: str) -> Dim:
    return product(x.shape) * w.shape[0]


def infer_gather(w: TensorType, ids: TensorType, *, format: str) -> TensorType:
    k = _row_size(w, format)
    if ids.dtype.name != "int32" or ids.rank != 1:
        raise DTypeError(f"ids are {ids}, int32 of one axis needed")
    return TensorType((ids.shape[0], k), "float32")


def block_gather(w: Array, ids: Array, *, format: str) -> Array:
    """Rows of the file as floats; an id outside gives zeros."""
    inside = (ids >= 0) & (ids < w.shape[0])
    rows = dequantize(format, w[np.where(inside, ids, 0)])
    return np.where(inside[:, None], rows, np.float32(0))


register(Op("block_linear", infer, block_linear, macs), Op("block_gather", infer_gather, block_gather))
