"""What one thread of this machine can multiply at most, measured in registers: the measure of a profile's speeds."""

from __future__ import annotations

from functools import cache
from time import thread_time_ns

import numpy as np

from lowbit.runtime import native

LONG = 300_000  # nanoseconds beside which the call itself does not count
REPEATS = 12  # of which one is undisturbed; time is the thread's own, others may run beside it
_CHAINS = {"integer": ("peak_s16", 192, np.int16, np.int32), "float": ("peak_f32", 96, np.float32, np.float32)}


@cache
def peak(kind: str, isa: str | None = None) -> float:
    """Billions of multiply-adds a second of one thread, "integer" or "float".

    Integers are multiplied by the chain of 16-bit pairs, the fastest that is exact for every input. Methods that save multiplications
    (Winograd, clipped weights) are beyond 100 % of it.
    """
    contract, products, given, made = _CHAINS[kind]
    kernel = native.best(contract, isa)
    x, w, out = np.ones(16, given), np.full(16, 3, given), np.empty(96, made)

    def time(rounds: int) -> int:
        start = thread_time_ns()
        kernel({"rounds": rounds}, x, w, out)
        return thread_time_ns() - start

    rounds = 1000
    while time(rounds) < LONG:
        rounds *= 2
    return products * rounds / min(time(rounds) for _ in range(REPEATS))
