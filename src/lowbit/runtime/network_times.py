"""Times of several networks on the same inputs, measured in turns and compiled as `lowbit.compile` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from lowbit.ir.graph import Graph
from lowbit.runtime.session import Session
from lowbit.runtime.timing import least_in_turns
from lowbit.types import Array

LARGE = 64 << 20  # bytes of weights: larger networks are compiled one at a time, for the memory, and their runs are long anyway


class Run(NamedTuple):
    """The shortest run in milliseconds, and the backend."""

    ms: float
    backend: str


def time_networks(graphs: Sequence[Graph], inputs: Mapping[str, Array]) -> tuple[Run, ...]:
    """A run of each network on the same inputs, measured in turns for a fraction of a second. The graphs are lowered or float."""
    together = max((g.parameter_bytes for g in graphs), default=0) <= LARGE
    found: list[Run] = []
    for group in [list(graphs)] if together else [[g] for g in graphs]:
        sessions = [Session(g) for g in group]
        times = least_in_turns([partial(s.run, inputs) for s in sessions])
        found += [Run(ms, s.backend) for ms, s in zip(times, sessions, strict=True)]
        del sessions
    return tuple(found)
