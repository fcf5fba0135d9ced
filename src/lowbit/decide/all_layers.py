"""Repairs of a whole network at once: linear layers by rows, and 16 bits for all that is not float."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.widths import Widths, multiplies
from lowbit.decide.widths import by_rows as rows_of
from lowbit.ops.quant import QUANTIZABLE

if TYPE_CHECKING:
    from lowbit.decide.engine import Engine

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


def sixteen_bits(engine: Engine) -> None:
    """Where single repairs did not do, all that is not float may have 16 bits, if that is within the time: no value is converted."""
    if engine.good or not engine.goal.bits16 or not engine.by_clock:
        return
    candidate, times = engine.best.candidate, engine.times(engine.best)
    layers = frozenset(n.output.name for n in candidate.graph.nodes if multiplies(n)) - engine.maker.own
    every = Widths(taps=frozenset(engine.maker.transform(candidate).taps(candidate.graph).taps) - engine.maker.own, layers=layers)
    if times.made + engine.costs.more(every) <= engine.cap * times.reference:
        engine.attempt("16 bits", "all that is not float", replace(candidate, widths=candidate.widths | every), engine.cap)
