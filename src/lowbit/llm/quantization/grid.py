"""The numbers that rows of a block format can take once their scales are fixed: weight = step · level + offset.

Fitting gives a grid, rounding (or GPTQ) gives a code for every weight, packing puts both into the file's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import IQ4_NL, BlockFormat
from lowbit.numerics import F32

Codes = NDArray[np.uint8]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Levels:
    """What codes stand for: low, low + 1, …, or the numbers of a table."""

    low: int
    count: int
    table: tuple[int, ...] = ()

    @property
    def ends(self) -> tuple[int, ...]:
        """The levels that a block's extreme weight may get: the furthest from zero, or either end of a table."""
        return (self.table[0], self.table[-1]) if self.table else (self.low,)

    def nearest(self, x: F32) -> F32:
        """The level nearest to each x, as floats. `x` may be written over."""
        if self.table:
            at = np.floor(np.clip(2 * x, -256, 255)).astype(np.int16)  # middles of neighbours are multiples of a half
            return np.take(_by_halves(self.table), at + np.int16(256))
        np.rint(x, out=x)
        return np.clip(x, self.low, self.low + self.count - 1, out=x)

    def code(self, level: F32) -> Codes:
        """Codes of levels."""
        if self.table:
            return np.searchsorted(np.asarray(self.table, np.float32), level).astype(np.uint8)
        return (level - np.float32(self.low)).astype(np.uint8)


@cache
def _by_halves(table: tuple[int, ...]) -> F32:
    """The nearest level of every number from −128 to 127.5 in steps of a half."""
    t = np.asarray(table, np.float32)
    return np.asarray(t[np.searchsorted((t[1:] + t[:-1]) / 2, np.arange(-128, 128, 0.5), side="right")])


LEVELS = {
    "Q4_0": Levels(-8, 16),
    "Q4_1": Levels(0, 16),
    "Q5_0": Levels(-16, 32),
    "Q5_1": Levels(0, 32),
    "Q8_0": Levels(-127, 255),
    "Q4_K": Levels(0, 16),
    "Q5_K": Levels(0, 32),
    "Q6_K": Levels(-32, 64),
    "IQ4_NL": Levels(-127, 16, tuple(int(v) for v in IQ4_NL)),
}


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows (N, K) of a format: step and offset (N, K / run) of runs of neighbours, and how codes (N, K) become the file's bytes."""

    format: BlockFormat
    run: int
    step: F32
    offset: F32 | None
    pack: Callable[[Codes], Bytes]

    @property
    def levels(self) -> Levels:
        return LEVELS[self.format.name]

    def column(self, k: int, w: F32) -> tuple[F32, F32]:
        """The nearest level of each row's weight w (N,) in column k, and its real number."""
        s = self.step[:, k // self.run]
        x = w if self.offset is None else w - self.offset[:, k // self.run]
        level = self.levels.nearest(np.divide(x, s, out=np.zeros_like(x), where=s != 0))
        real = s * level
        return level, real if self.offset is None else real + self.offset[:, k // self.run]

    def round(self, w: F32) -> F32:
        """The nearest level of every weight (N, K)."""
        runs = w.reshape(len(w), -1, self.run)
        s = self.step[..., None]
        x = runs.copy() if self.offset is None else runs - self.offset[..., None]
        return self.levels.nearest(np.divide(x, s, out=np.zeros_like(x), where=s != 0)).reshape(w.shape)

    def real(self, level: F32) -> F32:
        """The weights that levels stand for."""
        y = level.reshape(len(level), -1, self.run) * self.step[..., None]
        return (y if self.offset is None else y + self.offset[..., None]).reshape(level.shape)

    def to_bytes(self, level: F32) -> Bytes:
        """The file's rows."""
        return self.pack(self.levels.code(level))
