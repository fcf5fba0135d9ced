"""Pools: a maximum, mean or norm over a sliding window of each channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.errors import ShapeError
from lowbit.ops.checks import need_float, need_order, wide
from lowbit.ops.op import Op, register
from lowbit.ops.window import Ints, check_geometry, lowest, output_size, taps
from lowbit.types import Array, TensorType, shape_text


def _infer(x: TensorType, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool) -> TensorType:
    if x.rank < 3:
        raise ShapeError(f"input {shape_text(x.shape)} given, (N, C, spatial…) needed")
    check_geometry(x.rank - 2, kernel, stride, pads, dilation)
    return TensorType((*x.shape[:2], *output_size(x.shape[2:], kernel, stride, pads, dilation, ceil_mode)), x.dtype)


def _output(x: Array, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    return tuple(int(d) for d in output_size(x.shape[2:], kernel, stride, pads, dilation, ceil_mode))


def _combined(x: Array, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, out: Ints, value: Any, combine: np.ufunc) -> Array:
    """(N, C, *out): the elements of each window combined, tap by tap and image by image; padding is `value`."""
    y = np.full((*x.shape[:2], *out), value, x.dtype)
    for image, result in zip(x, y, strict=True):
        for _, tap in taps(image[None], kernel, stride, pads, dilation, out, value):
            combine(result, tap[0], out=result)
    return y


def infer_max(x: TensorType, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool) -> TensorType:
    return _infer(x, kernel, stride, pads, dilation, ceil_mode)


def max_pool(x: Array, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool) -> Array:
    """The largest element of each window; padding is never it."""
    out = _output(x, kernel, stride, pads, dilation, ceil_mode)
    return _combined(x, kernel, stride, pads, dilation, out, lowest(x), np.maximum)


def infer_max_indices(
    x: TensorType, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, column_major: bool = False
) -> tuple[TensorType, TensorType]:
    y = _infer(x, kernel, stride, pads, dilation, ceil_mode)
    return y, y.with_dtype("int64")


def max_pool_indices(
    x: Array, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, column_major: bool = False
) -> tuple[Array, Array]:
    """The maxima and where they are: flat positions in the whole input, the first one where several are equal (0 for padding alone).

    With `column_major` the spatial part of a position counts the first spatial axis fastest.
    """
    spatial, out = x.shape[2:], _output(x, kernel, stride, pads, dilation, ceil_mode)
    within = np.arange(int(np.prod(spatial)), dtype=np.int64).reshape(spatial, order="F" if column_major else "C")
    top = _combined(x, kernel, stride, pads, dilation, out, lowest(x), np.maximum)
    index = np.full(top.shape, -1, np.int64)
    for (_, tap), (_, place) in zip(
        taps(x, kernel, stride, pads, dilation, out, lowest(x)),
        taps(within[None, None], kernel, stride, pads, dilation, out, -1),  # padding equals the least value, but it is no place
        strict=True,
    ):
        first = (index < 0) & ((tap == top) | (tap != tap))
        np.copyto(index, place, where=first)
    image = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], *[1] * len(spatial))
    return top, index.clip(0) + image * within.size


def infer_avg(
    x: TensorType, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, count_include_pad: bool
) -> TensorType:
    need_float(x)
    return _infer(x, kernel, stride, pads, dilation, ceil_mode)


def avg_pool(x: Array, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, count_include_pad: bool) -> Array:
    """The mean of each window. What `ceil_mode` adds beyond the padding never counts; the padding counts on demand."""
    total, count = window_sums(wide(x), kernel, stride, pads, dilation, ceil_mode, count_include_pad)
    return np.asarray(total / count).astype(x.dtype)


def window_sums(
    x: Array, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, count_include_pad: bool
) -> tuple[Array, Array]:
    """The sum of each window, and how many elements count in it."""
    n, out = len(kernel), _output(x, kernel, stride, pads, dilation, ceil_mode)
    inside = np.ones((1, 1, *x.shape[2:]), x.dtype)
    around = pads
    if count_include_pad:
        inside = np.pad(inside, [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)], constant_values=1)
        around = (0,) * 2 * n
    count = _combined(inside, kernel, stride, around, dilation, out, 0, np.add)
    return _combined(x, kernel, stride, pads, dilation, out, 0, np.add), count


def infer_lp(x: TensorType, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, p: int) -> TensorType:
    need_float(x)
    need_order(p)
    return _infer(x, kernel, stride, pads, dilation, ceil_mode)


def lp_pool(x: Array, *, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, ceil_mode: bool, p: int) -> Array:
    """The p-norm of each window: (Σ |x|^p)^(1/p)."""
    out = _output(x, kernel, stride, pads, dilation, ceil_mode)
    total = _combined(np.abs(wide(x)) ** p, kernel, stride, pads, dilation, out, 0, np.add)
    return np.asarray(total ** (1.0 / p)).astype(x.dtype)


def infer_adaptive(x: TensorType, *, output_size: Ints) -> TensorType:
    if x.rank < 3 or len(output_size) != x.rank - 2:
        raise ShapeError(f"input {shape_text(x.shape)} and output size {output_size}: one entry for each spatial dimension is needed")
    if any(isinstance(d, int) and d == 0 for d in x.shape[2:]):
        raise ShapeError(f"input {shape_text(x.shape)} has no elements to pool")
    return TensorType((*x.shape[:2], *output_size), x.dtype)


def infer_adaptive_avg(x: TensorType, *, output_size: Ints) -> TensorType:
    need_float(x)
    return infer_adaptive(x, output_size=output_size)


def over_bins(x: Array, output_size: Ints, reduce: Any) -> Array:
    """Bin i of n along an axis covers elements floor(i*size/n) up to ceil((i+1)*size/n); axes are independent."""
    for axis, n in enumerate(output_size, 2):
        size = x.shape[axis]
        bins = [reduce(x.take(range(i * size // n, -(-(i + 1) * size // n)), axis), axis=axis) for i in range(n)]
        x = np.stack(bins, axis) if bins else x[(slice(None),) * axis + (slice(0, 0),)]
    return x


def adaptive_avg_pool(x: Array, *, output_size: Ints) -> Array:
    return over_bins(wide(x), output_size, np.mean).astype(x.dtype)


def adaptive_max_pool(x: Array, *, output_size: Ints) -> Array:
    return over_bins(x, output_size, np.max)


def infer_unpool(x: TensorType, indices: TensorType, *, shape: tuple[Any, ...]) -> TensorType:
    if x.shape != indices.shape or len(shape) != x.rank:
        raise ShapeError(f"input {shape_text(x.shape)}, indices {shape_text(indices.shape)} and output {shape_text(shape)} do not fit")
    return TensorType(shape, x.dtype)


def max_unpool(x: Array, indices: Array, *, shape: Ints) -> Array:
    """Zeros with each element of x at its flat position: the inverse of max_pool_indices."""
    size = int(np.prod(shape))
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise ShapeError(f"an index is outside the {size} elements of output {shape_text(shape)}")
    y = np.zeros(size, x.dtype)
    y[indices.reshape(-1)] = x.reshape(-1)
    return y.reshape(shape)


register(
    Op("max_pool", infer_max, max_pool),
    Op("max_pool_indices", infer_max_indices, max_pool_indices),
    Op("avg_pool", infer_avg, avg_pool),
    Op("lp_pool", infer_lp, lp_pool),
    Op("adaptive_avg_pool", infer_adaptive_avg, adaptive_avg_pool),
    Op("adaptive_max_pool", infer_adaptive, adaptive_max_pool),
    Op("max_unpool", infer_unpool, max_unpool),
)
