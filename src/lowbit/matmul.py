"""Matrix products of quantized arrays: exact integers, then float32 by one written rule. Integer kernels come from a table of backends.

**The integers.** `acc[i, j] = Σ_k (qa[i, k] - za) · (qb[k, j] - zb)`, exact: int32 when K · max|qa - za| · max|qb - zb| < 2^31 for
every value of the dtypes (so that no order of additions can overflow), int64 otherwise.

**The float32 result**, so that any backend has the same bits (every operation rounds once, to nearest even; no contraction):

    scales that do not vary along k     y[i, j] = fl32(acc[i, j]) · (sa[i] · sb[j])
    scales per block along k            y = +0.0, then for each segment s of k in ascending order  y = y + fl32(acc_s) · (sa_s[i] · sb_s[j])

where a segment is a run of k in which neither side changes its block. Anything else is dequantized and multiplied in float32, and
`plan_matmul` says why.

>>> a, b = QuantParams("int8", 0.5), QuantParams("uint8", 0.25, 3)
>>> matmul(np.array([[1, -2]], np.int8), a, np.array([[4], [7]], np.uint8), b)
array([[-0.875]], dtype=float32)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowbit.dtypes import DType
from lowbit.errors import QuantError, ShapeError
from lowbit.kernels import gemm, threads
from lowbit.numerics import F32, Ints
from lowbit.quant_params import PerBlock, PerTensor, QuantParams, dequantize


@dataclass(frozen=True)
class Operand:
    """Integers of one side, unpacked: (…, M, K) on the left, (…, K, N) on the right; any strides.

    `zero_point` has the same rank and broadcasts against them; it is constant along K.
    """

    ints: Ints
    dtype: DType
    zero_point: NDArray[np.int32]

    @property
    def magnitude(self) -> int:
        """The largest |q - zero_point| that the dtype allows."""
        assert self.dtype.min is not None and self.dtype.max is not None
        z = self.zero_point
        if not z.size:
            return self.dtype.max - self.dtype.min
        lowest, highest = (int(z.min()), int(z.max())) if z.size > 1 else (z.item(), z.item())
        return max(self.dtype.max - lowest, highest - self.dtype.min)


def bound(a: Operand, b: Operand) -> int:
    """The largest |accumulator| that any integers of these dtypes and zero points can give."""
    return int(a.ints.shape[-1]) * a.magnitude * b.magnitude


def accumulator(a: Operand, b: Operand) -> np.dtype[Any]:
    """int32 where no sum, in any order, leaves it; else int64."""
    largest = bound(a, b)
    if largest >= 1 << 63:
        raise QuantError(f"{a.dtype} × {b.dtype} over {a.ints.shape[-1]} terms can overflow int64", hint=".dequantize() one of them")
    return np.dtype(np.int32 if largest < 1 << 31 else np.int64)


def reference(a: Operand, b: Operand) -> NDArray[Any]:
    """The exact accumulators, by float BLAS where that is provably exact.

    Proof: all terms are integers. If K · max|a| · max|b| ≤ 2^53, every partial sum in every order (and every fused multiply-add) is an
    integer of magnitude ≤ 2^53, and float64 holds all of those exactly, so nothing is ever rounded; the same with 2^24 and float32.
    Longer K is cut into pieces that satisfy it, which are added in int64. A single product beyond 2^53 is left to int64 alone.
    """
    kind = accumulator(a, b)
    k, largest = a.ints.shape[-1], bound(a, b)
    if k and largest // k > 1 << 53:
        wide = np.subtract(a.ints, a.zero_point, dtype=np.int64), np.subtract(b.ints, b.zero_point, dtype=np.int64)
        return np.asarray(np.matmul(*wide))
    real = np.float32 if largest <= 1 << 24 else np.float64  # differences fit 17 bits, or 33 for int32: exact in either
    left = np.subtract(a.ints, a.zero_point, dtype=real)
    right = np.subtract(b.ints, b.zero_point, dtype=real)
    if largest <= 1 << 53:
        return np.asarray(np.matmul(left, right), kind)
    piece = (1 << 53) // (largest // k)
    parts = (np.matmul(left[..., i : i + piece], right[..., i : i + piece, :]).astype(np.int64) for i in range(0, k, piece))
    return np.asarray(sum(parts))


@dataclass(frozen=True)
class Side:
    """One side of a product: matrices as in Operand; scale and zero point of the same rank, with one entry per block along k if `block`."""

    ints: Ints
    dtype: DType
    scale: F32
    zero_point: NDArray[np.int32]
    k_axis: Literal[-1, -2]
    block: int | None

    def run(self, start: int, stop: int) -> tuple[Operand, F32]:
        """The operand and the scale of k in start..stop, which lie in one block."""
        at = (Ellipsis, slice(start, stop)) if self.k_axis == -1 else (Ellipsis, slice(start, stop), slice(None))
        scale, zero_point = self.scale, self.zero_point
        if self.block is not None:
            one = [start // self.block]
            scale, zero_point = scale.take(one, self.k_axis), zero_point.take(one, self.k_axis)
        return Operand(self.ints[at], self.dtype, zero_point), scale


Segments = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Backend:
    """Kernels. None is the answer to operands that a backend has no kernel for; they go to `reference`, and nothing in the result shows it.

    `accumulate` gives the exact accumulators of (batch…, M, K) × (batch…, K, N), batch dims broadcast, in `accumulator(a, b)`'s dtype.
    `product`, where there is one, gives the whole float32 product by the rule at the head of this file: one segment, or those of blocks.
    """

    accumulate: Callable[[Operand, Operand], NDArray[Any] | None]
    product: Callable[[Side, Side, Segments], F32 | None] | None = None


def cpu_accumulate(a: Operand, b: Operand) -> NDArray[Any] | None:
    """The exact accumulators by the compiled kernels; None beyond 16 bits.

    Where int32 could overflow, 8-bit sides are cut along k into pieces that cannot, which are added in int64.
    """
    kind, bits = accumulator(a, b), max(a.dtype.bits, b.dtype.bits)
    batch, k = np.broadcast_shapes(a.ints.shape[:-2], b.ints.shape[:-2]), a.ints.shape[-1]
    shape = (*batch, a.ints.shape[-2], b.ints.shape[-1])
    if bits > 16:
        return None
    if a.dtype.name == b.dtype.name == "binary":
        return gemm.b1_s32(*_stacks(a.ints, b.ints, batch)).reshape(shape)
    if bits <= 8:
        if kind == np.int32:
            return gemm.s8_s32(*_sides(a.ints, b.ints, batch, (a.zero_point,), (b.zero_point,))).reshape(shape)
        piece = ((1 << 31) - 1) // (a.magnitude * b.magnitude)
        cuts = (slice(i, i + piece) for i in range(0, k, piece))
        parts = (_sides(a.ints[..., at], b.ints[..., at, :], batch, (a.zero_point,), (b.zero_point,)) for at in cuts)
        return np.asarray(sum(gemm.s8_s32(*part).astype(np.int64) for part in parts)).reshape(shape)
    (qa, za), (qb, zb) = _as_int16(a), _as_int16(b)
    acc = gemm.s16_s64(*_stacks(qa, qb, batch)).reshape(shape)
    if za.any():
        acc -= za * np.subtract(qb, zb, dtype=np.int64).sum(-2, keepdims=True)  # Σ(a - za)(b - zb) = Σab - zb·Σa - za·Σ(b - zb)
    if zb.any():
        acc -= zb * qa.sum(-1, dtype=np.int64, keepdims=True)
    return acc.astype(kind, copy=False)


def cpu_product(left: Side, right: Side, segments: Segments) -> F32 | None:
    """The float32 product by the compiled kernels; None unless both sides have 8 bits or fewer, the segments are alike,
    and nothing can overflow."""
    found = cpu_sides(left, right, segments)
    if found is None:
        return None
    sides, start = found
    batch = np.broadcast_shapes(left.ints.shape[:-2], right.ints.shape[:-2])
    shape = (*batch, left.ints.shape[-2], right.ints.shape[-1])
    return gemm.s8_f32(*sides, segment=segments[0][1], start=start).reshape(shape)


def cpu_sides(left: Side, right: Side, segments: Segments) -> tuple[tuple[gemm.Side8, gemm.Side8], float] | None:
    """The operands of the kernels, and the initial sum; None as above."""
    k = left.ints.shape[-1]
    a, b = Operand(left.ints, left.dtype, left.zero_point), Operand(right.ints, right.dtype, right.zero_point)
    blocked = left.block is not None or right.block is not None
    if max(a.dtype.bits, b.dtype.bits) > 8 or not k or (a.dtype.name == b.dtype.name == "binary" and not blocked):
        return None
    largest = a.magnitude * b.magnitude
    if k * largest * float(left.scale.max(initial=0)) * float(right.scale.max(initial=0)) > np.finfo(np.float32).max:
        return None  # NumPy says so when a result overflows, a kernel cannot
    length = segments[0][1]
    if any(start != i * length for i, (start, _) in enumerate(segments)) or length * largest >= 1 << 31:
        return None
    grids = [(left.zero_point, left.scale), (right.zero_point, right.scale)]
    if len(segments) > 1:
        firsts = np.arange(len(segments)) * length
        for i, s in enumerate((left, right)):
            at = firsts // s.block if s.block is not None else 0 * firsts
            grids[i] = s.zero_point.take(at, s.k_axis), s.scale.take(at, s.k_axis)
    batch = np.broadcast_shapes(left.ints.shape[:-2], right.ints.shape[:-2])
    return _sides(left.ints, right.ints, batch, *grids), 0.0 if blocked else -0.0


def _as_int16(x: Operand) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """The integers and zero points as int16: 32768 less where they were uint16, which leaves their difference as it is."""
    if x.ints.dtype != np.uint16:
        return x.ints.astype(np.int16, copy=False), x.zero_point.astype(np.int64)
    return (x.ints ^ np.uint16(1 << 15)).view(np.int16), x.zero_point.astype(np.int64) - (1 << 15)


def _stacks(a: Ints, b: Ints, batch: tuple[int, ...]) -> tuple[Ints, Ints]:
    """(B, M, K) and (B, K, N). One right side for all of the left becomes one tall product: (1, B·M, K) and (1, K, N)."""
    if prod(b.shape[:-2]) == 1:
        return a.reshape(1, prod(a.shape[:-1]), a.shape[-1]), b.reshape(1, *b.shape[-2:])
    return _stack(a, batch), _stack(b, batch)


def _stack(x: NDArray[Any], batch: tuple[int, ...]) -> NDArray[Any]:
    if prod(x.shape[:-2]) == 1:  # repeated without a copy
        return np.broadcast_to(x.reshape(x.shape[-2:]), (prod(batch), *x.shape[-2:]))
    return np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(prod(batch), *x.shape[-2:])


def _filled(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """As np.broadcast_to, but as an array of its own: these are small, and NumPy takes three times as long to make the view."""
    out = np.empty(shape, values.dtype)
    out[...] = values
    return out


def _sides(
    a: Ints, b: Ints, batch: tuple[int, ...], a_grids: Sequence[NDArray[Any]], b_grids: Sequence[NDArray[Any]]
) -> tuple[gemm.Side8, gemm.Side8]:
    """Both sides for the kernels. Grids are zero points and maybe scales, (…, M or 1, segments) on the left, (…, segments, N or 1)."""
    fold = prod(b.shape[:-2]) == 1
    left = [_filled(g, (*a.shape[:-1], g.shape[-1])) for g in a_grids]
    right = [_filled(g, (*b.shape[:-2], g.shape[-2], b.shape[-1])) for g in b_grids]
    rows = [g.reshape(1, prod(g.shape[:-1]), g.shape[-1]) if fold else _stack(g, batch) for g in left]
    columns = [g.reshape(1, *g.shape[-2:]) if fold else _stack(g, batch) for g in right]
    qa, qb = _stacks(a, b, batch)
    return gemm.Side8(qa, *(g.swapaxes(1, 2) for g in rows)), gemm.Side8(qb, *columns)


# Fastest last.
BACKENDS: dict[str, Backend] = {"reference": Backend(reference), "cpu": Backend(cpu_accumulate, cpu_product)}


def backend_named(name: str | None) -> Backend:
    """The backend, or the fastest one there is."""
    if name is None:
        return BACKENDS[next(reversed(BACKENDS))]
    if name not in BACKENDS:
        raise QuantError(f"matmul backend {name!r} does not exist", hint="one of " + ", ".join(BACKENDS))
    return BACKENDS[name]


def int_matmul(a: Operand, b: Operand, backend: str | None = None) -> NDArray[Any]:
    """The exact accumulators by the named backend, or by the fastest one there is."""
    acc = backend_named(backend).accumulate(a, b)
    return reference(a, b) if acc is None else acc


@dataclass(frozen=True)
class MatmulPlan:
    """How two quantized arrays are multiplied: `integer` (one product), `blocks` (one for each segment of k), `float`; and why."""

    kind: Literal["integer", "blocks", "float"]
    because: str
    segments: Segments = ()


def plan_matmul(a_shape: tuple[int, ...], a: QuantParams, b_shape: tuple[int, ...], b: QuantParams) -> MatmulPlan:
    """The way that (…, M, K) × (…, K, N) takes.

    >>> plan_matmul((2, 64), QuantParams("int8", 1.0), (64, 3), QuantParams("int8", 1.0, scheme="logarithmic")).because
    'the right side is logarithmic, its codes are not multiples of a step'
    """
    k = a_shape[-1]
    edges = {0, k}
    for side, shape, p, k_axis in (("left", a_shape, a, len(a_shape) - 1), ("right", b_shape, b, max(len(b_shape) - 2, 0))):
        if p.scheme == "logarithmic":
            return MatmulPlan("float", f"the {side} side is logarithmic, its codes are not multiples of a step")
        if isinstance(p.granularity, PerTensor) or (p.axis(len(shape)) != k_axis and not isinstance(p.granularity, PerBlock)):
            continue
        if not isinstance(p.granularity, PerBlock) or p.granularity.axis % len(shape) != k_axis:
            return MatmulPlan("float", f"the {side} side has a scale for each index of the axis that is summed")
        edges.update(range(0, k, p.granularity.size))
    if k << (a.dtype.bits + b.dtype.bits) >= 1 << 63:
        return MatmulPlan("float", f"sums of {a.dtype} × {b.dtype} can overflow int64")
    if not any(isinstance(p.granularity, PerBlock) for p in (a, b)):
        return MatmulPlan("integer", "no scale varies along the axis that is summed")
    cuts = sorted(edges)
    return MatmulPlan("blocks", "the scales vary in blocks along the axis that is summed", tuple(pairwise(cuts)))


def matmul(qa: Ints, a: QuantParams, qb: Ints, b: QuantParams, *, backend: str | None = None) -> F32:
    """The float32 product of the arrays that (qa, a) and (qb, b) stand for, shapes as in np.matmul, by the rule at the head."""
    if backend is None and qa.ndim == 2 == qb.ndim:
        ready = _ready(qa, a, qb, b)
        if ready is not None:
            return ready(qa, qb)
    _check_shapes(qa.shape, qb.shape)
    plan = plan_matmul(qa.shape, a, qb.shape, b)
    if plan.kind == "float":
        return np.asarray(np.matmul(dequantize(qa, a), dequantize(qb, b)))
    left, right = side(qa, a, -1), side(qb, b, -2)
    whole = backend_named(backend).product
    y = None if whole is None else whole(left, right, plan.segments or ((0, qa.shape[-1]),))
    if y is None and plan.kind == "integer":
        y = _scaled(left, right, 0, qa.shape[-1], backend)
    elif y is None:
        y = _blocks(left, right, plan.segments, backend)
    if qb.ndim == 1:
        y = y[..., 0]
    return y[..., 0, :] if qa.ndim == 1 and qb.ndim > 1 else y[..., 0] if qa.ndim == 1 else y


_READY: dict[tuple[object, ...], gemm.Ready | None] = {}
_MOST_READY = 128


def _ready(qa: Ints, a: QuantParams, qb: Ints, b: QuantParams) -> gemm.Ready | None:
    """The product of two matrices with all but their integers, from last time if there was one: a small product is done in less time
    than it takes to prove it exact. None where the general way is gone."""
    key = (a, b, qa.shape, qb.shape, qa.strides, qb.strides, qa.dtype, qb.dtype, threads.count(), os.environ.get("LOWBIT_ISA"))
    try:
        return _READY[key]
    except KeyError:
        pass
    found = None
    whole = BACKENDS[next(reversed(BACKENDS))].product is cpu_product
    if whole and qa.shape[1] == qb.shape[0] and plan_matmul(qa.shape, a, qb.shape, b).kind == "integer":
        sides = cpu_sides(side(qa, a, -1), side(qb, b, -2), ((0, qa.shape[1]),))
        found = gemm.ready(*sides[0]) if sides is not None else None
    if len(_READY) >= _MOST_READY:
        _READY.clear()
    _READY[key] = found
    return found


def side(ints: Ints, params: QuantParams, k_axis: Literal[-1, -2]) -> Side:
    """A side whose vector, if it is one, has become a matrix of one row (left) or one column (right)."""
    params.check(ints.shape)
    arrays: tuple[NDArray[Any], ...] = (ints, *params.grid(ints.ndim))
    if ints.ndim == 1:
        arrays = tuple(v[:, None] if k_axis == -2 else v[None, :] for v in arrays)
    block = params.granularity.size if isinstance(params.granularity, PerBlock) else None
    return Side(arrays[0], params.dtype, arrays[1], arrays[2], k_axis, block)


def _scaled(left: Side, right: Side, start: int, stop: int, backend: str | None) -> F32:
    (a, sa), (b, sb) = left.run(start, stop), right.run(start, stop)
    y = int_matmul(a, b, backend).astype(np.float32)
    y *= sa * sb  # (…, M, 1) · (…, 1, N)
    return y


def _blocks(left: Side, right: Side, segments: Segments, backend: str | None) -> F32:
    batch = np.broadcast_shapes(left.ints.shape[:-2], right.ints.shape[:-2])
    y = np.zeros((*batch, left.ints.shape[-2], right.ints.shape[-1]), np.float32)
    for start, stop in segments:
        y += _scaled(left, right, start, stop, backend)
    return y


def _check_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    if not a or not b:
        raise ShapeError("matmul needs arrays of one or more dimensions, got a scalar", hint="a * b")
    if a[-1] != b[max(len(b) - 2, 0)]:
        raise ShapeError(
            f"matmul of shapes {a} and {b}: {a[-1]} columns on the left, {b[max(len(b) - 2, 0)]} rows on the right",
            hint="a @ b.T, where both have the sum along their last axis",
        )
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"matmul of shapes {a} and {b}: the batch dimensions {a[:-2]} and {b[:-2]} do not broadcast") from None
