"""Fuses a relu or clip into the float product or sum before it: one kernel does both in one pass."""

from __future__ import annotations

from math import inf
from typing import Any

from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor
from lowbit.ops.clipped import CLIPPED


def bounds(node: Node) -> tuple[float, float] | None:
    """The bounds of relu, relu6 and clip; None for other ops."""
    match node.op:
        case "relu":
            return 0.0, inf
        case "relu6":
            return 0.0, 6.0
        case "clip":
            low: Any = node.attrs["min"]
            high: Any = node.attrs["max"]
            return -inf if low is None else float(low), inf if high is None else float(high)
    return None


def fuse(graph: Graph) -> Graph:
    """The same function, with clips fused into the op before them if no other node reads its result."""
    editor = Editor(graph)
    for node in editor.nodes():
        found = bounds(node)
        above = editor.producer(node.input(0))
        if found is None or above is None or above.op not in CLIPPED or node.output.type.dtype.name != "float32":
            continue
        if editor.only_user(above.output) is None:
            continue
        lo, hi = found
        editor.become(node, CLIPPED[above.op], *above.inputs, name=above.name, **above.attrs, lo=lo, hi=hi)
    return editor.done()
