"""Movement of whole tensors: reshape, transpose, expand, tile, flip, roll, reverse_sequence. Elements move, none changes."""

from __future__ import annotations

import numpy as np

from lowbit.assumptions import note
from lowbit.dims import Dim, Sym, product
from lowbit.errors import ShapeError
from lowbit.ops.checks import need_vector
from lowbit.ops.op import Op, register
from lowbit.types import Array, Shape, TensorType, normalize_axis, shape_text


def infer_reshape(x: TensorType, *, shape: Shape) -> TensorType:
    have, need = x.size, product(shape)
    if isinstance(have, int) and isinstance(need, int) and have != need:
        raise ShapeError(f"{shape_text(x.shape)} has {have} elements, {shape_text(shape)} needs {need}")
    return x.with_dtype(x.dtype).with_shape(shape)


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def infer_transpose(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(f"perm {perm} is not an order of the {x.rank} axes")
    return TensorType([x.shape[p] for p in perm], x.dtype)


def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


def infer_expand(x: TensorType, *, shape: Shape) -> TensorType:
    fits = x.rank <= len(shape)
    for d, target in zip(x.shape, shape[len(shape) - x.rank :], strict=False):
        fits = fits and (d == 1 or d == target or isinstance(d, Sym) or isinstance(target, Sym))
        if isinstance(d, Sym) and isinstance(target, Sym) and d != target:
            note("fits", d, target)
    if not fits:
        raise ShapeError(f"{shape_text(x.shape)} does not expand to {shape_text(shape)}")
    return TensorType(shape, x.dtype)


def expand(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def infer_tile(x: TensorType, *, repeats: tuple[Dim, ...]) -> TensorType:
    if len(repeats) != x.rank:
        raise ShapeError(f"{len(repeats)} repeats given for rank {x.rank}")
    return TensorType([d * r for d, r in zip(x.shape, repeats, strict=True)], x.dtype)


def tile(x: Array, *, repeats: tuple[int, ...]) -> Array:
    return np.tile(x, repeats)


def infer_flip(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    for a in axes:
        normalize_axis(a, x.rank)
    return x.with_dtype(x.dtype)


def flip(x: Array, *, axes: tuple[int, ...]) -> Array:
    return np.flip(x, axes) if axes else x


def infer_roll(x: TensorType, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> TensorType:
    if len(shifts) != len(axes):
        raise ShapeError(f"{len(shifts)} shifts given for {len(axes)} axes")
    return infer_flip(x, axes=axes)


def roll(x: Array, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return np.roll(x, shifts, axes)


def infer_reverse_sequence(x: TensorType, lengths: TensorType, *, batch_axis: int, time_axis: int) -> TensorType:
    b, t = normalize_axis(batch_axis, x.rank), normalize_axis(time_axis, x.rank)
    if b == t:
        raise ShapeError(f"batch and time are both axis {b}")
    need_vector("lengths", lengths, x.shape[b])
    return x.with_dtype(x.dtype)


def reverse_sequence(x: Array, lengths: Array, *, batch_axis: int, time_axis: int) -> Array:
    """In each batch entry the first `length` steps in reverse order, the others in place."""
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    out = moved.copy()
    for i, n in enumerate(lengths.reshape(-1).tolist()):
        out[i, :n] = moved[i, :n][::-1]
    return np.moveaxis(out, (0, 1), (batch_axis, time_axis))


register(
    Op("reshape", infer_reshape, reshape, moves=True),
    Op("transpose", infer_transpose, transpose, moves=True),
    Op("expand", infer_expand, expand, moves=True),
    Op("tile", infer_tile, tile, moves=True),
    Op("flip", infer_flip, flip, moves=True),
    Op("roll", infer_roll, roll, moves=True),
    Op("reverse_sequence", infer_reverse_sequence, reverse_sequence, moves=True),
)
