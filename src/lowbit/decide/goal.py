"""What a network shall be like: how good, how fast, how small; and what is told of the way there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from lowbit.arguments import shown
from lowbit.decide.answers import SEEN
from lowbit.decide.quality import Quality
from lowbit.errors import InputError

Prefer = Literal["balanced", "speed", "accuracy", "size"]
LAYER = 10.0  # dB that every layer must have: one below it is broken, whatever the outputs show on a few samples
FEWER = 7.0  # dB that are not asked of weights of few bits
SURE, LESS = 0.2, 5.0  # where so little of the answers that may be other ones is expected to be, so many dB fewer do
COMMON = 0.12  # of yes-or-no answers that are the rarer kind: from this on, the dB tell of both kinds
MARGIN = 0.8  # of the answers that may be other ones, where they are counted on a few batches
CHEAP = 0.5  # of the float network's time
FASTER = 0.9  # of the float network's time: the most that a balanced network takes, where the plain rules take less


@dataclass(frozen=True)
class Goal:
    """worst   dB of the worst tenth of the samples that are wanted of numbers, at up to FASTER of the float network's time
    answers the same of outputs that are classes: there the answer counts, which is compared as well
    wanted  dB that are wanted as long as the network takes no more than CHEAP of that time
    enough  dB of the worst tenth from which on nothing is tried at all
    other   the share of the answers that may be other ones than the float network's
    slower  whether repairs may make the network slower than FASTER of the float one
    bits16  whether layers may have 16 bits
    small   whether bytes count more than time
    """

    worst: float = 25.0
    answers: float = 20.0
    wanted: float = 30.0
    enough: float = 35.0
    other: float = 0.005
    slower: bool = False
    bits16: bool = True
    small: bool = False

    @staticmethod
    def of(prefer: Prefer, bits16: bool = True) -> Goal:
        """Balanced: 25 dB (noise of 6 % on the worst tenth), within the time. Accuracy: 35 dB at any time. Speed and size: 20 dB."""
        if prefer not in get_args(Prefer):
            raise InputError(f"prefer={shown(prefer)} is none", hint=f"one of {', '.join(get_args(Prefer))}")
        if prefer == "accuracy":
            return Goal(35.0, 35.0, 40.0, 45.0, 0.002, True, bits16)
        if prefer in ("speed", "size"):
            return Goal(20.0, 17.0, 20.0, 30.0, 0.01, False, bits16, small=prefer == "size")
        return Goal(bits16=bits16)

    def of_few_bits(self) -> Goal:
        """What can be asked of weights of four bits and fewer: whoever takes them knows that they are coarser."""
        return replace(self, worst=self.worst - FEWER, answers=self.answers - FEWER, wanted=self.wanted - FEWER, other=1.5 * self.other)

    def good(self, quality: Quality) -> bool:
        """Whether the outputs need no repair that costs time."""
        return not self.lacks(quality)

    def lacks(self, quality: Quality, margin: bool = True) -> str:
        """What the outputs lack; "" where they are good.

        `margin`: while candidates are compared, fewer counted answers may be other ones than in the end.
        """
        if self.sure(quality):
            return ""
        if quality.worst_db < self.least(quality):
            return f"the outputs have {quality.worst_db:.1f} dB on the worst tenth, {self.least(quality):g} are wanted"
        other = quality.answers.told
        allowed = self.allowed(quality) if margin else self.other
        if quality.worst_db < self.tied(quality) and other > allowed:
            how = "are" if quality.answers.counted else "are expected to be"
            return f"{other:.2%} of the answers {how} other ones than the float network's, {allowed:.2%} may be"
        return ""

    def tied(self, quality: Quality) -> float:
        """The dB of the worst tenth from which on answers that still change are ties.

        A linear layer's numbers may be positions or features, whose largest means nothing: of them, LESS is asked.
        The dB of a mask are mostly those of its background, and tell nothing of ties, unless yes is about as frequent as no: such numbers
        are more often gains than answers.
        """
        worst = quality.answers.worst
        if worst.mask and worst.counted:
            return self.enough - LESS if worst.count > 2 * COMMON * worst.total > 0 else math.inf
        return self.enough if quality.answered else self.enough - LESS

    def allowed(self, quality: Quality) -> float:
        """The share of the answers that may be other ones. Counted ones are of these rows alone, and others may have more."""
        return self.other * (MARGIN if quality.answers.counted else 1.0)

    def needed(self, quality: Quality) -> float:
        """The dB of the worst tenth that the outputs need: half the noise gives half as many other answers."""
        turned = 20 * math.log10(max(quality.answers.told / self.allowed(quality), 1.0))
        return max(self.least(quality), min(quality.worst_db + turned, self.tied(quality)) if turned else 0.0)

    def sure(self, quality: Quality) -> bool:
        """Whether the outputs are classes whose answers are so clear that fewer decibels do."""
        seen = quality.answers.count >= SEEN
        return seen and quality.classes and quality.answers.other <= SURE * self.other and quality.worst_db >= self.answers - LESS

    def least(self, quality: Quality) -> float:
        """The dB of the worst tenth below which repairs may cost time."""
        return self.answers if quality.classes else self.worst


def reaches(score: float, least: float) -> bool:
    """Whether a score is at least that. 0.8 - 0.1 is a little more than 0.7 in floating point, and 0.7 reaches it.

    >>> 0.7 >= 0.8 - 0.1, reaches(0.7, 0.8 - 0.1)
    (False, True)
    """
    return score >= least - 1e-12 * max(1.0, abs(least))


@dataclass(frozen=True)
class Step:
    """What was tried, where, the dB of the worst tenth and the time before and after, and whether it was kept."""

    what: str
    where: str
    before: float
    after: float
    kept: bool
    ratio: float | None = None  # of the float network's time, where it was measured
    score: float | None = None  # of the user's metric

    def __str__(self) -> str:
        """The step without its time: the same data gives the same notes."""
        score = "" if self.score is None else f", score {self.score:.6g}"
        return f"{self.what} ({self.where}): {self.before:.1f} → {self.after:.1f} dB{score}, {'kept' if self.kept else 'not kept'}"
