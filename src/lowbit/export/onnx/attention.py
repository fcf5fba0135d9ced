"""Attention spelled out as products and a softmax, which every runtime has; rotary embedding as products and sums."""

from __future__ import annotations

from typing import cast

import numpy as np

from lowbit.dims import Sym
from lowbit.export.onnx.movement import source
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node, Value


@spells("attention")
def attention(w: Writer, node: Node) -> None:
    q, k, v, mask = source(node), source(node, 1), source(node, 2), node.input(3)
    scale, causal = cast("float", node.attrs["scale"]), bool(node.attrs["causal"])
    if w.opset >= 23 and mask is None and q.type.rank == k.type.rank == v.type.rank == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]:
        w.node(node, "Attention", q, k, v, scale=scale, is_causal=causal)
        return
    order = (*range(k.type.rank - 2), k.type.rank - 1, k.type.rank - 2)
    keys = w.step(node, "Transpose", k, perm=order)
    scores = w.step(node, "MatMul", w.step(node, "Mul", q, w.scalar(scale, like=q)), keys)
    hidden = w.scalar(-np.inf, like=q)
    if mask is not None and mask.type.dtype.name == "bool":
        scores = w.step(node, "Where", mask, scores, hidden)
    elif mask is not None:
        scores = w.step(node, "Add", scores, mask)
    if causal:
        scores = w.step(node, "Where", _past(w, node, q, k), scores, hidden)
    weights = w.step(node, "Softmax", scores, axis=-1)
    if mask is not None:  # a row that may attend to nothing is 0 / 0, and gives zeros
        weights = w.step(node, "Where", w.step(node, "IsNaN", weights), w.scalar(0, like=q), weights)
    w.node(node, "MatMul", weights, v)


def _past(w: Writer, node: Node, q: Value, k: Value) -> str:
    """Which columns each row sees: a triangle, as a constant or made of the sizes."""
    rows, columns = q.shape[-2], k.shape[-2]
    if not isinstance(rows, Sym) and not isinstance(columns, Sym):
        return w.constant(np.tri(rows, columns, dtype=np.bool_), "bool", hint="past")
    from lowbit.dtypes import dtype
    from lowbit.export.onnx.tensors import tensor_proto

    true = tensor_proto("", np.ones(1, np.bool_), dtype("bool"))
    return w.step(node, "Trilu", w.step(node, "ConstantOfShape", w.ints([rows, columns]), value=true), upper=0)


@spells("rotary_embedding")
def rotary_embedding(w: Writer, node: Node) -> None:
    """(a cos - b sin, a sin + b cos) of the two halves, or of neighbours."""
    x, cos, sin = source(node), source(node, 1), source(node, 2)
    last = w.ints([x.type.rank - 1])
    features = x.shape[-1]
    if node.attrs["interleaved"]:
        far = w.ints([2**31 - 1])
        a, b = (w.step(node, "Slice", x, w.ints([i]), far, last, w.ints([2])) for i in (0, 1))
    else:
        half = w.ints([features // 2])
        a = w.step(node, "Slice", x, w.ints([0]), half, last)
        b = w.step(node, "Slice", x, half, w.ints([features]), last)
    first = w.step(node, "Sub", w.step(node, "Mul", a, cos), w.step(node, "Mul", b, sin))
    second = w.step(node, "Add", w.step(node, "Mul", a, sin), w.step(node, "Mul", b, cos))
    if not node.attrs["interleaved"]:
        w.node(node, "Concat", first, second, axis=x.type.rank - 1)
        return
    pair = [w.step(node, "Unsqueeze", part, w.ints([x.type.rank])) for part in (first, second)]
    w.node(node, "Reshape", w.step(node, "Concat", *pair, axis=x.type.rank), w.ints(x.shape))
