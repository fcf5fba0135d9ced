"""Scales of blocks by weighted least squares: the step, and the offset, for which the rounded block is nearest to the weights.

The error of a block is Σ w (x − s l − m)². Levels l follow from the scale and the scale from the levels, so several beginnings are
tried, and each one's scale is solved for after rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowbit.llm.quantization.grid import Levels
from lowbit.numerics import F32

TRIES = tuple(float(t) for t in np.linspace(-1.2, 1.2, 13))  # levels by which the extreme weight is moved past the extreme level
PART = 1 << 19  # elements that are worked on together


def symmetric(x: F32, w: F32, levels: Levels, tries: Sequence[float] = TRIES) -> F32:
    """Steps (B,) of blocks x (B, n) with weights w (B, n): weight = step · level."""
    out = np.empty(len(x), np.float32)
    part = max(1, PART // x.shape[1])
    for at in range(0, len(x), part):
        out[at : at + part] = _symmetric(x[at : at + part], w[at : at + part], levels, tries)
    return out


def _symmetric(x: F32, w: F32, levels: Levels, tries: Sequence[float]) -> F32:
    at = np.abs(x).argmax(axis=1)[:, None]
    most = np.take_along_axis(x, at, axis=1)[:, 0]  # with its sign: levels reach further on one side
    reciprocal = np.divide(np.float32(1), most, out=np.zeros_like(most), where=most != 0)
    best, step = np.full(len(x), -1, np.float32), np.zeros(len(x), np.float32)
    wx = w * x
    for end in levels.ends:
        for move in tries:
            inverse = np.float32(end * (1 + 2 * move / levels.count)) * reciprocal
            level = levels.nearest(x * inverse[:, None])
            dot, square = np.einsum("bn,bn->b", wx, level), np.einsum("bn,bn,bn->b", w, level, level)
            solved = np.divide(dot, square, out=np.zeros_like(dot), where=square > 0)
            gain = dot * solved  # the error is Σ w x² minus this
            better = gain > best
            best, step = np.where(better, gain, best), np.where(better, solved, step)
    return step


def affine(x: F32, w: F32, count: int, *, below: bool, tries: Sequence[float] = TRIES) -> tuple[F32, F32]:
    """Steps and offsets (B,) each of blocks x (B, n): weight = step · level + offset, levels 0 … count − 1.

    below: offsets are 0 or negative, as K-quants have them.
    """
    step, offset = np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    part = max(1, PART // x.shape[1])
    for at in range(0, len(x), part):
        here = slice(at, at + part)
        step[here], offset[here] = _affine(x[here], w[here], count, below, tries)
    return step, offset


def _affine(x: F32, w: F32, count: int, below: bool, tries: Sequence[float]) -> tuple[F32, F32]:
    low, high = x.min(axis=1), x.max(axis=1)
    if below:
        low = np.minimum(low, 0)
    width = np.maximum(high - low, np.float32(1e-30))
    total, sum_x = w.sum(axis=1), np.einsum("bn,bn->b", w, x)
    square_x = np.einsum("bn,bn,bn->b", w, x, x)
    wx = w * x
    best = np.full(len(x), np.inf, np.float32)
    step, offset = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
    for move in tries:
        s, m = width / np.float32(count - 1 + move), low
        for _ in range(2):  # round, solve, round again
            inverse = np.divide(np.float32(1), s, out=np.zeros_like(s), where=s > 0)
            level = np.clip(np.rint((x - m[:, None]) * inverse[:, None]), 0, count - 1)
            wl = w * level
            sum_l, square_l, dot = wl.sum(axis=1), np.einsum("bn,bn->b", wl, level), np.einsum("bn,bn->b", wx, level)
            s, m = _solved(total, sum_x, sum_l, square_l, dot, below)
            error = square_x + s * s * square_l + m * m * total - 2 * s * dot - 2 * m * sum_x + 2 * s * m * sum_l
            better = error < best
            best, step, offset = np.where(better, error, best), np.where(better, s, step), np.where(better, m, offset)
    return step, offset


def _solved(total: F32, sum_x: F32, sum_l: F32, square_l: F32, dot: F32, below: bool) -> tuple[F32, F32]:
    """s and m of least Σ w (x − s l − m)²."""
    alone = np.divide(dot, square_l, out=np.zeros_like(dot), where=square_l > 0)
    determinant = total * square_l - sum_l * sum_l
    regular = determinant > 1e-6 * total * square_l
    s = np.divide(total * dot - sum_x * sum_l, determinant, out=np.zeros_like(dot), where=regular)
    m = np.divide(square_l * sum_x - sum_l * dot, determinant, out=np.zeros_like(dot), where=regular)
    flat = ~regular  # all levels are the same: the offset alone
    m = np.where(flat, np.divide(sum_x, total, out=np.zeros_like(sum_x), where=total > 0), m)
    if below:
        m, s = np.where(m > 0, 0, m), np.where((m > 0), alone, s)
    return np.maximum(s, 0).astype(np.float32), m.astype(np.float32)
