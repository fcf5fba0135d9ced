"""Runs a graph over data and lets an observer see every tap. Streams: one sample's values live at a time; memory is the observers'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np

from lowbit.calibration.observers import Observer, make_observer
from lowbit.calibration.record import CalibrationRecord
from lowbit.errors import CalibrationError, LowbitError
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.interp import inner_name, run
from lowbit.progress import progress
from lowbit.types import Array

Sample = Mapping[str, Array]
IN_FLIGHT = 2  # samples waiting per worker: enough to keep it busy, few enough to stay streaming


def calibrate(
    graph: Graph,
    data: Iterable[Any],
    taps: Iterable[str] | None = None,
    *,
    method: str = "minmax",
    executor: Executor | None = None,
    workers: int = 2,
    **options: Any,
) -> CalibrationRecord:
    """What the taps (default: every float value that a node computes, and the float inputs) held while running over `data`.

    `executor` spreads the samples over processes or machines; the record is the same, bit for bit, as without one.
    """
    names = list(taps) if taps is not None else float_values(graph)
    known = set(graph.values) | set(inner_names(graph))
    unknown = [n for n in names if n not in known]
    if unknown:
        raise CalibrationError(f"the graph has no value named {unknown[0]!r}", where=graph.name)
    total: CalibrationRecord | None = None
    samples = (as_sample(graph, s, i) for i, s in enumerate(data))
    count = len(data) if isinstance(data, Sequence | np.ndarray) else None
    for part in progress(_parts(graph, samples, names, method, options, executor, workers), "calibrating", count):
        total = part if total is None else total + part
    if total is None:
        raise CalibrationError("there is no data to calibrate with", hint="an iterable of {input name: array}, tuples or arrays")
    return total


def inner_names(graph: Graph) -> dict[str, Node]:
    """What can be seen inside nodes, by name, and the node."""
    return {inner_name(n, what): n for n in graph.nodes for what in n.definition.inside}


def float_values(graph: Graph) -> list[str]:
    """Every float value that is not a constant."""
    return [n for n, v in graph.values.items() if n not in graph.constants and v.type.dtype.is_float]


def as_sample(graph: Graph, sample: Any, index: int) -> dict[str, Array]:
    """A sample as {input name: array}: from a mapping, from a tuple in the order of the inputs, or from one array."""
    names = [v.name for v in graph.inputs]
    if isinstance(sample, Mapping):
        return {k: np.asarray(v) for k, v in sample.items()}
    parts = list(sample) if isinstance(sample, tuple | list) else [sample]
    if len(parts) != len(names):
        raise CalibrationError(
            f"{len(parts)} arrays given, the network has {len(names)} inputs", where=f"sample {index}", hint=f"{{name: array}} with {names}"
        )
    return {n: np.asarray(p) for n, p in zip(names, parts, strict=True)}


def observe(graph: Graph, sample: Sample, names: Sequence[str], method: str, options: Mapping[str, Any], index: int) -> CalibrationRecord:
    """The record of one sample."""
    observers: dict[str, Observer] = {n: make_observer(method, **options) for n in names}

    def see(value: Value, array: Array) -> None:
        see_named(value.name, array)

    def see_named(name: str, array: Array) -> None:
        observer = observers.get(name)
        if observer is None:
            return
        try:
            observer.observe(array)
        except LowbitError as e:
            producer = graph.producers.get(name) or inner_names(graph).get(name)
            where = producer.where if producer is not None else f"input {name!r}"
            raise CalibrationError(e.message, where=f"sample {index}, {where}", hint=e.hint) from e

    try:
        for v in graph.inputs:
            if v.name in sample:
                see(v, np.asarray(sample[v.name]))
        run(graph, sample, on_value=see, on_inner=see_named if any(n not in graph.values for n in names) else None)
    except CalibrationError:
        raise
    except LowbitError as e:
        raise e.at(f"sample {index}") from None
    return CalibrationRecord(observers)


def _parts(
    graph: Graph,
    samples: Iterator[Sample],
    names: Sequence[str],
    method: str,
    options: Mapping[str, Any],
    executor: Executor | None,
    workers: int,
) -> Iterator[CalibrationRecord]:
    """The records of the samples, in order."""
    if executor is None:
        for i, s in enumerate(samples):
            yield observe(graph, s, names, method, options, i)
        return
    waiting: list[Future[CalibrationRecord]] = []
    try:
        for i, s in enumerate(samples):
            waiting.append(executor.submit(observe, graph, s, names, method, options, i))
            if len(waiting) >= workers * IN_FLIGHT:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for f in waiting:
            f.cancel()
