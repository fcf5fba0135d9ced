"""lowbit.evaluate: the task score of one network, float or quantized, and the time of a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from lowbit.errors import CalibrationError, InputError, LowbitError
from lowbit.ir.graph import Graph, need_graph, need_outputs
from lowbit.ir.samples import as_samples, count
from lowbit.lower import lower
from lowbit.progress import progress
from lowbit.report.foreign import DataWatch, need_no_nan
from lowbit.report.scored_output import scored_output
from lowbit.report.scores import BadScore, LabelQueue, TopCount, as_labels, need_metric, of_output, scored
from lowbit.report.text import counted, plain
from lowbit.runtime.session import Session
from lowbit.runtime.timing import BUSY
from lowbit.types import Array

FEW = 20  # rows: fewer say little about unseen ones
RUNS, SECONDS = 5, 0.5  # of each shape at least, and how long more runs of it may take together


@dataclass(frozen=True)
class Evaluation:
    """The score of a network.

    name     "top-1", or "score" of a metric
    score    the share of rows that are right (0 to 1), or what the metric gave
    top5     the share of rows whose label is among the five largest scores; None with few classes
    rows     how many ran; None if a metric brought its own data and there were no others
    ms       of one row, if rows ran: by the median run of each shape, without compilation
    backend  native, interpreter, or both
    output   the scored output, if the network has several; else ""
    least_ms by the shortest run of each shape; much less than `ms` where the machine was busy

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
    output: str = ""
    least_ms: float | None = None

    @property
    def busy(self) -> bool:
        """Whether the machine was too busy for the time to be repeated."""
        return self.ms is not None and self.least_ms is not None and self.ms > BUSY * self.least_ms

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        values: dict[str, Any] = plain(asdict(self))
        return values | {"busy": self.busy}

    def __str__(self) -> str:
        """top-1 93.40 %, top-5 99.80 %; 500 rows, 0.412 ms each (native)"""
        by_labels = self.name == "top-1"
        parts = [f"{self.name}{of_output(self.output)} {self.score:.2%}" if by_labels else f"{self.name} {self.score:.6g}"]
        parts += [f"top-5 {self.top5:.2%}"] if self.top5 is not None else []
        if self.rows is None or self.ms is None:
            return f"{', '.join(parts)} ({self.backend})"
        few = " (few: other data may differ)" if by_labels and self.rows < FEW else ""
        busy = f"; the machine was busy, {self.least_ms:.3g} ms at best" if self.busy else ""
        return f"{', '.join(parts)}; {counted(self.rows, 'row')}{few}, {self.ms:.3g} ms each ({self.backend}{busy})"


def evaluate(
    model: Graph | Session,
    data: Iterable[Any] | None = None,
    labels: Any = None,
    *,
    output: str | None = None,
    metric: Callable[[Session], Any] | None = None,
    threads: int | None = None,
) -> Evaluation:
    """The score of a network, as it runs: top-1 (and top-5 from ten classes on) by labels, or by a metric.

    model    a Graph, float or quantized, or a Session
    data     an iterable of {input name: array}, tuples or arrays, a batch each; of a network with one input also one array of all rows
    labels   the class of each row of data, in its order, counted from 0, where the data do not bring them (`lowbit.data`): one array, or a
             list with one for each batch. Classes are the second axis of an output, or that output's integers
    output   the name of that output, where the network has several and it is not plain which
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
    if metric is not None and labels is not None:
        raise InputError("labels= and metric= are both given, one of them is needed", hint="labels=y, or metric=accuracy")
    if metric is None and labels is None and data is None:
        raise InputError("labels= and metric= are missing, one of them is needed", hint="labels=y, or metric=accuracy")
    if labels is not None and data is None:
        raise InputError("labels= are given without data", hint="evaluate(graph, data, labels)")
    if output is not None and metric is not None:
        raise InputError("output= is for labels=, and there are none", hint="labels=y")
    of = scored_output(model if isinstance(model, Graph) else session.graph, output) if metric is None else ""
    score = None if metric is None else scored(metric, session)
    if data is None:
        assert score is not None
        return Evaluation("score", score, None, None, None, session.backend)
    queue = None if labels is None else LabelQueue(as_labels(labels))
    watch, top, clock = DataWatch(session.graph), TopCount(of), _Clock(session)
    beside: list[Array | None] = []
    for i, sample in enumerate(progress(as_samples(session.graph, data, beside), "evaluating", count(data))):
        if metric is None and queue is None and beside[-1] is None:
            said = "labels= and metric= are missing, one of them is needed: the data bring no labels"
            raise InputError(said, hint="labels=y, or metric=accuracy")
        try:
            need_no_nan(sample)
            outputs = clock.run(sample)
            if queue is not None:
                top.add(outputs, queue.take(top.rows_of(outputs)))
            elif (own := beside[-1]) is not None and metric is None:
                top.add(outputs, own)
        except LowbitError as e:
            raise e.at(f"batch {i}") from None
        watch.add(sample)
    if not clock.batches:
        raise CalibrationError("there is no data to evaluate with", hint="an iterable of {input name: array}, tuples or arrays")
    if queue is not None:
        queue.done()
    watch.warn()
    clock.settle()
    if score is not None:
        return Evaluation("score", score, None, clock.rows, clock.ms(clock.rows), session.backend, least_ms=clock.least_ms(clock.rows))
    if not top.rows:
        raise BadScore("the data have no rows", hint="arrays with one row or more")
    top.warn_of_guessing()
    ms, least = clock.ms(top.rows), clock.least_ms(top.rows)
    several = of if len(session.graph.outputs) > 1 else ""
    return Evaluation("top-1", top.top1, top.top5, top.rows, ms, session.backend, several, least)


def _session(model: Any, threads: int | None) -> Session:
    if isinstance(model, Session):
        if threads is not None:
            raise InputError("threads= is for a Graph, a Session has its own", hint="lowbit.compile(graph, threads=2)")
        need_outputs(model.graph)
        return model
    return Session(lower(need_outputs(need_graph(model, "evaluate"))).graph, threads=threads)


class _Clock:
    """Runs batches and times them, shape by shape; new shapes are compiled and run once before."""

    def __init__(self, session: Session) -> None:
        self.session, self.batches, self.rows = session, 0, 0
        self._by_symbol = session.batch is not None
        self._seconds: dict[tuple[tuple[int, ...], ...], list[float]] = {}
        self._counts: dict[tuple[tuple[int, ...], ...], int] = {}
        self._last: dict[tuple[tuple[int, ...], ...], dict[str, Array]] = {}

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        inputs, shapes = dict(sample), tuple(x.shape for x in sample.values())
        if shapes not in self._seconds:
            self.session.run(inputs)
            self._seconds[shapes], self._counts[shapes], self._last[shapes] = [], 0, inputs
        outputs = self._timed(shapes, inputs)
        self._counts[shapes] += 1
        self.batches += 1
        self.rows += self._rows(sample, outputs)
        return outputs

    def settle(self) -> None:
        """Runs shapes again that ran only a few times, so that one disturbed run is not the time of all."""
        end = time.perf_counter() + SECONDS
        for shapes, inputs in self._last.items():
            while len(self._seconds[shapes]) < RUNS and time.perf_counter() < end:
                self._timed(shapes, inputs)

    def _timed(self, shapes: tuple[tuple[int, ...], ...], inputs: dict[str, Array]) -> dict[str, Array]:
        start = time.perf_counter()
        outputs = self.session.run(inputs)
        self._seconds[shapes].append(time.perf_counter() - start)
        return outputs

    def _rows(self, sample: Mapping[str, Array], outputs: Mapping[str, Array]) -> int:
        """The rows of a batch: along the first axis, if it is the batch or all inputs and outputs have the same; else one."""
        firsts = {x.shape[0] for x in (*sample.values(), *outputs.values()) if x.ndim}
        if self._by_symbol:
            return next(iter(sample.values())).shape[0]
        return firsts.pop() if len(firsts) == 1 and all(y.ndim for y in outputs.values()) else 1

    def ms(self, rows: int) -> float:
        return 1e3 * sum(median(s) * self._counts[k] for k, s in self._seconds.items()) / max(1, rows)

    def least_ms(self, rows: int) -> float:
        return 1e3 * sum(min(s) * self._counts[k] for k, s in self._seconds.items()) / max(1, rows)
