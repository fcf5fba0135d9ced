"""Samples to calibrate with and samples to measure with, in bounded memory: what does not fit is kept in a file until it is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from lowbit.accuracy.brackets import Sample

HELD_BACK = 4  # one sample in so many is measured with and not calibrated with
MEASURED = 8  # at most so many samples are measured with


class Kept(Sequence[Sample]):
    """Samples in order: the first `room` bytes of them in memory, the others on disk."""

    def __init__(self, samples: Iterable[Sample], room: int) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._held: list[Sample | Path] = []
        for sample in samples:
            room -= sum(x.nbytes for x in sample.values())
            self._held.append(sample if room >= 0 else self._written(sample))

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


def split(samples: Sequence[Sample], measured: int = MEASURED) -> tuple[Picked, Picked]:
    """Samples to calibrate with and samples to measure with. One sample alone has to be both."""
    count = len(samples)
    if count < HELD_BACK:
        rest, held = list(range(count - 1)) or [0], [count - 1]
    else:
        held = list(range(HELD_BACK - 1, count, HELD_BACK))
        rest = [i for i in range(count) if i % HELD_BACK != HELD_BACK - 1]
    return Picked(samples, rest), Picked(samples, held[:: -(-len(held) // measured)])
