"""Cuts a graph into native and interpreted parts, in an order that gives few parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowbit.ir.graph import Graph, Node
from lowbit.plan.build import kernel_calls, view_offset
from lowbit.plan.kernels import Context, Packed
from lowbit.plan.kernels.call import Calls
from lowbit.plan.kernels.movement import CONTRACTS
from lowbit.plan.plan import Target


@dataclass(frozen=True)
class Segment:
    """A part of a graph, as a graph: its inputs come from the parts before it, its outputs (by value name) go to those after it.

    `calls` are the kernel calls of its nodes, and of others.
    """

    graph: Graph
    native: bool
    calls: Calls = field(default_factory=dict)


def segments(graph: Graph, target: Target, packed: Packed | None = None) -> tuple[Segment, ...]:
    """The parts in order. A view is in the part of its input."""
    ctx = Context(graph, target, packed if packed is not None else Packed())
    level: dict[str, int] = {}  # of a value: its segment; even ones are native
    parts: dict[int, list[Node]] = {}
    for node in graph.nodes:
        after = max((level[v.name] for v in node.inputs if v is not None and v.name in level), default=0)
        if not _is_view(node):
            native = kernel_calls(node, ctx) is not None
            after += (after % 2) if native else 1 - after % 2
        level.update((o.name, after) for o in node.outputs)
        parts.setdefault(after, []).append(node)
    wanted = {v.name for v in graph.outputs.values()}
    if not parts and all(v.type.dtype.numpy.itemsize in CONTRACTS for v in graph.outputs.values()):
        return (Segment(replace(graph, outputs={v.name: v for v in graph.outputs.values()}), True),)  # copies, in one call like the rest
    return tuple(Segment(part(graph, nodes, wanted), at % 2 == 0, ctx.calls) for at, nodes in sorted(parts.items()))


def unsupported(graph: Graph, target: Target, calls: Calls) -> tuple[Node, ...]:
    """The nodes that have neither a kernel nor are views. The kernel calls of the others are put into `calls`."""
    ctx = Context(graph, target, calls=calls)
    return tuple(n for n in graph.nodes if not _is_view(n) and kernel_calls(n, ctx) is None)


def _is_view(node: Node) -> bool:
    return view_offset(node) is not None and node.output.type.dtype.numpy.itemsize in CONTRACTS


def part(graph: Graph, nodes: list[Node], wanted: set[str]) -> Graph:
    """Some nodes as a graph of their own; its outputs are the values that the caller wants or other nodes read."""
    made = {o.name for n in nodes for o in n.outputs}
    mine = {n.output.name for n in nodes}
    read = {v.name: v for n in nodes for v in n.inputs if v is not None and v.name not in made}
    inputs = tuple(v for v in read.values() if v.name not in graph.constants)
    outside = {v.name for n in graph.nodes if n.output.name not in mine for v in n.inputs if v is not None}
    outputs = {o.name: o for n in nodes for o in n.outputs if o.name in wanted or o.name in outside}
    constants = {name: graph.constants[name] for name in read if name in graph.constants}
    return Graph(inputs, outputs, tuple(nodes), constants, graph.name)
