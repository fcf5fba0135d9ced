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
from lowbit.decide.answers import Answers, compared, together
from lowbit.decide.parts import part_numbers
from lowbit.decide.points import Point, before_sigmoid, find_points, noise_at, noise_of_rows, rows_of
from lowbit.decide.spread import mean_error
from lowbit.decide.widths import RECURRENT
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.ir.rewrite import Editor
from lowbit.lower import lower
from lowbit.lower.signed import signed
from lowbit.plan import Packed, batch_symbol
from lowbit.quantization.reach import reach_of
from lowbit.report.coverage import Seen, find_values
from lowbit.runtime.replay import Replay
from lowbit.types import Array

Sample = Mapping[str, Array]
WORST = 0.1  # of the rows: those with the most noise
MOST = 100.0  # dB of a row at most, where rows are averaged
# Of the mean signal of all rows: the least that the noise of a row is compared with before a softmax or sigmoid. Those tell absolute
# numbers apart, so a row of small logits needs no less noise than the others.
QUIET = 0.25
SILENT = 1e-6  # of the mean signal of all rows: a row with less has no signal of its own, and its noise is compared with the mean
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
    silent     outputs that are zero on all rows: there is no signal to compare their noise with
    layers     dB of each layer's result, by the name of the value; empty if layers were not measured
    """

    noise: tuple[float, ...]
    pooled: float
    answers: Answers = field(default_factory=Answers)
    fitted: int = 0
    classes: bool = False  # whether every output is one of some classes for sure
    answered: bool = True  # whether the answers are answers for sure: those of a linear layer may be positions or features
    silent: tuple[str, ...] = ()
    layers: Mapping[str, float] = field(default_factory=dict)

    @property
    def db(self) -> float:
        """The mean of the rows' dB, of the worst output of each: the reported figure, because it varies least on few rows.

        Over all rows together, one broken row among hundreds would dominate, and a few rows hardly contain it. Rows without any
        difference have no dB, and count in none.
        """
        return _mean_db(self.noise)

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
        """The mean of the dB of the rows that nothing was fitted to; of all rows if there are none."""
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
        rows = [min(decibels(n), MOST) for n in self.noise if n > 0]
        return mean_error(rows)


def _mean_db(noise: Sequence[float]) -> float:
    rows = [min(decibels(n), MOST) for n in noise if n > 0]
    return float(np.mean(rows)) if rows else float("inf")


@dataclass(frozen=True)
class _Truth:
    """The float network's values for a sample at the points."""

    sample: Sample
    rows: int
    values: Mapping[str, Array]  # by name in the float graph
    outputs: Mapping[str, Array]
    parts: Mapping[str, Array]  # the numbers of the parts of joined outputs


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
            whole = [p for p in self.points if p.part is None]
            values = {p.value: np.array(replay.real_order(p.value)) for p in whole}
            other = {p.output for p in self.points if p.part is not None or p.value != graph.outputs[p.output].name}
            outputs = {name: np.array(x) for name, x in made.items() if name in other}
            parts = {p.output: part_numbers(replay.graph, p.value, p.parts) for p in self.points if p.part is not None}
            truths[k] = _Truth(sample, rows_in(graph, sample), values, outputs, parts)
        self._truths = [truths[k] for k in range(len(samples))]
        self.fitted = fitted

    def measure(self, quantized: Graph | Quantized) -> Quality:
        """The integers of a Q/DQ graph compared with the float network."""
        made = quantized if isinstance(quantized, Quantized) else Quantized(quantized, self.graph)
        lowered, seen = made.integer, made.seen
        points = list(self.points)
        keep = [seen[p.value].name for p in points if p.value in seen]
        found = [[(np.empty(0), np.empty(0))] * len(self._truths) for _ in points]
        given: list[list[tuple[Array, Array]]] = [[] for _ in points]
        for k, sample, replay in _replays(lowered, [t.sample for t in self._truths], keep):
            truth = self._truths[k]
            outputs = replay.run(sample)
            for i, p in enumerate(points):
                want = truth.values[p.value] if p.part is None else truth.outputs[p.output]
                got = outputs[p.output] if p.part is not None else self._seen(replay, seen, p, want)
                if got is None:  # no such point, because one table holds it and what comes after it: the output itself is measured
                    want, got = truth.outputs.get(p.output, want), outputs[p.output]
                    if p.kind == "yes or no" and float(want.min(initial=0.0)) >= 0 and float(want.max(initial=0.0)) <= 1:
                        want, got = before_sigmoid(want), before_sigmoid(got)
                    else:
                        points[i] = p = replace(p, kind="numbers")
                found[i][k] = noise_at(p, *rows_of(p, want, got, truth.rows, None if p.part is None else truth.parts[p.output]))
                if p.answers:
                    given[i].append((want, np.array(got)))
        answers = together([compared(p, pairs) for p, pairs in zip(points, given, strict=True) if pairs and p.answers])
        classes = all(p.kind == "classes" for p in points)
        logits = [p.kind in ("classes", "yes or no") for p in points]
        quality = _summed([(p.output, parts) for p, parts in zip(points, found, strict=True)], self.fitted, logits)
        return replace(quality, answers=answers, classes=classes, answered=all(p.kind != "scores" for p in points))

    def _seen(self, replay: Replay, seen: Mapping[str, Seen], p: Point, want: Array) -> Array | None:
        place = seen.get(p.value)
        if place is None or not replay.has(place.name):
            return None
        got = place.real(replay.real_order(place.name))
        return got if got.shape == want.shape else None


def rows_in(graph: Graph, sample: Sample) -> int:
    """The number of samples in a batch: the first axis, if all inputs agree on it and it is not the time of a recurrence."""
    if batch_symbol(graph) is None and any(n.op in RECURRENT for n in graph.nodes):
        return 1
    sizes = {sample[v.name].shape[0] for v in graph.inputs if sample[v.name].ndim} - {1}
    return max(1, sizes.pop()) if len(sizes) == 1 else 1


def _replays(graph: Graph, samples: Sequence[Sample], keep: Sequence[str]) -> Iterable[tuple[int, Sample, Replay]]:
    """Each sample with its position and a replay for its shapes; samples of equal shapes share one, and all share packed weights."""
    last: tuple[object, Replay] | None = None
    packed = Packed()
    for i in sorted(range(len(samples)), key=lambda i: shapes_of(samples[i])):
        shapes = shapes_of(samples[i])
        if last is None or last[0] != shapes:
            last = None  # before the next one is made: a replay holds every value
            last = shapes, Replay(bound_to(graph, samples[i]), keep, packed=packed)
        yield i, samples[i], last[1]


def _summed(found: Sequence[tuple[str, Sequence[tuple[Array, Array]]]], fitted: int = 0, logits: Sequence[bool] | None = None) -> Quality:
    """Sums signal and noise of the rows of each batch, by point with the name of its output. The noise of a row is that of its worst point.

    A point without a row axis counts for all rows of its batch. One that is silent in all rows has no signal to compare with: it counts
    only if all are, and then any noise is 0 dB. Something was fitted to the last `fitted` batches.
    """
    pooled, batches = 0.0, dict[int, list[Array]]()
    signals = [sum(float(s.sum()) for s, _ in parts) for _, parts in found]
    for (_, parts), total, absolute in zip(found, signals, logits or [False] * len(found), strict=True):
        noise_sum = sum(float(n.sum()) for _, n in parts)
        mean = total / max(1, sum(int(np.count_nonzero(s)) for s, _ in parts))
        pooled = max(pooled, noise_sum / total if total else float(not any(signals) and noise_sum > 0))
        for i, (s, n) in enumerate(parts):
            own = np.maximum(s, QUIET * mean) if absolute else np.where(s > SILENT * mean, s, mean)
            batches.setdefault(i, []).append(n / own if total else np.where(n > 0, float(not any(signals)), 0.0))
    rows = [np.max(np.broadcast_arrays(*noise), axis=0) for _, noise in sorted(batches.items())]
    loud = {name for (name, _), total in zip(found, signals, strict=True) if total}
    silent = tuple(dict.fromkeys(name for name, _ in found if name not in loud))
    last = sum(len(r) for r in rows[len(rows) - fitted :])
    return Quality(tuple(float(x) for r in rows for x in r), pooled, fitted=last, silent=silent)


def layer_decibels(made: Quantized, samples: Sequence[Sample]) -> dict[str, float]:
    """dB of each layer's result, by the name of the float graph's value: the integers that run compared with the float network.

    Where readers are flat, as SiLU is below -9.6, ranges end: what lies beyond is no noise.
    """
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
                want, got = (np.clip(x, *reach_of(graph, [name])) for x in (want, got))
                s, n = noise_of_rows(want.astype(np.float64).reshape(1, -1), got.astype(np.float64).reshape(1, -1))
                before = total.get(name, (0.0, 0.0))
                total[name] = before[0] + float(s[0]), before[1] + float(n[0])
        del replay
    return {name: decibels(n / s) for name, (s, n) in total.items() if s > 0}
