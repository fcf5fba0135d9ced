"""How many threads work at once. `LOWBIT_THREADS` caps it; 1 keeps everything in the calling thread."""

from __future__ import annotations

import os

from lowbit.errors import InputError


def count() -> int:
    """The CPUs this process may use, or LOWBIT_THREADS if that is fewer."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cap = os.environ.get("LOWBIT_THREADS")
    if not cap:
        return cpus
    if not cap.isdecimal() or int(cap) < 1:
        raise InputError(f"LOWBIT_THREADS={cap} is not a number of threads", hint="LOWBIT_THREADS=1, or leave it out")
    return min(cpus, int(cap))
