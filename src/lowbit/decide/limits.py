"""Limits of a network's cost (milliseconds, bytes, memory) and of the time to find it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from lowbit.arguments import is_real, is_whole, shown
from lowbit.errors import InputError


class Over(Exception):
    """The time limit is reached."""


@dataclass(frozen=True)
class Needs:
    """The measured needs of a network. None: not measured, because no limit asks for it.

    ms      of a batch as given, on one thread
    nbytes  of the stored parameters
    ram     bytes of a session beside the weights: the arena for a batch as given
    """

    ms: float | None = None
    nbytes: int | None = None
    ram: int | None = None


@dataclass(frozen=True)
class Limits:
    """The most that a network may need (see `Needs`), and the minutes after which the best so far is returned. None: no limit."""

    ms: float | None = None
    nbytes: int | None = None
    ram: int | None = None
    minutes: float | None = None

    @staticmethod
    def of(max_ms: object = None, max_bytes: object = None, max_ram: object = None, minutes: object = None) -> Limits:
        """The arguments of `quantize`, checked."""
        for name, value, hint in (("max_ms", max_ms, "max_ms=5.0"), ("minutes", minutes, "minutes=2")):
            if value is not None and not (is_real(value) and value > 0):  # type: ignore[operator]
                raise InputError(f"{name}={shown(value)}, a positive number is needed", hint=hint)
        for name, value in (("max_bytes", max_bytes), ("max_ram", max_ram)):
            if value is not None and not (is_whole(value) and value > 0):  # type: ignore[operator]
                raise InputError(f"{name}={shown(value)}, a whole number of bytes from 1 on is needed", hint=f"{name}=256 * 1024")
        return Limits(
            None if max_ms is None else float(max_ms),  # type: ignore[arg-type]
            None if max_bytes is None else int(max_bytes),  # type: ignore[call-overload]
            None if max_ram is None else int(max_ram),  # type: ignore[call-overload]
            None if minutes is None else float(minutes),  # type: ignore[arg-type]
        )

    @property
    def named(self) -> tuple[str, ...]:
        """The arguments that are given."""
        given = {"max_ms": self.ms, "max_bytes": self.nbytes, "max_ram": self.ram, "minutes": self.minutes}
        return tuple(name for name, value in given.items() if value is not None)

    def excess(self, needs: Needs) -> float:
        """The largest need as a multiple of its limit; 1 if all limits are kept."""
        pairs = ((needs.ms, self.ms), (needs.nbytes, self.nbytes), (needs.ram, self.ram))
        return max([1.0, *(need / limit for need, limit in pairs if need is not None and limit is not None)])

    def unmet(self, needs: Needs) -> list[str]:
        """A text for each limit that is not kept."""
        said = []
        if self.ms is not None and needs.ms is not None and needs.ms > self.ms:
            said.append(f"a batch takes {needs.ms:.3g} ms, max_ms is {self.ms:g}")
        if self.nbytes is not None and needs.nbytes is not None and needs.nbytes > self.nbytes:
            said.append(f"the parameters have {needs.nbytes:,} bytes, max_bytes is {self.nbytes:,}")
        if self.ram is not None and needs.ram is not None and needs.ram > self.ram:
            said.append(f"a session needs {needs.ram:,} bytes beside the weights, max_ram is {self.ram:,}")
        return said


def limits_in(unmet: str) -> tuple[str, ...]:
    """The limits that the text of a decision names as not kept.

    >>> limits_in("the outputs have 12.0 dB; a batch takes 3 ms, max_ms is 1; the parameters have 9 bytes, max_bytes is 1")
    ('max_ms', 'max_bytes')
    """
    return tuple(re.findall(r", (max_\w+) is ", unmet))


class Deadline:
    """Raises `Over` when the minutes are over; the clock starts when it is made."""

    def __init__(self, minutes: float | None) -> None:
        self.minutes = minutes
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def over(self) -> bool:
        return self._end is not None and time.monotonic() > self._end

    def check(self) -> None:
        if self.over:
            raise Over(f"minutes={self.minutes:g} were over")
