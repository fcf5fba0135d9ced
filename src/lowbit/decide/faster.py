"""Float where it is faster: no network shall be slower than the float one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.effort import with_clamps
from lowbit.decide.goal import FASTER, Step
from lowbit.decide.repairs import few_weights
from lowbit.decide.widths import Widths
from lowbit.ops.quant import QUANTIZABLE
from lowbit.report.text import counted

if TYPE_CHECKING:
    from lowbit.decide.engine import Engine

TINY = 0.02  # milliseconds of a float network: of such, no layer is kept float for speed
SMALL = 0.1  # milliseconds of a float network: one that takes less stays in integers even if they are slower here, for its chip
NOTICED = 0.95  # of the time before: a smaller gain is the clock's noise
GAIN = 0.2  # dB of the worst tenth that may be lost


def float_for_speed(engine: Engine, most: float = FASTER) -> None:
    """Layers that take longer in integers than in float stay float, where the whole network is faster for it and takes more than
    `most` of the float one's time."""
    tiny = engine.times(engine.best).reference < TINY
    if tiny or not engine.promises_speed or engine.times(engine.best).ratio <= most:
        return
    candidate = engine.best.candidate
    graph = candidate.graph
    slower = sorted(
        (engine.costs.more(Widths(floats=frozenset({n.output.name}))), n.output.name)
        for n in graph.nodes
        if n.op in QUANTIZABLE and n.output.name not in candidate.widths.floats | engine.maker.own
    )
    gains = [(ms, key) for ms, key in slower if ms < 0]
    if engine.few_bits:
        gains = few_weights(
            gains, lambda gain: frozenset({gain[1]}), candidate.widths.floats | candidate.widths.eights, engine.maker.weight_share
        )
    for share in (1.0, 0.5):
        some = frozenset(key for _, key in gains[: max(1, int(len(gains) * share))]) if gains else frozenset[str]()
        if not some:
            return
        floats = with_clamps(graph, some) - candidate.widths.floats
        changed = replace(candidate, widths=candidate.widths | Widths(floats=floats), faster=candidate.faster | floats)
        what, where = "float where it is faster", counted(len(some), "operation")
        trial = engine.tried(changed, what, where, engine.best.repairs)
        if trial is None:
            continue
        ratio = engine.times(trial).ratio
        before = engine.best.quality.worst_db
        holds = trial.quality.worst_db >= min(before, engine.goal.worst) - GAIN and (engine.is_good(trial) or not engine.good)
        kept = holds and ratio < NOTICED * engine.times(engine.best).ratio
        engine.tell(Step(what, where, before, trial.quality.worst_db, kept, ratio))
        if kept:
            engine.best, engine.maker.best = trial, changed
            return


def all_float(engine: Engine) -> None:
    """A network that is still slower than the float one stays float, but for the layers that the user's rules decide."""
    times = engine.times(engine.best)
    if times.reference < SMALL or not engine.promises_speed or times.ratio <= 1 / NOTICED:
        return
    candidate = engine.best.candidate
    floats = frozenset(n.output.name for n in candidate.graph.nodes if n.op in QUANTIZABLE and n.output.name not in engine.maker.own)
    changed = replace(candidate, widths=Widths(floats=floats), faster=floats - candidate.widths.floats)
    trial = engine.tried(changed, "float", "the whole network: integers are slower", engine.best.repairs)
    if trial is None:
        return
    kept = engine.times(trial).ratio < times.ratio
    before = engine.best.quality.worst_db
    engine.tell(Step("float", "the whole network", before, trial.quality.worst_db, kept, engine.times(trial).ratio))
    if kept:
        engine.best, engine.maker.best = trial, changed
