"""The road of a network whose weights have few bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.broken_layers import repair_broken_layers
from lowbit.decide.weights import weighted_layers
from lowbit.decide.widths import Widths

if TYPE_CHECKING:
    from lowbit.decide.engine import Engine


def few_bit_repairs(engine: Engine, everywhere: frozenset[str]) -> None:
    """Activations first, beside weights of 8 bits, whose noise hides nothing: ranges, and what a network of 8 bits needs besides.

    Then the weights get few bits and are rounded layer by layer, so that each layer makes good the errors of those before it. The layers
    that make most of the noise that is left get 8 bits again, a few of them.
    """
    plain, goal = engine.best, engine.goal
    layers = weighted_layers(engine.maker.source, engine.maker.make(plain.candidate))
    engine.beside = frozenset(layer.node.output.name for layer in layers) - engine.maker.own
    engine.best = engine.measure(replace(plain.candidate, widths=Widths(eights=engine.beside)))
    for what, where, tried in engine.clipping(everywhere)():
        engine.attempt(f"{what}, beside weights of 8 bits", where, tried)
    repair_broken_layers(engine)
    if not engine.good:
        engine.repair(goal.needed(engine.best.quality), engine.cap, wanted=False)
    beside, engine.beside, engine.goal = engine.beside, frozenset(), goal.of_few_bits()
    wide = engine.best.candidate.widths
    repaired = replace(engine.best.candidate, widths=replace(wide, eights=wide.eights - beside), rounding=True, clip=True, biases=True)
    engine.best, engine.maker.best = plain, plain.candidate
    engine.attempt("weights of few bits, clipped and rounded so that their errors cancel", "all layers", repaired)
    if not engine.good:
        engine.repair(engine.goal.needed(engine.best.quality), engine.cap, wanted=False)
