"""Lets a transpose meet its inverse through the elementwise ops between them, so that both go.

conv → (N, H, W, C) → relu → add → (N, C, H, W) → conv      has no transpose left
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axes, axis, dims, ints, options
from lowbit.passes.drop_identities import BROADCASTS
from lowbit.passes.fold_movement import REDUCTIONS, reduced_before

DEPTH = 32  # ops between the two
_NAMES = """
    neg abs relu relu6 exp log sqrt reciprocal floor ceil round sign sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
    sigmoid softplus softsign silu swish mish hardswish isnan isinf logical_not bitwise_not log1p expm1 clip leaky_relu elu selu celu
    hardsigmoid gelu thresholded_relu shrink cast identity"""
ELEMENTWISE = (frozenset(_NAMES.split()) | BROADCASTS) - {"matmul"}

FOLLOWS = ELEMENTWISE | {"concat", "pad", "softmax", *REDUCTIONS}  # ops that work in any order of axes, with attributes for that order

Perm = tuple[int, ...]


def cancel_transposes(graph: Graph) -> Graph:
    """The graph in which no transpose is undone after ops that do not mind it, by another one or by a reduction."""
    return rewrite(graph, _cancel, "transpose", *REDUCTIONS)


def _cancel(editor: Editor, node: Node) -> None:
    value = node.inputs[0]
    root = editor.producer(value)
    if value is None or root is None or root.op not in FOLLOWS:
        return
    if node.op == "transpose":
        perm = ints(node, "perm")
        if not _undone(editor, value, perm, True, DEPTH):
            return
        others = len(editor.users(value)) > 1 or editor.is_output(value)
        moved = _moved(editor, value, perm)
        editor.replace(node.output, moved)
        if others:  # who else reads it gets it back in its old order
            editor.replace(value, editor.add("transpose", moved, name=node.name, perm=_inverse(perm)))
    else:
        turned = _turned_by(editor, value)
        reduced = reduced_before(node, turned) if turned is not None else None
        if turned is not None and reduced is not None and _undone(editor, value, _inverse(turned), False, DEPTH):
            editor.become(node, node.op, _moved(editor, value, _inverse(turned)), **reduced)


def _inverse(perm: Perm) -> Perm:
    return tuple(perm.index(i) for i in range(len(perm)))


def _turned_by(editor: Editor, value: Value) -> Perm | None:
    """How the first transpose above the value, through ops that do not mind it, moves the axes."""
    for _ in range(DEPTH):
        node = editor.producer(value)
        if node is None or (node.op not in FOLLOWS and node.op != "transpose"):
            return None
        if node.op == "transpose":
            return ints(node, "perm")
        moving = [v for v in node.inputs if v is not None and editor.constant_data(v) is None]
        if not moving:
            return None
        value = moving[0]
    return None


def _undone(editor: Editor, value: Value, perm: Perm, is_root: bool, depth: int) -> bool:
    """Whether moving the value's axes by `perm` costs nothing: all that it is made of was moved the other way before, or is constant."""
    node = editor.producer(value)
    if node is None or depth == 0:
        return False
    if node.op == "transpose":
        return ints(node, "perm") == _inverse(perm) and editor.only_user(value) is not None
    if node.op not in FOLLOWS or not (is_root or editor.only_user(value) is not None) or value.type.rank != len(perm):
        return False
    moving = [v for v in node.inputs if v is not None and editor.constant_data(v) is None]
    same_rank = all(v.type.rank == len(perm) for v in moving)  # constants of lower rank are given their 1s
    return bool(moving) and same_rank and all(_undone(editor, v, perm, False, depth - 1) for v in moving)


def _moved(editor: Editor, value: Value, perm: Perm) -> Value:
    """The value with its axes in the new order, made without a transpose."""
    data = editor.constant_data(value)
    if data is not None:
        full = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
        return (
            value
            if data.size == 1
            else editor.constant(np.ascontiguousarray(full.transpose(perm)), name=value.name, dtype=value.type.dtype)
        )
    node = editor.producer(value)
    assert node is not None
    if node.op == "transpose":
        assert node.inputs[0] is not None
        return node.inputs[0]
    inputs = [_moved(editor, v, perm) if v is not None else None for v in node.inputs]
    return editor.add(node.op, *inputs, name=node.name, **_moved_options(node, perm))


def _moved_options(node: Node, perm: Perm) -> dict[str, Any]:
    """The node's attributes for axes in the new order."""
    if node.op in ("concat", "softmax"):
        return options(node, axis=perm.index(axis(node)))
    if node.op in REDUCTIONS:
        return options(node, axes=tuple(sorted(perm.index(a) for a in axes(node))))
    if node.op == "pad":
        pads = dims(node, "pads")
        return options(node, pads=tuple(pads[p + side] for side in (0, len(perm)) for p in perm))
    return options(node)
