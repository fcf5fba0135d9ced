"""Repairs that cost time: what each rounding could become instead, what noise that takes away, and how many milliseconds it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.cost import LayerCosts
from lowbit.decide.effort import island, with_clamps
from lowbit.decide.widths import RECURRENT, Widths, by_rows, inputs_of, multiplies
from lowbit.ir.graph import Graph, Node
from lowbit.quantization.taps import Taps


@dataclass(frozen=True)
class Repair:
    """A unit in another width: `noise` is what goes away (a share of the outputs' signal), `ms` what it costs."""

    unit: str
    what: str
    noise: float
    ms: float
    widths: Widths


def find_repairs(
    maker: CandidateMaker, candidate: Candidate, shares: Mapping[str, float], costs: LayerCosts, banned: Iterable[str], bits16: bool
) -> list[Repair]:
    """Every repair of every unit that makes noise. Those of layers that the user's rules decide are none."""
    graph = candidate.graph
    taps = maker.transform(candidate).taps(graph)
    few_bits = maker.recipe.weights in ("int4", "binary")
    found: list[Repair] = []
    skip = set(banned)
    for unit, noise in shares.items():
        kind, name = unit.split(" ", 1)
        if noise <= 0 or unit in skip or name in maker.own:
            continue
        if kind == "tap":
            group = taps.groups.get(name, (name,))
            readers = {u.output.name: u for m in group for u in graph.users.get(m, ()) if u.output.name not in group}
            makers = [p for m in group if (p := graph.producers.get(m)) is not None]
            found += _floats(maker, candidate, unit, noise, frozenset(readers), costs)
            dynamic = frozenset(readers) & by_rows(graph, maker.own)
            if dynamic and all(k in dynamic or not multiplies(u) for k, u in readers.items()):
                rest = frozenset(readers) - dynamic
                widths = Widths(rows=dynamic, floats=rest and with_clamps(graph, island(graph, rest)) - maker.own)
                ms = _more(graph, dynamic, "rows", costs) + _more(graph, widths.floats, "float", costs)
                found.append(Repair(unit, "by rows", noise, ms, widths))
            if bits16:
                found += _wide_tap(maker, graph, taps, unit, noise, name, readers, makers, costs)
        elif kind == "layer":
            layers = frozenset({name})
            if bits16:
                wide = Widths(taps=inputs_of(graph, taps, layers), layers=layers)
                found.append(Repair(unit, "16-bit inputs", noise, _more(graph, layers, "int16", costs), wide))
            found += _floats(maker, candidate, unit, noise, layers, costs)
        elif few_bits:
            layers = frozenset({name})
            found.append(Repair(unit, "8-bit weights", noise, _more(graph, layers, "int16", costs) / 4, Widths(eights=layers)))
        else:
            found += _floats(maker, candidate, unit, noise, frozenset({name}), costs)
            if bits16:
                layers = frozenset({name})
                found.append(Repair(unit, "16-bit weights", noise, 2 * _more(graph, layers, "int16", costs), Widths(weights=layers)))
    return found


def _wide_tap(
    maker: CandidateMaker, graph: Graph, taps: Taps, unit: str, noise: float, name: str, readers: Mapping[str, Node], makers: list[Node],
    costs: LayerCosts,
) -> list[Repair]:  # fmt: skip
    layers = frozenset(k for k, u in readers.items() if multiplies(u)) - maker.own
    others = frozenset(readers) - layers
    states = frozenset(p.output.name for p in makers if p.op in RECURRENT) - maker.own
    if states:  # a state is read by its own maker
        layers |= states
    elif others and layers:
        layers = frozenset()  # the layers go on reading 8 bits
    wide = Widths(taps=frozenset({name}) | inputs_of(graph, taps, layers), layers=layers)
    touched = layers | others | frozenset(p.output.name for p in makers if not multiplies(p))
    return [Repair(unit, "16 bits", noise, _more(graph, touched, "int16", costs), wide)]


def _floats(maker: CandidateMaker, candidate: Candidate, unit: str, noise: float, nodes: frozenset[str], costs: LayerCosts) -> list[Repair]:
    graph = candidate.graph
    nodes = frozenset(k for k in nodes if k in graph.producers)
    if nodes and not any(multiplies(graph.producers[k]) for k in nodes):
        nodes = island(graph, nodes)
    nodes = with_clamps(graph, nodes)
    nodes -= candidate.widths.floats | maker.own
    return [Repair(unit, "float", noise, _more(graph, nodes, "float", costs), Widths(floats=nodes))] if nodes else []


def _more(graph: Graph, nodes: Iterable[str], width: str, costs: LayerCosts) -> float:
    layers = dict.fromkeys(graph.producers[k].name or k for k in nodes if k in graph.producers)
    return sum(costs.more(layer, width) for layer in layers)


def pick(repairs: Iterable[Repair], noise: float, allowed: float, budget: float, free: float) -> list[Repair]:
    """Repairs by noise taken away for each millisecond, until the rest of the noise is allowed or the budget is spent.

    One repair for each unit. What costs less than `free` milliseconds counts as that, and times are taken in steps of a factor of two:
    a clock that runs a little otherwise does not change the choice.
    """

    def price(r: Repair) -> float:
        return r.noise / 2.0 ** round(math.log2(max(r.ms, free)))

    chosen: list[Repair] = []
    done: set[str] = set()
    for r in sorted(repairs, key=lambda r: (-price(r), r.unit, r.what)):
        if noise <= allowed:
            break
        if r.unit in done or (r.ms > budget and r.ms > free):
            continue
        done.add(r.unit)
        chosen.append(r)
        noise -= r.noise
        budget -= max(r.ms, 0.0)
    return chosen


def together(chosen: Iterable[Repair]) -> Widths:
    widths = Widths()
    for r in chosen:
        widths |= r.widths
    return widths
