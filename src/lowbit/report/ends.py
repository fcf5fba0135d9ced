"""The function that an output ends in: a softmax or sigmoid hides the noise of its input, and an argmax gives class numbers."""

from __future__ import annotations

from typing import NamedTuple

from lowbit.ir.graph import Graph

PASSED = ("reshape", "identity", "transpose", "cast", "log", "quantize_linear", "dequantize_linear", "requantize")
LAST = ("softmax", "log_softmax", "sigmoid", "argmax")


class LastFunction(NamedTuple):
    """Its name, the name of its input, and the axis of the classes, if it has one."""

    op: str
    value: str
    axis: int | None


def last_function(graph: Graph, output: str) -> LastFunction | None:
    """The function that an output ends in; None if it ends in no such function. Integer forms have the float name."""
    node = graph.producers.get(graph.outputs[output].name)
    while node is not None and node.op in PASSED and node.inputs[0] is not None:
        node = graph.producers.get(node.inputs[0].name)
    if node is None or node.op.removeprefix("q_") not in LAST or node.inputs[0] is None:
        return None
    axis = node.attrs.get("axis")
    return LastFunction(node.op.removeprefix("q_"), node.inputs[0].name, axis if isinstance(axis, int) else None)
