"""How many threads work at once. `LOWBIT_THREADS` caps it; 1 keeps everything in the calling thread."""

from __future__ import annotations

import os

from lowbit.errors import InputError

MOST = 4096  # of one session


def cap() -> int | None:
    """LOWBIT_THREADS, where it is set."""
    text = os.environ.get("LOWBIT_THREADS")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MOST:
        raise InputError(f"LOWBIT_THREADS={text} is not a number of threads", hint=f"1 to {MOST:,}, or leave it out")
    return int(text)


def count(asked: int | None = None) -> int:
    """As many as are asked for, or the CPUs this process may use; no more than LOWBIT_THREADS."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus if asked is None else asked, cap() or MOST)
