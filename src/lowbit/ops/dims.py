"""dims: int64 numbers that depend on symbolic dimensions, e.g. (batch, 3*seq). A constant once the symbols are bound."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType


def infer(*, values: tuple[Dim, ...], shape: tuple[int, ...]) -> TensorType:
    if product(shape) != len(values):
        raise ShapeError(f"{len(values)} values do not fill shape {shape}")
    return TensorType(shape, "int64")


def real(*, values: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    return np.array(values, dtype=np.int64).reshape(shape)


DIMS = Op("dims", infer, real)
register(DIMS)
