"""Repairs broken layers (below LAYER dB), also if the outputs look good on a few samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.goal import LAYER, Step
from lowbit.decide.quality import layer_decibels
from lowbit.decide.repairs import find_repairs, together
from lowbit.decide.weights import weighted_layers
from lowbit.decide.widths import multiplies
from lowbit.ir.graph import Graph
from lowbit.ops.quant import is_clamp

if TYPE_CHECKING:
    from lowbit.decide.engine import Engine


def repair_broken_layers(engine: Engine) -> None:
    """Gives broken layers float or 16 bits, whichever costs less: first those whose inputs are not broken, then those after them.

    Layers whose weights have few bits get 8 bits before they become float.
    """
    tried: set[str] = set()
    sample = engine.data.decide[:1]
    for _ in range(engine.maker.effort.rounds):
        candidate = engine.best.candidate
        graph = candidate.graph
        found = layer_decibels(engine.maker.made(candidate), sample)
        broken = _broken(engine, graph, found, tried)
        if not broken:
            return
        tried |= broken
        makers = frozenset(_maker_of(graph, k) for k in broken)
        few = frozenset(x.node.output.name for x in weighted_layers(graph, engine.maker.make(candidate))) if candidate.clip else frozenset()
        shares = {f"weights {k}" if k in few - candidate.widths.eights else f"layer {k}": 1.0 for k in makers}
        repairs = find_repairs(engine.maker, candidate, shares, engine.costs, engine.goal.bits16)
        budget = engine.budget(engine.cap)
        chosen = [replace(r, broken=True) for r in engine.affordable(repairs, candidate.widths, budget)]
        if not chosen:
            return
        changed = replace(candidate, widths=candidate.widths | together(chosen))
        what = f"layers below {LAYER:g} dB: {engine.said(chosen)}"
        trial = engine.tried(changed, what, engine.names(chosen), (*engine.best.repairs, *chosen))
        if trial is None:
            continue
        after = layer_decibels(engine.maker.made(changed), sample)
        fewer_broken = sum(db < LAYER for db in after.values()) < sum(db < LAYER for db in found.values())
        kept = engine.better(trial) or (
            fewer_broken and trial.quality.worst_db >= min(engine.best.quality.worst_db, engine.goal.enough) - 1
        )
        kept = kept and (engine.is_good(trial) or not engine.good)
        if kept and not math.isinf(engine.cap):
            kept = engine.times(trial).ratio <= max(engine.cap, engine.times(engine.best).ratio)
        ratio = None if trial.times is None else trial.times.ratio
        engine.tell(Step(what, engine.names(chosen), engine.best.quality.worst_db, trial.quality.worst_db, kept, ratio))
        if kept:
            engine.best, engine.maker.best = trial, changed


def _maker_of(graph: Graph, key: str) -> str:
    """The layer itself, or the layer before it that it is fused into: a clamp belongs to the layer whose result it cuts."""
    node = graph.producers[key]
    before = graph.producers.get(node.inputs[0].name) if node.inputs[0] is not None else None
    return before.output.name if is_clamp(node.op) and before is not None and multiplies(before) else key


def _broken(engine: Engine, graph: Graph, found: Mapping[str, float], tried: set[str]) -> frozenset[str]:
    """Layers below LAYER dB whose inputs are all above it; an input that was not measured is as its own inputs are."""
    weak = {name for name, db in found.items() if db < LAYER}
    for node in graph.nodes:
        after_weak = any(v is not None and v.name in weak for v in node.inputs)
        weak |= {o.name for o in node.outputs if after_weak and o.name not in found}
    made = {o: n.output.name for n in graph.nodes for o in (v.name for v in n.outputs) if o in weak and o in found}
    return frozenset(
        key
        for name, key in made.items()
        if key not in tried
        and key not in engine.maker.own
        and not any(v is not None and v.name in weak for v in graph.producers[name].inputs)
    )
