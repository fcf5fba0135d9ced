"""Joins batches of a few rows to larger ones if rows are independent, because every run has a fixed cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from lowbit.decide.quality import rows_in
from lowbit.decide.samples import Picked, Sample, Split
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.plan import batch_symbol

ROWS = 16  # rows of a batch at most
WORK = 100_000_000  # multiplications of a batch: beyond this, the fixed cost of a run is small
ROOM = 32 << 20  # bytes of all values of a batch: a replay keeps them in memory


class Joined(Sequence[Sample]):
    """The samples in order; neighbours of equal shape are joined to batches of at most `rows` rows."""

    def __init__(self, samples: Picked, rows: int) -> None:
        self._samples = samples
        self._groups = list(_groups(samples, rows)) if rows > 1 else [[i] for i in range(len(samples))]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the batches in errors: the numbers of the samples that they were joined from."""
        called = [[self._samples.numbers[i] for i in group] for group in self._groups]
        return tuple(str(n[0]) if len(n) == 1 else f"{n[0]} to {n[-1]}" for n in called)

    @property
    def given(self) -> int:
        """How many batches there were before joining."""
        return len(self._samples)

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> list[Sample]: ...
    def __getitem__(self, i: int | slice) -> Sample | list[Sample]:
        if isinstance(i, slice):
            return [self[k] for k in range(len(self))[i]]
        members = [self._samples[k] for k in self._groups[i]]
        return members[0] if len(members) == 1 else {name: np.concatenate([m[name] for m in members]) for name in members[0]}

    def some(self, count: int) -> list[Sample]:
        """Batches spread over the data that hold about `count` of the given ones; at least one."""
        most = max(1, round(count * len(self) / max(1, len(self._samples))))
        return self[:: max(1, -(-len(self) // most))]


@dataclass(frozen=True)
class Data:
    """The samples as they are run.

    decide   candidates are compared on these. Candidates were fitted to the last `fitted` of them: if few samples are held back, these
             give a better estimate of rounding noise. A candidate must be better on the others, too
    timed    a batch as it was given
    said     the text that names the samples of the reported figure
    """

    fit: Joined
    decide: tuple[Sample, ...]
    numbers: tuple[str, ...]  # of `decide`
    fitted: int
    report: Joined
    timed: Sample
    said: str

    @staticmethod
    def of(graph: Graph, parts: Split, macs: int, decided: int) -> Data:
        """`macs` of a batch as given; `decided` rows are wanted to compare candidates on."""
        timed = parts.decide[0]
        rows = rows_together(graph, timed, macs)
        fit, decide, report = (Joined(part, rows) for part in (parts.fit, parts.decide, parts.report))
        lacking = max(0, decided // max(1, rows_in(graph, timed)) - len(parts.decide))
        apart = [i for i, n in enumerate(parts.fit.numbers) if n not in set(parts.decide.numbers) | set(parts.report.numbers)]
        more = Joined(Picked(parts.fit.source, [parts.fit.numbers[i] for i in _spread(apart, lacking)]), rows)
        return Data(fit, (*decide, *more), (*decide.numbers, *more.numbers), len(more), report, timed, parts.said)


def _spread(numbers: list[int], count: int) -> list[int]:
    count = min(count, len(numbers))
    return [numbers[int(i * len(numbers) / count)] for i in range(count)]


def _groups(samples: Picked, most: int) -> Iterator[list[int]]:
    held: list[int] = []
    rows, shape = 0, None
    for i, sample in enumerate(samples):
        own = tuple((x.dtype, x.shape[1:]) for x in sample.values())
        more = len(next(iter(sample.values())))
        if held and (own != shape or rows + more > most):
            yield held
            held, rows = [], 0
        held.append(i)
        rows, shape = rows + more, own
    if held:
        yield held


def rows_together(graph: Graph, sample: Sample, macs: int) -> int:
    """How many rows a batch may have; 1 if rows depend on each other or the exporter fixed their number."""
    if batch_symbol(graph) is None:
        return 1
    given = max(1, len(sample[graph.inputs[0].name]))
    values = bound_to(graph, sample).values
    held = sum(v.type.nbytes for name, v in values.items() if name not in graph.constants)
    return max(1, min(ROWS, WORK * given // max(1, macs), ROOM * given // max(1, held)))
