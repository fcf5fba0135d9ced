"""Ranges tap by tap: some clipped as their observers say, the others whole, and room to spare where there are 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lowbit.calibration.observers import HistogramObserver, MinMaxObserver, Observer
from lowbit.calibration.record import EVERYTHING, CalibrationEntry, CalibrationRecord, Reach
from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.quant_params import QuantParams, Scheme

ROOM = 2.0  # of a 16-bit range: one bit of sixteen, so that values beyond those that calibration saw are not clipped


@dataclass(frozen=True)
class ClippedRecord(CalibrationRecord):
    """The record with its observers' ranges at the taps in `clipped`, and everything seen at all others."""

    clipped: frozenset[str] = frozenset()
    found: dict[tuple[object, ...], QuantParams] = field(default_factory=dict)  # searching a range takes time, and is done once

    def at(self, clipped: frozenset[str]) -> ClippedRecord:
        """The same record with other taps clipped."""
        return replace(self, clipped=clipped)

    def reads(self, method: str) -> bool:
        """Whether another method would have kept the same of the data."""
        return all(isinstance(o, HistogramObserver) and o.same_statistics(method) for o in self.taps.values())

    def read_by(self, method: str) -> ClippedRecord:
        """The record that the method would have made: the same histograms, read otherwise."""
        return ClippedRecord({name: o.read_by(method) if isinstance(o, HistogramObserver) else o for name, o in self.taps.items()})

    def with_others(self, others: Mapping[str, Observer | CalibrationEntry], kept: frozenset[str]) -> ClippedRecord:
        """The taps in `kept` as they are, with their ranges, and others beside them."""
        found = {key: params for key, params in self.found.items() if kept.issuperset(cast("tuple[str, ...]", key[0]))}
        return ClippedRecord({**{name: o for name, o in self.taps.items() if name in kept}, **others}, found=found)

    def to_dict(self) -> dict[str, Any]:
        """As a record without clipped taps would be written. The room of 16 bits is not in a file."""
        plain = {n: o if n in self.clipped or not isinstance(o, HistogramObserver) else whole_range(o) for n, o in self.taps.items()}
        return CalibrationRecord(plain).to_dict()

    def shared_params(
        self, taps: list[str], dtype: str | DType, scheme: Scheme | None = None, *, whole: bool = False, reach: Reach = EVERYTHING
    ) -> QuantParams:
        if any(isinstance(self.taps.get(t), CalibrationEntry) for t in taps):
            return super().shared_params(taps, dtype, scheme)
        wide = dtype_of(dtype).bits == 16
        whole = whole or wide or self.clipped.isdisjoint(taps)
        key = tuple(taps), dtype_of(dtype).name, scheme, whole, reach
        if key not in self.found:
            self.found[key] = super().shared_params(taps, dtype, scheme, whole=whole, reach=reach)
        found = self.found[key]
        return QuantParams(found.dtype, found.scale * ROOM, found.zero_point, found.scheme) if wide else found


def whole_range(observer: Observer) -> Observer:
    """An observer that gives everything which this one has seen."""
    seen = observer.seen
    ends = np.empty(0, np.float32) if seen is None else np.array([seen.lo.min(), seen.hi.max()], np.float32)
    return MinMaxObserver(ignore_nonfinite=observer.ignore_nonfinite).observe(ends)
