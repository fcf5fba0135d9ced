"""A sample of the values seen that does not depend on their order or split, with exact counts.

Of the distinct values, those with the k smallest keys are kept, each with how often it came. The key is a bijection of the float32's 32
bits that scatters them, so the sample is a uniform one of the distinct values and ties do not exist. A value that is among the k smallest
of all was among the k smallest of every part that held it, so no occurrence of it was ever dropped: merging is exact. Zeros are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.calibrate.statistics import I64, Batch
from lowbit.errors import CalibrationError
from lowbit.numerics import F32

U32 = NDArray[np.uint32]

SIZE = 4096
_ZERO_KEY = np.uint32(0xFFFFFFFF)


class Reservoir:
    """Up to `limit` distinct values and their counts, for each channel, in the order of their keys."""

    def __init__(self, channels: int, limit: int = SIZE) -> None:
        if limit < 1:
            raise CalibrationError(f"a sample of {limit} values measures nothing", hint=f"samples={SIZE}")
        self.limit = limit
        self.values: list[F32] = [np.zeros(0, np.float32)] * channels
        self.counts: list[I64] = [np.zeros(0, np.int64)] * channels

    def see(self, batch: Batch) -> None:
        for channels, rows in batch.chunks():
            for c, row in zip(range(channels.start, channels.stop), rows):
                full = len(self.values[c]) == self.limit
                worst = _keys(self.values[c][-1:])[0] if full else _ZERO_KEY - np.uint32(1)
                keep = row[_keys(row) <= worst]
                if keep.size:
                    self._join(c, keep, np.ones(keep.size, np.int64))

    def merged(self, other: Reservoir) -> Reservoir:
        out = Reservoir(len(self.values), self.limit)
        out.values, out.counts = list(self.values), list(self.counts)
        for c in range(len(self.values)):
            out._join(c, other.values[c], other.counts[c])
        return out

    def _join(self, c: int, values: F32, counts: I64) -> None:
        values, counts = np.concatenate([self.values[c], values]), np.concatenate([self.counts[c], counts])
        _, first, which = np.unique(_keys(values), return_index=True, return_inverse=True)
        sums = np.zeros(len(first), np.int64)
        np.add.at(sums, which.reshape(-1), counts)
        self.values[c], self.counts[c] = values[first[: self.limit]], sums[: self.limit]

    def to_dict(self) -> dict[str, Any]:
        values = [v.astype(np.float64).tolist() for v in self.values]
        return {"limit": self.limit, "values": values, "counts": [n.tolist() for n in self.counts]}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Reservoir:
        out = Reservoir(len(d["values"]), d["limit"])
        out.values = [np.asarray(v, np.float32) for v in d["values"]]
        out.counts = [np.asarray(n, np.int64) for n in d["counts"]]
        return out


def _keys(x: F32) -> U32:
    """32 bits in, 32 bits out, one to one and scattered (xor-shifts and odd multipliers are each invertible); ±0 has the last key."""
    h = np.asarray(x + np.float32(0)).view(np.uint32)  # -0.0 + 0.0 is 0.0, whose bits are 0
    h = h ^ (h >> np.uint32(16))
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    h -= np.uint32(1)  # 0 is a fixed point of the steps above, and wraps to the largest key here
    return h
