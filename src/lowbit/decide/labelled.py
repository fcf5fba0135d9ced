"""Decisions by labels: top-1 on one half of the held-back rows; the other half gives the reported figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowbit.decide.quality import FEW
from lowbit.decide.samples import Picked, Sample, Split, split
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.report.scores import GUESSED_ROWS, TopCount, counted_top, labels_by_batch
from lowbit.report.text import counted
from lowbit.runtime.session import Session
from lowbit.types import Array

MAX_DROP = 0.005


@dataclass(frozen=True)
class Labelled:
    """Some batches with their labels, which are classes of `output`. `where` says what else these rows were used for; "" if nothing."""

    samples: Picked
    labels: Sequence[Array]
    output: str
    where: str = ""

    @property
    def rows(self) -> int:
        return sum(len(y) for y in self.labels)

    @property
    def max_drop(self) -> float:
        """How far the score may fall by default: MAX_DROP, but at least one row."""
        return max(MAX_DROP, 1 / max(1, self.rows))

    def count(self, graph: Graph) -> TopCount:
        """How many rows a network (float or with Q/DQ brackets) classifies right."""
        return counted_top(Session(lower(graph).graph), self.samples, self.labels, self.output)

    def score(self, graph: Graph) -> float:
        return self.count(graph).top1

    @property
    def said(self) -> str:
        """40 labelled rows; 10 labelled rows (they decided, too; few: other data may differ)."""
        notes = [*([self.where] if self.where else []), *(["few: other data may differ"] if self.rows < FEW else [])]
        return counted(self.rows, "labelled row") + (f" ({'; '.join(notes)})" if notes else "")


def decide_and_report(graph: Graph, samples: Sequence[Sample], labels: Array, output: str) -> tuple[Labelled, Labelled, Labelled]:
    """The held-back batches, as `split` has them: those that candidates are scored on, and those of the reported figure; and all batches.

    All that are held back are used, more than for the noise of the outputs, because a score needs more rows.
    """
    parts, by_batch = split(samples, len(samples), len(samples)), labels_by_batch(graph, samples, labels, output)
    where = _where(parts)
    decide, report = (Labelled(p, [by_batch[i] for i in p.numbers], output, where) for p in (parts.decide, parts.report))
    return decide, report, Labelled(Picked(samples, range(len(samples))), by_batch, output)


def warn_of_guessing(graph: Graph, report: Labelled, every: Labelled) -> None:
    """Warns if the float network is right no more often than by chance; of few reported rows, all rows are looked at."""
    (report if report.rows >= GUESSED_ROWS else every).count(graph).warn_of_guessing()


def _where(parts: Split) -> str:
    """What the reported rows were used for as well."""
    fitted, decided = (set(parts.report.numbers) & set(p.numbers) for p in (parts.fit, parts.decide))
    return "they decided and were fitted to, too" if fitted else "they decided, too" if decided else ""
