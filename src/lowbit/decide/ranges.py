"""Ranges tap by tap: some clipped as their observers say, the others whole, and room to spare where there are 16 bits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
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

    def shared_params(self, taps: list[str], dtype: str | DType, scheme: Scheme | None = None, *, whole: bool = False) -> QuantParams:
        if any(isinstance(self.taps.get(t), CalibrationEntry) for t in taps):
            return super().shared_params(taps, dtype, scheme)
        wide = dtype_of(dtype).bits == 16
        whole = whole or wide or self.clipped.isdisjoint(taps)
        key = tuple(taps), dtype_of(dtype).name, scheme, whole
        if key not in self.found:
            self.found[key] = super().shared_params(taps, dtype, scheme, whole=whole)
        found = self.found[key]
        return QuantParams(found.dtype, found.scale * ROOM, found.zero_point, found.scheme) if wide else found
