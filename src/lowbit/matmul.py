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

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowbit.dtypes import DType
from lowbit.errors import QuantError, ShapeError
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
        return max(self.dtype.max - int(z.min()), int(z.max()) - self.dtype.min)


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
    `blocks`, where there is one, gives the whole float32 product with scales per block, by the rule at the head of this file.
    """

    accumulate: Callable[[Operand, Operand], NDArray[Any] | None]
    blocks: Callable[[Side, Side, Segments], F32 | None] | None = None


# Fastest last. The native kernels register here as "cpu".
BACKENDS: dict[str, Backend] = {"reference": Backend(reference)}


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
    _check_shapes(qa.shape, qb.shape)
    plan = plan_matmul(qa.shape, a, qb.shape, b)
    if plan.kind == "float":
        return np.asarray(np.matmul(dequantize(qa, a), dequantize(qb, b)))
    left, right = side(qa, a, -1), side(qb, b, -2)
    if plan.kind == "integer":
        y = _scaled(left, right, 0, qa.shape[-1], backend)
    else:
        y = _blocks(left, right, plan.segments, backend)
    if qb.ndim == 1:
        y = y[..., 0]
    return y[..., 0, :] if qa.ndim == 1 and qb.ndim > 1 else y[..., 0] if qa.ndim == 1 else y


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
    whole = backend_named(backend).blocks
    y = None if whole is None else whole(left, right, segments)
    if y is None:
        batch = np.broadcast_shapes(left.ints.shape[:-2], right.ints.shape[:-2])
        y = np.zeros((*batch, left.ints.shape[-2], right.ints.shape[-1]), np.float32)
        for start, stop in segments:
            y += _scaled(left, right, start, stop, backend)
    return y


def _check_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    if not a or not b:
        raise ShapeError("matmul needs arrays of one or more dimensions, got a scalar", hint="a * b")
    if a[-1] != b[max(len(b) - 2, 0)]:
        raise ShapeError(f"matmul of shapes {a} and {b}: {a[-1]} columns on the left, {b[max(len(b) - 2, 0)]} rows on the right")
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"matmul of shapes {a} and {b}: the batch dimensions {a[:-2]} and {b[:-2]} do not broadcast") from None
