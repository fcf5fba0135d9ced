"""linear: y = x @ w.T + b over the last axis, w is (out, in): the fully connected layer."""

from __future__ import annotations

from lowbit.dims import Dim
from lowbit.errors import ShapeError
from lowbit.ops.checks import differ, need_vector, rounded_once, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, shape_text


def infer(x: TensorType, w: TensorType, b: TensorType | None = None) -> TensorType:
    same_dtype(input=x, weight=w, bias=b)
    if w.rank != 2 or x.rank < 1 or differ(x.shape[-1], w.shape[1]):
        raise ShapeError(f"input {shape_text(x.shape)} does not fit weight {shape_text(w.shape)}: its last dimension must be {w.shape[-1]}")
    need_vector("bias", b, w.shape[0])
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


@rounded_once
def real(x: Array, w: Array, b: Array | None = None) -> Array:
    y = x @ wide(w).T
    return y if b is None else y + wide(b)


def macs(x: TensorType, w: TensorType, b: TensorType | None = None) -> Dim:
    return x.size * w.shape[0]


LINEAR = Op("linear", infer, real, macs)
register(LINEAR)
