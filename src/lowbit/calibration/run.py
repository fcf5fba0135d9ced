"""Runs a graph over data and lets an observer see every tap. Streams: one sample's values live at a time; memory is the observers'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from lowbit.blas import one_thread
from lowbit.calibration.observers import Observer, make_observer
from lowbit.calibration.own_method import FUNCTIONS
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.spread import spread
from lowbit.errors import CalibrationError, LowbitError
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run as interpret
from lowbit.ir.masks import HIDDEN, added_masks, masked_scores, visible
from lowbit.ir.samples import as_samples, count, says_something, warn_of_zeros
from lowbit.progress import progress
from lowbit.runtime.replay import NativeRun
from lowbit.types import Array

Sample = Mapping[str, Array]
Method = str | Callable[[Any], Any]  # of lowbit, or a function of values that gives their range
LARGE = 1e6  # an input beyond it is hardly meant, where it makes layers overflow
IGNORE = "lowbit.calibrate(…, ignore_nonfinite=True)"
CHUNK_SAMPLES, CHUNK_BYTES = 8, 1 << 20  # the size of a worker's task: whichever is reached first


def calibrate(
    graph: Graph,
    data: Iterable[Any],
    taps: Iterable[str] | None = None,
    *,
    method: Method = "minmax",
    executor: Executor | None = None,
    numbers: Sequence[object] | None = None,
    **options: Any,
) -> CalibrationRecord:
    """The record of the taps (default: every float value that a node computes, and the float inputs) over `data`.

    `executor` spreads the samples over processes or machines; the record is the same, bit for bit, as without one, on CPUs
    of one kind: float kernels sum in an order that depends on the instruction set. `numbers` are what errors call the samples, where they
    are some of the user's; 0, 1, 2 … if not given.
    """
    with one_thread():
        return _calibrate(graph, data, taps, method, executor, numbers, options)


def _calibrate(
    graph: Graph,
    data: Iterable[Any],
    taps: Iterable[str] | None,
    method: Method,
    executor: Executor | None,
    numbers: Sequence[object] | None,
    options: dict[str, Any],
) -> CalibrationRecord:
    names = list(taps) if taps is not None else float_values(graph)
    unknown = [n for n in names if n not in graph.values]
    if unknown:
        raise CalibrationError(f"the graph has no value named {unknown[0]!r}", where=graph.name)
    total_samples = count(data)
    seen, something = 0, False

    def counted(items: Iterable[Sample]) -> Iterator[Sample]:
        nonlocal seen, something
        for item in items:
            something = something or says_something(graph, item)
            yield item
            seen += 1

    samples = counted(as_samples(graph, data))
    if executor is None:
        total = observe(graph, progress(samples, "calibrating", total_samples), names, method, options, numbers)
    else:
        method = FUNCTIONS.get(method, method) if isinstance(method, str) else method  # workers know a function by itself
        tasks = ((_called(numbers, first, held), held, names, method, options) for first, held in chunks(samples))
        parts = spread(executor, (graph,), observe_chunk, tasks)
        total = observe(graph, (), names, method, options)
        for part in progress(_steps(parts), "calibrating", total_samples):
            total = total if part is None else total + part
    if not seen:
        raise CalibrationError("there is no data to calibrate with", hint="an iterable of {input name: array}, tuples or arrays")
    if not something and names:
        warn_of_zeros()
    return total


def _called(numbers: Sequence[object] | None, first: int, held: Sequence[Sample]) -> Sequence[object]:
    """The numbers of a chunk's samples."""
    end = first + len(held)
    return range(first, end) if numbers is None else numbers[first:end]


def _steps(parts: Iterator[tuple[int, CalibrationRecord]]) -> Iterator[CalibrationRecord | None]:
    """One step of the progress bar for each sample; the chunk's record comes with its last."""
    for size, record in parts:
        yield from [None] * (size - 1)
        yield record


def float_values(graph: Graph) -> list[str]:
    """Every float value that is not a constant."""
    return [n for n, v in graph.values.items() if n not in graph.constants and v.type.dtype.is_float]


def observe(
    graph: Graph,
    samples: Iterable[Sample],
    names: Sequence[str],
    method: Method,
    options: Mapping[str, Any],
    numbers: Sequence[object] | None = None,
) -> CalibrationRecord:
    """The record of some samples; errors call them by their numbers."""
    observers: dict[str, Observer] = {n: make_observer(method, **options) for n in names}
    scores = masked_scores(graph)
    run = NativeRun(graph, names, scores)
    masks = added_masks(graph, scores)

    def see(name: str, array: Array) -> None:
        observer = observers.get(name)
        if observer is None:
            return
        try:
            if name in scores:
                observer.observe(visible(array, scores[name]))
            else:
                observer.observe(np.maximum(array, array.dtype.type(HIDDEN)) if name in masks else array)
        except LowbitError as e:
            producer = graph.producers.get(name)
            raise _refused(e, producer.where if producer is not None else f"input {name!r}", array) from e

    for index, sample in enumerate(samples):
        try:
            for v in graph.inputs:
                see(v.name, sample[v.name])
            made = run(sample, lambda value, array: see(value.name, array))
            if not options.get("ignore_nonfinite"):
                need_finite(graph, sample, made)
        except LowbitError as e:
            if isinstance(e, CalibrationError) and e.where is not None and not e.where.startswith("input "):
                e.hint = too_large(graph, sample) or e.hint
            raise e.at(f"batch {index if numbers is None else numbers[index]}") from None
    return CalibrationRecord(observers)


def too_large(graph: Graph, sample: Sample) -> str | None:
    """The hint if a layer's result is not finite because an input is finite but far too large."""
    for v in graph.inputs:
        x = sample[v.name]
        peak = float(np.abs(x).max(initial=0)) if x.dtype.kind == "f" and _finite(x) else 0.0
        if peak > LARGE:
            return f"input {v.name!r} reaches {peak:.3g} in this batch, too much for the layers after it: scale it as in training"
    return None


def _refused(e: LowbitError, where: str, array: Array) -> CalibrationError:
    """The error of an observer, with the place in the network and in the batch."""
    several = array.dtype.kind == "f" and array.ndim > 0 and array.size > 0 and len(array) > 1
    bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)) if several else np.empty(0, np.int64)
    row = f"; the first is in row {int(bad[0])}" if bad.size else ""
    return CalibrationError(e.message + row, where=where, hint=f"clean the data, or {IGNORE} to leave them out")


def finite_inputs(samples: Iterable[Sample], names: Sequence[str]) -> Iterator[Sample]:
    """The samples; the first with NaN or infinities in one of these inputs is the error that calibration with all of them gives."""
    for index, sample in enumerate(samples):
        for name in names:
            try:
                make_observer("minmax").observe(sample[name])
            except LowbitError as e:
                raise _refused(e, f"input {name!r}", sample[name]).at(f"batch {index}") from None
        yield sample


def need_finite(graph: Graph, sample: Sample, made: Mapping[str, Array]) -> None:
    """A CalibrationError that names the first layer whose result is not finite, if one of the outputs `made` is not.

    Taps see for themselves. Outputs tell of the layers between them, which are looked at only then; infinities that a network takes away
    again (masks of an attention) are its own.
    """
    with np.errstate(invalid="ignore"):
        wrong = [name for name, y in made.items() if y.dtype.kind == "f" and not np.isfinite(y.sum(dtype=np.float64)) and not _finite(y)]
    if not wrong:
        return
    nan = bool(np.isnan(made[wrong[0]]).any())
    what = "NaN" if nan else "infinite values"
    bad = {v.name for v in graph.inputs if _has(sample[v.name], nan)} | {n for n, c in graph.constants.items() if _has(c.data, nan)}
    first: list[str] = [f"input {v.name!r}" for v in graph.inputs if v.name in bad][:1]

    def look(value: Value, array: Array) -> None:
        if _has(array, nan):
            node = graph.producers[value.name]
            if not first and not any(v is not None and v.name in bad and v.name not in graph.constants for v in node.inputs):
                first.append(node.where)
            bad.add(value.name)

    interpret(graph, sample, on_value=look)
    raise CalibrationError(
        f"output {wrong[0]!r} holds {what}, which begin here",
        where=first[0] if first else None,
        hint=f"look at this layer's weights and data, or {IGNORE} to calibrate all the same",
    )


def _finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def _has(x: Array, nan: bool) -> bool:
    """Whether an array holds NaN (or, without `nan`, anything that is not finite)."""
    return x.dtype.kind == "f" and not (_finite(x) or (nan and not np.isnan(x).any()))


def chunks(samples: Iterable[Sample]) -> Iterator[tuple[int, list[Sample]]]:
    """The samples in lists small enough to send, each with the number of its first."""
    first, held, held_bytes = 0, [], 0
    for index, sample in enumerate(samples):
        held.append(sample)
        held_bytes += sum(a.nbytes for a in sample.values())
        if len(held) == CHUNK_SAMPLES or held_bytes >= CHUNK_BYTES:
            yield first, held
            first, held, held_bytes = index + 1, [], 0
    if held:
        yield first, held


def observe_chunk(
    graph: Graph, numbers: Sequence[object], samples: Sequence[Sample], names: Sequence[str], method: Method, options: Mapping[str, Any]
) -> tuple[int, CalibrationRecord]:
    """A worker's task: how many samples it has seen, and their record."""
    return len(samples), observe(graph, samples, names, method, options, numbers)
