"""lowbit.evaluate: the task score of one network, float or quantized, and the time of a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lowbit.errors import CalibrationError, InputError, LowbitError
from lowbit.ir.graph import Graph, need_graph, need_outputs
from lowbit.ir.samples import as_samples, count
from lowbit.lower import lower
from lowbit.progress import progress
from lowbit.report.foreign import DataWatch, need_no_nan
from lowbit.report.scores import BadScore, LabelQueue, TopCount, as_labels, need_metric, scored
from lowbit.report.text import counted, plain
from lowbit.runtime.session import Session
from lowbit.types import Array

FEW = 20  # rows: fewer say little about unseen ones


@dataclass(frozen=True)
class Evaluation:
    """The score of a network.

    name     "top-1", or "score" of a metric
    score    the share of rows that are right (0 to 1), or what the metric gave
    top5     the share of rows whose label is among the five largest scores; None with few classes
    rows     how many ran; None if a metric brought its own data and there were no others
    ms       of one row, if rows ran: the mean over all batches, without compilation
    backend  native, interpreter, or both

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> 0 <= lowbit.evaluate(g, [x], labels=[0, 1]).score <= 100
    True
    """

    name: str
    score: float
    top5: float | None
    rows: int | None
    ms: float | None
    backend: str

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        values: dict[str, Any] = plain(asdict(self))
        return values

    def __str__(self) -> str:
        """top-1 93.40 %, top-5 99.80 %; 500 rows, 0.412 ms each (native)"""
        by_labels = self.name == "top-1"
        parts = [f"{self.name} {self.score:.2%}" if by_labels else f"{self.name} {self.score:.6g}"]
        parts += [f"top-5 {self.top5:.2%}"] if self.top5 is not None else []
        if self.rows is None or self.ms is None:
            return f"{', '.join(parts)} ({self.backend})"
        few = " (few: other data may differ)" if by_labels and self.rows < FEW else ""
        return f"{', '.join(parts)}; {counted(self.rows, 'row')}{few}, {self.ms:.3g} ms each ({self.backend})"


def evaluate(
    model: Graph | Session,
    data: Iterable[Any] | None = None,
    labels: Any = None,
    *,
    metric: Callable[[Session], Any] | None = None,
    threads: int | None = None,
) -> Evaluation:
    """The score of a network, as it runs: top-1 (and top-5 from ten classes on) by labels, or by a metric.

    model    a Graph, float or quantized, or a Session
    data     an iterable of {input name: array}, tuples or arrays, a batch each
    labels   the class of each row of data, in its order, counted from 0: one array, or a list with one for each batch. Classes are the
             second axis of the first output, or that output's integers
    metric   metric(session) gives a number, higher is better; it brings its own data. `data` beside it is run for its time alone
    threads  of the session, where a Graph is given

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> lowbit.evaluate(g, [x], labels=[0, 1]).rows
    2
    """
    session = _session(model, threads)
    need_metric(metric)
    if (metric is None) == (labels is None):
        both = "both given" if labels is not None else "missing"
        raise InputError(f"labels= and metric= are {both}, one of them is needed", hint="labels=y, or metric=accuracy")
    if labels is not None and data is None:
        raise InputError("labels= are given without data", hint="evaluate(graph, data, labels)")
    score = None if metric is None else scored(metric, session)
    if data is None:
        assert score is not None
        return Evaluation("score", score, None, None, None, session.backend)
    queue = None if labels is None else LabelQueue(as_labels(labels))
    watch, top, clock = DataWatch(session.graph), TopCount(), _Clock(session)
    for i, sample in enumerate(progress(as_samples(session.graph, data), "evaluating", count(data))):
        try:
            need_no_nan(sample)
            outputs = clock.run(sample)
            if queue is not None:
                top.add(outputs, queue.take(top.rows_of(outputs)))
        except LowbitError as e:
            raise e.at(f"batch {i}") from None
        watch.add(sample)
    if not clock.batches:
        raise CalibrationError("there is no data to evaluate with", hint="an iterable of {input name: array}, tuples or arrays")
    if queue is not None:
        queue.done()
    watch.warn(2)
    if score is not None:
        return Evaluation("score", score, None, clock.rows, clock.ms(clock.rows), session.backend)
    if not top.rows:
        raise BadScore("the data have no rows", hint="arrays with one row or more")
    top.warn_of_guessing(2)
    return Evaluation("top-1", top.top1, top.top5, top.rows, clock.ms(top.rows), session.backend)


def _session(model: Any, threads: int | None) -> Session:
    if isinstance(model, Session):
        if threads is not None:
            raise InputError("threads= is for a Graph, a Session has its own", hint="lowbit.compile(graph, threads=2)")
        need_outputs(model.graph)
        return model
    return Session(lower(need_outputs(need_graph(model, "evaluate"))).graph, threads=threads)


class _Clock:
    """Runs batches and adds up their times; new shapes are compiled first."""

    def __init__(self, session: Session) -> None:
        self.session, self.seconds, self.batches, self.rows = session, 0.0, 0, 0
        self._known: set[tuple[tuple[int, ...], ...]] = set()

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        inputs, shapes = dict(sample), tuple(x.shape for x in sample.values())
        if shapes not in self._known:
            self._known.add(shapes)
            self.session.run(inputs)
        start = time.perf_counter()
        outputs = self.session.run(inputs)
        self.seconds += time.perf_counter() - start
        self.batches += 1
        sizes = {x.shape[0] for x in sample.values() if x.ndim} - {1}
        self.rows += sizes.pop() if len(sizes) == 1 else 1
        return outputs

    def ms(self, rows: int) -> float:
        return 1e3 * self.seconds / max(1, rows)
