"""Samples to fit with, to decide with and to report on, in bounded memory: what does not fit is kept in a file until it is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from lowbit.types import Array

Sample = Mapping[str, Array]


SMALL = 64 << 20  # bytes of samples that are held in memory for any network; beyond a quarter of a larger one's own they go to a file
HELD_BACK = 3  # one batch in so many is not fitted to
DECIDED, REPORTED = 12, 24  # batches at most that candidates are compared on, and that the final figure is measured on


class StoredSamples(Sequence[Sample]):
    """Samples in order: the first `room` bytes of them in memory, the others on disk."""

    def __init__(self, samples: Iterable[Sample], room: int, *, copy: bool = False) -> None:
        """`copy`: of an iterator, which may give the same memory again."""
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
        """What the samples are in the other sequence: errors call them so."""
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
    """Three sets of samples that share none, where there are enough.

    fit      ranges are calibrated and weights are rounded with these
    decide   candidates are compared on these
    report   the figure that is told is measured on these: nothing was fitted to them, and nothing was chosen by them
    """

    fit: Picked
    decide: Picked
    report: Picked

    @property
    def held(self) -> Picked:
        """All that were not fitted to, for whoever does not tell deciding from reporting."""
        return Picked(self.decide.source, sorted({*self.decide.numbers, *self.report.numbers}))

    @property
    def said(self) -> str:
        """On what the reported figure was measured."""
        if set(self.report.numbers) & set(self.fit.numbers):
            return "the one batch there is, which the ranges were taken from, too"
        if set(self.report.numbers) & set(self.decide.numbers):
            return "the batches that the choice was made with: there are too few to keep others"
        return "batches that nothing was fitted to or chosen by"


def split(samples: Sequence[Sample], decided: int = DECIDED, reported: int = REPORTED) -> Split:
    """One batch in three is held back; every other one of these decides, the rest are reported on.

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
