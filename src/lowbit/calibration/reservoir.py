"""A sample of the values seen that does not depend on their order or split, with exact counts.

Of the distinct values, those with the k smallest keys are kept, each with how often it came. The key is a bijection of the float32's 32
bits that scatters them: a key is enough to know the value, ties do not exist, and the sample is a uniform one of the distinct values. A
value that is among the k smallest of all was among the k smallest of every part that held it, so no occurrence of it was ever dropped:
merging is exact. Zeros are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.calibration.statistics import I64, Batch
from lowbit.errors import CalibrationError
from lowbit.numerics import F32

U32 = NDArray[np.uint32]

SIZE = 4096
_CHUNK = 1 << 16
_LAST = np.uint32(0xFFFFFFFE)  # the key after it is that of zero
_A, _B = 0x7FEB352D, 0x846CA68B  # odd, so they have inverses modulo 2^32


class Reservoir:
    """Up to `limit` distinct values and their counts, for each channel, in the order of their keys."""

    def __init__(self, channels: int, limit: int = SIZE) -> None:
        if limit < 1:
            raise CalibrationError(f"a sample of {limit} values measures nothing", hint=f"samples={SIZE}")
        self.limit = limit
        self.keys: list[U32] = [np.zeros(0, np.uint32)] * channels  # ascending
        self.counts: list[I64] = [np.zeros(0, np.int64)] * channels

    def values(self, channel: int) -> F32:
        """The sampled values, in the order of their keys."""
        return _values(self.keys[channel])

    def see(self, batch: Batch) -> None:
        for channels, rows in batch.parts:
            for c, row in zip(range(channels.start, channels.stop), rows):
                for start in range(0, row.size, _CHUNK):
                    keys = _keys(row[start : start + _CHUNK])
                    worst = self.keys[c][-1] if len(self.keys[c]) == self.limit else _LAST
                    distinct, counts = np.unique(keys[keys <= worst], return_counts=True)
                    if distinct.size:
                        self._join(c, distinct, counts)

    def merged(self, other: Reservoir) -> Reservoir:
        out = Reservoir(len(self.keys), self.limit)
        out.keys, out.counts = list(self.keys), list(self.counts)
        for c in range(len(self.keys)):
            out._join(c, other.keys[c], other.counts[c])
        return out

    def _join(self, c: int, keys: U32, counts: I64) -> None:
        distinct, which = np.unique(np.concatenate([self.keys[c], keys]), return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, which.reshape(-1), np.concatenate([self.counts[c], counts]))
        self.keys[c], self.counts[c] = distinct[: self.limit], sums[: self.limit]

    def to_dict(self) -> dict[str, Any]:
        return {"limit": self.limit, "keys": [k.tolist() for k in self.keys], "counts": [n.tolist() for n in self.counts]}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Reservoir:
        out = Reservoir(len(d["keys"]), d["limit"])
        out.keys = [np.asarray(k, np.uint32) for k in d["keys"]]
        out.counts = [np.asarray(n, np.int64) for n in d["counts"]]
        return out


def _keys(x: F32) -> U32:
    """32 bits in, 32 bits out, one to one and scattered (xor-shifts and odd multipliers are each invertible); ±0 has the last key."""
    h = np.asarray(x + np.float32(0)).view(np.uint32)  # -0.0 + 0.0 is 0.0, whose bits are 0
    h ^= h >> np.uint32(16)
    h *= np.uint32(_A)
    h ^= h >> np.uint32(15)
    h *= np.uint32(_B)
    h ^= h >> np.uint32(16)
    h -= np.uint32(1)  # 0 is a fixed point of the steps above, and wraps to the largest key here
    return h


def _values(keys: U32) -> F32:
    """The values that have these keys: the steps of `_keys`, undone from the last to the first."""
    h = keys + np.uint32(1)
    h ^= h >> np.uint32(16)
    h *= np.uint32(pow(_B, -1, 1 << 32))
    h ^= (h >> np.uint32(15)) ^ (h >> np.uint32(30))
    h *= np.uint32(pow(_A, -1, 1 << 32))
    h ^= h >> np.uint32(16)
    return h.view(np.float32)
