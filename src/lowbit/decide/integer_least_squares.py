"""Integer weights that bring a layer's output nearest to a target: integer least squares, row by row.

A layer with weights w reads inputs x and should give t·x. With integers q and a scale s the expected squared error of a row is

    (t - s·q)ᵀ H (t - s·q),   H = E[x·xᵀ]

Rounding each weight to the nearest integer treats H as diagonal. Here weights are rounded one after another, and the weights that are not
rounded yet compensate each error (Babai's nearest plane; GPTQ, arXiv:2210.17323). Coordinate descent follows: each weight in turn moves
to the integer that is best given all others, until none moves. No row ends with a larger error than rounding to nearest gives it.

Arrays have the inputs before the rows, (groups, inputs, rows): each step reads and writes whole vectors, of all groups at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
BLOCK = 32  # inputs that are updated one by one; the others by one matrix product per block
DAMPING = 0.1  # of the mean of H's diagonal, added to it: H is estimated from few samples
SWEEPS = 2  # of coordinate descent at most
CLIPS = np.arange(1.0, 0.39, -0.03)  # of a row's largest weight, that the largest integer may stand for


@dataclass(frozen=True)
class Moments:
    """The damped second moments H of a layer's inputs in each group, and their factor: the effect of an input's error on later inputs."""

    h: F64  # (groups, inputs, inputs)
    inverse: F64 | None  # of h; None where there is none
    order: NDArray[np.intp]  # (groups, inputs): the largest moments first, while many weights are left to compensate
    upper: F64 | None  # Cholesky factor of H⁻¹ in that order

    @staticmethod
    def of(h: F64) -> Moments:
        """From undamped second moments."""
        d = h.shape[1]
        diagonal = np.einsum("gii->gi", h)
        mean = diagonal.mean(1)
        damped = h + (DAMPING * np.where(mean > 0, mean, 1 / DAMPING))[:, None, None] * np.eye(d)
        order = np.argsort(-diagonal, axis=1, kind="stable")
        try:
            inverse: F64 = np.linalg.inv(damped).astype(np.float64, copy=False)
            ordered = np.take_along_axis(np.take_along_axis(inverse, order[:, :, None], 1), order[:, None, :], 2)
            return Moments(damped, inverse, order, np.linalg.cholesky(ordered).transpose(0, 2, 1))
        except np.linalg.LinAlgError:
            return Moments(damped, None, order, None)

    def corrected(self, w: F64, b: F64) -> F64:
        """The weights with which the layer also gives the missing part; b = E[x·missing], (groups, inputs, rows)."""
        return w if self.inverse is None else w + self.inverse @ b

    def error(self, off: F64) -> F64:
        """offᵀ·H·off of each row, (groups, rows)."""
        found: F64 = np.einsum("gdr,gdr->gr", self.h @ off, off)
        return found


def nearest(t: F64, s: F64, lo: int, hi: int) -> F64:
    found: F64 = np.clip(np.rint(t / s[:, None]), lo, hi)
    return found


def clipped(w: F64, s: F64, importance: F64, lo: int, hi: int) -> F64:
    """For each row the scale with the least error after rounding to nearest, among several up to the given one.

    `importance` (groups, inputs) is the diagonal of H. Scales (groups, rows) are float32 numbers.
    """
    best, least = s, np.full(s.shape, np.inf)
    for factor in CLIPS:
        t = (s * factor).astype(np.float32).astype(np.float64)
        error = np.einsum("gdr,gd->gr", (w - nearest(w, t, lo, hi) * t[:, None]) ** 2, importance)
        best, least = np.where(error < least, t, best), np.minimum(error, least)
    return best


def solve(t: F64, s: F64, moments: Moments, lo: int, hi: int, sweeps: int = SWEEPS) -> F64:
    """Integers within lo … hi whose error is no larger than that of the nearest ones in any row."""
    q = nearest(t, s, lo, hi)
    if moments.upper is not None:
        tried = compensated(t, s, moments.order, moments.upper, lo, hi)
        better = moments.error(t - tried * s[:, None]) < moments.error(t - q * s[:, None])
        q = np.where(better[:, None], tried, q)
    return descended(t, s, q, moments.h, lo, hi, sweeps)


def compensated(t: F64, s: F64, order: NDArray[np.intp], upper: F64, lo: int, hi: int) -> F64:
    """Nearest plane: e = (t_j - q_j·s) / U_jj, then t_k -= e·U_jk for k > j; U is the upper Cholesky factor of H⁻¹."""
    left = np.take_along_axis(t, order[:, :, None], 1)
    q = np.empty_like(left)
    groups, d, rows = left.shape
    for start in range(0, d, BLOCK):
        end = min(start + BLOCK, d)
        errors = np.empty((groups, end - start, rows))
        for j in range(start, end):
            q[:, j] = np.clip(np.rint(left[:, j] / s), lo, hi)
            errors[:, j - start] = e = (left[:, j] - q[:, j] * s) / upper[:, j, j, None]
            left[:, j + 1 : end] -= upper[:, j, j + 1 : end, None] * e[:, None]
        left[:, end:] -= upper[:, start:end, end:].transpose(0, 2, 1) @ errors
    out: F64 = np.empty_like(q)
    np.put_along_axis(out, order[:, :, None], q, 1)
    return out


def descended(t: F64, s: F64, q: F64, h: F64, lo: int, hi: int, sweeps: int) -> F64:
    """Coordinate descent: each weight in turn becomes the integer with the least error, given all others; the error never grows."""
    q = q.copy()
    if not sweeps:
        return q
    step = np.einsum("gii->gi", h)[:, :, None] * s[:, None]  # (groups, inputs, rows)
    slope = h @ (t - q * s[:, None])
    groups, d, rows = q.shape
    for _ in range(sweeps):
        still = True
        for start in range(0, d, BLOCK):
            part = slice(start, min(start + BLOCK, d))
            here, near = slope[:, part], h[:, part, part]
            moves = np.zeros((groups, part.stop - start, rows))
            for i in range(part.stop - start):
                j = start + i
                new = np.clip(q[:, j] + np.rint(here[:, i] / step[:, j]), lo, hi)
                if not np.array_equal(new, q[:, j]):
                    moves[:, i] = move = (new - q[:, j]) * s
                    here -= near[:, :, i, None] * move[:, None]
                    q[:, j] = new
            if moves.any():
                still = False
                slope[:, : part.start] -= h[:, : part.start, part] @ moves
                slope[:, part.stop :] -= h[:, part.stop :, part] @ moves
        if still:
            break
    return q
