"""Task scores: top-1 and top-5 by the labels of rows, or a metric of the user's own.

A metric is a function of a session: `metric(session)` gives a number, higher is better, and brings its own data. `quantize`, `search`,
`compare` and `evaluate` take the same kind of function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lowbit.arguments import shown
from lowbit.errors import InputError, warn
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.numerics import as_array
from lowbit.report.text import counted
from lowbit.runtime.session import Session
from lowbit.types import Array

Metric = Callable[[Session], float]
Sample = Mapping[str, Array]
TOP5_FROM = 10  # classes: with fewer, one of the first five is hardly an answer
ANY_MEASURE = "metric= (--metric file.py:function) takes any measure"
FROM_0 = "classes counted from 0, in the order of the outputs"
GUESSED_ROWS = 30  # with fewer rows, a score may be as bad as guessing by chance


class BadScore(InputError):
    """The metric failed for a network."""


def need_metric(metric: object) -> None:
    if metric is not None and not callable(metric):
        hint = "metric=lambda session: accuracy(session), higher is better"
        raise InputError(f"metric={shown(metric)} cannot be called", hint=hint)


def scored(metric: Callable[[Session], Any], session: Session) -> float:
    """The metric's score of a session: a finite number, or a BadScore that says what it returned instead."""
    try:
        given = metric(session)
    except BadScore:
        raise
    except Exception as e:
        raise BadScore(f"metric raised {type(e).__name__}: {e}", hint="metric(session) gives a number, higher is better") from e
    try:
        if isinstance(given, str | bytes):
            raise TypeError
        found = float(given)
    except (TypeError, ValueError):
        what = type(given).__name__
        raise BadScore(f"metric gave {what}, a number is needed", hint="metric(session) gives a number, higher is better") from None
    if not math.isfinite(found):
        raise BadScore(f"metric gave {found}, a finite number is needed", hint="a metric that is defined for every output")
    return found


# -- labels --------------------------------------------------------------------------------------------------------------


def as_labels(given: Any, where: str = "labels") -> Array:
    """One class number for each row, as int64: from an array of them, or from a list of such arrays, one for each batch.

    >>> as_labels([np.array([3, 1]), np.array([[2]])])
    array([3, 1, 2])
    """
    several = isinstance(given, list | tuple) and len(given) > 0 and all(isinstance(x, np.ndarray) and x.ndim for x in given)
    parts = [_column(x, where) for x in given] if several else [_column(as_array(given, what=where), where)]
    return np.concatenate(parts)


def _column(x: Array, where: str) -> Array:
    x = x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x
    if x.ndim == 1 and x.dtype.kind in "iu" and (x.dtype.kind == "i" or not np.any(x > np.iinfo(np.int64).max)):
        return x.astype(np.int64)
    hint = "labels.argmax(1)" if x.ndim == 2 else "labels.astype(np.int64)" if x.ndim == 1 and x.dtype.kind in "bf" else "classes from 0 on"
    raise InputError(f"{x.dtype}{list(x.shape)} given, one whole number for each row is needed", where=where, hint=hint)


class LabelQueue:
    """The labels in order, batch by batch; raises if their number differs from that of the rows."""

    def __init__(self, labels: Array) -> None:
        self._labels, self._at = labels, 0

    def take(self, rows: int) -> Array:
        found = self._labels[self._at : self._at + rows]
        self._at += rows
        if len(found) < rows:
            raise InputError(f"{len(self._labels):,} labels for {self._at:,} rows of data or more", hint="one label for each row")
        return found

    def done(self) -> None:
        if self._at < len(self._labels):
            raise InputError(f"{len(self._labels):,} labels for {self._at:,} rows of data", hint="one label for each row")


def labels_by_batch(graph: Graph, samples: Sequence[Sample], labels: Array, output: str) -> list[Array]:
    """The labels of each batch, after checking that the output has these classes."""
    queue, known = LabelQueue(labels), dict[tuple[tuple[int, ...], ...], Array]()
    found = []
    for sample in samples:
        shapes = tuple(x.shape for x in sample.values())
        if shapes not in known:
            t = bound_to(graph, sample).outputs[output].type
            known[shapes] = _answers(output, np.broadcast_to(np.zeros((), t.dtype.numpy), tuple(int(d) for d in t.shape)))
        found.append(queue.take(len(known[shapes])))
        need_classes(found[-1], output, known[shapes])
    queue.done()
    return found


# -- answers -------------------------------------------------------------------------------------------------------------


def need_classes(labels: Array, output: str, answers: Array) -> None:
    """Raises if a label is not a class of the answers."""
    classes = answers.shape[1] if answers.ndim == 2 else np.iinfo(np.int64).max
    wrong = labels[(labels < 0) | (labels >= classes)]
    if wrong.size:
        has = f"0 … {classes - 1}" if answers.ndim == 2 else "from 0 on"
        raise BadScore(f"label {wrong[0]}, and output {output!r} has the classes {has}", hint=FROM_0)


def _answers(output: str, y: Array) -> Array:
    """An output as (rows, classes) of scores, or as (rows,) of class numbers if the network gives those itself."""
    shape = list(y.shape)
    while len(shape) > 2 and shape[-1] == 1:  # (N, C, 1, 1)
        shape.pop()
    y = y.reshape(shape)
    if y.dtype.kind in "iu" and (y.ndim < 2 or (y.ndim == 2 and y.shape[1] == 1)):
        return y.reshape(-1)
    if y.ndim == 1:
        y = y[None]  # one row, without the axis of rows
    if y.ndim != 2:
        raise BadScore(f"output {output!r} is {list(y.shape)}, a row of classes for each label is needed", hint=ANY_MEASURE)
    if y.shape[1] < 2:
        raise BadScore(f"output {output!r} has one number for each row, labels need a score for each class", hint=ANY_MEASURE)
    return y


class TopCount:
    """How often the label of a row is its largest score of an output, or among the five largest; batches are added one by one."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.rows = self.first = self.five = 0
        self.classes = 0  # of the network; 0 where it gives class numbers itself

    def rows_of(self, outputs: Mapping[str, Array]) -> int:
        return len(_answers(self.output, outputs[self.output]))

    def add(self, outputs: Mapping[str, Array], labels: Array) -> None:
        name, y = self.output, outputs[self.output]
        scores = _answers(name, y)
        if len(scores) != len(labels):
            raise BadScore(f"output {name!r} is {list(y.shape)} for {len(labels)} labels", hint="one label for each row")
        self.rows += len(labels)
        need_classes(labels, name, scores)
        if scores.ndim == 1:
            right = int(np.count_nonzero(scores.astype(np.int64) == labels))
            self.first, self.five = self.first + right, self.five + right
            return
        self.classes = scores.shape[1]
        scores = scores if scores.dtype.kind in "iuf" else scores.astype(np.float32)
        if scores.dtype.kind == "f" and np.isnan(scores).any():
            row = self.rows - len(labels) + int(np.flatnonzero(np.isnan(scores).any(axis=1))[0])
            raise BadScore(f"output {name!r} has NaN in row {row:,}: it has no answer there", hint="lowbit run MODEL --input tells")
        own = np.take_along_axis(scores, labels[:, None], axis=1)
        before = (scores == own) & (np.arange(self.classes) < labels[:, None])  # of equal scores the first one is the answer
        place = (scores > own).sum(axis=1) + before.sum(axis=1)
        self.first += int(np.count_nonzero(place == 0))
        self.five += int(np.count_nonzero(place < 5))

    @property
    def top1(self) -> float:
        return self.first / self.rows

    @property
    def top5(self) -> float | None:
        return self.five / self.rows if self.classes >= TOP5_FROM else None

    def warn_of_guessing(self) -> None:
        """Warns if the rows are right no more often than by chance: data and labels then hardly belong together."""
        if self.rows < GUESSED_ROWS or self.classes < 2:
            return
        chance = 1 / self.classes
        if self.top1 <= chance + 2 * math.sqrt(chance * (1 - chance) / self.rows):
            text = (
                f"top-1 is {self.top1:.2%} of {counted(self.rows, 'row')}, no better than guessing among {self.classes:,} classes: "
                "are the labels those of these rows, in their order, and the data scaled as in training?"
            )
            warn(text)


def top1(samples: Sequence[Sample], labels: Sequence[Array], output: str) -> Metric:
    """The share of rows whose largest number of the output is at their label."""

    def metric(session: Session) -> float:
        return counted_top(session, samples, labels, output).top1

    return metric


def counted_top(session: Session, samples: Sequence[Sample], labels: Sequence[Array], output: str) -> TopCount:
    count = TopCount(output)
    for sample, label in zip(samples, labels, strict=True):
        count.add(session.run(dict(sample)), label)
    return count


def of_output(name: str) -> str:
    """ " of output 'scores'": of a network with several; else ""."""
    return f" of output {name!r}" if name else ""


# -- two networks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScorePair:
    """The scores of the float network and of the quantized one.

    rows    None if a metric brought its own data
    output  the scored one, if the network has several; else ""
    """

    name: str
    float_score: float
    score: float
    rows: int | None = None
    float_top5: float | None = None
    top5: float | None = None
    output: str = ""

    @property
    def difference(self) -> float:
        return self.score - self.float_score

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"difference": self.difference}

    def __str__(self) -> str:
        """top-1 93.40 % of 500 rows, float 93.60 % (-0.20 points); top-5 …; of a metric: score 0.934, float 0.936 (-0.002)."""
        if self.rows is None:
            return f"{self.name} {self.score:.6g}, float {self.float_score:.6g} ({self.difference:+.3g})"
        points = f"{100 * self.difference:+.2f} points"
        said = (
            f"{self.name}{of_output(self.output)} {self.score:.2%} of {counted(self.rows, 'row')}, float {self.float_score:.2%} ({points})"
        )
        if self.top5 is not None and self.float_top5 is not None:
            said += f"; top-5 {self.top5:.2%}, float {self.float_top5:.2%}"
        return said
