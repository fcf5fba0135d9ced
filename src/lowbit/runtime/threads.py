"""Work split over the CPUs this process may use: plain calls that release the GIL, on threads that are made once.

`LOWBIT_THREADS` caps how many; 1 keeps everything in the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from lowbit.errors import InputError

Job = Callable[[], None]


def count() -> int:
    """How many threads work at once: the CPUs this process may use, or LOWBIT_THREADS if that is fewer."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cap = os.environ.get("LOWBIT_THREADS")
    if not cap:
        return cpus
    if not cap.isdecimal() or int(cap) < 1:
        raise InputError(f"LOWBIT_THREADS={cap} is not a number of threads", hint="LOWBIT_THREADS=1, or leave it out")
    return min(cpus, int(cap))


def run_all(jobs: Sequence[Job]) -> None:
    """Runs every job, the first in the calling thread; returns when all are done, and raises what one of them raised."""
    workers = min(count(), len(jobs))
    if workers < 2:
        for job in jobs:
            job()
        return
    others = [_pool(os.getpid()).submit(_each, jobs[i::workers]) for i in range(1, workers)]
    try:
        _each(jobs[::workers])
    finally:
        failed = [e for e in map(Future.exception, others) if e is not None]  # waits: jobs write into memory the caller owns
    if failed:
        raise failed[0]


def _each(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()


@cache
def _pool(pid: int) -> ThreadPoolExecutor:
    """By process, because threads do not survive a fork. Threads start when they are first needed."""
    return ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) - 1), thread_name_prefix="lowbit")
