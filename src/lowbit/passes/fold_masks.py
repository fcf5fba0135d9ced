"""Writes masks that are added to scores as `where`: x + where(c, 0, -inf) is where(c, x, -inf), and so is x + a constant of 0 and -inf.
What else the mask adds is added to the visible scores: x + where(c, b, -inf) is where(c, x + b, -inf).

Numbers from -10,000 down hide scores from a softmax as -inf does. A row that they hide as a whole then has equal weights.
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.masks import HIDDEN, SOFT
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.match import number
from lowbit.types import broadcast


def fold_masks(graph: Graph) -> Graph:
    """The graph in which no mask of 0 and one number that hides is added."""
    return rewrite(graph, _fold, "add")


def _fold(editor: Editor, node: Node) -> None:
    for x, mask in (node.inputs, node.inputs[::-1]):
        if x is None or mask is None or x.type != node.output.type or editor.constant_data(x) is not None:
            continue
        found = _condition(editor, mask)
        if found is None:
            continue
        cond, hides, low, bias = found
        if low != -np.inf and not _only_softmax(editor, node.output):
            continue
        if bias is not None and broadcast(x.shape, bias.shape) != x.shape:
            continue
        n = editor.constant(np.array(low, x.type.dtype.numpy), dtype=x.type.dtype)
        visible = x if bias is None else editor.add("add", x, bias, name=node.name)
        if editor.become(node, "where", cond, *((n, visible) if hides else (visible, n))) is not None:
            return


def _condition(editor: Editor, mask: Value) -> tuple[Value, bool, float, Value | None] | None:
    """A condition, whether it is true where the mask hides, by which number, and what is added elsewhere (None: 0). None: another mask."""
    data, node = editor.constant_data(mask), editor.producer(mask)
    if data is not None and data.dtype.kind == "f" and data.size:
        hides = data <= HIDDEN
        low = data[hides]
        if low.size and (data[~hides] == 0).all() and (low == low[0]).all():
            return editor.constant(hides, name=f"{mask.name}:hides"), True, float(low[0]), None
    elif node is not None and node.op == "where" and editor.only_user(mask) is not None and node.inputs[0] is not None:
        _, a, b = node.inputs
        for low_side, other, hidden in ((a, b, True), (b, a, False)):
            n = number(editor, low_side)
            if n is not None and n <= HIDDEN:
                return node.inputs[0], hidden, n, None if number(editor, other) == 0 else other
    return None


def _only_softmax(editor: Editor, value: Value) -> bool:
    """Whether nothing reads the value but a softmax, through masks."""
    users = editor.users(value)
    return bool(users) and not editor.is_output(value) and all(u.op in SOFT or _is_mask(editor, u) for u in users)


def _is_mask(editor: Editor, node: Node) -> bool:
    return node.op in ("add", "where") and _only_softmax(editor, node.output)
