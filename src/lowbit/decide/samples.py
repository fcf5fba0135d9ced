"""Samples to fit, to decide and to report with, in bounded memory: the rest is kept in a file until it is read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from lowbit.types import Array

Sample = Mapping[str, Array]


SMALL = 64 << 20  # bytes of samples that are held in memory; of a network larger than four times this, a quarter of its own bytes
HELD_BACK = 3  # one batch in this many is held back from fitting
DECIDED, REPORTED = 12, 24  # batches at most that candidates are compared on, and that the final figure is measured on


class StoredSamples(Sequence[Sample]):
    """Samples in order: the first `room` bytes of them in memory, the others on disk."""

    def __init__(self, samples: Iterable[Sample], room: int, *, copy: bool = False) -> None:
        """`copy`: for an iterator, which may reuse its memory."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._held: list[Sample | Path] = []
        for sample in samples:
            room -= sum(x.nbytes for x in sample.values())
            mine = {k: np.array(x) for k, x in sample.items()} if copy else sample
            self._held.append(mine if room >= 0 else self._written(sample))

    def _written(self, sample: Sample) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lowbit-samples-")
        path = Path(self._folder.name) / f"{len(self._held)}.npz"
        np.savez(path, **{f"x{i}:{k}": x for i, (k, x) in enumerate(sample.items())})  # type: ignore[arg-type]  # names, not keywords
        return path

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Sample]: ...
    def __getitem__(self, i: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(i, slice):
            return Picked(self, range(len(self))[i])
        found = self._held[i]
        if not isinstance(found, Path):
            return found
        with np.load(found, allow_pickle=False) as file:
            return {name.split(":", 1)[1]: file[name] for name in file.files}


class Picked(Sequence[Sample]):
    """Some of the samples of another sequence."""

    def __init__(self, samples: Sequence[Sample], which: Iterable[int]) -> None:
        self._samples, self._which = samples, tuple(which)

    @property
    def source(self) -> Sequence[Sample]:
        return self._samples

    @property
    def numbers(self) -> tuple[int, ...]:
        """The positions of the samples in the other sequence; errors use them as names."""
        return self._which

    def __len__(self) -> int:
        return len(self._which)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> Picked: ...
    def __getitem__(self, i: int | slice) -> Sample | Picked:
        return Picked(self._samples, self._which[i]) if isinstance(i, slice) else self._samples[self._which[i]]

    def __iter__(self) -> Iterator[Sample]:
        return (self._samples[i] for i in self._which)


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of samples, if there are enough.

    fit      ranges are calibrated and weights are rounded with these
    decide   candidates are compared on these
    report   the reported figure is measured on these: nothing was fitted to them or chosen by them
    """

    fit: Picked
    decide: Picked
    report: Picked

    @property
    def held(self) -> Picked:
        """All samples that were not fitted to, for callers that do not separate deciding from reporting."""
        return Picked(self.decide.source, sorted({*self.decide.numbers, *self.report.numbers}))

    @property
    def said(self) -> str:
        """The text that names the samples of the reported figure."""
        if set(self.report.numbers) & set(self.fit.numbers):
            return "the one batch there is, which the ranges were taken from, too"
        if set(self.report.numbers) & set(self.decide.numbers):
            return "the batches that the choice was made with: there are too few to keep others"
        return "batches that nothing was fitted to or chosen by"


def split(samples: Sequence[Sample], decided: int = DECIDED, reported: int = REPORTED) -> Split:
    """Holds back one batch in three; every other one of these decides, the rest report.

    >>> s = split(range(12)); s.fit.numbers, s.decide.numbers, s.report.numbers
    ((0, 1, 3, 4, 6, 7, 9, 10), (2, 8), (5, 11))
    """
    count = len(samples)
    if count < HELD_BACK:
        fit, held = list(range(count - 1)) or [0], [count - 1]
    else:
        held = list(range(HELD_BACK - 1, count, HELD_BACK))
        fit = [i for i in range(count) if i % HELD_BACK != HELD_BACK - 1]
    decide, report = (held[::2], held[1::2]) if len(held) > 1 else (held, held)
    return Split(Picked(samples, fit), Picked(samples, _some(decide, decided)), Picked(samples, _some(report, reported)))


def _some(numbers: list[int], most: int) -> list[int]:
    return numbers[:: -(-len(numbers) // most)]
