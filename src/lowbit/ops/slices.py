"""Movement of parts: slice, concat, split, pad."""

from __future__ import annotations

import numpy as np

from lowbit.assumptions import larger, smaller
from lowbit.dims import Dim, Sym, ceil_div
from lowbit.errors import DTypeError, ShapeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, axis_of, shape_text

Ints = tuple[int, ...]
Dims = tuple[Dim, ...]


def slice_range(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The first index and the number of elements of a slice along an axis of `size` elements.

    `start` and `end` count from the front and may lie outside the axis: they are cut to it as ONNX cuts them, to [0, size] for a positive
    step; for a negative one `start` to [0, size - 1] and `end` to [-1, size - 1], where -1 means that the first element is taken too.

    >>> slice_range(10, 1, 99, 2), slice_range(10, 8, -1, -3), slice_range(6, -4, 6, 1)
    ((1, 5), (8, 3), (0, 6))
    """
    if step == 0:
        raise ShapeError("a step of 0 goes nowhere")
    if step > 0:
        first, last = min(max(start, 0), size), min(max(end, 0), size)
    else:
        first, last = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return first, max(-((first - last) // step), 0)


def slice_length(size: Dim, start: Dim, end: Dim, step: int) -> Dim:
    """The number of elements of a slice; see `slice_range`."""
    if step == 0 or (isinstance(size, int) and isinstance(start, int) and isinstance(end, int)):
        return slice_range(int(size), int(start), int(end), step)[1]
    if step > 0:
        return larger(ceil_div(smaller(end, size) - larger(start, 0), step), 0)
    return larger(ceil_div(smaller(larger(start, 0), size - 1) - larger(end, -1), -step), 0)


def infer_slice(x: TensorType, *, axes: Ints, starts: Dims, ends: Dims, steps: Ints) -> TensorType:
    if not len(axes) == len(starts) == len(ends) == len(steps):
        raise ShapeError(f"{len(axes)} axes, {len(starts)} starts, {len(ends)} ends and {len(steps)} steps given")
    shape = list(x.shape)
    for a, s, e, step in zip(axes, starts, ends, steps, strict=True):
        a = axis_of(a, x.shape)
        shape[a] = slice_length(x.shape[a], s, e, step)
    return TensorType(shape, x.dtype)


def slice_(x: Array, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> Array:
    index = [slice(None)] * x.ndim
    for a, s, e, step in zip(axes, starts, ends, steps, strict=True):
        first, count = slice_range(x.shape[a], s, e, step)
        last = first + count * step  # one step after the last element taken; None where that is before the front
        index[a] = slice(first, last if last >= 0 else None, step) if count else slice(0, 0)
    return x[tuple(index)]


def infer_concat(*xs: TensorType, axis: int) -> TensorType:
    if not xs:
        raise ShapeError("nothing to concatenate")
    axis = axis_of(axis, xs[0].shape)
    total: Dim = 0
    shape = list(xs[0].shape)
    for x in xs:
        if x.dtype != xs[0].dtype:
            raise DTypeError(f"inputs are {xs[0].dtype} and {x.dtype}, one element type needed", hint="cast one of them")
        fits = x.rank == len(shape) and all(
            i == axis or d == e or isinstance(d, Sym) or isinstance(e, Sym) for i, (d, e) in enumerate(zip(x.shape, shape, strict=True))
        )
        if not fits:
            raise ShapeError("inputs " + " and ".join(shape_text(t.shape) for t in xs) + f" differ in more than axis {axis}")
        shape = [d if isinstance(d, int) else e for d, e in zip(x.shape, shape, strict=True)]  # a number says more than a symbol
        total = total + x.shape[axis]
    shape[axis] = total
    return TensorType(shape, xs[0].dtype)


def concat(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis=axis)


def infer_split(x: TensorType, *, axis: int, sizes: Dims) -> tuple[TensorType, ...]:
    axis = axis_of(axis, x.shape)
    if not sizes:
        raise ShapeError("no sizes given: nothing would be left")
    total: Dim = 0
    for s in sizes:
        total = total + s
    if isinstance(total, int) and isinstance(x.shape[axis], int) and total != x.shape[axis]:
        raise ShapeError(f"sizes {shape_text(sizes)} sum to {total}, axis {axis} of {shape_text(x.shape)} has {x.shape[axis]}")
    return tuple(TensorType((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype) for s in sizes)


def split(x: Array, *, axis: int, sizes: Ints) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1].astype(np.int64), axis=axis))


def infer_pad(x: TensorType, *, pads: Dims, mode: str, value: float = 0.0) -> TensorType:
    if len(pads) != 2 * x.rank:
        raise ShapeError(f"{len(pads)} pads given, rank {x.rank} needs {2 * x.rank}")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ShapeError(f"mode is {mode!r}, one of constant, reflect, edge, wrap needed")
    return TensorType([d + b + e for d, b, e in zip(x.shape, pads[: x.rank], pads[x.rank :], strict=True)], x.dtype)


def pad(x: Array, *, pads: Ints, mode: str, value: float = 0.0) -> Array:
    """Negative pads cut off, before the positive ones are put on."""
    begins, ends = pads[: x.ndim], pads[x.ndim :]
    kept = x[tuple(slice(max(-b, 0), d + min(e, 0)) for d, b, e in zip(x.shape, begins, ends, strict=True))]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    if mode == "constant":
        return np.pad(kept, widths, constant_values=np.asarray(value).astype(x.dtype))
    if any(sum(w) and not d for w, d in zip(widths, kept.shape, strict=True)):
        raise ShapeError(f"{mode} padding of {shape_text(kept.shape)}: an empty axis has nothing to repeat")
    return np.pad(kept, widths, mode=mode)  # type: ignore[call-overload]


register(
    Op("slice", infer_slice, slice_, moves=True),
    Op("concat", infer_concat, concat, moves=True),
    Op("split", infer_split, split, moves=True),
    Op("pad", infer_pad, pad, moves=True),
)
