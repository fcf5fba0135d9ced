"""Removes identity ops: casts to the same type, reshapes to the same shape, x * 1, x + 0 …"""

from __future__ import annotations

from collections.abc import Callable

from lowbit.ir.graph import KEEPS_FLOAT, Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints, options
from lowbit.passes.match import number

Test = Callable[[Editor, Node], bool]


def drop_identities(graph: Graph) -> Graph:
    """The graph without ops that change nothing, and without `expand` in front of ops that broadcast by themselves."""
    return rewrite(graph, _drop)


def _drop(editor: Editor, node: Node) -> None:
    kept = _what_it_gives_back(editor, node)
    if kept is not None:
        if kept.type == node.output.type and kept.name != node.output.name:
            editor.replace(node.output, kept)
    elif node.op in BROADCASTS:
        _drop_expands(editor, node)


def _what_it_gives_back(editor: Editor, node: Node) -> Value | None:
    """The input that the node's output always equals, if there is one. (Its type may still differ: x * 1 with a 1 of a larger shape.)"""
    x = node.input(0)
    if node.op in _UNITS:
        left, right = _UNITS[node.op]
        if right is not None and number(editor, node.input(1)) == right:
            return x
        return node.input(1) if left is not None and number(editor, x) == left else None
    if node.op == "where":
        cond = number(editor, x)
        return None if cond is None else node.input(1) if cond else node.input(2)
    if node.op in ("neg", "logical_not", "bitwise_not"):
        before = editor.producer(x)
        return before.input(0) if before is not None and before.op == node.op else None
    test = _SAME.get(node.op)
    return x if test is not None and test(editor, node) else None


# number on the left, number on the right, with which the op gives back the other side
_UNITS: dict[str, tuple[float | None, float | None]] = {
    "add": (0.0, 0.0),
    "sub": (None, 0.0),
    "mul": (1.0, 1.0),
    "div": (None, 1.0),
    "pow": (None, 1.0),
}


def _same_type(editor: Editor, node: Node) -> bool:
    return node.input(0).type == node.output.type  # type: ignore[union-attr]


def _full_slice(editor: Editor, node: Node) -> bool:
    return _same_type(editor, node) and all(s == 1 for s in ints(node, "steps"))


_SAME: dict[str, Test] = {
    "identity": lambda e, n: True,
    "cast": lambda e, n: _same_type(e, n) and not n.output.name.endswith(KEEPS_FLOAT),
    "reshape": _same_type,
    "expand": _same_type,
    "transpose": lambda e, n: ints(n, "perm") == tuple(range(len(ints(n, "perm")))),
    "slice": _full_slice,
    "pad": lambda e, n: not any(p != 0 for p in ints(n, "pads")),
    "concat": lambda e, n: len(n.inputs) == 1,
    "split": lambda e, n: len(n.outputs) == 1,
    "tile": lambda e, n: all(r == 1 for r in ints(n, "repeats")),
    "flip": lambda e, n: not ints(n, "axes"),
    "roll": lambda e, n: not any(s != 0 for s in ints(n, "shifts")),
    "clip": lambda e, n: n.attrs["min"] is None and n.attrs["max"] is None,
    "depth_to_space": lambda e, n: n.attrs["block"] == 1,
    "space_to_depth": lambda e, n: n.attrs["block"] == 1,
} | {
    f"reduce_{name}": lambda e, n: not ints(n, "axes")
    for name in ("sum", "mean", "max", "min", "prod")  # l1, l2 … of a single element are not the element
}

_NAMES = """
    add sub mul div floor_div pow mod fmod maximum minimum atan2 bit_and bit_or bit_xor logical_and logical_or logical_xor
    equal not_equal less less_equal greater greater_equal where matmul"""
BROADCASTS = frozenset(_NAMES.split())


def _drop_expands(editor: Editor, node: Node) -> None:
    """op(expand(x), y) is op(x, y) where y alone makes the output as large."""
    for i, v in enumerate(node.inputs):
        before = editor.producer(v)
        if before is None or before.op != "expand" or (node.op == "matmul" and before.inputs[0].shape[-2:] != v.shape[-2:]):  # type: ignore[union-attr]
            continue  # matmul broadcasts all but its last two axes
        inputs = list(node.inputs)
        inputs[i] = before.inputs[0]
        if editor.become(node, node.op, *inputs, **options(node)) is not None:
            return
