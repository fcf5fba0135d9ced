"""What units cost at each width, beside bytes and time: bits of work, which break ties."""

from __future__ import annotations

from collections.abc import Mapping

from lowbit.decide.effort import mac_counts
from lowbit.decide.samples import Sample
from lowbit.decide.search.units import WIDTHS, Unit
from lowbit.dims import substitute
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to


def node_work(graph: Graph, sample: Sample) -> dict[str, tuple[int, int]]:
    """Of each node, by first output: multiplications, and elements of its results, at the sizes of a sample."""
    macs = mac_counts(graph, sample)
    nodes = bound_to(graph, sample).nodes
    sizes = {n.output.name: sum(int(substitute(o.type.size, {})) for o in n.outputs) for n in nodes}
    return {name: (macs.get(name, 0), size) for name, size in sizes.items()}


def unit_bits(unit: Unit, width: str, work: Mapping[str, tuple[int, int]]) -> int:
    """Bits of work: those of both factors of each multiplication, and those of each result. Exact, and no time."""
    reads, weights = WIDTHS[width]
    return sum(work[n.output.name][0] * reads * weights + work[n.output.name][1] * reads for n in unit.nodes)
