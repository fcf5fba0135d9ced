"""Each layer of a Q/DQ graph as a graph of its own, from integers to integers: backends must agree on it for equal inputs."""

from __future__ import annotations

from collections.abc import Iterator

from lowbit.ir.build import prune
from lowbit.ir.graph import Graph, Node, Value
from lowbit.lower.integer import BRACKETS


def layer_graphs(graph: Graph) -> Iterator[tuple[Node, Graph]]:
    """Each op between integers as a graph of its own, from the integers before it to the integers after it."""
    for last in graph.nodes:
        if last.op != "quantize_linear":
            continue
        nodes, inputs = region(graph, last)
        ops = [n for n in nodes if n.op not in BRACKETS]
        if ops and inputs and all(v.name in graph.producers and not v.type.dtype.is_float for v in inputs):
            main = next((n for n in ops if n.definition.macs is not None), ops[0])
            yield main, prune(Graph(tuple(inputs), {"y": last.output}, tuple(nodes), graph.constants, main.name or main.op))


def region(graph: Graph, last: Node) -> tuple[list[Node], list[Value]]:
    """The nodes that lead to `last` from integers (or from inputs of the graph), and those integers."""
    members: dict[str, Node] = {}
    inputs: dict[str, Value] = {}
    stack = [last]
    while stack:
        node = stack.pop()
        members[node.output.name] = node
        for v in node.inputs:
            if v is None or v.name in graph.constants:
                continue
            before = graph.producers.get(v.name)
            if before is None or before.op == "quantize_linear":
                inputs[v.name] = v
            elif before.output.name not in members:
                stack.append(before)
    return [n for n in graph.nodes if n.output.name in members], list(inputs.values())
