"""GPTQ: rounds a matrix column by column, and lets the columns that are left make up for each one's error.

The error is that of the layer's outputs, Σ ‖(w − ŵ) x‖² = Σ (w − ŵ) H (w − ŵ)ᵀ with H = Σ x xᵀ. Columns of the largest inputs come
first, as most are then left to make up for them. Scales are fixed before, so that the order is free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowbit.llm.quantization.grid import Grid
from lowbit.numerics import F32

F64 = NDArray[np.float64]
DAMPING = 0.01  # of the mean of H's diagonal, added to it
TOGETHER = 64  # columns whose errors reach the others in one product


def gptq(w: F32, h: F64, grid: Grid) -> F32:
    """Levels (N, K) of the weights w (N, K) under H (K, K)."""
    order = np.argsort(-np.diag(h), kind="stable")
    upper = inverse_factor(h, order)
    k = w.shape[1]
    left = np.ascontiguousarray(w.T[order])  # (K, N): a column is a row here
    out = np.empty_like(left)
    for begin in range(0, k, TOGETHER):
        end = min(begin + TOGETHER, k)
        errors = np.empty((end - begin, w.shape[0]), np.float32)
        for j in range(begin, end):
            out[j], real = grid.column(int(order[j]), left[j])
            error = (left[j] - real) / upper[j, j]
            left[j + 1 : end] -= upper[j, j + 1 : end, None] * error
            errors[j - begin] = error
        left[end:] -= upper[begin:end, end:].T @ errors
    levels = np.empty_like(w)
    levels[:, order] = out.T
    return levels


def inverse_factor(h: F64, order: NDArray[np.intp]) -> F32:
    """The upper triangle U with (H + damping)⁻¹ = Uᵀ U, rows and columns in the given order."""
    damped = h[np.ix_(order, order)]
    at = np.arange(len(damped))
    mean = damped[at, at].mean()
    damped[at, at] += max(DAMPING * mean, 1e-12)
    # With J the order reversed and J H J = L Lᵀ, the factor is J L⁻¹ J.
    lower: F64 = np.linalg.cholesky(damped[::-1, ::-1]).astype(np.float64)
    inverse = _lower_inverse(lower)
    return np.ascontiguousarray(inverse[::-1, ::-1].astype(np.float32))


def _lower_inverse(lower: F64) -> F64:
    """The inverse of a lower triangle, by halves."""
    n = len(lower)
    if n <= 64:
        return np.asarray(np.tril(np.linalg.inv(lower)))
    m = n // 2
    a, c = _lower_inverse(lower[:m, :m]), _lower_inverse(lower[m:, m:])
    out = np.zeros_like(lower)
    out[:m, :m], out[m:, m:] = a, c
    out[m:, :m] = -c @ (lower[m:, :m] @ a)
    return out


def output_error(w: F32, real: F32, h: F64) -> float:
    """Σ (w − ŵ) H (w − ŵ)ᵀ, over all rows."""
    e = w - real
    return float(np.einsum("nk,nk->", e @ h.astype(np.float32), e, dtype=np.float64))
