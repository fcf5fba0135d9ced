"""Numbers as a person reads them."""

from __future__ import annotations

import math


def size(n: int) -> str:
    """Bytes in the unit a person would choose: 2.3 MB.

    >>> size(999), size(1_500), size(2_300_000)
    ('999 B', '1.5 kB', '2.3 MB')
    """
    value, unit = float(n), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"


def decibels(x: float | None) -> str:
    """A signal-to-noise ratio; without noise both sides are equal.

    >>> decibels(31.42), decibels(math.inf), decibels(None)
    ('31.4 dB', 'equal', '–')
    """
    if x is None:
        return "–"
    return "equal" if x == math.inf else f"{x:.1f} dB"
