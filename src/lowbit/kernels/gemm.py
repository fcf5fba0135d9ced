"""Integer matrix products of stacks of matrices by the compiled kernels, split over threads. The caller proves the ranges.

All arrays are stacks: (B, M, K) × (B, K, N) → (B, M, N), of any strides (a stride of 0 repeats a matrix). Each job of a product packs
its own part of the right side, so threads never wait for each other; the cut goes through the longer of M and N, because every job
packs the whole of the other side again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from math import copysign
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.kernels import native, threads, workspace

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
    """Runs the jobs on this many threads, some at a time, so that a long stack of matrices does not hold all packed operands at once."""
    workers = threads.count()
    jobs = make_jobs(workers)
    while some := list(islice(jobs, _AT_ONCE * workers)):
        native.run([job.steps for job in some], workers)
        workspace.give_back(block for job in some for block in job.blocks)


@dataclass(frozen=True)
class _Piece:
    """A part of a product of two matrices, all but where they are: kernels with their params, rows, columns, offsets in bytes."""

    pack: tuple[int, bytes]
    multiply: tuple[int, bytes]
    rows: Span
    columns: Span
    offsets: tuple[int, int, int]  # of a, b and the result
    packed: int
    size: int

    def steps(self, at: tuple[int, int, int], a_grids: Sequence[int], b_grids: Sequence[int], memory: int) -> tuple[native.Step, ...]:
        """Grids are zero points and maybe scales; memory has `size` bytes."""
        (a, b, out), (of_a, of_b, of_out) = at, self.offsets
        (za, *sa), (zb, *sb) = a_grids, b_grids
        return (
            (*self.pack, (b + of_b, zb, memory)),
            (*self.multiply, (a + of_a, za, *sa, memory, *sb, out + of_out, memory + self.packed)),
        )


@lru_cache(256)
def _pieces(
    isa: str,
    count: int,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    unsigned: tuple[bool, bool],
    segment: int,
    start: float | None,
    negative: bool,  # start's sign: -0.0 and 0.0 are one key
    workers: int,
) -> tuple[_Piece, ...]:
    """The parts of each of `count` products (m, k) × (k, n). Strides in bytes: a's rows, b's rows and columns; the result has no gaps."""
    (m, k, n), (a_row, b_row, b_column) = shape, strides
    kernels = [next(v for v in native.of(c) if v.isa == isa) for c in ("gemm_s8_pack", "gemm_s8_s32" if start is None else "gemm_s8_f32")]
    pack, multiply = kernels
    layout = {"row_stride": b_row, "column_stride": b_column, "b_unsigned": int(unsigned[1])}
    common = {"a_stride": a_row, "out_stride": n, "k": k, "a_unsigned": int(unsigned[0])}
    if start is not None:
        common |= {"segment": segment, "start": start}  # type: ignore[dict-item]
    made = []
    for (top, bottom), (first, last) in _cuts(count, m, k, n, workers):
        bytes_packed, bytes_scratch = _sizes(isa, bottom - top, k, last - first, segment)
        made.append(
            _Piece(
                (pack.index, pack.contract.pack(layout | {"k": k, "n": last - first, "segment": segment})),
                (multiply.index, multiply.contract.pack(common | {"m": bottom - top, "n": last - first})),
                (top, bottom),
                (first, last),
                (top * a_row, first * b_column, 4 * (top * n + first)),
                workspace.room(bytes_packed),
                workspace.room(bytes_packed) + bytes_scratch,
            )
        )
    return tuple(made)


def _pieces_of(a: Ints, b: Ints, count: int, segment: int, start: float | None, workers: int) -> tuple[_Piece, ...]:
    """For matrices that are dense."""
    return _pieces(
        native.best("gemm_s8_pack").isa,
        count,
        (*a.shape, b.shape[1]),
        (a.strides[0], *b.strides),
        (a.dtype == np.uint8, b.dtype == np.uint8),
        segment,
        start,
        start is not None and copysign(1.0, start) < 0,
        workers,
    )


def _s8(a: Side8, b: Side8, segment: int, start: float | None, out: Ints, workers: int) -> Iterator[Job]:
    for i in range(len(a.ints)):
        left, right, to = _dense(a.ints[i], rows_only=True), _dense(b.ints[i]), out[i]
        at = left.ctypes.data, right.ctypes.data, to.ctypes.data
        rows = [_Grid(v[i]) for v in (a.zero_points, a.scales) if v is not None]
        columns = [_Grid(v[i]) for v in (b.zero_points, b.scales) if v is not None]
        for piece in _pieces_of(left, right, len(a.ints), segment, start, workers):
            block = workspace.lend(piece.size)
            of_rows, of_columns = [g.part(*piece.rows) for g in rows], [g.part(*piece.columns) for g in columns]
            steps = piece.steps(at, [g for g, _ in of_rows], [g for g, _ in of_columns], block.address)
            yield Job(steps, (left, right, *(v for _, v in (*of_rows, *of_columns))), (block,))


class Ready:
    """s8_f32 of one pair of matrices in one segment, prepared except for the addresses of the integers."""

    def __init__(self, a: Side8, b: Side8, workers: int) -> None:
        assert a.scales is not None and b.scales is not None and len(a.ints) == 1
        self.workers, self.shape = workers, (a.ints.shape[1], b.ints.shape[2])
        grids = [_Grid(v[0]) for v in (a.zero_points, a.scales, b.zero_points, b.scales)]
        self.pieces = []
        for piece in _pieces_of(a.ints[0], b.ints[0], 1, max(1, a.ints.shape[2]), -0.0, workers):
            parts = [g.part(*(piece.rows if i < 2 else piece.columns))[0] for i, g in enumerate(grids)]
            self.pieces.append((piece, parts[:2], parts[2:]))
        self.size = sum(workspace.room(piece.size) for piece, _, _ in self.pieces)
        self.grids = grids  # keeps the memory of the addresses alive

    def __call__(self, a: Ints, b: Ints) -> NDArray[np.float32]:
        """For integers of the same shapes, strides and dtypes."""
        out = np.empty(self.shape, np.float32)
        at = native.address(a), native.address(b), native.address(out)
        block = workspace.lend(self.size)
        memory, sequences = block.address, []
        for piece, rows, columns in self.pieces:
            sequences.append(piece.steps(at, rows, columns, memory))
            memory += workspace.room(piece.size)
        native.run(sequences, self.workers)
        workspace.give_back((block,))
        return out


def ready(a: Side8, b: Side8) -> Ready | None:
    """None if the integers are not in the layout of the kernels, or are too many to pack at once."""
    left, right = a.ints[0], b.ints[0]
    if len(a.ints) != 1 or right.size > _PACKED or left.itemsize != 1 or right.itemsize != 1:
        return None
    if not _stands(left, rows_only=True) or not _stands(right):
        return None
    return Ready(a, b, threads.count())


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
    """(B, R, K) of -1 and +1 as (B, R, words): bit 1 for +1, zeros after the last."""
    bits = np.packbits(ints > 0, axis=2, bitorder="little")
    padded = np.zeros((*bits.shape[:2], -(-bits.shape[2] // 8) * 8), np.uint8)
    padded[:, :, : bits.shape[2]] = bits
    return padded.view(np.uint64)


def _dense(matrix: Ints, *, rows_only: bool = False) -> Ints:
    """The matrix with neighbours in memory along its rows; or, where the kernel packs, along its columns."""
    return matrix if _stands(matrix, rows_only=rows_only) else np.ascontiguousarray(matrix)


def _stands(matrix: Ints, *, rows_only: bool = False) -> bool:
    item = matrix.itemsize
    return matrix.strides[1] == item or (not rows_only and matrix.strides[0] == item)


@lru_cache(1024)
def _sizes(isa: str, m: int, k: int, n: int, segment: int) -> tuple[int, int]:
    out = np.zeros(2, np.int64)
    kernel = next(kernel for kernel in native.of("gemm_s8_sizes") if kernel.isa == isa)
    kernel({"m": m, "k": k, "n": n, "segment": segment}, out)
    return int(out[0]), int(out[1])
