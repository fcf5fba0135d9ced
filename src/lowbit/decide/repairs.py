"""Repairs that cost time: what each rounding could become instead, what noise that takes away, and how many milliseconds it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.cost import LayerCosts
from lowbit.decide.effort import island, with_clamps
from lowbit.decide.widths import RECURRENT, Widths, by_rows, inputs_of, multiplies
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quantization.taps import Taps

ORDER = ("float", "by rows", "16 bits", "16-bit inputs", "8-bit weights", "16-bit weights")  # of repairs that cost the same

EIGHTS = 0.2  # of the weights that may have 8 bits, or be float, where the recipe gives fewer and the answers hold with so many
T = TypeVar("T")


@dataclass(frozen=True)
class Repair:
    """A unit in another width: `noise` is what goes away (a share of the outputs' signal), `ms` what it costs."""

    unit: str
    what: str
    noise: float
    ms: float
    widths: Widths
    broken: bool = False  # whether it is for a layer that is broken, whatever the outputs show


def find_repairs(
    maker: CandidateMaker, candidate: Candidate, shares: Mapping[str, float], costs: LayerCosts, bits16: bool, bits16_weights: bool = False
) -> list[Repair]:
    """Every repair of every unit that makes noise. Those of layers that the user's rules decide are none.

    16-bit weights take 64-bit sums, which are slower than floats: they are for whoever does not mind.
    """
    graph = candidate.graph
    taps = maker.transform(candidate).taps(graph)
    found: list[Repair] = []
    for unit, noise in shares.items():
        kind, name = unit.split(" ", 1)
        if noise <= 0 or name in maker.own:
            continue
        wider = bits16 and name not in candidate.widths.taps | candidate.widths.layers | candidate.widths.weights
        if kind == "tap":
            group = taps.groups.get(name, (name,))
            readers = {u.output.name: u for m in group for u in graph.users.get(m, ()) if u.output.name not in group}
            makers = [p for m in group if (p := graph.producers.get(m)) is not None]
            found += _floats(maker, candidate, unit, noise, frozenset(readers), costs)
            dynamic = frozenset(readers) & by_rows(graph, maker.own)
            if dynamic and all(k in dynamic or not multiplies(u) for k, u in readers.items()):
                rest = frozenset(k for k, u in readers.items() if k not in dynamic and u.op in QUANTIZABLE)
                widths = Widths(rows=dynamic, floats=rest and with_clamps(graph, island(graph, rest)) - maker.own)
                ms = costs.more(widths)
                found.append(Repair(unit, "by rows", noise, ms, widths))
            if wider and not set(group) & candidate.widths.taps:
                found += _wide_tap(maker, graph, taps, unit, noise, name, readers, makers, costs)
        elif kind == "layer":
            layers = frozenset({name})
            if wider:
                wide = Widths(taps=inputs_of(graph, taps, layers), layers=layers)
                found.append(Repair(unit, "16-bit inputs", noise, costs.more(wide), wide))
            found += _floats(maker, candidate, unit, noise, layers, costs)
        elif maker.few_bits and name not in candidate.widths.eights:
            layers = frozenset({name})
            found.append(Repair(unit, "8-bit weights", noise, maker.weight_share(name) * costs.whole, Widths(eights=layers)))
        else:
            found += _floats(maker, candidate, unit, noise, frozenset({name}), costs)
            if bits16_weights and name not in candidate.widths.weights:
                layers = frozenset({name})
                found.append(Repair(unit, "16-bit weights", noise, 2 * costs.more(Widths(weights=layers)), Widths(weights=layers)))
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
    touched = Widths(layers=layers | others | frozenset(p.output.name for p in makers if not multiplies(p)))
    return [Repair(unit, "16 bits", noise, costs.more(touched), wide)]


def _floats(maker: CandidateMaker, candidate: Candidate, unit: str, noise: float, nodes: frozenset[str], costs: LayerCosts) -> list[Repair]:
    graph = candidate.graph
    nodes = frozenset(k for k in nodes if k in graph.producers and graph.producers[k].op in QUANTIZABLE)
    if nodes and not any(multiplies(graph.producers[k]) for k in nodes):
        nodes = island(graph, nodes)
    nodes = with_clamps(graph, nodes)
    nodes -= candidate.widths.floats | maker.own
    return [Repair(unit, "float", noise, costs.more(Widths(floats=nodes)), Widths(floats=nodes))] if nodes else []


def in_order(repairs: Iterable[Repair], free: float) -> list[Repair]:
    """The cheapest repair of each unit, those that take away the most noise for each millisecond first.

    What costs less than `free` milliseconds counts as that, and times are taken in steps of a factor of two: a clock that runs a little
    otherwise does not change the order.
    """

    def ms(r: Repair) -> float:
        return 2.0 ** round(math.log2(max(r.ms, free, 1e-12)))

    cheapest: dict[str, Repair] = {}
    for r in sorted(repairs, key=lambda r: (ms(r), ORDER.index(r.what))):
        cheapest.setdefault(r.unit, r)
    return sorted(cheapest.values(), key=lambda r: (-r.noise / ms(r), r.unit))


def within(ordered: Iterable[Repair], costs: LayerCosts, budget: float) -> list[Repair]:
    """The repairs that together cost no more than a budget, in their order; one that is too dear is left out."""
    chosen: list[Repair] = []
    widths = Widths()
    for r in ordered:
        if costs.more(widths | r.widths) <= budget:
            chosen.append(r)
            widths |= r.widths
    return chosen


def few_weights(
    found: Iterable[T], layers: Callable[[T], frozenset[str]], wide: frozenset[str], share: Callable[[str], float], most: float = EIGHTS
) -> list[T]:
    """Those of the changes with which a network of few bits stays one: at most a share of its weights has more. `wide` have them now."""
    chosen: list[T] = []
    for change in found:
        more = wide | layers(change)
        if sum(map(share, more)) <= most:
            chosen.append(change)
            wide = more
    return chosen


def enough(ordered: Sequence[Repair], noise: float, allowed: float) -> int:
    """How many of the repairs leave no more noise than is allowed, if noises add up; at least one."""
    for count, r in enumerate(ordered, 1):
        noise -= r.noise
        if noise <= allowed:
            return count
    return max(1, len(ordered))


def together(chosen: Iterable[Repair]) -> Widths:
    widths = Widths()
    for r in chosen:
        widths |= r.widths
    return widths
