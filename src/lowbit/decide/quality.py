"""The quality of a quantized network, measured on the integers that run.

Every figure comes from the kernels of a session (`runtime/replay.py` runs them and keeps the values between them), on samples that the
candidate was not fitted to. Noise is counted sample by sample, and the worst tenth of the samples decides. A sum over all samples would be
dominated by a few easy ones with large outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lowbit.calibration.run import need_finite, too_large
from lowbit.decide.answers import Answers, compared
from lowbit.decide.points import QUIET, Point, find_points, noise_of_rows, rows_of
from lowbit.decide.spread import mean_error
from lowbit.decide.widths import RECURRENT
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.ir.rewrite import Editor
from lowbit.lower import lower
from lowbit.lower.signed import signed
from lowbit.plan import batch_symbol
from lowbit.report.coverage import Seen, find_values
from lowbit.runtime.replay import Replay
from lowbit.types import Array

Sample = Mapping[str, Array]
WORST = 0.1  # of the rows: those with the most noise
MOST = 100.0  # dB of a row without any difference, where rows are averaged
FEW = 20  # rows: fewer say little about unseen ones


def decibels(relative: float) -> float:
    """−10·log₁₀ of noise ÷ signal; +inf without noise."""
    return float("inf") if relative <= 0 else -10 * float(np.log10(relative))


@dataclass(frozen=True)
class Quality:
    """Measurements on some rows of data.

    noise      noise ÷ signal of each row, of its worst output
    pooled     noise ÷ signal over all rows together, of the worst output
    answers    compared with those of the float network; none if the outputs are no classes
    fitted     how many rows at the end something was fitted to
    layers     dB of each layer's result, by the name of the value; empty if layers were not measured
    """

    noise: tuple[float, ...]
    pooled: float
    answers: Answers = field(default_factory=Answers)
    fitted: int = 0
    classes: bool = False  # whether every output is one of some classes
    layers: Mapping[str, float] = field(default_factory=dict)

    @property
    def db(self) -> float:
        """The mean of the rows' dB, of the worst output of each: the reported figure, because it varies least on few rows.

        Over all rows together, one broken row among hundreds would dominate, and a few rows hardly contain it.
        """
        return float("inf") if not any(self.noise) else _mean_db(self.noise)

    @property
    def pooled_db(self) -> float:
        """The signal to noise ratio of the worst output over all rows together."""
        return decibels(self.pooled)

    @property
    def worst_db(self) -> float:
        """dB of the worst tenth of the rows (at least the worst row)."""
        worst = sorted(self.noise, reverse=True)[: max(1, int(len(self.noise) * WORST))]
        return decibels(float(np.mean(worst))) if worst else float("inf")

    @property
    def unseen_db(self) -> float:
        """dB of the worst tenth of the rows that nothing was fitted to; of all rows if there are none."""
        return _mean_db(self.noise[: len(self.noise) - self.fitted] or self.noise)

    @property
    def agreement(self) -> float | None:
        """The share of answers that equal the float network's."""
        return self.answers.same / self.answers.count if self.answers.count else None

    @property
    def few(self) -> bool:
        return len(self.noise) < FEW

    @property
    def db_error(self) -> float | None:
        """How far `db` may be from that of many rows of the same kind: with 95 %, by Student's t. None of a single row."""
        rows = [min(decibels(n), MOST) for n in self.noise]
        return mean_error(rows)


def _mean_db(noise: Sequence[float]) -> float:
    return float(np.mean([min(decibels(n), MOST) for n in noise])) if noise else float("inf")


@dataclass(frozen=True)
class _Truth:
    """The float network's values for a sample at the points."""

    sample: Sample
    rows: int
    values: Mapping[str, Array]  # by output


def shapes_of(sample: Sample) -> tuple[tuple[int, ...], ...]:
    return tuple(x.shape for x in sample.values())


class Quantized:
    """A Q/DQ graph, its integer graph, and where the float graph's values are in that.

    `source` is the float graph that it was made from.
    """

    def __init__(self, graph: Graph, source: Graph) -> None:
        self.graph, self.source = graph, source

    @cached_property
    def _signed(self) -> Graph:
        return signed(self.graph)

    @cached_property
    def integer(self) -> Graph:
        return lower(self._signed).graph

    @cached_property
    def seen(self) -> dict[str, Seen]:
        return find_values(self.source, Editor(self._signed), self.integer)


class Ruler:
    """Measures quantized forms of one float network on some samples; their float outputs are computed once."""

    def __init__(self, graph: Graph, samples: Sequence[Sample], numbers: Sequence[object] | None = None, fitted: int = 0) -> None:
        """`numbers` name the samples in errors. Candidates may have been fitted to the last `fitted` of them."""
        self.graph = graph
        self.points = find_points(graph)
        called = range(len(samples)) if numbers is None else numbers
        keep = [p.value for p in self.points]
        truths: dict[int, _Truth] = {}
        for k, sample, replay in _replays(graph, samples, keep):
            made = replay.run(sample)
            try:
                need_finite(replay.graph, sample, made)
            except LowbitError as e:
                e.hint = too_large(graph, sample) or e.hint
                raise e.at(f"batch {called[k]}") from None
            values = {p.output: np.array(replay.real_order(p.value)) for p in self.points}
            truths[k] = _Truth(sample, rows_in(graph, sample), values)
        self._truths = [truths[k] for k in range(len(samples))]
        self.fitted = sum(t.rows for t in self._truths[len(samples) - fitted :])

    def measure(self, quantized: Graph | Quantized) -> Quality:
        """The integers of a Q/DQ graph compared with the float network."""
        made = quantized if isinstance(quantized, Quantized) else Quantized(quantized, self.graph)
        lowered, seen = made.integer, made.seen
        keep = [seen[p.value].name for p in self.points if p.value in seen]
        count = len(self._truths)
        found: dict[str, list[tuple[Array, Array]]] = {p.output: [(np.empty(0), np.empty(0))] * count for p in self.points}
        given: dict[str, list[tuple[Array, Array]]] = {p.output: [] for p in self.points}
        points = {p.output: p for p in self.points}
        for k, sample, replay in _replays(lowered, [t.sample for t in self._truths], keep):
            truth = self._truths[k]
            outputs = replay.run(sample)
            for p in self.points:
                want = truth.values[p.output]
                got = self._seen(replay, seen, p, want)
                if got is None:  # no such point: the output itself is measured
                    points[p.output] = replace(p, kind="numbers")
                    want, got = self._ends(sample, p.output), outputs[p.output]
                found[p.output][k] = noise_of_rows(*rows_of(points[p.output], want, got, truth.rows))
                if points[p.output].answers:
                    given[p.output].append((want, np.array(got)))
        answers = Answers()
        for name, pairs in given.items():
            answers += compared(points[name], pairs) if pairs and points[name].answers else Answers()
        classes = all(p.kind in ("classes", "scores") for p in self.points)
        return replace(_summed(found), answers=answers, fitted=self.fitted, classes=classes)

    def _seen(self, replay: Replay, seen: Mapping[str, Seen], p: Point, want: Array) -> Array | None:
        place = seen.get(p.value)
        if place is None or not replay.has(place.name):
            return None
        got = place.real(replay.real_order(place.name))
        return got if got.shape == want.shape else None

    def _ends(self, sample: Sample, output: str) -> Array:
        found = Replay(bound_to(self.graph, sample)).run(sample)
        return np.array(found[output])


def rows_in(graph: Graph, sample: Sample) -> int:
    """The number of samples in a batch: the first axis, if all inputs agree on it and it is not the time of a recurrence."""
    if batch_symbol(graph) is None and any(n.op in RECURRENT for n in graph.nodes):
        return 1
    sizes = {sample[v.name].shape[0] for v in graph.inputs if sample[v.name].ndim} - {1}
    return sizes.pop() if len(sizes) == 1 else 1


def _replays(graph: Graph, samples: Sequence[Sample], keep: Sequence[str]) -> Iterable[tuple[int, Sample, Replay]]:
    """Each sample with its position and a replay for its shapes; consecutive samples of equal shapes share one replay."""
    last: tuple[object, Replay] | None = None
    for i in sorted(range(len(samples)), key=lambda i: shapes_of(samples[i])):
        shapes = shapes_of(samples[i])
        if last is None or last[0] != shapes:
            last = None  # before the next one is made: a replay holds every value
            last = shapes, Replay(bound_to(graph, samples[i]), keep)
        yield i, samples[i], last[1]


def _summed(found: Mapping[str, Sequence[tuple[Array, Array]]]) -> Quality:
    """Sums signal and noise of the rows of each batch, by output. The noise of a row is that of its worst output.

    An output without a row axis counts for all rows of its batch. An output that is silent in all rows has no signal to compare with, and
    counts only if all outputs are: then any noise is 0 dB.
    """
    pooled, batches = 0.0, dict[int, list[Array]]()
    alone = all(sum(float(s.sum()) for s, _ in parts) == 0 for parts in found.values())
    for parts in found.values():
        total, count = float(sum(s.sum() for s, _ in parts)), sum(len(s) for s, _ in parts)
        noise_sum = float(sum(n.sum() for _, n in parts))
        pooled = max(pooled, noise_sum / total if total else float(alone and noise_sum > 0))
        least = QUIET * total / max(count, 1)
        for i, (s, n) in enumerate(parts):
            batches.setdefault(i, []).append(n / np.maximum(s, least) if total else np.where(n > 0, float(alone), 0.0))
    rows: list[float] = []
    for noise in batches.values():
        most = max(len(r) for r in noise)
        rows += map(float, np.max([np.broadcast_to(r, most) if len(r) == 1 else np.resize(r, most) for r in noise], axis=0))
    return Quality(tuple(rows), pooled)


def layer_decibels(made: Quantized, samples: Sequence[Sample]) -> dict[str, float]:
    """dB of each layer's result, by the name of the float graph's value: the integers that run compared with the float network."""
    graph, lowered, seen = made.source, made.integer, made.seen
    names = [n for n, v in graph.values.items() if n in graph.producers and n in seen and v.type.dtype.is_float]
    total: dict[str, tuple[float, float]] = {}
    for sample in samples:
        replay = Replay(bound_to(graph, sample), names)
        replay.run(sample)
        real = {name: np.array(replay.real_order(name)) for name in names if replay.has(name)}
        del replay  # before the next one is made: it holds all packed weights
        replay = Replay(bound_to(lowered, sample), {seen[n].name for n in names})
        replay.run(sample)
        for name, want in real.items():
            if not replay.has(seen[name].name):
                continue
            got = seen[name].real(replay.real_order(seen[name].name))
            if want.shape == got.shape:
                s, n = noise_of_rows(want.astype(np.float64).reshape(1, -1), got.astype(np.float64).reshape(1, -1))
                before = total.get(name, (0.0, 0.0))
                total[name] = before[0] + float(s[0]), before[1] + float(n[0])
        del replay
    return {name: decibels(n / s) for name, (s, n) in total.items() if s > 0}
