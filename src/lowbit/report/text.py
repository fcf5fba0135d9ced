"""Numbers as a person reads them."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any


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


def printable(text: str) -> str:
    """The text with control characters (all but the line feed) spelled out: names in a model must not steer a terminal.

    >>> printable("a\\x1b[31mb\\u202ec"), printable("größe → 3")
    ('a\\\\x1b[31mb\\\\u202ec', 'größe → 3')
    """

    def spelled(m: re.Match[str]) -> str:
        c = m.group()
        return c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else c.encode("unicode_escape").decode()

    return re.sub(r"[^\n -~]", spelled, text)


def plain(x: Any) -> Any:
    """The value as JSON can hold it: NaN and infinities as texts.

    >>> plain({"a": [1.5, float("inf"), float("nan")]})
    {'a': [1.5, 'inf', 'nan']}
    """
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def counted(n: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "batch")
    ('1 row', '1,200 rows', '2 batches')
    """
    many = "es" if what.endswith("ch") else "s"
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}{many}"


def times_smaller(before: int, after: int) -> str:
    """How many times smaller, or larger.

    >>> times_smaller(400, 100), times_smaller(100, 200), times_smaller(100, 99)
    ('4.0× smaller', '2.0× larger', 'as large')
    """
    if not before or not after:
        return "as large" if before == after else "empty" if not after else "larger"
    ratio = before / after
    if 0.95 < ratio < 1.05:
        return "as large"
    return f"{ratio:.1f}× smaller" if ratio > 1 else f"{1 / ratio:.1f}× larger"


def decibels(x: float | None) -> str:
    """A signal-to-noise ratio; without noise both sides are equal.

    >>> decibels(31.42), decibels(math.inf), decibels(None)
    ('31.4 dB', 'equal', '–')
    """
    if x is None:
        return "–"
    return "equal" if x == math.inf else f"{x:.1f} dB"
