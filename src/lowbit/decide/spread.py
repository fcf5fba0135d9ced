"""How far the mean of a few figures may be from that of many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Student's t for 95 % on both sides together, by degrees of freedom from 1 on.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip


def student(freedom: int) -> float:
    """Student's t: 95 % of the means of `freedom` + 1 normal figures are within so many standard errors of the true mean.

    >>> student(1), student(4), round(student(30), 2), round(student(10_000), 2)
    (12.706, 2.776, 2.04, 1.96)
    """
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.37 / freedom + 2.8 / freedom**2


def mean_error(figures: Sequence[float]) -> float | None:
    """Half the width of the range that holds the mean of many such figures with 95 %. None of fewer than two figures."""
    count = len(figures)
    return student(count - 1) * float(np.std(figures, ddof=1)) / count**0.5 if count > 1 else None
