"""linear: y = x @ w.T + b over the last axis, w is (out, in): the fully connected layer."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, shape_text


def infer(x: TensorType, w: TensorType, b: TensorType | None = None) -> TensorType:
    if w.rank != 2 or x.rank < 1 or x.shape[-1] != w.shape[1]:
        raise ShapeError(f"input {shape_text(x.shape)} does not fit weight {shape_text(w.shape)}: its last dimension must be {w.shape[-1]}")
    if b is not None and b.shape != (w.shape[0],):
        raise ShapeError(f"bias {shape_text(b.shape)} given, ({w.shape[0]}) needed")
    if any(t.dtype != x.dtype for t in (w, b) if t is not None):
        raise DTypeError(f"input is {x.dtype}, weight {w.dtype}" + (f", bias {b.dtype}" if b is not None else ""))
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


def real(x: Array, w: Array, b: Array | None = None) -> Array:
    y = np.matmul(x, w.T)
    return y if b is None else y + b


def macs(x: TensorType, w: TensorType, b: TensorType | None = None) -> Dim:
    return x.size * w.shape[0]


LINEAR = Op("linear", infer, real, macs)
register(LINEAR)
