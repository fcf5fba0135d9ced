"""The result of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowbit.decide.candidates import Candidate
from lowbit.decide.cost import Times
from lowbit.decide.front import Tried, front
from lowbit.decide.goal import Step
from lowbit.decide.quality import Quality
from lowbit.decide.repairs import Repair
from lowbit.decide.widths import Widths
from lowbit.ir.graph import Graph


@dataclass(frozen=True)
class Decision:
    """The chosen network and its measurements.

    quality   measured on the report samples, which nothing was fitted to or chosen by
    plain     the quality of the plain rules, on the samples that decided
    times     of a batch on one thread; None if nothing was timed
    met       whether the goal and the limits are met; `unmet` names those that are not
    tried     every network that was measured, on the samples that decided; the first is the float network
    score     of the returned network, called `score_name`; `scored` names the rows
    stopped   why the engine ended early; "" if it did not
    faster    the layers that are float because that takes less time
    """

    graph: Graph
    quality: Quality
    plain: Quality
    times: Times | None
    steps: tuple[Step, ...]
    widths: Widths
    macs: Mapping[str, int]
    measured_on: str
    score: float | None = None
    float_score: float | None = None
    unmet: str = ""
    tried: tuple[Tried, ...] = ()
    stopped: str = ""
    faster: frozenset[str] = frozenset()
    score_name: str = "score"
    scored: str = ""

    @property
    def front(self) -> tuple[Tried, ...]:
        """The tried networks that no other beats in quality (the score, else dB), time and bytes; the smallest first.

        The chosen one is among them: one that beats it by a little in all three may have lost in what else decides, as other answers.
        """
        found = front(self.tried, lambda t: t.goods)
        found += [t for t in self.tried if t.chosen and t not in found]
        return tuple(sorted(found, key=lambda t: t.goods[::-1], reverse=True))

    @property
    def met(self) -> bool:
        return not self.unmet

    def share(self, names: frozenset[str]) -> float:
        """The share of the multiplications in these layers."""
        return sum(self.macs.get(k, 0) for k in names) / max(1, sum(self.macs.values()))


@dataclass
class Trial:
    """A candidate and its measurements."""

    candidate: Candidate
    quality: Quality
    score: float | None = None
    times: Times | None = None
    repairs: tuple[Repair, ...] = ()  # repairs that cost time, in the order in which they were made
    number: int = 0  # among all that were measured
