"""How far apart two arrays are: signal to noise in decibels, mean squared and largest difference, cosine.

All in float64. Equal elements differ by 0, also when they are infinite; a NaN on either side makes the result NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import as_array


def sqnr_db(reference: ArrayLike, approximation: ArrayLike) -> float:
    """10·log10(Σ reference² / Σ (reference - approximation)²); +inf when they are equal, -inf when only the reference is zero.

    >>> round(sqnr_db([1.0, 1.0], [1.1, 0.9]), 6)
    20.0
    """
    a, b = _pair(reference, approximation)
    noise, signal = float(np.sum(_difference(a, b) ** 2)), float(np.sum(a * a))
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def mse(reference: ArrayLike, approximation: ArrayLike) -> float:
    """The mean of (reference - approximation)²; 0.0 for empty arrays.

    >>> mse([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    a, b = _pair(reference, approximation)
    return float(np.mean(_difference(a, b) ** 2)) if a.size else 0.0


def max_error(reference: ArrayLike, approximation: ArrayLike) -> float:
    """The largest |reference - approximation|; 0.0 for empty arrays.

    >>> max_error([1.0, 2.0], [1.0, 2.5])
    0.5
    """
    a, b = _pair(reference, approximation)
    return float(np.max(np.abs(_difference(a, b)), initial=0.0))


def cosine(reference: ArrayLike, approximation: ArrayLike) -> float:
    """Σ a·b / (|a|·|b|); 1.0 for two zero arrays, 0.0 for one.

    >>> cosine([1.0, 0.0], [1.0, 0.0]), cosine([1.0, 0.0], [0.0, 1.0])
    (1.0, 0.0)
    """
    a, b = _pair(reference, approximation)
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if 0.0 in lengths:
        return 1.0 if lengths == (0.0, 0.0) else 0.0
    return float(np.vdot(a, b)) / (lengths[0] * lengths[1])


def _difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.where(a == b, 0.0, a - b)


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    arrays = [as_array(x, what=what) for x, what in ((a, "reference"), (b, "approximation"))]
    for x, what in zip(arrays, ("reference", "approximation"), strict=True):
        if x.dtype.kind not in "fiubV":  # V: bfloat16 and its like
            raise DTypeError(f"{what} is an array of {x.dtype}, real numbers are needed")
    if arrays[0].shape != arrays[1].shape:
        raise ShapeError(f"cannot compare shapes {arrays[0].shape} and {arrays[1].shape}")
    x, y = (x.astype(np.float64).reshape(-1) for x in arrays)
    return x, y
