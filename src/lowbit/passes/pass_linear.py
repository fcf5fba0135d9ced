"""Moves transposes past a `linear`, which does not mind them, to where another view can take them in.

A linear works on the last axis alone, so a transpose of the others may stand before or after it. Sequence-first attention written for
batch-first data has one on each side of every projection.
"""

from __future__ import annotations

from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints
from lowbit.passes.shorten_views import VIEWS


def pass_linear(graph: Graph) -> Graph:
    """The graph in which a transpose next to a linear stands on the side where a reshape or transpose is its neighbour."""
    return rewrite(graph, _move, "transpose", "linear")


def _move(editor: Editor, node: Node) -> None:
    if node.op == "transpose":
        linear = editor.producer(node.inputs[0])
        if linear is None or linear.op != "linear" or editor.only_user(linear.output) is None or not _keeps_last(node):
            return
        before = editor.producer(linear.inputs[0])
        if before is not None and before.op in VIEWS and editor.only_user(before.output) is not None:
            turned = editor.add("transpose", linear.inputs[0], name=node.name, perm=ints(node, "perm"))
            editor.become(node, "linear", turned, *linear.inputs[1:], name=linear.name)
        return
    turn = editor.producer(node.inputs[0])
    if turn is None or turn.op != "transpose" or editor.only_user(turn.output) is None or not _keeps_last(turn):
        return
    above, behind = editor.producer(turn.inputs[0]), editor.only_user(node.output)
    if (above is None or above.op not in VIEWS) and behind is not None and behind.op in VIEWS:
        straight = editor.add("linear", turn.inputs[0], *node.inputs[1:], name=node.name)
        editor.become(node, "transpose", straight, name=turn.name, perm=ints(turn, "perm"))


def _keeps_last(node: Node) -> bool:
    perm = ints(node, "perm")
    return perm[-1] == len(perm) - 1
