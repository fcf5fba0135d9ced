"""A calibration method of the user's own: a function of values that gives a range, `calibrate(graph, data, method=fn)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lowbit.arguments import is_real, shown
from lowbit.calibration.histogram import BINS, Histogram
from lowbit.calibration.observers import METHODS, HistogramObserver, Observer
from lowbit.calibration.reservoir import SIZE, Reservoir
from lowbit.calibration.statistics import Statistic
from lowbit.dtypes import DType
from lowbit.errors import CalibrationError
from lowbit.numerics import F32
from lowbit.quant_params import Scheme

Function = Callable[[F32], tuple[float, float]]
FUNCTIONS: dict[str, Function] = {}


def register_method(fn: Function, name: str | None = None) -> str:
    """Makes a function a calibration method, by its name: fn(values) gives the range (lo, hi) to cover. The name.

    `values` are a sample of what was seen, of at most 4096 different numbers, with the least and the largest among them. It is the same for
    any order and split of the data.

    >>> register_method(lambda values: (0.0, float(np.quantile(values, 0.9))), "nine-tenths")
    'nine-tenths'
    """
    if not callable(fn):
        raise CalibrationError(f"{shown(fn)} cannot be called", where="register_method", hint="a function of values that gives (lo, hi)")
    label = name_of(fn) if name is None else name
    if not isinstance(label, str) or not label:
        raise CalibrationError(f"name={shown(name)}, a text is needed", where="register_method", hint='register_method(fn, "mine")')
    if label in METHODS and label not in FUNCTIONS:
        raise CalibrationError(f"{label!r} is one of lowbit's methods", where="register_method", hint="another name")
    FUNCTIONS[label] = fn
    METHODS[label] = partial(FunctionObserver, label)
    return label


def name_of(fn: Any) -> str:
    """The name by which a record of a file knows the function."""
    return f"{getattr(fn, '__module__', 'own')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


class FunctionObserver(HistogramObserver):
    """Covers the range that a function of the values gives."""

    def __init__(self, method: str = "", *, axis: int | None = None, ignore_nonfinite: bool = False, bins: int = BINS) -> None:
        super().__init__(bins=bins, axis=axis, ignore_nonfinite=ignore_nonfinite)
        self.__dict__["method"] = method

    def __add__(self, other: Any) -> Any:
        if isinstance(other, FunctionObserver) and other.method != self.method:
            raise CalibrationError(f"{self.method} and {other.method} do not add up", hint="observers of one method")
        made = super().__add__(other)
        if made is not NotImplemented:
            made.__dict__["method"] = self.method
        return made

    def _start(self, channels: int) -> dict[str, Statistic]:
        return {**super()._start(channels), "sample": Reservoir(channels, SIZE)}

    def _read(self, name: str, state: Mapping[str, Any]) -> Statistic:
        return Reservoir.from_dict(state) if name == "sample" else Histogram.from_dict(state)

    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        sample, seen = self._statistics["sample"], self.seen
        assert isinstance(sample, Reservoir) and seen is not None
        most = max(1, int(sample.counts[channel].sum()) // SIZE)  # many equal values stand for themselves in proportion
        values = np.repeat(sample.values(channel), np.maximum(sample.counts[channel] // most, 1))
        ends = np.array([seen.lo[channel], seen.hi[channel]], np.float32)
        try:
            found: Any = FUNCTIONS[self.method](np.concatenate([ends[:1], values, ends[1:]]))
        except Exception as e:
            raise CalibrationError(f"it failed: {type(e).__name__}: {e}", where=self.method, hint="a function of an array of values") from e
        if not isinstance(found, tuple | list) or len(found) != 2 or not all(map(is_real, found)) or not found[0] <= found[1]:
            hint = "return float(lo), float(hi), as in (values.min(), values.max())"
            raise CalibrationError(f"it gave {shown(found)}, a range (lo, hi) is needed", where=self.method, hint=hint)
        return float(found[0]), float(found[1])


def observer_of(fn: Function, **options: Any) -> Observer:
    """A new observer whose range the function gives."""
    return METHODS[register_method(fn)](**options)
