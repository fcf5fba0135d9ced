"""Integer matrix products of stacks of matrices by the compiled kernels, split over threads. The caller proves the ranges.

All arrays are stacks: (B, M, K) × (B, K, N) → (B, M, N), of any strides (a stride of 0 repeats a matrix). Each job of a product packs
its own part of the right side, so threads never wait for each other; the cut goes through the longer of M and N, because every job
packs the whole of the other side again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.runtime import native, threads, workspace

_PANEL = 16  # columns; rows and columns are cut at multiples, so that no job but the last has a ragged tile
_PACKED = 1 << 22  # elements of b that a job packs: 8 MB, however large b is
_AT_ONCE = 2  # jobs per thread that are made ready before they run
_WORTH = 1 << 21  # multiplications that pay for waking a thread: about 30 µs of work

Ints = NDArray[Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Job:
    """Steps in order, the arrays whose addresses they hold, and the memory that they need while they run."""

    steps: tuple[native.Step, ...]
    arrays: tuple[Ints, ...]
    blocks: tuple[workspace.Block, ...] = ()


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
    _run(partial(_s8, a, b, max(1, a.ints.shape[2]), None, out))
    return out


def s8_f32(a: Side8, b: Side8, segment: int, start: float) -> NDArray[np.float32]:
    """start + Σ over segments of fl32(Σ_k (a - za) · (b - zb)) · (sa · sb), in ascending order, each operation rounded to float32.

    `start` is 0.0 or -0.0, which leaves the sign of a single product's zero as it is.
    """
    out = np.empty((*a.ints.shape[:2], b.ints.shape[2]), np.float32)
    _run(partial(_s8, a, b, segment, start, out))
    return out


def s16_s64(a: NDArray[np.int16], b: NDArray[np.int16]) -> NDArray[np.int64]:
    """Σ_k a · b, exact."""
    out = np.empty((*a.shape[:2], b.shape[2]), np.int64)
    _run(partial(_s16, a, b, out))
    return out


def b1_s32(a: Ints, b: Ints) -> NDArray[np.int32]:
    """Σ_k a · b of integers that are -1 and +1: as many as are equal less as many as differ, by XOR and popcount."""
    left, right = _bits(a), _bits(b.swapaxes(1, 2))
    out = np.empty((*a.shape[:2], b.shape[2]), np.int32)
    _run(partial(_b1, left, right, a.shape[2], out))
    return out


def _cuts(count: int, m: int, k: int, n: int, workers: int) -> list[tuple[Span, Span]]:
    """Rows and columns of the jobs of each matrix: more than one while there are threads without work, or if b is too large packed."""
    if not m or not n:
        return []
    pieces = max(1, min(-(-workers // max(count, 1)), m * k * n // _WORTH))
    rows = _spans(m, pieces if m > n else 1)
    columns = _spans(n, max(1 if m > n else pieces, -(-k * n // _PACKED)))
    return [(r, c) for r in rows for c in columns]


def _spans(length: int, pieces: int) -> list[Span]:
    step = -(-length // (pieces * _PANEL)) * _PANEL
    return [(at, min(at + step, length)) for at in range(0, length, step)]


def _run(make_jobs: Callable[[int], Iterator[Job]]) -> None:
    """Runs the jobs for so many threads, some at a time: a long stack of matrices shall not hold all of its packed sides at once."""
    workers = threads.count()
    jobs = make_jobs(workers)
    while some := list(islice(jobs, _AT_ONCE * workers)):
        native.run([job.steps for job in some], workers)
        workspace.give_back(block for job in some for block in job.blocks)


def _s8(a: Side8, b: Side8, segment: int, start: float | None, out: Ints, workers: int) -> Iterator[Job]:
    pack = native.best("gemm_s8_pack")
    multiply = native.best("gemm_s8_s32" if start is None else "gemm_s8_f32")
    (count, m, k), n = a.ints.shape, b.ints.shape[2]
    cuts = _cuts(count, m, k, n, workers)
    for i in range(count):
        left, right, to = _dense(a.ints[i], rows_only=True), _dense(b.ints[i]), out[i]
        at_left, at_right, at_out = left.ctypes.data, right.ctypes.data, to.ctypes.data
        rows = [_Grid(v[i]) for v in (a.zero_points, a.scales) if v is not None]
        columns = [_Grid(v[i]) for v in (b.zero_points, b.scales) if v is not None]
        layout = {"row_stride": right.strides[0], "column_stride": right.strides[1], "b_unsigned": int(right.dtype == np.uint8)}
        common = {"a_stride": left.strides[0], "out_stride": to.strides[0] // 4, "k": k, "a_unsigned": int(left.dtype == np.uint8)}
        if start is not None:
            common |= {"segment": segment, "start": start}
        for (top, bottom), (first, last) in cuts:
            bytes_packed, bytes_scratch = _sizes(pack.isa, bottom - top, k, last - first, segment)
            block = workspace.lend(workspace.room(bytes_packed) + bytes_scratch)
            packed, scratch = block.split(bytes_packed, bytes_scratch)
            za, *sa = (grid.part(top, bottom) for grid in rows)
            zb, *sb = (grid.part(first, last) for grid in columns)
            here = at_left + top * left.strides[0], za[0], *(at for at, _ in sa)
            there = at_out + top * to.strides[0] + first * 4, scratch
            steps = (
                pack.step(layout | {"k": k, "n": last - first, "segment": segment}, at_right + first * right.strides[1], zb[0], packed),
                multiply.step(common | {"m": bottom - top, "n": last - first}, *here, packed, *(at for at, _ in sb), *there),
            )
            yield Job(steps, (left, right, *(v for _, v in (za, zb, *sa, *sb))), (block,))


def _s16(a: Ints, b: Ints, out: Ints, workers: int) -> Iterator[Job]:
    multiply = native.best("gemm_s16_s64")
    (count, m, k), n = a.shape, b.shape[2]
    cuts = _cuts(count, m, k, n, workers)
    for i in range(count):
        left, right, to = _dense(a[i], rows_only=True), _dense(b[i], rows_only=True), out[i]
        strides = {"a_stride": left.strides[0] // 2, "b_stride": right.strides[0] // 2, "out_stride": to.strides[0] // 8}
        for (top, bottom), (first, last) in cuts:
            block = workspace.lend(32 * (k + 1))
            parts = left[top:bottom], right[:, first:last], to[top:bottom, first:last]
            sizes = {"m": bottom - top, "k": k, "n": last - first}
            yield Job((multiply.step(strides | sizes, *(v.ctypes.data for v in parts), block.address),), (left, right), (block,))


def _b1(a: Ints, b: Ints, k: int, out: Ints, workers: int) -> Iterator[Job]:
    multiply = native.best("gemm_b1_s32")
    (count, m, words), n = a.shape, b.shape[1]
    cuts = _cuts(count, m, words, n, workers)
    for i in range(count):
        for (top, bottom), (first, last) in cuts:
            parts = a[i, top:bottom], b[i, first:last], out[i, top:bottom, first:last]
            params = {"out_stride": out.strides[1] // 4, "m": bottom - top, "k": k, "n": last - first, "words": words}
            yield Job((multiply.step(params, *(v.ctypes.data for v in parts)),), parts)


class _Grid:
    """Zero points or scales, (segments, rows or columns), of which a job needs some rows or columns without gaps."""

    def __init__(self, values: Ints) -> None:
        self.values = np.ascontiguousarray(values)
        self.address = self.values.ctypes.data

    def part(self, start: int, stop: int) -> tuple[int, Ints]:
        """The address, and the array that it is an address of."""
        if len(self.values) == 1:
            return self.address + start * self.values.itemsize, self.values
        some = np.ascontiguousarray(self.values[:, start:stop])
        return some.ctypes.data, some


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
def _sizes(isa: str, m: int, k: int, n: int, segment: int) -> tuple[int, int]:
    out = np.zeros(2, np.int64)
    kernel = next(kernel for kernel in native.of("gemm_s8_sizes") if kernel.isa == isa)
    kernel({"m": m, "k": k, "n": n, "segment": segment}, out)
    return int(out[0]), int(out[1])
