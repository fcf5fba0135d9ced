"""How many runs a network of some size gets, and what its parts cost: multiplications, bytes."""

from __future__ import annotations

from dataclasses import dataclass

from lowbit.decide.samples import Sample
from lowbit.decide.widths import multiplies
from lowbit.dims import substitute
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.ops.quant import QUANTIZABLE, is_clamp


@dataclass(frozen=True)
class Effort:
    """How often a network is run, by its size alone: a clock would make results depend on the day."""

    decided: int  # rows that candidates are compared on, and batches of them at most
    reported: int  # batches that the final figure is measured on
    shares: int  # batches that the noise of single roundings is measured on
    rounded: int  # batches that weights are rounded for
    rounds: int  # of repairs that cost time

    @staticmethod
    def of(macs: int) -> Effort:
        """Many runs for small networks; a network of 10⁹ multiplications takes 30 ms and more for each."""
        if macs < 100_000_000:
            return Effort(40, 48, 2, 16, 6)
        if macs < 1_500_000_000:
            return Effort(16, 24, 1, 6, 5)
        return Effort(6, 8, 1, 3, 3)


def mac_counts(graph: Graph, sample: Sample) -> dict[str, int]:
    """Multiplications of each node that counts them, by first output, at the sizes of a sample."""
    found = {}
    for node in bound_to(graph, sample).nodes:
        if node.definition.macs is not None:
            count = node.definition.macs(*(None if v is None else v.type for v in node.inputs), **node.attrs)
            found[node.output.name] = int(substitute(count, {}))
    return found


def island(graph: Graph, start: frozenset[str]) -> frozenset[str]:
    """The layers without multiplications that are connected with these: a chain of squares, sums and roots is float from end to end."""
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


def with_clamps(graph: Graph, nodes: frozenset[str]) -> frozenset[str]:
    """The layers, and the relu or clip right after each, which alone in integers would round values that it cuts off."""
    found = set(nodes)
    for key in nodes:
        users = graph.users.get(key, ())
        if len(users) == 1 and is_clamp(users[0].op):
            found.add(users[0].output.name)
    return frozenset(found)
