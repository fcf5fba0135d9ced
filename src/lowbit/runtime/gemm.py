"""Integer matrix products of stacks of matrices by the compiled kernels, split over threads. The caller proves the ranges.

All arrays are stacks: (B, M, K) × (B, K, N) → (B, M, N), of any strides (a stride of 0 repeats a matrix). Each job of a product packs
its own part of the right side, so threads never wait for each other; the cut goes through the longer of M and N, because every job
packs the whole of the other side again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.runtime import native, threads

_PANEL = 16  # columns; rows and columns are cut at multiples, so that no job but the last has a ragged tile
_PACKED = 1 << 22  # elements of b that a job packs: 8 MB, however large b is
_AT_ONCE = 2  # jobs per thread that are made ready before they run
_WORTH = 1 << 21  # multiplications that pay for waking a thread: about 30 µs of work

Ints = NDArray[Any]
Part = tuple[int, slice, slice]  # which matrix, rows of the left, columns of the right


@dataclass(frozen=True)
class Job:
    """Steps in order, and the arrays whose addresses they hold."""

    steps: tuple[native.Step, ...]
    memory: tuple[Ints, ...]


@dataclass(frozen=True)
class Side8:
    """One side: int8 or uint8 matrices, and per segment of K and per row (left) or column (right) a zero point and a scale.

    zero_points and scales are (B, segments, rows or columns); a product in int32 has one segment and needs no scales.
    """

    ints: Ints
    zero_points: NDArray[np.int32]
    scales: NDArray[np.float32] | None = None


def s8_s32(a: Side8, b: Side8) -> NDArray[np.int32]:
    """Σ_k (a - za) · (b - zb), exact where it fits int32."""
    out = np.empty((*a.ints.shape[:2], b.ints.shape[2]), np.int32)
    _run(_s8(a, b, max(1, a.ints.shape[2]), None, out, part) for part in _parts(a.ints, b.ints))
    return out


def s8_f32(a: Side8, b: Side8, segment: int, start: float) -> NDArray[np.float32]:
    """start + Σ over segments of fl32(Σ_k (a - za) · (b - zb)) · (sa · sb), in ascending order, each operation rounded to float32.

    `start` is 0.0 or -0.0, which leaves the sign of a single product's zero as it is.
    """
    out = np.empty((*a.ints.shape[:2], b.ints.shape[2]), np.float32)
    _run(_s8(a, b, segment, start, out, part) for part in _parts(a.ints, b.ints))
    return out


def s16_s64(a: NDArray[np.int16], b: NDArray[np.int16]) -> NDArray[np.int64]:
    """Σ_k a · b, exact."""
    out = np.empty((*a.shape[:2], b.shape[2]), np.int64)
    _run(_s16(a, b, out, part) for part in _parts(a, b))
    return out


def b1_s32(a: Ints, b: Ints) -> NDArray[np.int32]:
    """Σ_k a · b of integers that are -1 and +1: as many as are equal less as many as differ, by XOR and popcount."""
    left, right = _bits(a), _bits(b.swapaxes(1, 2))
    out = np.empty((*a.shape[:2], b.shape[2]), np.int32)
    _run(_b1(left, right, a.shape[2], out, part) for part in _parts(a, b))
    return out


def _parts(a: Ints, b: Ints) -> Iterator[Part]:
    """The product cut into jobs: matrix by matrix, each one further while there are threads without work, and by what b takes packed."""
    (count, m, k), n = a.shape, b.shape[2]
    if not m or not n:
        return
    pieces = max(1, min(-(-threads.count() // count), m * k * n // _WORTH)) if count else 1
    rows = _slices(m, pieces if m > n else 1)
    columns = _slices(n, max(1 if m > n else pieces, -(-k * n // _PACKED)))
    yield from ((i, r, c) for i in range(count) for r in rows for c in columns)


def _slices(length: int, pieces: int) -> list[slice]:
    step = -(-length // (pieces * _PANEL)) * _PANEL
    return [slice(at, min(at + step, length)) for at in range(0, length, step)]


def _run(jobs: Iterable[Job]) -> None:
    """Runs the jobs, some at a time: a long stack of matrices shall not hold all of its packed sides at once."""
    workers = threads.count()
    jobs = iter(jobs)
    while some := list(islice(jobs, _AT_ONCE * workers)):
        native.run([job.steps for job in some], workers)


def _s8(a: Side8, b: Side8, segment: int, start: float | None, out: Ints, part: Part) -> Job:
    i, rows, columns = part
    left, right, to = _dense(a.ints[i, rows], rows_only=True), _dense(b.ints[i, :, columns]), out[i, rows, columns]
    za, zb = (np.ascontiguousarray(v) for v in (a.zero_points[i, :, rows], b.zero_points[i, :, columns]))
    (m, k), n = left.shape, right.shape[1]
    memory, (packed, scratch) = _aligned(*_sizes(native.best("gemm_s8_sizes"), m, k, n, segment))
    layout = {"row_stride": right.strides[0], "column_stride": right.strides[1], "b_unsigned": int(right.dtype == np.uint8)}
    pack = native.best("gemm_s8_pack").step(layout | {"k": k, "n": n, "segment": segment}, right.ctypes.data, zb.ctypes.data, packed)
    sizes = {
        "a_stride": left.strides[0],
        "out_stride": to.strides[0] // 4,
        "m": m,
        "k": k,
        "n": n,
        "a_unsigned": int(left.dtype == np.uint8),
    }
    if start is None:
        multiply = native.best("gemm_s8_s32").step(sizes, left.ctypes.data, za.ctypes.data, packed, to.ctypes.data, scratch)
        return Job((pack, multiply), (left, right, za, zb, memory))
    assert a.scales is not None and b.scales is not None
    sa, sb = np.ascontiguousarray(a.scales[i, :, rows]), np.ascontiguousarray(b.scales[i, :, columns])
    params = sizes | {"segment": segment, "start": start}
    addresses = left.ctypes.data, za.ctypes.data, sa.ctypes.data, packed, sb.ctypes.data, to.ctypes.data, scratch
    return Job((pack, native.best("gemm_s8_f32").step(params, *addresses)), (left, right, za, zb, sa, sb, memory))


def _s16(a: Ints, b: Ints, out: Ints, part: Part) -> Job:
    i, rows, columns = part
    left, right, to = _dense(a[i, rows], rows_only=True), _dense(b[i, :, columns], rows_only=True), out[i, rows, columns]
    (m, k), n = left.shape, right.shape[1]
    strides = {"a_stride": left.strides[0] // 2, "b_stride": right.strides[0] // 2, "out_stride": to.strides[0] // 8}
    memory, (scratch,) = _aligned(32 * (k + 1))
    addresses = left.ctypes.data, right.ctypes.data, to.ctypes.data, scratch
    return Job((native.best("gemm_s16_s64").step(strides | {"m": m, "k": k, "n": n}, *addresses),), (left, right, memory))


def _b1(a: Ints, b: Ints, k: int, out: Ints, part: Part) -> Job:
    i, rows, columns = part
    left, right, to = np.ascontiguousarray(a[i, rows]), np.ascontiguousarray(b[i, columns]), out[i, rows, columns]
    params = {"out_stride": to.strides[0] // 4, "m": left.shape[0], "k": k, "n": right.shape[0], "words": left.shape[1]}
    return Job((native.best("gemm_b1_s32").step(params, left.ctypes.data, right.ctypes.data, to.ctypes.data),), (left, right))


def _bits(ints: Ints) -> NDArray[np.uint64]:
    """(B, R, K) of -1 and +1 as (B, R, words): bit 1 for +1, zeros behind the last."""
    bits = np.packbits(ints > 0, axis=2, bitorder="little")
    padded = np.zeros((*bits.shape[:2], -(-bits.shape[2] // 8) * 8), np.uint8)
    padded[:, :, : bits.shape[2]] = bits
    return padded.view(np.uint64)


def _dense(matrix: Ints, *, rows_only: bool = False) -> Ints:
    """The matrix with neighbours in memory along its rows; or, where the kernel packs, along its columns."""
    item = matrix.itemsize
    if matrix.strides[1] == item or (not rows_only and matrix.strides[0] == item):
        return matrix
    return np.ascontiguousarray(matrix)


@lru_cache(1024)
def _sizes(kernel: native.Kernel, m: int, k: int, n: int, segment: int) -> tuple[int, int]:
    out = np.zeros(2, np.int64)
    kernel({"m": m, "k": k, "n": n, "segment": segment}, out)
    return int(out[0]), int(out[1])


def _aligned(*sizes: int) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    """Memory, and in it the addresses of as many bytes as asked for, each a multiple of 64."""
    rounded = [-(-size // 64) * 64 for size in sizes]
    block = np.empty(sum(rounded) + 64, np.uint8)
    first = -(-block.ctypes.data // 64) * 64
    return block, tuple(accumulate(rounded[:-1], initial=first))
