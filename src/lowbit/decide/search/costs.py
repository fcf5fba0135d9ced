"""Bits of work of units at each width: they break ties of bytes or time."""

from __future__ import annotations

from collections.abc import Mapping

from lowbit.decide.effort import mac_counts
from lowbit.decide.samples import Sample
from lowbit.decide.search.units import WIDTHS, Unit
from lowbit.dims import substitute
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to


def node_work(graph: Graph, sample: Sample) -> dict[str, tuple[int, int]]:
    """Multiplications and result elements of each node, by first output, at the sizes of a sample."""
    macs = mac_counts(graph, sample)
    nodes = bound_to(graph, sample).nodes
    sizes = {n.output.name: sum(int(substitute(o.type.size, {})) for o in n.outputs) for n in nodes}
    return {name: (macs.get(name, 0), size) for name, size in sizes.items()}


def unit_bits(unit: Unit, width: str, work: Mapping[str, tuple[int, int]]) -> int:
    """Bits of work: the product of both factors' bits for each multiplication, and the bits of each result. Exact, and not a time."""
    reads, weights = WIDTHS[width]
    return sum(work[n.output.name][0] * reads * weights + work[n.output.name][1] * reads for n in unit.nodes)
