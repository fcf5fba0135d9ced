"""Several ways to compute the same, measured so that their times can be compared: in turns, in one process, on the same CPUs.

One way after the other would not do: clock rates and neighbours on the machine change from second to second.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from lowbit.errors import InputError
from lowbit.progress import progress

SLOW = 0.5  # seconds: what takes longer is run SLOW_ROUNDS times only
SLOW_ROUNDS = 2
BLOCK = 0.02  # seconds that a way runs at a stretch
LEAST, MOST = 3, 40  # and how often at least and at most: a core that is shared with others is slow for a second now and then
SECONDS, RUNS = 0.1, 5  # that candidates are timed for, and how often each at least
BETWEEN = 0.0005  # seconds: of shorter runs some are not interrupted, however busy the machine is
BUSY = 1.5  # times the least: a larger median was disturbed
NOTICEABLE = 1.05  # times another time: less is noise
PAUSE = 0.01  # seconds in which threads of the way before go to sleep: those of PyTorch take up to 8 ms, of OpenVINO 1.2


@dataclass(frozen=True)
class Timing:
    """The milliseconds of all runs of one way. The least is what the machine can do, the median what it did beside everything else."""

    ms: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.ms)

    @property
    def median(self) -> float:
        return median(self.ms)


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Each way's times: in every round each runs some times at a stretch, the first of them not counted.

    Where the process has one CPU (`pinned`), the CPU time of runs that are long enough for others to come between is counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    alone = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1
    clock = time.process_time if alone and min(map(timed, ways.values()), default=0.0) > BETWEEN else time.perf_counter
    for at in progress(range(rounds), "measuring"):
        for name, run in ways.items():
            if at >= SLOW_ROUNDS and min(seconds[name]) > SLOW:
                continue
            time.sleep(PAUSE)
            once = timed(run)
            runs = max(LEAST if once < SLOW else 1, min(MOST, int(BLOCK / max(once, 1e-9))))
            seconds[name] += [timed(run, clock) for _ in range(runs)]
    return {name: Timing(tuple(1e3 * s for s in found)) for name, found in seconds.items()}


def least_in_turns(ways: Sequence[Callable[[], object]], *, one_thread: bool = False) -> list[float]:
    """The least ms of each way in a fraction of a second, run by run: what is busy for a while is so for all of them.

    For many candidates in a row, where `in_turns` would take too long. `one_thread`: what runs on the calling thread alone is timed by
    the CPU time that it takes, where it is long enough for others to come between.
    """
    for run in ways:
        run()  # compiled, and warm
    clock = time.thread_time if one_thread and min(map(timed, ways), default=0.0) > BETWEEN else time.perf_counter
    best, runs, begun = [math.inf] * len(ways), 0, time.perf_counter()
    while runs < RUNS or time.perf_counter() - begun < SECONDS:
        best = [min(least, timed(run, clock)) for least, run in zip(best, ways, strict=True)]
        runs += 1
        if time.perf_counter() - begun > 10 * SECONDS:
            break  # so long that a run more or less says nothing
    return [1e3 * seconds for seconds in best]


def timed(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of one run."""
    start = clock()
    run()
    return clock() - start


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Inside, this thread and those it starts have as many CPUs as threads, the last ones; where a system cannot say so, all of them."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_of_them = os.sched_getaffinity(0)
    if len(all_of_them) < threads:
        raise InputError(f"{threads} threads, but this process may use {len(all_of_them)} CPUs", hint=f"{len(all_of_them)} threads at most")
    os.sched_setaffinity(0, sorted(all_of_them)[-threads:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)
