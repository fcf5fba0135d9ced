"""The difference of two streams of arrays as a few sums: any amount of data needs the memory of one array."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowbit.types import Array


@dataclass
class Tally:
    """Sums over pairs (reference, approximation), in float64. Equal non-finite elements (a mask's -inf) are left out.

    >>> t = Tally()
    >>> t.add(np.array([1.0, 1.0]), np.array([1.1, 0.9]))
    >>> round(t.sqnr_db, 6), round(t.max_error, 6), t.elements
    (20.0, 0.1, 2)
    """

    signal: float = 0.0
    noise: float = 0.0
    dot: float = 0.0
    power: float = 0.0  # of the approximation
    max_error: float = 0.0
    elements: int = 0
    rows: int = 0
    same_rows: int = 0

    def add(self, reference: Array, approximation: Array) -> None:
        a, b = reference.astype(np.float64), approximation.astype(np.float64)
        if a.ndim and a.shape[-1] > 1 and a.size:
            self.rows += a.size // a.shape[-1]
            self.same_rows += int((a.argmax(-1) == b.argmax(-1)).sum())
        told = np.isfinite(a) | (a != b)
        a, b = a[told], b[told]
        with np.errstate(invalid="ignore", over="ignore"):  # infinities give -inf dB, not a warning
            difference = a - b
            self.elements += a.size
            self.signal += float(np.sum(a * a))  # not by BLAS, whose sums depend on its threads
            self.power += float(np.sum(b * b))
            self.dot += float(np.sum(a * b))
            self.noise += float(np.sum(difference * difference))
            self.max_error = float(np.maximum(self.max_error, np.max(np.abs(difference), initial=0.0)))

    @property
    def sqnr_db(self) -> float:
        """10·log10(Σ reference² / Σ difference²): +inf when all is equal, -inf when only the reference is zero."""
        if self.noise == 0:
            return math.inf
        if not math.isfinite(self.noise) or not self.signal:
            return -math.inf
        return 10 * math.log10(self.signal / self.noise)

    @property
    def cosine(self) -> float:
        """1.0 for two streams of zeros, 0.0 for one."""
        if self.signal == 0 or self.power == 0:
            return float(self.signal == self.power)
        return self.dot / math.sqrt(self.signal) / math.sqrt(self.power)

    @property
    def same_argmax(self) -> float | None:
        """How often the largest element of the last axis is the same; None if that axis has one element."""
        return self.same_rows / self.rows if self.rows else None
