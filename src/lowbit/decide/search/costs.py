"""What units cost at each width: bytes of weights, time by the kernels' profile, and bits of work to break ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowbit.decide.brackets import BRACKETS, Bracket
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


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights and their scales. Single numbers, as the scale of an activation, are not counted: no choice is made for them."""
    return sum(c.value.type.nbytes for c in graph.constants.values() if c.data.size > 1)


def unit_bytes(quantized: Graph, units: Sequence[Unit]) -> dict[str, int]:
    """The bytes of each unit's weights; those that several layers share are the first one's."""
    counted: set[str] = set()
    found = {}
    for unit in units:
        read: set[str] = set()
        stack = [n.output.name for n in unit.nodes]
        while stack:
            node = quantized.producers.get(stack.pop())
            for v in node.inputs if node is not None else ():
                before = quantized.producers.get(v.name) if v is not None else None
                if v is not None and v.name in quantized.constants:
                    read.add(v.name)
                elif before is not None and before.op in BRACKETS:
                    stack.append(before.output.name)
        fresh = {name for name in read - counted if quantized.constants[name].data.size > 1}
        found[unit.name] = sum(quantized.constants[name].value.type.nbytes for name in fresh)
        counted |= fresh
    return found


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


def heard(quantized: Graph, brackets: Mapping[str, Bracket], unit: Unit) -> dict[str, tuple[str, ...]]:
    """The roundings that each layer of a unit hears: of what it reads and of its weights, by the name of the dequantized value."""
    found: dict[str, tuple[str, ...]] = {}
    for node in unit.nodes:
        now = quantized.producers.get(node.output.name)
        read = tuple(v.name for v in now.inputs if v is not None and v.name in brackets) if now is not None else ()
        if read:
            found[f"layer {node.output.name}"] = read
    return found
