"""What parts of a graph cost: multiplications, bytes, and how much the guard may run of a network of that size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lowbit.accuracy.brackets import Pair, Sample
from lowbit.accuracy.widths import Widths, multiplies
from lowbit.dims import substitute
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import last_uses
from lowbit.ops.quant import QUANTIZABLE


@dataclass(frozen=True)
class Effort:
    """How often a network is run, by its size alone: clocks would give other bytes on other days."""

    measured: int  # samples that a result is measured with
    shares: int  # samples that the noise of single values is measured with
    rounds: int  # of widening
    side_by_side: int  # samples that weights are rounded for

    @staticmethod
    def of(macs: int) -> Effort:
        """Much for small networks; of those with a thousand million multiplications each run takes a second."""
        if macs < 100_000_000:
            return Effort(8, 2, 5, 64)
        if macs < 1_500_000_000:
            return Effort(6, 1, 4, 16)
        return Effort(3, 1, 2, 3)


def mac_counts(graph: Graph, sample: Sample) -> dict[str, int]:
    """Multiplications of each node that counts them, by first output, at the sizes of a sample."""
    pair = Pair.bound(graph, graph, sample)
    found = {}
    for node in pair.float.nodes:
        if node.definition.macs is not None:
            count = node.definition.macs(*(None if v is None else v.type for v in node.inputs), **node.attrs)
            found[node.output.name] = int(substitute(count, {}))
    return found


def peak_bytes(graph: Graph, sample: Sample) -> int:
    """The most bytes that values of the graph take at a time, constants apart."""
    pair = Pair.bound(graph, graph, sample)
    dead, live, now, most = last_uses(pair.float), dict[str, int](), 0, 0
    for i, node in enumerate(pair.float.nodes):
        for o in node.outputs:
            live[o.name] = int(substitute(o.type.nbytes, {}))
            now += live[o.name]
        most = max(most, now)
        for name in dead.get(i, ()):
            now -= live.pop(name, 0)
    return most


def island(graph: Graph, start: frozenset[str]) -> frozenset[str]:
    """The layers that multiply nothing and hang together with these: a chain of squares, sums and roots is float from end to end."""
    found, stack = set(start), sorted(start)
    while stack:
        node = graph.producers[stack.pop()]
        beside = [graph.producers.get(v.name) for v in node.inputs if v is not None]
        beside += [u for o in node.outputs for u in graph.users.get(o.name, ())]
        for n in beside:
            if n is not None and n.op in QUANTIZABLE and not multiplies(n) and n.output.name not in found:
                found.add(n.output.name)
                stack.append(n.output.name)
    return frozenset(found)


def without(graph: Graph, widths: Widths, refused: Collection[str]) -> Widths:
    """The widths with nothing wide at the refused layers: neither they nor the taps they read and make."""
    nodes: list[Node] = [graph.producers[k] for k in refused if k in graph.producers]
    beside = {v.name for n in nodes for v in (*n.inputs, *n.outputs) if v is not None}
    return Widths(widths.taps - beside, widths.layers - set(refused), widths.weights - set(refused), widths.floats)
