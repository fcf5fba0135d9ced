"""The parts of an output that a concat joins: a detector's boxes, whether there is an object, its class.

Each part has a scale of its own, and is measured by itself: boxes of hundreds would hide the noise of scores between 0 and 1.
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph
from lowbit.ir.interp import run_node
from lowbit.types import Array

PASSED = ("reshape", "identity", "transpose", "cast")  # they move values and change none
MOST = 32  # parts: more are steps of time or blocks of features, and one thing

Group = tuple[str, ...]  # values of one meaning


def find_parts(graph: Graph, value: str) -> tuple[Group, ...]:
    """The values that concats join to this one; values of equal place in concats that are joined again are one part.

    A detector joins boxes and scores for each size of objects, and then the sizes. Inputs and constants have no noise, and are no parts.
    Empty if no concat makes the value, or too many parts do.
    """
    found = _joined(graph, value)
    if found is None or len(found) > MOST:
        return ()
    made = (tuple(name for name in group if name in graph.producers) for group in found)
    return tuple(group for group in made if group)


def _joined(graph: Graph, value: str) -> list[Group] | None:
    node = graph.producers.get(value)
    if node is None or not graph.values[value].type.dtype.is_float:
        return None
    if node.op in PASSED and node.inputs[0] is not None:
        return _joined(graph, node.inputs[0].name)
    if node.op != "concat":
        return None
    names = [v.name for v in node.inputs if v is not None]
    inside = [_joined(graph, name) for name in names]
    if all(groups is not None and len(groups) == len(inside[0] or ()) > 1 for groups in inside):
        return [tuple(name for group in same for name in group) for same in zip(*(g for g in inside if g), strict=True)]
    return [group for name, groups in zip(names, inside, strict=True) for group in (groups or [(name,)])]


def part_numbers(graph: Graph, value: str, parts: tuple[Group, ...]) -> Array:
    """For each element of a value the number of the part that it comes from; -1 for none. `graph` has no symbols."""
    numbers = {name: i for i, group in enumerate(parts) for name in group}

    def of(name: str) -> Array:
        node = graph.producers.get(name)
        if name in numbers or node is None or node.op not in (*PASSED, "concat"):
            return np.full([int(d) for d in graph.values[name].shape], numbers.get(name, -1), np.float32)
        if node.op == "cast":
            return of(node.input(0).name)  # type: ignore[union-attr]
        return run_node(node, [None if v is None else of(v.name) for v in node.inputs])[0]

    return of(value).astype(np.int64)
