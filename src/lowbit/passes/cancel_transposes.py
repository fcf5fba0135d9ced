"""Lets a transpose meet its inverse through the elementwise ops between them, so that both go.

conv → (N, H, W, C) → relu → add → (N, C, H, W) → conv      has no transpose left
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints, options
from lowbit.passes.drop_identities import BROADCASTS

DEPTH = 32  # ops between the two
_NAMES = """
    neg abs relu relu6 exp log sqrt reciprocal floor ceil round sign sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
    sigmoid softplus softsign silu mish hardswish isnan isinf logical_not bitwise_not log1p expm1 clip leaky_relu elu selu celu
    hardsigmoid gelu thresholded_relu shrink cast identity"""
ELEMENTWISE = (frozenset(_NAMES.split()) | BROADCASTS) - {"matmul"}

Perm = tuple[int, ...]


def cancel_transposes(graph: Graph) -> Graph:
    """The graph in which no transpose is undone by another one behind elementwise ops."""
    return rewrite(graph, _cancel, "transpose")


def _cancel(editor: Editor, node: Node) -> None:
    value = node.inputs[0]
    perm = ints(node, "perm")
    root = editor.producer(value)
    if value is None or root is None or root.op not in ELEMENTWISE or not _undone(editor, value, perm, True, DEPTH):
        return
    moved = _moved(editor, value, perm)
    others = [u for u in editor.users(value) if u.output.name != node.output.name]
    editor.replace(node.output, moved)
    if others or editor.is_output(value):  # who else reads it gets it back in its old order
        editor.replace(value, editor.add("transpose", moved, name=node.name, perm=tuple(int(i) for i in np.argsort(perm))))


def _undone(editor: Editor, value: Value, perm: Perm, is_root: bool, depth: int) -> bool:
    """Whether moving the value's axes by `perm` costs nothing: all that it is made of was moved the other way before, or is constant."""
    node = editor.producer(value)
    if node is None or depth == 0:
        return editor.constant_data(value) is not None
    if node.op == "transpose":
        inner = ints(node, "perm")
        return tuple(inner[p] for p in perm) == tuple(range(len(perm))) and editor.only_user(value) is not None
    if node.op not in ELEMENTWISE or not (is_root or editor.only_user(value) is not None) or value.type.rank != len(perm):
        return False
    moving = [v for v in node.inputs if v is not None and editor.constant_data(v) is None]
    same_rank = all(v.type.rank == len(perm) for v in moving)  # constants of lower rank are given their 1s
    return bool(moving) and same_rank and all(_undone(editor, v, perm, False, depth - 1) for v in moving)


def _moved(editor: Editor, value: Value, perm: Perm) -> Value:
    """The value with its axes in the new order, made without a transpose."""
    data = editor.constant_data(value)
    if data is not None:
        if data.size == 1:
            return value
        full = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
        return editor.constant(np.ascontiguousarray(full.transpose(perm)), name=value.name, dtype=value.type.dtype)
    node = editor.producer(value)
    assert node is not None
    if node.op == "transpose":
        assert node.inputs[0] is not None
        return node.inputs[0]
    inputs = [_moved(editor, v, perm) if v is not None else None for v in node.inputs]
    return editor.add(node.op, *inputs, name=node.name, **options(node))
