"""Folds batch norm into the layer before it; where that cannot be, it becomes one multiplication and one addition per channel."""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import real
from lowbit.passes.fold_affine import LAYERS, channel_axis, fold_into


def fold_batchnorm(graph: Graph) -> Graph:
    """The graph without batch norms of constant statistics: s = scale / √(var + eps), then x * s + (bias - mean * s)."""
    return rewrite(graph, _fold, "batch_norm")


def _fold(editor: Editor, node: Node) -> None:
    x, *parameters = node.inputs
    data = [editor.constant_data(v) for v in parameters]
    if x is None or any(d is None for d in data):
        return
    scale, bias, mean, var = (d.astype(np.float64) for d in data if d is not None)
    s = scale / np.sqrt(var + real(node, "eps"))
    t = bias - mean * s
    layer = editor.producer(x)
    if layer is not None and layer.op in LAYERS and channel_axis(layer) == 1 and fold_into(editor, layer, node, s, t):
        return
    dtype = x.type.dtype.numpy
    shape = (-1, *[1] * (x.type.rank - 2))
    stem = node.name or node.output.name
    by = editor.constant(s.astype(dtype).reshape(shape), name=f"{stem}.mul")
    plus = editor.constant(t.astype(dtype).reshape(shape), name=f"{stem}.add")
    editor.become(node, "add", editor.add("mul", x, by, name=node.name), plus)
