"""Lets reductions keep the axes that a reshape puts back as 1s: mean(x) → … → (N, S, 1) is a mean of shape (N, S, 1) from the start.

JAX reduces without the axis, computes on what is left and expands it at the end; patterns are written for reductions that keep it.
"""

from __future__ import annotations

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axes, options
from lowbit.passes.fold_movement import REDUCTIONS
from lowbit.types import Shape

_NAMES = "add sub mul div pow maximum minimum neg abs relu clip exp log sqrt reciprocal"
ELEMENTWISE = frozenset(_NAMES.split())
LARGEST = 24  # nodes between reductions and reshapes


def keep_axes(graph: Graph) -> Graph:
    """The graph in which no reduction drops axes that all who read it, through elementwise ops, put back."""
    return rewrite(graph, _keep, "reshape")


def _keep(editor: Editor, node: Node) -> None:
    region = _region(editor, node)
    if region is None:
        return
    kept: dict[str, Value] = {}
    inner = {n.output.name for n in region if n.op != "reshape"}
    for n in region:  # in the order of the graph
        if n.op in REDUCTIONS:
            kept[n.output.name] = editor.add(n.op, n.inputs[0], name=n.name, **options(n, keepdims=True))
        elif n.op != "reshape":
            inputs = [kept[v.name] if v is not None and v.name in inner else _scalar(editor, v) for v in n.inputs]
            kept[n.output.name] = editor.add(n.op, *inputs, name=n.name, **options(n))
    for n in region:
        if n.op == "reshape":
            assert n.inputs[0] is not None
            editor.replace(n.output, kept[n.inputs[0].name], inherit=True)


def _region(editor: Editor, reshape: Node) -> list[Node] | None:
    """Reductions over the same axes, elementwise ops on their results and all reshapes after them, in order; None if others read them."""
    first = reshape.inputs[0]
    assert first is not None
    small, large = first.shape, reshape.output.shape
    over: tuple[int, ...] | None = None
    region: dict[str, Node] = {}
    waiting = [reshape]
    while waiting:
        node = waiting.pop()
        if node.output.name in region:
            continue
        region[node.output.name] = node
        if len(region) > LARGEST:
            return None
        if node.op == "reshape":
            if node.output.shape != large:
                return None
            before = editor.producer(node.inputs[0])
            if before is None:
                return None
            waiting.append(before)
            continue
        if node.output.shape != small or editor.is_output(node.output):
            return None
        waiting += editor.users(node.output)
        if node.op in REDUCTIONS:
            if node.attrs["keepdims"] or over not in (None, axes(node)) or large != _with_ones(node):
                return None
            over = axes(node)
        elif node.op in ELEMENTWISE:
            for v in node.inputs:
                before = editor.producer(v)
                if before is not None:
                    waiting.append(before)
                elif _number(editor, v) is None:
                    return None
        else:
            return None
    ordered = [n for n in editor.nodes() if n.output.name in region]
    return ordered if over and len(ordered) == len(region) else None


def _with_ones(node: Node) -> Shape:
    x = node.inputs[0]
    assert x is not None
    gone = axes(node)
    return tuple(1 if i in gone else d for i, d in enumerate(x.shape))


def _number(editor: Editor, value: Value | None) -> Value | None:
    """The value if it is a constant of one element."""
    data = editor.constant_data(value)
    return value if data is not None and data.size == 1 else None


def _scalar(editor: Editor, value: Value | None) -> Value | None:
    """A constant of one element, without axes: it broadcasts against any shape."""
    data = editor.constant_data(value)
    if data is None or data.ndim == 0 or value is None:
        return value
    return editor.constant(data.reshape(()), name=value.name, dtype=value.type.dtype)
