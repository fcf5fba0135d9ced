"""Measured networks and their Pareto front: those that no other one beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Tried:
    """A measured network: a description, and its figures on the samples that decide.

    db     the mean over these samples
    worst  dB of the worst tenth
    score  by the user's metric, if there is one
    ms     of a batch on one thread; None where it was not timed
    bytes  of the stored parameters
    """

    what: str
    db: float
    worst: float
    bytes: int
    score: float | None = None
    ms: float | None = None
    chosen: bool = False

    @property
    def goods(self) -> tuple[float, ...]:
        """The score (else the dB of the worst tenth), the time and the bytes; more is better. An unknown time counts as long."""
        return self.worst if self.score is None else self.score, float("-inf") if self.ms is None else -self.ms, -float(self.bytes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what, "db": self.db, "worst_db": self.worst, "score": self.score, "ms": self.ms, "bytes": self.bytes,
            "chosen": self.chosen,
        }  # fmt: skip


def front(items: Iterable[T], goods: Callable[[T], tuple[float, ...]]) -> list[T]:
    """The items that no other dominates: none is as good in everything and better in something. The first of equal items stays.

    >>> front(["bb", "a", "ab", "b"], lambda s: (s.count("a"), s.count("b")))
    ['bb', 'ab']
    """
    found = list(items)
    values = [goods(x) for x in found]

    def beaten(i: int) -> bool:
        mine = values[i]
        return any(all(a >= b for a, b in zip(his, mine, strict=True)) and (his != mine or j < i) for j, his in enumerate(values) if j != i)

    return [x for i, x in enumerate(found) if not beaten(i)]
