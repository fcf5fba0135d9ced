"""The highest multiplication rate of one thread, measured in registers: profiles compare with it."""

from __future__ import annotations

from functools import cache
from time import thread_time_ns

import numpy as np

from lowbit.kernels import native
from lowbit.types import Array

LONG = 300_000  # nanoseconds: compared with this the call itself takes no time
REPEATS = 12  # of which one is undisturbed; CPU time of the thread, so other threads may run
_CHAINS = {  # kernels, how many products a round has, and of what
    "integer": (("peak_s16", 192, np.int16, np.int16, np.int32), ("peak_s8", 768, np.uint8, np.int8, np.int32)),
    "float": (("peak_f32", 96, np.float32, np.float32, np.float32),),
}


@cache
def peak(kind: str, isa: str | None = None) -> float:
    """Billions of multiply-adds a second of one thread, "integer" or "float".

    Integers are multiplied by pairs of 16 bits, or by quads of 8 bits where there is an instruction for them: the fastest chain that is
    exact for every input. Methods that save multiplications (Winograd, clipped weights) are beyond 100 % of it.
    """
    first, *others = _CHAINS[kind]
    chains = [first, *(c for c in others if native.best(c[0], isa).isa != "ref")]
    return max(_measured(*chain, isa) for chain in chains)


def _measured(contract: str, products: int, left: type, right: type, made: type, isa: str | None) -> float:
    kernel = native.best(contract, isa)
    x: Array = np.ones(64, left)
    w: Array = np.full(64, 3, right)
    out: Array = np.empty(192, made)

    def time(rounds: int) -> int:
        start = thread_time_ns()
        kernel({"rounds": rounds}, x, w, out)
        return thread_time_ns() - start

    rounds = 1000
    while time(rounds) < LONG:
        rounds *= 2
    return products * rounds / min(time(rounds) for _ in range(REPEATS))
