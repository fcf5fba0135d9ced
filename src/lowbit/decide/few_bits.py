"""The road of a network whose weights have few bits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.broken_layers import repair_broken_layers
from lowbit.decide.repairs import EIGHTS
from lowbit.decide.unneeded import take_back
from lowbit.decide.weights import weighted_layers
from lowbit.decide.widths import Widths
from lowbit.ir.graph import Graph

if TYPE_CHECKING:
    from lowbit.decide.engine import Engine

MOST = 0.75  # of the weights that have more than few bits before all of them may


def few_bit_repairs(engine: Engine, everywhere: frozenset[str]) -> None:
    """Activations first, beside weights of 8 bits, whose noise hides nothing: ranges, biases, and what a network of 8 bits needs besides.

    Then the weights get few bits and are rounded layer by layer, so that each layer makes good the errors of those before it. The layers
    that make most of the noise that is left get 8 bits again: few of them, and more where the answers are not good with few.
    """
    plain, goal = engine.best, engine.goal
    layers = weighted_layers(engine.maker.source, engine.maker.make(plain.candidate))
    engine.beside = frozenset(layer.node.output.name for layer in layers) - engine.maker.own
    engine.best = engine.measure(replace(plain.candidate, widths=Widths(eights=engine.beside)))
    for make in (engine.clipping(everywhere), engine.biases):
        for what, where, tried in make():
            engine.attempt(f"{what}, beside weights of 8 bits", where, tried)
    repair_broken_layers(engine)
    if not engine.good:
        engine.repair(goal.needed(engine.best.quality), engine.cap, wanted=False)
    engine.goal = goal.of_few_bits()
    _until_good(engine, (1.0, 1.0))
    take_back(engine)
    beside, engine.beside = engine.beside, frozenset()
    wide = engine.best.candidate.widths
    eights = wide.eights - beside | depthwise(engine.maker.source, beside - wide.floats)
    repaired = replace(engine.best.candidate, widths=replace(wide, eights=eights), rounding=True, clip=True, biases=True)
    engine.best, engine.maker.best = plain, plain.candidate
    engine.attempt("weights of few bits, clipped and rounded so that their errors cancel", "all layers", repaired)
    _until_good(engine, (EIGHTS, MOST, 1.0))
    engine.wide_share = EIGHTS if goal.small else 1.0
    repair_broken_layers(engine)
    engine.wide_share = EIGHTS


def _until_good(engine: Engine, shares: tuple[float, ...]) -> None:
    """Gives more bits to at most these shares of the weights, one share after the other, until the goal is met; not with prefer="size"."""
    for engine.wide_share in (s for s in shares if s <= EIGHTS or not engine.goal.small):
        if engine.good:
            break
        engine.repair(engine.goal.needed(engine.best.quality), engine.cap, wanted=False)
    engine.wide_share = EIGHTS


def depthwise(graph: Graph, layers: Iterable[str]) -> frozenset[str]:
    """The depthwise layers (by first output): few bytes, few products, and errors that do not cancel."""
    found = set()
    for key in layers:
        node = graph.producers[key]
        weight = graph.constant(node.input(1)) if node.op == "conv" else None
        if weight is not None and node.attrs["groups"] != 1 and weight.shape[1] == 1:
            found.add(key)
    return frozenset(found)
