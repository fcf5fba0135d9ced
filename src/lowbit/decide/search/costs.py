"""What units cost at each width: bytes of weights, time by the kernels' profile, and bits of work to break ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowbit.decide.effort import mac_counts
from lowbit.decide.samples import Sample
from lowbit.decide.search.units import WIDTHS, Unit
from lowbit.dims import substitute
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to
from lowbit.runtime.profile import Profile


def node_work(graph: Graph, sample: Sample) -> dict[str, tuple[int, int]]:
    """Of each node, by first output: multiplications, and elements of its results, at the sizes of a sample."""
    macs = mac_counts(graph, sample)
    nodes = bound_to(graph, sample).nodes
    sizes = {n.output.name: sum(int(substitute(o.type.size, {})) for o in n.outputs) for n in nodes}
    return {name: (macs.get(name, 0), size) for name, size in sizes.items()}


def unit_bits(unit: Unit, width: str, work: Mapping[str, tuple[int, int]]) -> int:
    """Bits of work: those of both factors of each multiplication, and those of each result. Exact, and no time."""
    reads, weights = WIDTHS[width].bits
    return sum(work[n.output.name][0] * reads * weights + work[n.output.name][1] * reads for n in unit.nodes)


def unit_ms(units: Sequence[Unit], profile: Profile, work: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """The time of each unit that multiplies: of the rows with the name of one of its layers.

    A layer that is called twice is in two units, and rows have its name alone: they share its time as they share its multiplications.
    """
    owners: dict[str, dict[str, int]] = {}  # name of a layer → unit → multiplications
    for unit in units:
        macs = sum(work[n.output.name][0] for n in unit.nodes)
        for node in unit.nodes if unit.multiplies else ():
            owners.setdefault(node.name or node.output.name, {})[unit.name] = macs
    found = {u.name: 0.0 for u in units if u.multiplies}
    for row in profile.rows:
        shares = owners.get(row.layer) or owners.get(row.layer.split(":")[0], {})
        for name, macs in shares.items():
            found[name] += row.ms * macs / max(1, sum(shares.values()))
    return found
