"""The checked arguments of a search: the goal, and samples to calibrate and to measure with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lowbit.arguments import is_real, shown
from lowbit.calibration.run import IGNORE, finite_inputs
from lowbit.decide.batches import Data, Joined, rows_together
from lowbit.decide.effort import Effort, mac_counts
from lowbit.decide.labelled import MAX_DROP
from lowbit.decide.samples import SMALL, Picked, StoredSamples, split
from lowbit.errors import CalibrationError, InputError, warn
from lowbit.ir.graph import Graph
from lowbit.ir.samples import as_samples
from lowbit.quantization.recipes import recipe
from lowbit.quantization.transform import QuantizationTransform
from lowbit.report.foreign import DataWatch
from lowbit.report.text import counted

LEAST_DB = 30.0


def need_goal(has_metric: bool, max_drop: Any, least_db: Any) -> tuple[float, float]:
    """How far the score may fall, and the least dB: one of them counts, the other has no effect."""
    if max_drop is not None and not has_metric:
        raise InputError("max_drop= is for a metric, and there is none", hint="metric=fn, or least_db=30 for the outputs' dB")
    if least_db is not None and has_metric:
        raise InputError("least_db= is for the outputs' dB, and a metric is given", hint="max_drop=0.005")
    if max_drop is not None and not (is_real(max_drop) and max_drop >= 0):
        raise InputError(f"max_drop={shown(max_drop)}, 0 or more is needed", hint="max_drop=0.005")
    if least_db is not None and not is_real(least_db):
        raise InputError(f"least_db={shown(least_db)}, a number is needed", hint="least_db=30")
    return MAX_DROP if max_drop is None else float(max_drop), LEAST_DB if least_db is None else float(least_db)


@contextmanager
def given_as(argument: str) -> Iterator[None]:
    """Inside, errors about samples name the argument, and hint only at ways that a search has."""
    try:
        yield
    except CalibrationError as e:
        if IGNORE in (e.hint or ""):
            e.hint = "clean the data"
        raise e.at(argument) from None


@dataclass(frozen=True)
class Given:
    """The samples of a search, and the text that names those it measures with. `source` is the argument that they came from."""

    data: Data
    said: str
    source: str = "data"

    @staticmethod
    def of(graph: Graph, data: Iterable[Any], test: Iterable[Any] | None, has_metric: bool) -> Given:
        """Without `test`, batches are held back from calibration. If a metric decides, a few suffice to compare candidates."""
        room = max(SMALL, graph.parameter_bytes // 4)
        observed = QuantizationTransform(recipe("int8")).taps(graph).observed
        looked_at = [v.name for v in graph.inputs if v.name in observed]
        with given_as("data"):
            samples = StoredSamples(finite_inputs(as_samples(graph, data), looked_at), room, copy=not isinstance(data, list | tuple))
        if not len(samples):
            raise CalibrationError("there is no data to calibrate with", hint="an iterable of {input name: array}, tuples or arrays")
        macs = sum(mac_counts(graph, samples[0]).values())
        effort = Effort.of(macs)
        if test is not None:
            with given_as("test"):
                others = StoredSamples(finite_inputs(as_samples(graph, test), looked_at), room, copy=not isinstance(test, list | tuple))
            if not len(others):
                raise CalibrationError("test= has no samples to measure with", hint="an iterable of {input name: array}, or no test=")
            watch = DataWatch(graph, samples)
            for sample in others:
                watch.add(sample)
            watch.warn()
            some = range(0, len(others), -(-len(others) // effort.decided) if has_metric else 1)
            fit, held = Picked(samples, range(len(samples))), Picked(others, some)
            return Given(data_of(graph, fit, held, macs), f"{counted(len(others), 'batch')} of test samples", "test")
        parts = split(samples, effort.decided, effort.decided)
        found = data_of(graph, parts.fit, parts.held, macs)
        if len(samples) == 1:
            text = "there is one batch, to calibrate and to measure with: what others would lose is not seen; data in several helps"
            warn(text)
            return Given(found, "the one batch there is, which is calibrated with, too")
        return Given(found, f"{counted(len(parts.held), 'batch')} held back from calibration")


def data_of(graph: Graph, fit: Picked, held: Picked, macs: int) -> Data:
    """The samples for fitting, and the samples for measuring."""
    rows = rows_together(graph, held[0], macs)
    kept = Joined(held, rows)
    return Data(Joined(fit, rows), tuple(kept), kept.numbers, 0, kept, held[0], "")
