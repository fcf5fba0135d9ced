"""The result of calibration: for each tap (the name of a value) the parameters, or the statistics to derive them from.

`CalibrationEntry` is fixed parameters: an axis (None: per tensor), scales and zero points. A record may hold such entries (given by a
user, or by quantization-aware training) or observers, which give an entry for any dtype asked. Records of the same taps add up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowbit.arguments import is_whole, shown
from lowbit.arguments import path as needed
from lowbit.calibration.observers import Observer, observer_from_dict
from lowbit.dtypes import DType
from lowbit.errors import CalibrationError, FormatError, LowbitError, QuantError
from lowbit.files import unreadable, write_whole
from lowbit.numerics import as_array, as_float32
from lowbit.quant_params import PerAxis, PerTensor, QuantParams, Scheme
from lowbit.ranges import params_from_range

VERSION = 1
DAMAGED = (ArithmeticError, LookupError, TypeError, AttributeError, ValueError, AssertionError, MemoryError)  # by numbers of the wrong kind
WRITTEN = "what lowbit calibrate (CalibrationRecord.save) wrote"


@dataclass(frozen=True)
class CalibrationEntry:
    """Fixed parameters of one tap: `axis` None is per tensor, else one scale and zero point for each index of that axis.

    >>> CalibrationEntry.per_tensor(0.1, 3).params("int8").zero_point.item()
    3
    """

    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.axis is not None and not is_whole(self.axis):
            raise QuantError(f"axis={shown(self.axis)} of a CalibrationEntry is none", hint="an axis, or None for one scale per tensor")
        scales, zeros = self.scales, self.zero_points
        if not isinstance(scales, tuple | list) or not all(isinstance(x, float | np.floating) or is_whole(x) for x in scales):
            raise QuantError(f"scales={shown(scales)} of a CalibrationEntry are none", hint="scales=(0.1,)")
        if not isinstance(zeros, tuple | list) or not all(map(is_whole, zeros)):
            raise QuantError(f"zero_points={shown(zeros)} of a CalibrationEntry are none", hint="zero_points=(0,)")
        object.__setattr__(self, "scales", tuple(map(float, scales)))
        object.__setattr__(self, "zero_points", tuple(map(int, zeros)))

    @staticmethod
    def per_tensor(scale: float, zero_point: int = 0) -> CalibrationEntry:
        """One scale and zero point for the whole tap."""
        return CalibrationEntry(None, (scale,), (zero_point,))

    @staticmethod
    def per_channel(axis: int, scales: ArrayLike, zero_points: ArrayLike | None = None) -> CalibrationEntry:
        """A scale and a zero point for each index of an axis."""
        s = as_float32(scales, what="scales").reshape(-1)
        z = np.zeros(s.shape, np.int64) if zero_points is None else as_array(zero_points, what="zero_points").reshape(-1)
        return CalibrationEntry(axis, tuple(s), tuple(z))

    def params(self, dtype: str | DType) -> QuantParams:
        """The parameters, checked: positive finite scales, zero points inside the dtype, as many of one as of the other."""
        if len(self.scales) != len(self.zero_points) or not self.scales or (self.axis is None and len(self.scales) > 1):
            raise QuantError(
                f"{len(self.scales)} scales and {len(self.zero_points)} zero points, needs as many of both"
                + (" and one of each, for there is no axis" if self.axis is None else ", one for each index of the axis"),
                hint="CalibrationEntry.per_tensor(0.1), or CalibrationEntry.per_channel(0, [0.1, 0.2])",
            )
        if self.axis is None:
            return QuantParams(dtype, np.float32(self.scales[0]), self.zero_points[0], None, PerTensor())
        return QuantParams(dtype, np.array(self.scales, np.float32), np.array(self.zero_points), None, PerAxis(self.axis))


Reach = tuple[float, float]
EVERYTHING: Reach = (-float("inf"), float("inf"))


@dataclass(frozen=True)
class CalibrationRecord:
    """Taps by name. `a + b` is the record of having seen the data of both.

    >>> record = CalibrationRecord({"x": CalibrationEntry.per_tensor(0.1)})
    >>> float(record.params("x", "int8").scale) == float(np.float32(0.1))
    True
    """

    taps: Mapping[str, Observer | CalibrationEntry]

    def __post_init__(self) -> None:
        taps = self.taps
        if not isinstance(taps, Mapping) or not all(isinstance(e, Observer | CalibrationEntry) for e in taps.values()):
            raise QuantError(
                f"taps are {shown(taps)}, entries or observers by name are needed", hint="lowbit.calibrate(graph, data) makes a record"
            )

    def params(self, tap: str, dtype: str | DType, scheme: Scheme | None = None) -> QuantParams:
        """Parameters of a tap for a dtype; CalibrationError when the tap was not seen."""
        return self.shared_params([tap], dtype, scheme)

    def shared_params(
        self, taps: list[str], dtype: str | DType, scheme: Scheme | None = None, *, whole: bool = False, reach: Reach = EVERYTHING
    ) -> QuantParams:
        """One set of parameters for several taps: that of all their values together. Fixed entries win over observed ones, and must agree.

        `whole` covers every value seen, whatever the method would clip: in a state that is handed on, a clipped value lives on. `reach`
        is the range beyond which nobody tells values apart.
        """
        missing = [t for t in taps if not isinstance(t, str) or t not in self.taps]
        if missing:
            raise CalibrationError(f"no calibration for {missing[0]!r}", hint="calibrate the same graph with the same rules")
        found = [self.taps[t] for t in taps]
        fixed = [(t, e) for t, e in zip(taps, found, strict=True) if isinstance(e, CalibrationEntry)]
        for other, entry in fixed[1:]:
            if entry != fixed[0][1]:
                raise CalibrationError(
                    f"{fixed[0][0]!r} and {other!r} must share their parameters, but the record fixes different ones",
                    hint="the same entry for both, or one of them alone",
                )
        if fixed:
            try:
                return fixed[0][1].params(dtype)
            except LowbitError as e:
                raise e.at(f"tap {fixed[0][0]!r}") from None
        observers = [o for o in found if isinstance(o, Observer)]
        try:
            total = observers[0]
            for o in observers[1:]:
                total = total + o
            lo, hi = (total.seen.lo.min(), total.seen.hi.max()) if whole and total.seen is not None else total.range(dtype, scheme)
            apart = PerTensor() if whole or total.axis is None else PerAxis(total.axis)
            return params_from_range(np.clip(lo, *reach), np.clip(hi, *reach), dtype, scheme, apart)
        except LowbitError as e:
            raise e.at(f"tap {taps[0]!r}") from None
        except DAMAGED as e:  # a record that was written or changed by hand
            raise FormatError(f"what was seen does not fit together ({e})", where=f"tap {taps[0]!r}", hint=WRITTEN) from e

    def entry(self, tap: str, dtype: str | DType = "int8", scheme: Scheme | None = None) -> CalibrationEntry:
        """The parameters of a tap as a fixed entry."""
        p = self.params(tap, dtype, scheme)
        return CalibrationEntry(p.axis(64), tuple(map(float, p.scale.reshape(-1))), tuple(map(int, p.zero_point.reshape(-1))))

    @property
    def ignored(self) -> dict[str, int]:
        """How many NaN and infinities were left out, for each tap that had some."""
        return {name: tap.ignored for name, tap in self.taps.items() if isinstance(tap, Observer) and tap.ignored}

    def __iter__(self) -> Iterator[str]:
        return iter(self.taps)

    def __len__(self) -> int:
        return len(self.taps)

    def __add__(self, other: CalibrationRecord) -> CalibrationRecord:
        if not isinstance(other, CalibrationRecord):
            return NotImplemented
        if set(self.taps) != set(other.taps):
            odd = sorted(set(self.taps) ^ set(other.taps))
            raise CalibrationError(f"records of different taps cannot be added ({odd[0]!r} is in one of them)")
        merged: dict[str, Observer | CalibrationEntry] = {}
        for name, a in self.taps.items():
            b = other.taps[name]
            if isinstance(a, Observer) and isinstance(b, Observer):
                merged[name] = a + b
            elif a == b:
                merged[name] = a
            else:
                raise CalibrationError(f"tap {name!r} has fixed parameters that differ")
        return CalibrationRecord(merged)

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold; `from_dict` gives the same record back."""
        rows: dict[str, Any] = {}
        for name, e in self.taps.items():
            if isinstance(e, CalibrationEntry):
                rows[name] = {"axis": e.axis, "scales": list(e.scales), "zero_points": list(e.zero_points)}
            else:
                rows[name] = {"observer": e.to_dict()}
        return {"version": VERSION, "taps": rows}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> CalibrationRecord:
        """The record whose `to_dict` this is."""
        if not isinstance(d, Mapping) or not isinstance(d.get("taps"), Mapping) or "version" not in d:
            raise FormatError("not a calibration record (no object with version and taps)", hint=WRITTEN)
        try:
            if d["version"] != VERSION:
                raise FormatError(f"calibration record of version {d['version']}, {VERSION} needed", hint="lowbit calibrate writes it anew")
            taps: dict[str, Observer | CalibrationEntry] = {}
            for name, row in d["taps"].items():
                if not isinstance(row, Mapping) or not ("observer" in row or {"axis", "scales", "zero_points"} <= row.keys()):
                    raise FormatError("it is neither an observer nor scales", where=f"tap {name!r}", hint=WRITTEN)
                if "observer" in row:
                    try:
                        taps[name] = observer_from_dict(row["observer"])
                    except LowbitError as e:
                        raise e.at(f"tap {name!r}") from None
                else:
                    taps[name] = CalibrationEntry(
                        None if row["axis"] is None else int(row["axis"]),
                        tuple(map(float, row["scales"])),
                        tuple(map(int, row["zero_points"])),
                    )
            return CalibrationRecord(taps)
        except DAMAGED as e:
            raise FormatError(f"not a calibration record ({type(e).__name__}: {e})", hint=WRITTEN) from e

    def save(self, path: str | PathLike[str]) -> None:
        """Writes JSON; the same record gives the same bytes."""
        write_whole(path, json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")).encode())

    @staticmethod
    def load(path: str | PathLike[str]) -> CalibrationRecord:
        """The record of a file that `save` wrote."""
        path = needed(path)
        try:
            return CalibrationRecord.from_dict(json.loads(path.read_bytes()))
        except (OSError, ValueError) as e:
            raise FormatError(f"not a calibration record ({unreadable(e)})", where=str(path), hint=WRITTEN) from e
        except FormatError as e:
            raise e.at(path.name) from None
