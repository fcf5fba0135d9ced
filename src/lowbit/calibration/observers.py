"""Observers see data in pieces, in fixed memory, and give quantization parameters; `a + b` has seen the data of both.

    method          what it remembers             the range it gives
    minmax          the extremes                  everything seen
    moving-average  the extremes of last batches  v += c·(x - v) over the batches, for each end
    percentile      a histogram                   all but the outermost (100 - percentile) %
    entropy         a histogram                   the one that loses the least information (KL)
    mse             a histogram                   the one with the least squared error
    adaptive        a histogram and a sample      the best of the above by squared error, measured on the sample
    a function      a histogram and a sample      what fn(values) gives (lowbit.calibration.own_method)

All but the moving average are the same, bit for bit, for any order and split of the data. `axis=` gives each index of that axis its own
range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from lowbit.arguments import flag, is_real, is_whole, shown, whole
from lowbit.calibration import clip
from lowbit.calibration.histogram import BINS, Bins, Histogram
from lowbit.calibration.reservoir import SIZE, Reservoir
from lowbit.calibration.statistics import F64, Extremes, Statistic, Window, as_batch
from lowbit.dtypes import DType
from lowbit.errors import CalibrationError, FormatError
from lowbit.numerics import F32
from lowbit.quant_params import PerAxis, PerTensor, QuantParams, Scheme, dequantize, quant_dtype, quantize
from lowbit.ranges import default_scheme, params_from_range

Self = TypeVar("Self", bound="Observer")


class Observer(ABC):
    """Statistics of fixed size over the observed data. Subclasses name their statistics and turn them into ranges.

    >>> a, b = MinMaxObserver(), MinMaxObserver()
    >>> _ = a.observe(np.array([1.0], np.float32))
    >>> _ = b.observe(np.array([-2.0], np.float32))
    >>> [float(v) for v in (a + b).range("int8")]
    [-2.0, 1.0]
    """

    method: ClassVar[str]

    def __init__(self, *, axis: int | None = None, ignore_nonfinite: bool = False) -> None:
        if axis is not None and not is_whole(axis):
            raise CalibrationError(f"axis={shown(axis)} is none", where=type(self).__name__, hint="the axis of the channels, or None")
        self.axis = None if axis is None else int(axis)
        flag("ignore_nonfinite", ignore_nonfinite)
        self.ignore_nonfinite = ignore_nonfinite
        self.ignored = 0  # non-finite values that were left out
        self._statistics: dict[str, Statistic] = {}  # empty until the number of channels is known

    # --- parts of a subclass ---

    def options(self) -> dict[str, Any]:
        """The arguments that make an observer like this one."""
        return {"axis": self.axis, "ignore_nonfinite": self.ignore_nonfinite}

    def _start(self, channels: int) -> dict[str, Statistic]:
        """Its statistics, before any data. "seen" is one of them."""
        return {"seen": Extremes(channels)}

    def _read(self, name: str, state: Mapping[str, Any]) -> Statistic:
        return Extremes.from_dict(state)

    @abstractmethod
    def _range(self, dtype: DType, scheme: Scheme) -> tuple[F64, F64]:
        """The range for each channel; every channel has values."""

    # --- common parts ---

    @property
    def seen(self) -> Extremes | None:
        """Extremes and number of values for each channel; None before the first array."""
        found = self._statistics.get("seen")
        assert found is None or isinstance(found, Extremes)
        return found

    @property
    def count(self) -> int:
        """How many values were seen."""
        return 0 if self.seen is None else int(self.seen.size.sum())

    def observe(self: Self, x: ArrayLike) -> Self:
        """Takes in an array, as float32; returns self."""
        try:
            batch, ignored = as_batch(x, self.axis, self.ignore_nonfinite)
        except CalibrationError as e:
            raise e.at(type(self).__name__) from None
        if self.seen is None:  # an array without values changes nothing, so that every split of the data is the same
            self._statistics = self._start(len(batch.lo)) if batch.parts else {}
        elif len(self.seen.lo) != len(batch.lo):
            raise CalibrationError(
                f"an array with {len(batch.lo)} channels along axis {self.axis}, the ones before had {len(self.seen.lo)}",
                where=type(self).__name__,
                hint="the axis of the channels, or axis=None for one range per tensor",
            )
        self.ignored += ignored
        if batch.parts:
            for statistic in self._statistics.values():
                statistic.see(batch)
        return self

    def __add__(self: Self, other: Self) -> Self:
        """An observer that has seen the data of `self` and then of `other`."""
        if not isinstance(other, Observer):
            return NotImplemented
        if type(other) is not type(self) or other.options() != self.options():
            raise CalibrationError(f"{self!r} and {other!r} do not add up", hint="observers of one kind, with the same options")
        if self.seen is not None and other.seen is not None and len(self.seen.lo) != len(other.seen.lo):
            raise CalibrationError(f"{len(self.seen.lo)} channels and {len(other.seen.lo)} channels do not add up")
        out = type(self)(**self.options())
        out.ignored = self.ignored + other.ignored
        channels = next((len(o.seen.lo) for o in (self, other) if o.seen is not None), None)
        if channels is not None:
            ours, theirs = (o._statistics or o._start(channels) for o in (self, other))
            out._statistics = {name: statistic.merged(theirs[name]) for name, statistic in ours.items()}
        return out

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Observer) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        chosen = ", ".join(f"{k}={v!r}" for k, v in self.options().items() if v not in (None, False))
        return f"{type(self).__name__}({chosen}) of {self.count} values"

    def range(self, dtype: str | DType, scheme: Scheme | None = None) -> tuple[F64, F64]:
        """The range to cover, an array of one number per channel for each end (0-d per tensor)."""
        d = quant_dtype(dtype)
        lo, hi = self._range(d, self._ready(d, scheme))
        shape = () if self.axis is None else (-1,)
        return lo.reshape(shape), hi.reshape(shape)

    def params(self, dtype: str | DType, scheme: Scheme | None = None) -> QuantParams:
        """Parameters for the range: `PerTensor()`, or `PerAxis(axis)`."""
        lo, hi = self.range(dtype, scheme)
        return params_from_range(lo, hi, dtype, scheme, PerTensor() if self.axis is None else PerAxis(self.axis))

    def _ready(self, d: DType, scheme: Scheme | None) -> Scheme:
        scheme = default_scheme(d) if scheme is None else scheme
        QuantParams(d, 1.0, None, scheme)  # complains about schemes that do not exist or do not go with the dtype
        if self.seen is None or self.count == 0:
            found = f"{self.ignored} non-finite values and no other" if self.ignored else "no values"
            raise CalibrationError(
                f"{found} seen: there is no range to learn", where=type(self).__name__, hint="observe(x) with some data first"
            )
        empty = np.flatnonzero(self.seen.size == 0)
        if empty.size:
            raise CalibrationError(
                f"channel {empty[0]} of axis {self.axis} has no finite values ({empty.size} channels have none)", where=type(self).__name__
            )
        return scheme

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; `observer_from_dict` gives the same observer back, to the bit."""
        state = {name: statistic.to_dict() for name, statistic in self._statistics.items()}
        return {"method": self.method, "options": self.options(), "ignored": self.ignored, "state": state}


class MinMaxObserver(Observer):
    """Covers everything seen.

    >>> MinMaxObserver().observe([1.0, -2.0]).observe([0.5]).params("int8")
    QuantParams(int8, symmetric, per tensor, scale=0.015625, zero_point=0)
    """

    method = "minmax"

    def _range(self, dtype: DType, scheme: Scheme) -> tuple[F64, F64]:
        assert self.seen is not None
        return self.seen.lo.astype(np.float64), self.seen.hi.astype(np.float64)


class MovingAverageMinMaxObserver(Observer):
    """Covers the moving average of each batch's extremes: one wild batch moves it by `averaging_constant` only.

    An `observe` is a batch. `a + b` has seen the batches of a, then those of b, exactly.

    >>> o = MovingAverageMinMaxObserver()
    >>> _ = o.observe(np.array([-1.0, 1.0], np.float32))
    >>> _ = o.observe(np.array([-1.0, 100.0], np.float32))
    >>> float(o.range("int8")[1]) < 100
    True
    """

    method = "moving-average"

    def __init__(self, *, averaging_constant: float = 0.01, axis: int | None = None, ignore_nonfinite: bool = False) -> None:
        super().__init__(axis=axis, ignore_nonfinite=ignore_nonfinite)
        if not is_real(averaging_constant) or not 0 < averaging_constant <= 1:
            raise CalibrationError(f"averaging_constant={averaging_constant} is not in (0, 1]", hint="0.01")
        self.averaging_constant = averaging_constant

    def options(self) -> dict[str, Any]:
        return {**super().options(), "averaging_constant": self.averaging_constant}

    def _start(self, channels: int) -> dict[str, Statistic]:
        return {**super()._start(channels), "window": Window(channels, self.averaging_constant)}

    def _read(self, name: str, state: Mapping[str, Any]) -> Statistic:
        return Window.from_dict(state) if name == "window" else Extremes.from_dict(state)

    def _range(self, dtype: DType, scheme: Scheme) -> tuple[F64, F64]:
        window = self._statistics["window"]
        assert isinstance(window, Window)
        return window.averages()


class HistogramObserver(Observer):
    """An observer whose statistic is a histogram of 2·bins - 1 bins that widens itself (see `lowbit.calibration.histogram`)."""

    def __init__(self, *, bins: int = BINS, axis: int | None = None, ignore_nonfinite: bool = False) -> None:
        super().__init__(axis=axis, ignore_nonfinite=ignore_nonfinite)
        self.bins = whole("bins", bins, -(2**31))
        Histogram(0, bins)  # complains about a number that is no power of two

    def options(self) -> dict[str, Any]:
        return {**super().options(), "bins": self.bins}

    def _start(self, channels: int) -> dict[str, Statistic]:
        return {"seen": Histogram(channels, self.bins)}

    def _read(self, name: str, state: Mapping[str, Any]) -> Statistic:
        return Histogram.from_dict(state)

    def histogram(self, channel: int = 0) -> Bins:
        """The histogram of one channel."""
        assert isinstance(self.seen, Histogram)
        return self.seen.bins(channel)

    def same_statistics(self, method: str) -> bool:
        """Whether an observer of the method, as it is made, has a histogram like this one and nothing else."""
        other = METHODS[method]() if method in METHODS else None
        return isinstance(other, HistogramObserver) and other.bins == self.bins and set(other._start(0)) == {"seen"} == set(self._start(0))

    def read_by(self, method: str) -> Observer:
        """An observer of another method with the data of this one."""
        other = make_observer(method, axis=self.axis, ignore_nonfinite=self.ignore_nonfinite)
        other.ignored, other._statistics = self.ignored, self._statistics
        return other

    def _range(self, dtype: DType, scheme: Scheme) -> tuple[F64, F64]:
        assert self.seen is not None
        ends = [self._range_of(channel, dtype, scheme) for channel in range(len(self.seen.lo))]
        return np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends])

    @abstractmethod
    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        """The range of one channel, from its histogram."""


class PercentileObserver(HistogramObserver):
    """Covers all but the outermost (100 - percentile) % of the values that are not zero, rounded outwards to whole bins.

    >>> o = PercentileObserver(percentile=99.0)
    >>> _ = o.observe(np.append(np.linspace(-1, 1, 10_000), 1000.0).astype(np.float32))
    >>> float(o.range("int8")[1]) < 2
    True
    """

    method = "percentile"

    def __init__(self, *, percentile: float = 99.99, bins: int = BINS, axis: int | None = None, ignore_nonfinite: bool = False) -> None:
        super().__init__(bins=bins, axis=axis, ignore_nonfinite=ignore_nonfinite)
        if not is_real(percentile) or not 50 < percentile <= 100:
            raise CalibrationError(f"percentile={percentile} is not in (50, 100]", hint="99.99")
        self.percentile = percentile

    def options(self) -> dict[str, Any]:
        return {**super().options(), "percentile": self.percentile}

    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        return clip.percentile_range(self.histogram(channel), self.percentile, clip.is_one_threshold(dtype, scheme))


class EntropyObserver(HistogramObserver):
    """Covers the range whose codes keep the most information about the histogram (least KL divergence).

    >>> o = EntropyObserver()
    >>> _ = o.observe(np.append(np.random.default_rng(0).standard_normal(10_000), 1000.0).astype(np.float32))
    >>> float(o.range("int8")[1]) < 1000
    True
    """

    method = "entropy"

    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        return clip.entropy_range(self.histogram(channel), dtype, scheme)


class MSEObserver(HistogramObserver):
    """Covers the range with the least mean squared error on the histogram.

    >>> o = MSEObserver()
    >>> _ = o.observe(np.random.default_rng(0).standard_normal(10_000).astype(np.float32))
    >>> float(o.range("int4")[1]) < float(np.random.default_rng(0).standard_normal(10_000).max())  # few bits clip
    True
    """

    method = "mse"

    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        return clip.mse_range(self.histogram(channel), dtype, scheme)


class AdaptiveObserver(HistogramObserver):
    """Covers the range that is best among those of minmax, percentile, entropy and mse, by squared error on a sample of the values.

    The sample's values are quantized for real. The moving average is not tried: the result must not depend on the data's order.

    >>> o = AdaptiveObserver()
    >>> _ = o.observe(np.linspace(-1, 1, 1000, dtype=np.float32))
    >>> float(o.range("int8")[1]) > 0.9  # a flat distribution is not clipped
    True
    """

    method = "adaptive"
    percentiles = (99.9, 99.99, 99.999)

    def __init__(self, *, samples: int = SIZE, bins: int = BINS, axis: int | None = None, ignore_nonfinite: bool = False) -> None:
        super().__init__(bins=bins, axis=axis, ignore_nonfinite=ignore_nonfinite)
        self.samples = whole("samples", samples, -(2**31))
        Reservoir(0, samples)  # complains about a size that holds nothing

    def options(self) -> dict[str, Any]:
        return {**super().options(), "samples": self.samples}

    def _start(self, channels: int) -> dict[str, Statistic]:
        return {**super()._start(channels), "sample": Reservoir(channels, self.samples)}

    def _read(self, name: str, state: Mapping[str, Any]) -> Statistic:
        return Reservoir.from_dict(state) if name == "sample" else Histogram.from_dict(state)

    def measured(self, dtype: str | DType, scheme: Scheme | None = None, channel: int = 0) -> dict[str, float]:
        """The mean squared error of each method's range, on the sample."""
        d = quant_dtype(dtype)
        return {name: error for name, (error, _) in self._tried(channel, d, self._ready(d, scheme)).items()}

    def _tried(self, channel: int, d: DType, scheme: Scheme) -> dict[str, tuple[float, clip.Range]]:
        b = self.histogram(channel)
        one = clip.is_one_threshold(d, scheme)
        ranges = {
            "minmax": (b.lo, b.hi),
            **{f"percentile {p}": clip.percentile_range(b, p, one) for p in self.percentiles},
            "entropy": clip.entropy_range(b, d, scheme),
            "mse": clip.mse_range(b, d, scheme),
        }
        sample = self._statistics["sample"]
        assert isinstance(sample, Reservoir)
        values, weights = _weighted(b, sample, channel)
        tried = {}
        for name, (lo, hi) in ranges.items():
            params = params_from_range(lo, hi, d, scheme)
            off = values.astype(np.float64) - dequantize(quantize(values, params), params)
            tried[name] = (float(off * off @ weights), (lo, hi))
        return tried

    def _range_of(self, channel: int, dtype: DType, scheme: Scheme) -> tuple[float, float]:
        return min(self._tried(channel, dtype, scheme).values(), key=lambda tried: tried[0])[1]


def _weighted(b: Bins, sample: Reservoir, channel: int) -> tuple[F32, F64]:
    """Values that stand for all, and their shares: atoms as they are, and each bin's count on the bin's sampled values.

    A bin without any is its middle: the rare values of the tails, which decide about clipping, are counted and not left to chance.
    """
    values, counts = sample.values(channel), sample.counts[channel].astype(np.float64)
    rest = ~np.isin(values, b.atoms.astype(np.float32))
    values, counts = values[rest], counts[rest]
    where = np.clip(np.searchsorted(b.edges, values, side="right") - 1, 0, max(len(b.rest) - 1, 0))
    sampled = np.bincount(where, counts, len(b.rest))
    other = (sampled == 0) & (b.rest > 0)
    middles = ((b.edges[:-1] + b.edges[1:]) / 2)[other].astype(np.float32)
    shares = counts * (b.rest[where] / sampled[where])
    points = np.concatenate([values, middles, b.atoms.astype(np.float32)])
    return points, np.concatenate([shares, b.rest[other], b.atom_counts]) / b.total


METHODS: dict[str, Callable[..., Observer]] = {
    observer.method: observer
    for observer in (MinMaxObserver, MovingAverageMinMaxObserver, PercentileObserver, EntropyObserver, MSEObserver, AdaptiveObserver)
}
BUILT_IN = tuple(METHODS)  # the others are functions that users register


def make_observer(method: str | Callable[[Any], Any], **options: Any) -> Observer:
    """A new observer of the method, e.g. make_observer("percentile", percentile=99.9, axis=0); of a function of values: its range."""
    if callable(method):
        from lowbit.calibration.own_method import register_method

        method = register_method(method)
    if not isinstance(method, str) or method not in METHODS:
        hint = "one of " + ", ".join(METHODS)
        if isinstance(method, str) and "." in method:
            hint = f"import what defines it and lowbit.register_method it, or {hint}"
        raise CalibrationError(f"there is no calibration method {method!r}", hint=hint)
    legal = METHODS[method]().options()
    for name in options:
        if name not in legal:
            raise CalibrationError(f"{method} has no option {name!r}", hint="its options are " + ", ".join(legal))
    return METHODS[method](**options)


def observer_from_dict(d: Mapping[str, Any]) -> Observer:
    """The observer whose `to_dict` this is."""
    try:
        out = make_observer(d["method"], **d["options"])
        out.ignored = d["ignored"]
        out._statistics = {name: out._read(name, state) for name, state in d["state"].items()}
        if out.axis is None and out.seen is not None and len(out.seen.lo) != 1:
            raise ValueError(f"{len(out.seen.lo)} ranges without an axis")
        return out
    except (ArithmeticError, LookupError, TypeError, AttributeError, ValueError, MemoryError) as e:
        raise FormatError(f"not an observer: {type(e).__name__}: {e}", hint="the result of an observer's to_dict") from e
