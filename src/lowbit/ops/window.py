"""Shared parts of ops with a sliding window: output sizes (also symbolic), the windows themselves, and their adjoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as positions
from typing import Any

import numpy as np

from lowbit.dims import Dim, ceil_div
from lowbit.errors import ShapeError
from lowbit.types import Array, Shape

Ints = tuple[int, ...]


def extent(kernel: Sequence[int], dilation: Sequence[int]) -> Ints:
    """How far a dilated kernel reaches: 3 taps at distance 2 cover 5 elements."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))


def check_geometry(spatial: int, kernel: Sequence[Dim], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]) -> None:
    """A ShapeError unless every option has one entry (pads: two) for each of the spatial dimensions, and a legal one."""
    for what, given, need in (("kernel", kernel, 1), ("stride", stride, 1), ("pads", pads, 2), ("dilation", dilation, 1)):
        if len(given) != need * spatial:
            raise ShapeError(f"{what} {tuple(given)} has {len(given)} entries, {spatial} spatial dimensions need {need * spatial}")
        low = 0 if what == "pads" else 1
        if any(isinstance(g, int) and g < low for g in given):
            raise ShapeError(f"{what} {tuple(given)} has an entry below {low}")


def output_size(
    size: Shape, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int], ceil_mode: bool = False
) -> Shape:
    """How many windows fit: (size + pads - extent)//stride + 1 along each axis.

    With `ceil_mode` a last window may reach over the end, if it starts inside the input or the padding before it. Both conditions
    together are ceil((size + begin + min(0, end + stride - extent)) / stride): no comparison of a symbol is needed.
    """
    n = len(size)
    out: list[Dim] = []
    for i, (s, e) in enumerate(zip(size, extent(kernel, dilation), strict=True)):
        begin, end = pads[i], pads[n + i]
        if ceil_mode:
            count = ceil_div(s + begin + min(0, end + stride[i] - e), stride[i])
        else:
            count = (s + begin + end - e) // stride[i] + 1
        if isinstance(count, int) and count < 1:
            raise ShapeError(f"a window of {e} does not fit spatial size {s} with padding {begin} + {end}")
        out.append(count)
    return tuple(out)


def pad_spatial(x: Array, begin: Sequence[int], end: Sequence[int], value: float) -> Array:
    """The array with its spatial axes (all but the first two) padded by a value."""
    if not any(begin) and not any(end):
        return x
    return np.pad(x, [(0, 0), (0, 0), *zip(begin, end, strict=True)], constant_values=value)


def windows(x: Array, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, out: Sequence[int], value: float = 0) -> Array:
    """Every window of the padded input, (N, C, *out, *kernel), as a view of it. What lies outside the input is `value`."""
    n = len(kernel)
    reach = extent(kernel, dilation)
    need = [(o - 1) * s + e for o, s, e in zip(out, stride, reach, strict=True)]
    end = [max(need[i] - x.shape[2 + i] - pads[i], 0) for i in range(n)]
    padded = pad_spatial(x, pads[:n], end, value)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, 2 + n)))
    starts = tuple(slice(0, (o - 1) * s + 1, s) for o, s in zip(out, stride, strict=True))
    taps = tuple(slice(None, None, d) for d in dilation)
    at = (slice(None), slice(None), *starts, *taps)
    return view[at]


def taps(
    x: Array, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, out: Sequence[int], value: float = 0
) -> Iterator[tuple[Ints, Array]]:
    """For each place k in the kernel, in order: k, and what it meets in every window, (N, C, *out), as a view of the padded input.

    Windows overlap: one tap at a time, no element need be copied once for each window that it is in.
    """
    view = windows(x, kernel, stride, pads, dilation, out, value)
    for k in positions(*map(range, kernel)):
        at: Any = (..., *k)
        yield k, view[at]


def overlap_add(cols: Array, size: Sequence[int], kernel: Ints, stride: Ints, pads: Ints, dilation: Ints) -> Array:
    """The adjoint of `windows`: (N, C, *kernel, *out) summed to where each window came from, (N, C, *size)."""
    n = len(kernel)
    blocks = cols.shape[2 + n :]
    full = [max((b - 1) * s + e, p + z) for b, s, e, p, z in zip(blocks, stride, extent(kernel, dilation), pads, size, strict=False)]
    total = np.zeros((*cols.shape[:2], *full), cols.dtype)
    every = (slice(None), slice(None))
    for k in positions(*map(range, kernel)) if all(blocks) else ():
        at = every + tuple(slice(i * d, i * d + (b - 1) * s + 1, s) for i, d, b, s in zip(k, dilation, blocks, stride, strict=True))
        tap: Any = every + k
        total[at] += cols[tap]
    inner = every + tuple(slice(p, p + z) for p, z in zip(pads, size, strict=False))
    return total[inner]


def lowest(x: Array) -> Any:
    """The value that no maximum prefers: -inf, or the least integer."""
    return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
