"""Repairs of a whole network at once: linear layers by rows, 16 bits for all that is not float, and 16 bits in the place of float."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.faster import NOTICED
from lowbit.decide.goal import Step
from lowbit.decide.repairs import Repair
from lowbit.decide.widths import Widths, inputs_of, multiplies
from lowbit.decide.widths import by_rows as rows_of
from lowbit.ops.quant import QUANTIZABLE

if TYPE_CHECKING:
    from lowbit.decide.decision import Trial
    from lowbit.decide.engine import Engine

PART = 0.05  # of the multiplications that must be float for 16 bits to be tried in their place
HALF = 0.5  # of the multiplications that must be in linear layers for a network to be taken for one of them


def dynamic_widths(maker: CandidateMaker) -> Widths | None:
    """Every linear layer by rows and everything else float; None where the network has no such layer."""
    graph = maker.source
    rows = rows_of(graph, maker.own)
    others = frozenset(n.output.name for n in graph.nodes if n.op in QUANTIZABLE) - rows - maker.own
    return Widths(rows=rows, floats=others) if rows else None


def by_rows(engine: Engine) -> None:
    """Where static ranges do not do, linear layers may quantize what they read by rows: the usual way for transformers."""
    widths = dynamic_widths(engine.maker)
    if engine.good or widths is None:
        return
    share = sum(engine.maker.macs.get(k, 0) for k in widths.rows) / engine.maker.all_macs
    if share > HALF:
        plain = Candidate(engine.maker.source, engine.best.candidate.method, widths=widths)
        kept = engine.attempt("linear layers quantize what they read by rows", f"{len(widths.rows)} layers", plain, engine.cap)
        if kept and not engine.good:
            rounded = replace(plain, rounding=True)
            engine.attempt("weights rounded so that their errors cancel", "all layers", rounded)


def without_sixteen_bits(engine: Engine, start: Trial) -> None:
    """Looks for repairs once more without 16 bits, where those with them did not do: layers that get 16 bits first and then float
    cost twice."""
    goal, had = engine.goal, engine.best
    if engine.good or not goal.bits16 or not engine.by_clock or not had.candidate.widths.taps | had.candidate.widths.layers:
        return
    engine.best, engine.maker.best = start, start.candidate
    try:
        engine.goal = replace(goal, bits16=False)
        engine.costly_repairs()
    finally:
        engine.goal, found, engine.best = goal, engine.best, had
        if engine.is_good(found) or engine.better(found):
            engine.best = found
        engine.maker.best = engine.best.candidate


def sixteen_for_float(engine: Engine) -> None:
    """16 bits in the place of float, where that is as good and takes less time: for what is float, or else for everything."""
    best = engine.best
    if not engine.goal.bits16 or not engine.promises_speed:
        return
    graph, widths = best.candidate.graph, best.candidate.widths
    layers = frozenset(n.output.name for n in graph.nodes if multiplies(n)) - engine.maker.own
    if sum(engine.maker.macs.get(k, 0) for k in layers & widths.floats) < PART * engine.maker.all_macs:
        return
    taps = engine.maker.transform(replace(best.candidate, widths=Widths())).taps(graph)
    beside = frozenset(v.name for k in widths.floats for n in (graph.producers[k],) for v in (*n.inputs, *n.outputs) if v is not None)
    every = frozenset(taps.taps) - engine.maker.own
    real, rest = layers & widths.floats, widths.floats - layers
    islands = Widths(widths.taps | every & beside, widths.layers | real, widths.weights, rows=widths.rows)
    alone = Widths(widths.taps | inputs_of(graph, taps, real), widths.layers | real, widths.weights, rest, rows=widths.rows)
    for what, wide in (
        ("what was float", islands), ("the layers that were float", alone), ("all layers", Widths(taps=every, layers=layers, floats=rest))
    ):  # fmt: skip
        repairs = tuple(
            Repair(f"layer {k}", "16-bit inputs", 0.0, max(engine.costs.more(one), engine.free_ms), one)
            for k in sorted(wide.layers)
            for one in (Widths(taps=inputs_of(graph, taps, {k}) & wide.taps, layers=frozenset({k})),)
        )
        if _as_good_and_faster(engine, best, replace(best.candidate, widths=wide), what, repairs):
            return


def _as_good_and_faster(engine: Engine, best: Trial, candidate: Candidate, where: str, repairs: tuple[Repair, ...]) -> bool:
    """Goes on from a candidate if it is good and takes less time than the best; where its weights lose too much, rounds them with care."""
    what = "16 bits in the place of float"
    for rounded in dict.fromkeys((candidate.rounding, True)):
        trial = engine.tried(replace(candidate, rounding=rounded), what, where, repairs)
        if trial is None:
            return False
        ratio, worst = engine.times(trial).ratio, best.quality.worst_db
        fast = ratio < NOTICED * engine.times(best).ratio
        kept = fast and (engine.is_good(trial) or (not engine.is_good(best) and engine.better(trial)))
        said = f"{what}, weights rounded so that their errors cancel" if rounded and not candidate.rounding else what
        engine.tell(Step(said, where, worst, trial.quality.worst_db, kept, ratio, trial.score))
        if kept:
            engine.best, engine.maker.best = trial, trial.candidate
        if kept or not fast:
            return kept
    return False


def sixteen_bits(engine: Engine) -> None:
    """Where single repairs did not do, all that is not float may have 16 bits, if that is within the time: no value is converted."""
    if engine.good or not engine.goal.bits16 or not engine.by_clock:
        return
    candidate, times = engine.best.candidate, engine.times(engine.best)
    layers = frozenset(n.output.name for n in candidate.graph.nodes if multiplies(n)) - engine.maker.own
    every = Widths(taps=frozenset(engine.maker.transform(candidate).taps(candidate.graph).taps) - engine.maker.own, layers=layers)
    if times.made + engine.costs.more(every) <= engine.cap * times.reference:
        engine.attempt("16 bits", "all that is not float", replace(candidate, widths=candidate.widths | every), engine.cap)
