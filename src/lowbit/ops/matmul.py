"""matmul: NumPy's, for all ranks (a vector is a row on the left and a column on the right, leading dimensions broadcast)."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import ShapeError
from lowbit.ops.checks import differ, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, broadcast, shape_text


def infer(a: TensorType, b: TensorType) -> TensorType:
    same_dtype(a=a, b=b)
    return TensorType(output_shape(a, b), a.dtype)


def output_shape(a: TensorType, b: TensorType) -> tuple[Dim, ...]:
    """Shape of a @ b; a ShapeError when they do not fit."""
    if a.rank < 1 or b.rank < 1:
        raise ShapeError(f"{shape_text(a.shape)} @ {shape_text(b.shape)}: a scalar has no rows or columns")
    inner, needed = a.shape[-1], b.shape[-2] if b.rank > 1 else b.shape[0]
    if differ(inner, needed):
        raise ShapeError(f"{shape_text(a.shape)} @ {shape_text(b.shape)}: {inner} columns on the left, {needed} rows on the right")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))


def real(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(wide(a), wide(b))).astype(a.dtype, copy=False)


def macs(a: TensorType, b: TensorType) -> Dim:
    return infer(a, b).size * a.shape[-1]


MATMUL = Op("matmul", infer, real, macs)
register(MATMUL)
