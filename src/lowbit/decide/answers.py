"""Answers (top-1 classes) of a quantized network compared with those of the float network.

Counting changed answers says little on a few rows: hardly one changes, however large the noise is. But each row has a margin, the distance
from its answer to the next one, and all rows together tell how large the noise of margins is. From these, a few rows suffice to estimate
the share of answers that such noise changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowbit.decide.points import Point, classes_last
from lowbit.types import Array

MANY = 400  # from this many answers on, changed answers are counted
FARTHEST, STEPS = 8.0, 64  # margins are told apart in steps of a 64th of the noise, up to 8 times the noise
SEEN = 16  # answers: of fewer, the most tied one is too large a part to be left out, and clear margins say little of other rows
FEW = 20  # yes or no answers: if the rarer kind has fewer than this, both kinds count
ASKED = (0.5, 0.25)  # probabilities from which on an answer is yes: the users of detectors ask for a quarter as often as for a half


@dataclass(frozen=True)
class Answers:
    """same      how many of `count` answers equal the float network's
    expected  the share of answers that noise of this size is expected to change
    tie       the part of it that the one answer with the smallest margin makes
    mask      whether each is a yes or no
    total     how many yes-or-no numbers `same` and `count` stand for, if they are those of a Dice score; else 0
    parts     the answers of single outputs, if there are several: each counts by itself

    For yes-or-no outputs the rarer answer counts: 2·both ÷ (theirs + ours), the Dice score of a mask that is mostly background.
    """

    same: int = 0
    count: int = 0
    expected: float = 0.0
    tie: float = 0.0
    mask: bool = False
    total: int = 0
    parts: tuple[Answers, ...] = ()

    def __str__(self) -> str:
        """100 % of 96 answers as in float; of a mask: Dice 96.97 % with float's mask, over 4,096 yes-or-no answers."""
        share = f"{100 * self.same / max(1, self.count):.4g} %"
        if self.total:
            return f"Dice {share} with float's rarer answer, over {self.total:,} yes-or-no answers"
        return f"{share} of {self.count:,} answers as in float"

    @property
    def counted(self) -> bool:
        return self.worst.count >= MANY

    @property
    def worst(self) -> Answers:
        """The output that loses most, or all answers if there is one output: many answers of one do not hide the few of another."""
        return max(self.parts, key=lambda a: a.told) if self.parts else self

    @property
    def other(self) -> float:
        """The share of changed answers, of the worst output: counted if there are many, expected if there are few."""
        found = self.worst
        if found.counted:
            return 1 - found.same / found.count
        return found.expected if found.count else 0.0

    @property
    def told(self) -> float:
        """The share of changed answers that the rows can tell.

        Of a few answers, one tie is expected to change with any noise, and so few do not tell how rare ties are: the most tied one is
        left out. Noise that is too large is expected to change other answers, too.
        """
        found = self.worst
        return found.other if found.counted or found.count < SEEN else max(0.0, found.other - found.tie)


def compared(point: Point, pairs: Sequence[tuple[Array, Array]]) -> Answers:
    """The answers of an output, from the batches of the float network and of the quantized one."""
    if point.kind == "integers":
        equal, count = sum(int((a == b).sum()) for a, b in pairs), sum(a.size for a, _ in pairs)
        return Answers(equal, count, 1 - equal / max(1, count))
    if point.kind == "yes or no":
        want, got = (np.concatenate([np.asarray(pair[k], np.float64).reshape(-1) for pair in pairs]) for k in range(2))
        asked = [_yes_or_no(want - at, got - at) for at in (math.log(p / (1 - p)) for p in ASKED)]
        return replace(asked[0], parts=tuple(asked))
    found = [_margins(*(classes_last(point, np.asarray(x, np.float64)) for x in pair)) for pair in pairs]
    same, margin, off = (np.concatenate([f[k] for f in found]) for k in range(3))
    turned, tie = _turned(margin, off, same)
    return Answers(int(same.sum()), same.size, turned / max(1, same.size), tie / max(1, same.size))


def together(found: Sequence[Answers]) -> Answers:
    """The answers of several outputs: counted together where they are told, each by itself where they decide."""
    count = sum(a.count for a in found)
    expected = sum(a.expected * a.count for a in found) / max(1, count)
    total = sum(a.total for a in found) if all(a.total for a in found) else 0
    parts = tuple(a.worst for a in found)
    return found[0] if len(found) == 1 else Answers(sum(a.same for a in found), count, expected, total=total, parts=parts)


def _yes_or_no(want: Array, got: Array) -> Answers:
    yes, ours = want > 0, got > 0
    if 2 * yes.sum() > yes.size:
        yes, ours = ~yes, ~ours
    turned, tie = _turned(np.abs(want), got - want, yes == ours)
    if yes.sum() < FEW:
        return Answers(int((yes == ours).sum()), yes.size, turned / max(1, yes.size), tie / max(1, yes.size), True)
    count = int(yes.sum() + ours.sum())
    return Answers(2 * int((yes & ours).sum()), count, min(1.0, turned / count), min(1.0, tie / count), True, yes.size)


def _margins(want: Array, got: Array) -> tuple[Array, Array, Array]:
    """For each row of classes: whether the largest class is the same, its margin in the float network, and the error of that margin."""
    rows = np.arange(len(want))
    if want.shape[1] < 2:
        return np.ones(len(want), bool), np.full(len(want), np.inf), np.zeros(len(want))
    next_best, best = np.argpartition(want, -2, axis=1)[:, -2:].T
    best, next_best = np.where(want[rows, best] >= want[rows, next_best], (best, next_best), (next_best, best))
    with np.errstate(invalid="ignore"):  # infinities of a mask
        margin, now = (x[rows, best] - x[rows, next_best] for x in (want, got))
        same = (want.argmax(axis=1) == got.argmax(axis=1)) & ~np.isnan(got[rows, best])
        return same, margin, now - margin


def _turned(margin: Array, off: Array, same: Array) -> tuple[float, float]:
    """How many margins normal noise of the size of `off` is expected to turn negative, and what the smallest margin is of that.

    Small margins have a noise level of their own: where a network gives large numbers, margins and noise are both large. A margin that is
    not finite counts if it did turn.
    """
    fine = np.isfinite(margin) & np.isfinite(off)
    lost = float((~fine & ~same).sum())
    margin, off = margin[fine], off[fine]
    small = margin <= np.median(margin) if margin.size else np.zeros(0, bool)
    found = [_turned_by(margin[part], float(np.mean(off[part] ** 2))) for part in (small, ~small) if part.any()]
    return lost + sum(turned for turned, _ in found), max((tie for _, tie in found), default=0.0)


def _turned_by(margin: Array, noise: float) -> tuple[float, float]:
    if noise <= 0:
        return 0.0, 0.0
    steps = np.bincount((np.minimum(margin / math.sqrt(noise), FARTHEST) * STEPS).astype(np.int64))
    shares = [0.5 * math.erfc((k + 0.5) / STEPS / math.sqrt(2)) for k in range(len(steps))]
    return sum(n * share for n, share in zip(steps.tolist(), shares, strict=True)), shares[int(np.flatnonzero(steps)[0])]
