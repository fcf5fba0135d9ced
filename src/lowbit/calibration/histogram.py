"""A histogram that widens itself and merges exactly: its grid is fixed by the largest magnitude alone.

Bins are `w = 2^e` wide and anchored at 0: a value is in bin `k = trunc(x / w)`, |k| < half, so bin 0 is (-w, w). `e` is the smallest one
for which the largest magnitude seen has a bin. When a larger value comes, e grows by n and bin k becomes bin trunc(k / 2^n), which is where
all of its values would have gone: counts stay integers, and the histogram is a function of the values seen, whatever their order or split.

The point masses that networks make are counted apart: exact zeros (ReLU, padding; they are in no bin), and values equal to the smallest
and to the largest (clip, ReLU6, saturated inputs).

Memory is 32 KiB a channel (2·2048 counts of 8 bytes), whatever the number of values: 128 MiB for a tensor observed in 4096 channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.calibration.statistics import F64, I64, Batch, Extremes
from lowbit.errors import CalibrationError

BINS = 2048  # on each side of zero
_NO_EXPONENT = -1000  # of a channel that has seen nothing but zeros; any other is larger


@dataclass(frozen=True)
class Bins:
    """One channel's histogram as a density: `rest` values spread evenly over each bin, and `atoms` of exact position.

    `edges` are cut at the smallest and the largest value, so a constant tensor is an atom and no bin.
    """

    lo: float
    hi: float
    width: float  # 2^e
    edges: F64  # (n + 1,), ascending
    counts: I64  # (n,), without zeros
    rest: I64  # (n,), without any atom
    atoms: F64  # distinct values
    atom_counts: I64
    octaves: int  # log2 of the bins on one side: how many halvings of the range the histogram can resolve

    @property
    def total(self) -> int:
        return int(self.rest.sum() + self.atom_counts.sum())

    @property
    def zeros(self) -> int:
        return int(self.atom_counts[self.atoms == 0].sum())

    def coarser(self) -> Bins:
        """The same values in bins twice as wide; still anchored at 0."""
        k = np.trunc((self.edges[:-1] + self.edges[1:]) / (4 * self.width)).astype(np.int64)
        first = np.flatnonzero(np.diff(k, prepend=k[:1] - 1))
        counts, rest = (np.add.reduceat(c, first) if first.size else c for c in (self.counts, self.rest))
        edges = np.append(self.edges[first], self.edges[-1:])
        return replace(self, width=2 * self.width, edges=edges, counts=counts, rest=rest, octaves=self.octaves - 1)

    def mean_magnitude(self) -> float:
        """The mean of |x|, each bin's values taken at its middle."""
        across = (self.edges[:-1] < 0) & (self.edges[1:] > 0)  # bin 0 has its mean magnitude on both sides
        a, b = np.abs(self.edges[:-1]), np.abs(self.edges[1:])
        middle = np.where(across, (a * a + b * b) / np.maximum(2 * (a + b), 1e-300), (a + b) / 2)
        return float((self.rest @ middle + self.atom_counts @ np.abs(self.atoms)) / self.total)


class Histogram(Extremes):
    """Counts by bin for each channel, with the extremes and the three atoms."""

    def __init__(self, channels: int, half: int = BINS) -> None:
        if half < 2 or half & (half - 1):
            raise CalibrationError(f"bins={half} is not a power of two", hint=f"bins={BINS}")
        super().__init__(channels)
        self.half = half
        self.exponent: I64 = np.full(channels, _NO_EXPONENT, np.int64)
        self.counts: I64 = np.zeros((channels, 2 * half - 1), np.int64)
        self.zeros, self.at_lo, self.at_hi = (np.zeros(channels, np.int64) for _ in range(3))

    def see(self, batch: Batch) -> None:
        # Ends inside the observed range are not counted: that would be a useless pass over the data.
        at_lo = _count_equal(batch, batch.lo) if np.any(batch.lo <= self.lo) else np.zeros_like(self.at_lo)
        at_hi = _count_equal(batch, batch.hi) if np.any(batch.hi >= self.hi) else np.zeros_like(self.at_hi)
        self._take_ends(batch.lo, batch.hi, at_lo, at_hi)
        super().see(batch)
        self._widen(self._exponents())
        flat = self.counts.reshape(-1)
        first = np.arange(len(self.lo)) * (2 * self.half - 1) + self.half - 1  # bin 0 of each channel
        for channels, rows in batch.chunks():
            # A product that underflows is in bin 0, where it belongs. Reciprocals that are no normal float32 need float64.
            small = np.abs(self.exponent[channels]) <= 126
            inverse = np.ldexp(1.0, -self.exponent[channels])[:, None].astype(np.float32 if small.all() else np.float64, copy=False)
            bins = np.asarray(rows * inverse).astype(np.int64)
            bins += first[channels, None]
            np.add.at(flat, bins.reshape(-1), 1)
            zeros = _count(rows == 0)
            self.zeros[channels] += zeros
            self.counts[channels, self.half - 1] -= zeros

    def merged(self, other: Extremes) -> Histogram:
        assert isinstance(other, Histogram)
        out = Histogram(len(self.lo), self.half)
        for h in (self, other):
            out._take_ends(h.lo, h.hi, h.at_lo, h.at_hi)
            out.lo, out.hi = np.minimum(out.lo, h.lo), np.maximum(out.hi, h.hi)
        out.size, out.zeros = self.size + other.size, self.zeros + other.zeros
        out.exponent = out._exponents()
        for c in range(len(out.lo)):
            for h in (self, other):
                out.counts[c] += _coarser(h.counts[c], int(out.exponent[c] - h.exponent[c]))
        return out

    def bins(self, channel: int) -> Bins:
        """One channel as a density."""
        counts, half, width = self.counts[channel], self.half, float(np.ldexp(1.0, self.exponent[channel]))
        lo, hi = float(self.lo[channel]), float(self.hi[channel])
        used = np.flatnonzero(counts)
        k = np.arange(used[0], used[-1] + 1) - (half - 1) if used.size else np.zeros(0, np.int64)
        edges = np.concatenate([np.where(k > 0, k, k - 1), [k[-1] + (k[-1] >= 0)] if k.size else []]) * width
        here = counts[k + half - 1]
        rest, atoms = here.copy(), {0.0: int(self.zeros[channel])} if self.zeros[channel] else {}
        for value, n in ((lo, self.at_lo[channel]), (hi, self.at_hi[channel])):
            if value not in atoms:  # an end that is zero, or equal to the other end, is one atom
                atoms[value] = int(n)
                rest[int(value / width) - k[0]] -= n
        values = np.array(list(atoms), np.float64)
        return Bins(
            lo, hi, width, np.clip(edges, lo, hi), here, rest, values, np.array(list(atoms.values()), np.int64), half.bit_length() - 1
        )

    def to_dict(self) -> dict[str, Any]:
        rows = []
        for c, counts in enumerate(self.counts):
            used = np.flatnonzero(counts)
            first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
            rows.append({"exponent": int(self.exponent[c]), "first": first, "counts": counts[first:last].tolist()})
        atoms = {name: getattr(self, name).tolist() for name in ("zeros", "at_lo", "at_hi")}
        return {**super().to_dict(), "half": self.half, **atoms, "rows": rows}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Histogram:
        ends = Extremes.from_dict(d)
        out = Histogram(len(ends.size), d["half"])
        out.lo, out.hi, out.size = ends.lo, ends.hi, ends.size
        for name in ("zeros", "at_lo", "at_hi"):
            setattr(out, name, np.asarray(d[name], np.int64))
        for c, row in enumerate(d["rows"]):
            out.exponent[c] = row["exponent"]
            out.counts[c, row["first"] : row["first"] + len(row["counts"])] = row["counts"]
        return out

    def _exponents(self) -> I64:
        """The smallest e with max|x| < half · 2^e."""
        with np.errstate(invalid="ignore"):
            largest = np.maximum(-self.lo.astype(np.float64), self.hi)
        above = np.frexp(np.where(np.isfinite(largest), largest, 0.0))[1]  # largest < 2^above
        return np.where((largest > 0), above.astype(np.int64) - (self.half.bit_length() - 1), _NO_EXPONENT)

    def _widen(self, exponent: I64) -> None:
        for c in np.flatnonzero(exponent > self.exponent):
            self.counts[c] = _coarser(self.counts[c], int(exponent[c] - self.exponent[c]))
        self.exponent = exponent

    def _take_ends(self, lo: NDArray[Any], hi: NDArray[Any], at_lo: I64, at_hi: I64) -> None:
        """The counts at the ends, when a batch with these ends joins; before the ends themselves are updated."""
        self.at_lo = np.where(self.lo <= lo, self.at_lo, 0) + np.where(lo <= self.lo, at_lo, 0)
        self.at_hi = np.where(self.hi >= hi, self.at_hi, 0) + np.where(hi >= self.hi, at_hi, 0)


def _count_equal(batch: Batch, value: NDArray[Any]) -> I64:
    out = np.zeros(len(value), np.int64)
    for channels, rows in batch.chunks():
        out[channels] += _count(rows == value[channels, None])
    return out


def _count(mask: NDArray[np.bool_]) -> I64:
    """How many in each row; over a whole array NumPy counts ten times as fast as along an axis."""
    return np.asarray(np.count_nonzero(mask, axis=1) if len(mask) > 1 else [np.count_nonzero(mask)], np.int64)


def _coarser(counts: I64, doublings: int) -> I64:
    """Counts on bins 2^doublings as wide: bin k goes to bin trunc(k / 2^doublings)."""
    middle = len(counts) // 2
    used = np.flatnonzero(counts)
    if doublings == 0 or used.size == 0:
        return counts
    k = used - middle
    out = np.zeros_like(counts)
    np.add.at(out, np.sign(k) * (np.abs(k) >> min(doublings, 62)) + middle, counts[used])
    return out
