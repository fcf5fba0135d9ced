"""The next token from logits. The same logits and seed give the same token on every machine: only additions and products are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import InputError

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Ids = NDArray[np.intp]
LOG2, TAYLOR = 0.6931471805599453, [1.0]
for _i in range(1, 11):
    TAYLOR.append(TAYLOR[-1] / _i)
LEAST = -24.0  # tokens of less than e^-24 of the likeliest one's weight are never drawn
FIRST_SORTED = 256  # tokens: a sort of all would take longer than the network
FIRST_TESTED = 64  # candidates that a constraint lets through; more are not looked for


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn, in this order: repetition penalty, temperature, top_k, top_p, min_p. Temperature 0 takes the likeliest.

    top_p  the fewest tokens whose probabilities sum up to this
    min_p  tokens of at least this part of the likeliest one's probability

    >>> Sampling(temperature=0.8, top_p=0.95, seed=1).seed
    1
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0.0, 100.0),
            "top_k": (0, 1 << 31),
            "top_p": (0.0, 1.0),
            "min_p": (0.0, 1.0),
            "repetition_penalty": (1e-3, 1e3),
            "seed": (0, (1 << 64) - 1),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            kinds = int if isinstance(low, int) else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
                raise InputError(f"{name}={value!r} is not a number from {low:g} to {high:g}")


def exp(x: F64) -> F64:
    """e^x of x ≤ 0 to about 1e-12 of it, by additions and products alone: library functions differ in the last bit from CPU to CPU."""
    k = np.rint(x * (1 / LOG2))
    r = x - k * LOG2
    y = np.full_like(r, TAYLOR[-1])
    for c in reversed(TAYLOR[:-1]):
        y = y * r + c
    return np.ldexp(y, k.astype(np.int32))


@dataclass
class Sampler:
    """Draws the tokens of one sequence."""

    sampling: Sampling
    _random: np.random.Philox = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.Philox(key=self.sampling.seed)

    def __call__(self, logits: F32, before: Sequence[int] = (), allowed: Callable[[int], bool] | None = None) -> int:
        """A token. `before` are the ids of the text so far, for the penalty; `allowed` says which tokens may follow at all."""
        s = self.sampling
        if s.repetition_penalty != 1 and len(before):
            logits = penalized(logits, before, s.repetition_penalty)
        if np.isnan(np.max(logits)):  # NaN wins every maximum
            raise InputError("the logits are not numbers", hint="the weights of the file are damaged, or too large for float16 scales")
        if not s.temperature and allowed is None:
            return int(np.argmax(logits))
        if allowed is not None:
            ids = tested(logits, 1 if not s.temperature else min(s.top_k or FIRST_TESTED, FIRST_TESTED), allowed)
        else:
            ids = candidates(logits, s.top_k, s.temperature)
        return int(ids[0] if not s.temperature else ids[self._drawn(logits[ids])])

    def _drawn(self, x: F32) -> int:
        """An index, by the softmax of these logits after top_p and min_p."""
        s = self.sampling
        weights = exp((x.astype(np.float64) - float(x.max())) / s.temperature)
        kept = nucleus(x, weights, s.top_p) if s.top_p < 1 else np.arange(x.size)
        kept = kept[weights[kept] >= s.min_p] if s.min_p else kept  # the likeliest weighs 1
        total = np.cumsum(weights[kept])  # in order: np.sum's order differs from CPU to CPU
        at = int(np.searchsorted(total, self.uniform() * total[-1], side="right"))
        return int(kept[min(at, kept.size - 1)])

    def uniform(self) -> float:
        """A number of 53 random bits in [0, 1)."""
        return float(int(self._random.random_raw()) >> 11) * 2.0**-53


def penalized(logits: F32, before: Sequence[int], penalty: float) -> F32:
    """Logits of tokens that were there divided by the penalty if positive, multiplied by it if negative."""
    out, seen = logits.copy(), np.unique(np.asarray(before, np.int64))
    seen = seen[(seen >= 0) & (seen < logits.size)]
    p = np.float32(penalty)
    out[seen] = np.where(out[seen] > 0, out[seen] / p, out[seen] * p)
    return out


def candidates(logits: F32, top_k: int, temperature: float) -> Ids:
    """The ids that may be drawn, in their order: the top_k likeliest (0: all), of equal ones the lower ids."""
    ids = np.flatnonzero(logits >= logits.max() + np.float32(LEAST * temperature))
    if not 0 < top_k < ids.size:
        return ids
    best = at_least(logits[ids], top_k)
    return np.sort(ids[best[:top_k]])


def at_least(x: F32, count: int) -> Ids:
    """Indices of the `count` largest, and of those that equal the last, largest first, of equal ones the lower index first."""
    some = np.arange(x.size) if count >= x.size else np.flatnonzero(x >= np.partition(x, -count)[-count])
    return some[np.argsort(-x[some], kind="stable")]


def nucleus(x: F32, weights: F64, top_p: float) -> Ids:
    """The fewest whose weights sum up to top_p of all, likeliest first."""
    goal, count = top_p * np.cumsum(weights)[-1], FIRST_SORTED
    while True:
        order = at_least(x, count)
        total = np.cumsum(weights[order])
        if total[-1] >= goal or order.size == x.size:
            return order[: int(np.searchsorted(total, goal)) + 1]
        count *= 8


def tested(logits: F32, count: int, allowed: Callable[[int], bool]) -> Ids:
    """The likeliest that may follow. Few tokens are tested where the network agrees with the constraint."""
    found: list[int] = []
    seen = 0
    for size in (FIRST_SORTED, logits.size):
        for i in at_least(logits, size)[seen:].tolist():
            seen += 1
            if allowed(i):
                found.append(i)
            if len(found) == count or (found and seen >= 20 * FIRST_TESTED):
                return np.asarray(found, np.intp)
    if not found:
        raise InputError("no token of the vocabulary may follow here", hint="another schema")
    return np.asarray(found, np.intp)
