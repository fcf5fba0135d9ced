"""The statistics of observers: of fixed size, one row per channel; `a + b` is the statistic of both data sets.

A batch reaches a statistic as a `Batch`: float32, finite, with one row per channel (one row in all per tensor). A statistic that does
not depend on the order of the data is the same, bit for bit, for any split and any order of merging; `Window` depends on the order of
the batches, and is the same for any split of their sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import CalibrationError, ShapeError
from lowbit.numerics import F32, as_float32

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

# Temporaries of a chunk stay in the L2 cache.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Batch:
    """Finite float32 values by channel, with their extremes (+inf, -inf for a channel without values)."""

    lo: F32  # (C,)
    hi: F32  # (C,)
    size: I64  # (C,)
    parts: tuple[tuple[slice, F32], ...]  # channels, and their values as (channels, values)

    def chunks(self) -> Iterator[tuple[slice, F32]]:
        """The parts in pieces whose temporaries are small."""
        for channels, rows in self.parts:
            step = max(1, _CHUNK // rows.shape[0])
            for start in range(0, rows.shape[1], step):
                yield channels, rows[:, start : start + step]


def as_batch(x: Any, axis: int | None, ignore_nonfinite: bool) -> tuple[Batch, int]:
    """The values of `x` by channel, and how many non-finite ones were left out. CalibrationError names those that must not be there."""
    array = as_float32(x)
    if axis is None:
        rows = array.ravel(order="K")[None]  # the order does not matter, and so nothing is copied
    elif -array.ndim <= axis < array.ndim:
        rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) if array.size else np.empty((array.shape[axis], 0), np.float32)
    else:
        raise ShapeError(f"an array of shape {array.shape} has no axis {axis} to observe along", hint="axis=None for one range per tensor")
    channels, size = rows.shape
    if rows.size == 0:
        empty = np.full(channels, np.inf, np.float32)
        return Batch(empty, -empty, np.zeros(channels, np.int64), ()), 0
    # NaN if any value is; -0.0 + 0.0 is 0.0, so that the bits of an end do not depend on which zero came first
    lo, hi = (np.asarray(end + np.float32(0)) for end in (rows.min(axis=1), rows.max(axis=1)))
    if np.isfinite(lo).all() and np.isfinite(hi).all():
        return Batch(lo, hi, np.full(channels, size, np.int64), ((slice(0, channels), rows),)), 0
    finite = np.isfinite(rows)
    if not ignore_nonfinite:
        raise _nonfinite(rows)
    lo = np.min(rows, axis=1, where=finite, initial=np.inf) + np.float32(0)
    hi = np.max(rows, axis=1, where=finite, initial=-np.inf) + np.float32(0)
    parts = tuple((slice(c, c + 1), row[keep][None]) for c, (row, keep) in enumerate(zip(rows, finite)) if keep.any())
    return Batch(lo, hi, finite.sum(axis=1), parts), int(rows.size - finite.sum())


def _nonfinite(rows: F32) -> CalibrationError:
    nan, inf = int(np.isnan(rows).sum()), int(np.isinf(rows).sum())
    found = " and ".join(f"{n} {name}" for n, name in ((nan, "NaN"), (inf, "infinite")) if n)
    return CalibrationError(
        f"{found} of {rows.size} values: no range can be learned from them",
        hint="clean the data, or ignore_nonfinite=True to leave them out",
    )


class Statistic(Protocol):
    """A fixed-size summary of batches."""

    def see(self, batch: Batch) -> None:
        """Takes a batch in."""

    def merged(self, other: Any) -> Any:
        """The statistic of this one's batches followed by the other's."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able and exact."""


class Extremes:
    """Smallest and largest value and number of values, for each channel."""

    def __init__(self, channels: int) -> None:
        self.lo: F32 = np.full(channels, np.inf, np.float32)
        self.hi: F32 = np.full(channels, -np.inf, np.float32)
        self.size: I64 = np.zeros(channels, np.int64)

    def see(self, batch: Batch) -> None:
        self.lo, self.hi = np.minimum(self.lo, batch.lo), np.maximum(self.hi, batch.hi)
        self.size = self.size + batch.size

    def merged(self, other: Extremes) -> Extremes:
        out = Extremes(len(self.lo))
        out.lo, out.hi = np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi)
        out.size = self.size + other.size
        return out

    def to_dict(self) -> dict[str, Any]:
        return {"lo": floats_to_json(self.lo), "hi": floats_to_json(self.hi), "size": self.size.tolist()}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Extremes:
        out = Extremes(len(d["size"]))
        out.lo, out.hi = floats_from_json(d["lo"], np.inf), floats_from_json(d["hi"], -np.inf)
        out.size = np.asarray(d["size"], np.int64)
        if not len(out.lo) == len(out.hi) == out.size.size:
            raise ValueError(f"{len(out.lo)} lows, {len(out.hi)} highs and {out.size.size} sizes")
        return out


class Window:
    """The extremes of the last batches: as many as a moving average can feel, so that merging in order is exact.

    An average moves by v += c·(x - v); a batch that is K or more batches old has a weight below (1 - c)^K. With K the first for which that
    is below 2^-24, half an ulp of float32, older batches are forgotten by definition, and every split of the sequence has the same window.
    """

    def __init__(self, channels: int, constant: float) -> None:
        self.constant = constant
        self.length = 1 if constant == 1 else ceil(-24 * log(2) / log(1 - constant))
        self.batches: list[tuple[F32, F32]] = []
        self.channels = channels

    def see(self, batch: Batch) -> None:
        self.batches = [*self.batches, (batch.lo, batch.hi)][-self.length :]

    def merged(self, other: Window) -> Window:
        out = Window(self.channels, self.constant)
        out.batches = [*self.batches, *other.batches][-self.length :]
        return out

    def averages(self) -> tuple[F64, F64]:
        """The moving averages of the smallest and the largest values, in float64; NaN for a channel without values."""
        lo, hi = (np.full(self.channels, np.nan) for _ in range(2))
        for batch_lo, batch_hi in self.batches:
            seen = batch_lo <= batch_hi
            for average, end in ((lo, batch_lo), (hi, batch_hi)):
                fresh = seen & np.isnan(average)
                average[fresh] = end[fresh]
                average[seen] += self.constant * (end[seen] - average[seen])
        return lo, hi

    def to_dict(self) -> dict[str, Any]:
        lo, hi = ([floats_to_json(b[i]) for b in self.batches] for i in range(2))
        return {"channels": self.channels, "constant": self.constant, "lo": lo, "hi": hi}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Window:
        out = Window(d["channels"], d["constant"])
        out.batches = [(floats_from_json(lo, np.inf), floats_from_json(hi, -np.inf)) for lo, hi in zip(d["lo"], d["hi"])]
        return out


def floats_to_json(values: F32) -> list[float | None]:
    """Float32 as JSON numbers, exactly; the infinities that mean "no value yet" as null."""
    return [v if np.isfinite(v) else None for v in values.astype(np.float64).tolist()]


def floats_from_json(values: list[float | None], missing: float) -> F32:
    """The float32 values that `floats_to_json` wrote."""
    return np.array([missing if v is None else v for v in values], np.float32)
