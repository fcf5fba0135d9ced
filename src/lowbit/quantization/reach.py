"""The part of a value's range that matters to its readers: hardswish gives 0 for everything below -3.

A larger range would have coarser steps without a benefit.
"""

from __future__ import annotations

from collections.abc import Iterable

from lowbit.calibration.record import EVERYTHING, Reach
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE


def reach_of(graph: Graph, names: Iterable[str]) -> Reach:
    """The smallest range that covers everything the readers of these values distinguish."""
    found = [_of_value(graph, name) for name in names]
    return min((lo for lo, _ in found), default=EVERYTHING[0]), max((hi for _, hi in found), default=EVERYTHING[1])


def _of_value(graph: Graph, name: str) -> Reach:
    users = graph.users.get(name, ())
    if not users or any(v.name == name for v in graph.outputs.values()):
        return EVERYTHING
    found = [_of_reader(graph, user) for user in users]
    return min(lo for lo, _ in found), max(hi for _, hi in found)


def _of_reader(graph: Graph, node: Node) -> Reach:
    """The range that a reader distinguishes. A function that makes an output of the network keeps the whole range."""
    entry = QUANTIZABLE.get(node.op)
    if entry is None or entry.flat is None or _ends(graph, node):
        return EVERYTHING
    lo, hi = entry.flat(**node.attrs)
    return (EVERYTHING[0] if lo is None else lo), (EVERYTHING[1] if hi is None else hi)


def _ends(graph: Graph, node: Node) -> bool:
    """Whether the node's result is an output, moved or not."""
    stack = [node]
    while stack:
        at = stack.pop()
        if any(v.name == o.name for o in at.outputs for v in graph.outputs.values()):
            return True
        stack += [u for o in at.outputs for u in graph.users.get(o.name, ()) if u.definition.moves]
    return False
