"""Brings a network within its limits: as few layers as possible become narrower again, or get four-bit weights.

    bytes       layers go from float or 16 bits to 8 and from 8 to 4: the least noise for each byte that it saves first
    time, RAM   repairs are taken back: the least noise for each millisecond first
    time        layers that are faster in float stay float

The user asked for the limit: a candidate that comes nearer to it is kept whatever it loses. The verdict states the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.brackets import Pair
from lowbit.decide.candidates import Candidate
from lowbit.decide.cost import bytes_read
from lowbit.decide.effort import with_clamps
from lowbit.decide.faster import float_for_speed
from lowbit.decide.goal import Step
from lowbit.decide.limits import Needs
from lowbit.decide.order import Move, Option, moves
from lowbit.decide.repairs import Repair, together
from lowbit.decide.sensitivity import heard
from lowbit.decide.widths import Widths, has_weights
from lowbit.errors import LowbitError

if TYPE_CHECKING:
    from lowbit.decide.decision import Trial
    from lowbit.decide.engine import Engine

NOW = "now"
Options = Mapping[str, dict[str, Option]]  # of each layer, by width
NEARER = 0.999  # of the excess: a smaller gain is noise of the clock


def keep_to_limits(engine: Engine) -> None:
    """Goes on from candidates that need less, until the limits are kept or nothing helps."""
    limits, needs = engine.limits, engine.needs(engine.best)
    if limits.nbytes is not None and needs.nbytes is not None and needs.nbytes > limits.nbytes:
        _fewer_bytes(engine, limits.nbytes)
    if limits.excess(replace(engine.needs(engine.best), nbytes=None)) > 1:
        _take_back(engine)
    ms = engine.needs(engine.best).ms
    if limits.ms is not None and ms is not None and ms > limits.ms:
        float_for_speed(engine, limits.ms / engine.times(engine.best).reference)


# -- bytes -----------------------------------------------------------------------------------------------------------------


def _fewer_bytes(engine: Engine, most: int) -> None:
    maker, start = engine.maker, engine.best.candidate
    options = layer_options(engine, start)
    path = moves(options, NOW)
    if not path:
        return
    chosen = path[: least(len(path), lambda n: maker.plain_bytes(start) - saved(options, path[:n]) <= most)]
    while maker.plain_bytes(narrowed(engine, start, chosen)) > most and len(chosen) < len(path):
        chosen = path[: len(chosen) + 1]  # single numbers, as the scale of an activation, are not in the options
    spare = most - maker.plain_bytes(narrowed(engine, start, chosen))
    while spare > 0:
        fewer = without_spare(options, chosen, spare)
        over = maker.plain_bytes(narrowed(engine, start, fewer)) - most
        if over <= 0:
            chosen = fewer
            break
        spare -= over
    candidate = narrowed(engine, start, chosen)
    four, moved = candidate.widths.fours - start.widths.fours, frozenset(m.unit for m in chosen)
    kinds = [f"4-bit weights ({len(four)})"] if four else []
    kinds += [f"wide layers in the recipe's bits ({len(moved - four)})"] if moved - four else []
    _go_on(engine, candidate, f"for max_bytes: {', '.join(kinds)}", engine.layer_names(sorted(moved)), engine.best.repairs)


def layer_options(engine: Engine, start: Candidate) -> Options:
    """The cost and the noise of each layer's weights, now and in each narrower width."""
    maker, graph = engine.maker, start.graph
    layers = {n.output.name: [n.output.name] for n in graph.nodes if has_weights(graph, n) and n.output.name not in maker.own}
    every = frozenset(layers)
    plain = replace(start, biases=False, rounding=False, clip=False)
    widths = {
        "int8": Widths(eights=every) if engine.few_bits else Widths(),
        "int4": Widths() if engine.few_bits else Widths(fours=every),
    }
    options = {name: {NOW: Option(float(size), 0.0)} for name, size in bytes_read(maker.plain(start), layers).items()}
    for width, wanted in widths.items():
        candidate = replace(plain, widths=wanted)
        quantized = maker.plain(candidate)
        units = heard(quantized, Pair(graph, quantized).brackets, [graph.producers[k] for k in layers])
        noise = engine.noise_of(candidate, quantized, units)
        for name, size in bytes_read(quantized, layers).items():
            if size < options[name][NOW].cost:
                options[name][width] = Option(float(size), noise.get(f"layer {name}", 0.0))
    return options


def saved(options: Options, taken: Iterable[Move]) -> float:
    """The bytes that these moves save together."""
    last = {m.unit: m.width for m in taken}
    return sum(options[unit][NOW].cost - options[unit][width].cost for unit, width in last.items())


def without_spare(options: Options, taken: Sequence[Move], spare: float) -> list[Move]:
    """The moves without unnecessary ones: the last move may save more than was left to save. `spare`: the bytes saved too many.

    >>> o = {"a": {"now": Option(4, 0), "int4": Option(2, 5)}, "b": {"now": Option(90, 0), "int4": Option(50, 600)}}
    >>> [m.unit for m in without_spare(o, moves(o, "now"), 3)]
    ['b']
    """
    kept = list(taken)
    while True:
        last = {m.unit: m for m in kept}  # of each layer; without it, the move before it counts, or none
        for m in sorted(last.values(), key=lambda m: (-options[m.unit][m.width].noise, m.unit)):
            rest = [other for other in kept if other is not m]
            if (size := saved(options, kept) - saved(options, rest)) <= spare:
                kept, spare = rest, spare - size
                break
        else:
            return kept


def narrowed(engine: Engine, start: Candidate, taken: Sequence[Move]) -> Candidate:
    """The candidate with these moves made. Four-bit weights are clipped and rounded with care."""
    widths = start.widths
    last = {m.unit: m.width for m in taken}
    moved, four = frozenset(last), frozenset(k for k, w in last.items() if w == "int4")
    widths = replace(
        widths,
        floats=widths.floats - with_clamps(start.graph, moved & widths.floats),
        weights=widths.weights - moved,
        eights=widths.eights - (four if engine.few_bits else moved),
        fours=widths.fours if engine.few_bits else widths.fours | four,
    )
    care = bool(four) or start.rounding
    return replace(start, widths=widths, rounding=care, clip=bool(four) or start.clip, biases=bool(four) or start.biases)


def least(count: int, holds: Callable[[int], bool]) -> int:
    """The least number from 0 to `count` for which it holds, by bisection; `count` if it holds for none.

    >>> least(10, lambda n: n * n >= 30), least(3, lambda n: False)
    (6, 3)
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


# -- time and memory -------------------------------------------------------------------------------------------------------


def _take_back(engine: Engine) -> None:
    best, limits = engine.best, engine.limits
    priced = sorted(best.repairs, key=lambda r: (r.noise / max(r.ms, engine.free_ms), r.unit))
    other = _less(best.candidate.widths, together(best.repairs))
    rest = replace(other, floats=frozenset(), fours=frozenset()) if limits.ram is None else replace(other, fours=frozenset())
    if rest != Widths():
        priced.append(Repair("layer", "wider layers", 0.0, 0.0, rest))
    if not priced:
        return

    def without(count: int) -> Candidate:
        kept, gone = together(priced[count:]), together(priced)
        return replace(best.candidate, widths=_less(best.candidate.widths, gone) | kept)

    def fits(count: int) -> bool:
        try:
            made = engine.maker.made(without(count)).integer
        except LowbitError:  # one that cannot be made does not keep to the limits, and others may
            return False
        ms = engine.stopwatch.times(made).made if limits.ms is not None else None
        return limits.excess(Needs(ms, None, engine.stopwatch.arena_bytes(made) if limits.ram is not None else None)) <= 1

    count = least(len(priced), fits)
    gone = priced[:count]
    what = "max_ms" if limits.unmet(Needs(ms=engine.needs(best).ms)) else "max_ram"
    kept = tuple(r for r in best.repairs if r not in gone)
    _go_on(
        engine, without(count), f"for {what}, taken back: {engine.said(gone)}", engine.names([r for r in gone if r in best.repairs]), kept
    )


def _less(a: Widths, b: Widths) -> Widths:
    return Widths(*(x - y for x, y in zip(a.sets, b.sets, strict=True)))


def _go_on(engine: Engine, candidate: Candidate, what: str, where: str, repairs: tuple[Repair, ...]) -> None:
    """Measures a candidate and continues from it if it reduces the excess."""
    before = engine.best
    trial = engine.tried(candidate, what, where, repairs)
    if trial is None:
        return
    kept = _over(engine, trial) < NEARER * _over(engine, before)
    engine.tell(Step(what, where, before.quality.worst_db, trial.quality.worst_db, kept, None, trial.score))
    if kept:
        engine.best, engine.maker.best = trial, candidate


def _over(engine: Engine, trial: Trial) -> float:
    return engine.limits.excess(engine.needs(trial))
