"""Chains of functions of one value: hardswish, times a number, plus a number. In 8 bits a whole chain is one table.

The inner values are not rounded: the table is computed from real numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.q_elementwise import data_of_link
from lowbit.quantization.rules import QuantNode


def inner_values(graph: Graph, decisions: Mapping[str, QuantNode]) -> frozenset[str]:
    """The values between two functions of one value, both quantized to 8 bits, that no other node reads."""
    outputs = {v.name for v in graph.outputs.values()}
    found = set()
    for node in graph.nodes:
        x = read_by_link(graph, node)
        before = None if x is None else graph.producers.get(x.name)
        if x is None or before is None or read_by_link(graph, before) is None or x.name in outputs:
            continue
        if len(graph.users.get(x.name, ())) == 1 and _narrow(decisions[node.output.name]) and _narrow(decisions[before.output.name]):
            found.add(x.name)
    return frozenset(found)


def read_by_link(graph: Graph, node: Node) -> Value | None:
    """The value that a node is a function of, if its other inputs are single numbers; None for other nodes."""
    at = data_of_link(node.op, [None if v is None else graph.constant(v) for v in node.inputs])
    return None if at is None else node.inputs[at]


def _narrow(decided: QuantNode) -> bool:
    widths = [d for d in (decided.activation, decided.result) if d is not None]
    return decided.mode == "static" and decided.params is None and bool(widths) and all(d.bits == 8 for d in widths)
