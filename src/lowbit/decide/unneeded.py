"""Takes back repairs that turn out not to be needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.goal import LAYER, Step
from lowbit.decide.quality import layer_decibels
from lowbit.decide.repairs import Repair, together
from lowbit.decide.widths import Widths

if TYPE_CHECKING:
    from lowbit.decide.decision import Trial
    from lowbit.decide.engine import Engine

LUCK = 1.0  # dB of the worst tenth that may be lost
LITTLE, HALF = 6.0, 3.0  # dB of the worst tenth


def take_back(engine: Engine) -> None:
    """Repairs that turn out not to be needed are taken back, the dearest first: half of them, then halves of what is left.

    Of a network of few bits, those that keep weights float are: they take the most bytes.
    """
    if (engine.goal.slower and not engine.few_bits) or not engine.good:
        return
    dear = [r for r in engine.best.repairs if weights_of(engine, r) > 0 or (r.ms > engine.free_ms and not engine.few_bits)]
    queue = [sorted(dear, key=lambda r: (-weights_of(engine, r), -r.ms, r.unit))]
    for _ in range(engine.maker.effort.rounds):
        group = queue.pop(0) if queue else []
        if not group:
            return
        rest = tuple(r for r in engine.best.repairs if r not in group)
        gone = together(engine.best.repairs)
        others = Widths(*(a - b for a, b in zip(engine.best.candidate.widths.sets, gone.sets, strict=True)))
        what = f"taken back: {engine.said(group)}"
        trial = engine.tried(replace(engine.best.candidate, widths=others | together(rest)), what, engine.names(group), rest)
        if trial is None:
            continue
        before = engine.best.quality
        holds = engine.is_good(trial) and trial.quality.worst_db >= min(before.worst_db, engine.goal.wanted) - LUCK
        ratio = engine.times(trial).ratio if engine.by_clock else None
        kept = holds and (ratio is None or ratio < (engine.cap if engine.few_bits else engine.times(engine.best).ratio))
        kept = kept and not (any(r.broken for r in group) and breaks_layers(engine, trial))
        engine.tell(Step(what, engine.names(group), before.worst_db, trial.quality.worst_db, kept, ratio, trial.score))
        if kept:
            engine.best, engine.maker.best = trial, trial.candidate
        elif len(group) > 1:
            queue[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]


def breaks_layers(engine: Engine, trial: Trial) -> bool:
    """Whether more layers are below LAYER dB in a trial than in the best network."""
    sample = engine.data.decide[:1]
    found = [layer_decibels(engine.maker.made(t.candidate), sample) for t in (trial, engine.best)]
    after, before = (sum(db < LAYER for db in layers.values()) for layers in found)
    return after > before


def give_up(engine: Engine, start: Trial) -> None:
    """Goes back to where repairs began, if the outputs are still not good and the repairs took away little of the noise.

    Time and bytes would buy nothing then. Outputs that are broken need more: 3 parts of 4 of the noise must go away.
    """
    before, now = start.quality.worst_db, engine.best.quality.worst_db
    if engine.best is start or engine.metric is not None or engine.goal.slower or engine.good:
        return
    if now >= before + (LITTLE if now < LAYER else HALF):
        return
    engine.tell(Step("taken back: what takes away little noise", "all of these repairs", now, before, True))
    engine.best, engine.maker.best = start, start.candidate


def weights_of(engine: Engine, repair: Repair) -> float:
    """The share of the weights that a repair keeps float, in a network of few bits."""
    return sum(map(engine.maker.weight_share, repair.widths.floats)) if engine.few_bits else 0.0
