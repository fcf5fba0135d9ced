"""8 bits again where 16 turned out not to be needed: widening goes by the noise of values alone, and takes more than it must.

Every wide layer's noise is measured once as if it alone read 8 bits. Those with the least noise for their multiplications go back first;
how many of them is found by halving, each try measured on the held-back samples.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from lowbit.accuracy.making import State, Workshop
from lowbit.accuracy.widths import RECURRENT, Widths, inputs_of, multiplies
from lowbit.quantization.taps import Taps

FINE = 0.03  # of the multiplications: a smaller difference is not searched for
Item = tuple[str, str]  # "layers" or "weights", and the layer


def narrowed(shop: Workshop, state: State, items: Sequence[Item]) -> State:
    """The state with these layers reading (or having weights of) 8 bits; taps that were wide for them alone are as narrow."""
    graph, widths = state.graph, state.widths
    layers = widths.layers - {k for kind, k in items if kind == "layers"}
    weights = widths.weights - {k for kind, k in items if kind == "weights"}
    groups = shop.transform(state).taps(graph).groups
    kept = set()
    for tap in widths.taps:
        group = groups.get(tap, (tap,))
        makers = [p for m in group if (p := graph.producers.get(m)) is not None]
        if any(p.op in RECURRENT and p.output.name in widths.layers and p.output.name not in layers for p in makers):
            continue  # a state is as wide as its maker reads it
        readers = [u for m in group for u in graph.users.get(m, ()) if u.output.name not in group]
        if any(not multiplies(u) or u.output.name in layers for u in readers):
            kept.add(tap)
    return replace(state, widths=Widths(frozenset(kept), layers, weights, widths.floats))


def order(shop: Workshop, state: State) -> list[Item]:
    """What may go back to 8 bits, the least noise for each multiplication first."""
    widths = state.widths
    items: list[Item] = [("layers", k) for k in sorted(widths.layers)] + [("weights", k) for k in sorted(widths.weights)]
    if not items:
        return []
    narrow = narrowed(shop, state, items)
    shares, taps = shop.shares(narrow), shop.transform(narrow).taps(state.graph)

    def price(item: Item) -> tuple[float, str]:
        kind, key = item
        noise = shares.get(f"weights {key}", 0.0) if kind == "weights" else read_noise(shop, state, taps, key, shares)
        return noise / (1e-6 + shop.macs.get(key, 0) / shop.every * (2 if kind == "weights" else 1)), f"{key} {kind}"

    return sorted(items, key=price)


def read_noise(shop: Workshop, state: State, taps: Taps, key: str, shares: dict[str, float]) -> float:
    """The noise of a layer's 8-bit inputs; one that several wide layers read is shared among them."""
    noise = shares.get(f"layer {key}", 0.0)
    node = state.graph.producers[key]
    made = {taps.groups[o.name][0] for o in node.outputs if node.op in RECURRENT and o.name in taps.groups}
    for root in {taps.groups[n][0] for n in inputs_of(state.graph, taps, [key])} | made:
        readers = {u.output.name for m in taps.groups[root] for u in state.graph.users.get(m, ())} & state.widths.layers
        noise += shares.get(f"tap {root}", 0.0) / max(1, len(readers))
    return noise


@dataclass(frozen=True)
class Try:
    """A narrower state, how many layers went back in it, and the dB with which it is kept."""

    state: State
    count: int
    wanted: float


def tries(shop: Workshop, state: State, goal: float, must: float, wide: float) -> Generator[Try, float, None]:
    """Narrower states on the way to the narrowest that holds, found by halving; is sent the dB of each.

    First the goal is to hold. Where more than the share `wide` of the multiplications still reads 16 bits then, it goes on as far as that
    share, or as `must` holds.
    """
    items = order(shop, state)
    seen = {0: float("inf")}
    states = {0: state}

    def at(count: int) -> State:
        if count not in states:
            states[count] = narrowed(shop, state, items[:count])
        return states[count]

    def search(target: float, least: int, top: int) -> Generator[Try, float, int]:
        """The most layers, of least … top, with which the target holds; all of them first, for often nothing wide is needed any more."""
        count = top
        while least < count:
            if count not in seen:
                seen[count] = yield Try(at(count), count, target)
            least, top = (count, top) if seen[count] >= target else (least, count - 1)
            if shop.wide_share(at(least)) - shop.wide_share(at(top)) < FINE:
                break
            count = (least + top + 1) // 2
        return least

    best = kept = yield from search(goal, 0, len(items))
    if shop.wide_share(at(best)) > wide and must < goal:
        enough = next((k for k in range(len(items) + 1) if shop.wide_share(at(k)) <= wide), len(items))
        best = yield from search(must, best, enough)
    if best > kept and seen[best] < goal:
        yield Try(at(best), best, must)  # measured before, when more was wanted of it
