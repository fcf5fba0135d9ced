"""A function of bytes for each channel, as tables: what pixels become before a network's first layer."""

from __future__ import annotations

import numpy as np

from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, axis_of


def infer(x: TensorType, table: TensorType, *, axis: int) -> TensorType:
    if x.dtype.name != "uint8":
        raise DTypeError(f"{x} given, uint8 is needed")
    channels = x.shape[axis_of(axis, x.shape)]
    if table.rank != 2 or table.shape[1] != 256 or table.shape[0] not in (1, channels):
        raise ShapeError(f"table {table} given, [{channels}, 256] (or [1, 256]) is needed for {x}")
    return x.with_dtype(table.dtype)


def look_up(x: Array, table: Array, *, axis: int) -> Array:
    """y = table[c, x], where c is the place along the axis."""
    if len(table) == 1:
        return table[0][x]
    axis = axis_of(axis, x.shape)
    channel = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - axis - 1))
    return table[channel, x]


register(Op("channel_table", infer, look_up))
