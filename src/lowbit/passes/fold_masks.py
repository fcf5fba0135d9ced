"""Writes masks that are added to scores as `where`: x + where(c, 0, -inf) is where(c, x, -inf), and so is x + a constant of 0 and -inf.

Numbers from -10,000 down hide scores from a softmax as -inf does. A row that they hide as a whole then has equal weights.
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.masks import HIDDEN, SOFT
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.match import number


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
        seen, hidden, low = found
        if low != -np.inf and not _only_softmax(editor, node.output):
            continue
        n = editor.constant(np.array(low, x.type.dtype.numpy), dtype=x.type.dtype)
        if editor.become(node, "where", *((seen, x, n) if hidden is False else (seen, n, x))) is not None:
            return


def _condition(editor: Editor, mask: Value) -> tuple[Value, bool, float] | None:
    """A condition, whether it is true where the mask hides, and by which number; None for any other mask."""
    data, node = editor.constant_data(mask), editor.producer(mask)
    if data is not None and data.dtype.kind == "f" and data.size:
        hides = data <= HIDDEN
        low = data[hides]
        if low.size and (data[~hides] == 0).all() and (low == low[0]).all():
            return editor.constant(hides, name=f"{mask.name}:hides"), True, float(low[0])
    elif node is not None and node.op == "where" and editor.only_user(mask) is not None and node.inputs[0] is not None:
        a, b = (number(editor, v) for v in node.inputs[1:])
        if a is not None and b is not None:
            if a <= HIDDEN and b == 0:
                return node.inputs[0], True, a
            if b <= HIDDEN and a == 0:
                return node.inputs[0], False, b
    return None


def _only_softmax(editor: Editor, value: Value) -> bool:
    """Whether nothing reads the value but a softmax, through masks."""
    users = editor.users(value)
    return bool(users) and not editor.is_output(value) and all(u.op in SOFT or _is_mask(editor, u) for u in users)


def _is_mask(editor: Editor, node: Node) -> bool:
    return node.op in ("add", "where") and _only_softmax(editor, node.output)
