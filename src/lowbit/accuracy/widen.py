"""Where 16 bits (or float) help most: by measured noise for each multiplication that becomes wider."""

from __future__ import annotations

from lowbit.accuracy.costs import island
from lowbit.accuracy.making import State, Workshop
from lowbit.accuracy.widths import RECURRENT, Widths, inputs_of, multiplies


def wider(shop: Workshop, state: State, allowed: float, banned: set[str], most: float) -> tuple[str, Widths] | None:
    """What to widen so that the rest of the noise is allowed, with at most this share of the multiplications wide."""
    graph, shares = state.graph, shop.shares(state)
    taps = shop.transform(state).taps(graph)
    macs, every = shop.macs, shop.every
    options: list[tuple[float, str, float, Widths, frozenset[str]]] = []
    for unit, noise in shares.items():
        kind, name = unit.split(" ", 1)
        if name in banned:
            continue
        if kind == "tap":
            group = set(taps.groups[name])
            readers = {u.output.name: u for m in taps.groups[name] for u in graph.users.get(m, ()) if u.output.name not in group}
            layers = frozenset(k for k, u in readers.items() if multiplies(u)) - banned
            others = any(not multiplies(u) for u in readers.values())
            makers = frozenset(p.output.name for m in taps.groups[name] if (p := graph.producers.get(m)) is not None and p.op in RECURRENT)
            if makers:  # a state is read by its own maker
                layers |= makers - banned
                widths = Widths(taps=frozenset({name}) | inputs_of(graph, taps, layers), layers=layers)
            elif others and layers:
                widths = Widths(taps=frozenset({name}))  # the layers go on reading 8 bits
                layers = frozenset()
            elif layers or others:
                widths = Widths(taps=frozenset({name}) | inputs_of(graph, taps, layers), layers=layers)
            else:
                continue
        elif kind == "layer":
            layers = frozenset({name})
            widths = Widths(taps=inputs_of(graph, taps, layers), layers=layers)
        else:
            layers = frozenset({name})
            widths = Widths(weights=layers)
        more = sum(macs.get(k, 0) for k in layers) / every
        cost = 0.01 + (4 * more if kind == "weights" else more)  # 16-bit weights take bytes too, and 64-bit sums
        options.append((noise / cost, unit, noise, widths, layers))
    left = sum(shares.values())
    picked = Widths()
    wide = set(state.widths.layers | state.widths.weights)
    for _, _, noise, widths, layers in sorted(options, key=lambda o: (-o[0], o[1])):
        if left <= allowed or noise <= 0:
            break
        if layers and sum(macs.get(k, 0) for k in wide | layers) > most * every:
            continue
        wide |= layers
        left -= noise
        picked |= widths
    if picked == Widths():
        return None
    kinds = [("w8a16", picked.layers), ("16-bit weights", picked.weights), ("16-bit taps", picked.taps)]
    return ", ".join(k for k, v in kinds if v), picked


def floats(shop: Workshop, state: State) -> frozenset[str] | None:
    """The layers around the tap (or with the weights) of most noise for each multiplication that would be float."""
    graph = state.graph
    taps = shop.transform(state).taps(graph)
    options: dict[frozenset[str], float] = {}
    for unit, noise in shop.shares(state, wide=True).items():
        kind, name = unit.split(" ", 1)
        if kind == "tap":
            group = [name, *taps.groups.get(name, ())]
            nodes = frozenset(u.output.name for m in group for u in graph.users.get(m, ()))
            if not any(multiplies(graph.producers[k]) for k in nodes):
                nodes = island(graph, nodes)
        else:
            nodes = frozenset({name})
        nodes -= state.widths.floats | shop.own
        if nodes:
            options[nodes] = options.get(nodes, 0.0) + noise / (0.01 + sum(shop.macs.get(k, 0) for k in nodes) / shop.every)
    return max(options, key=lambda k: (options[k], sorted(k))) if options else None
