"""Linear layers of groups that are spelled as an einsum, "btgi,gih->btgh" with constant weights, are a convolution with groups.

Each group of inputs has weights of its own. As a convolution of one pixel, with the rows as its batch, the layer has kernels and integers.
"""

from __future__ import annotations

import numpy as np

from lowbit.dims import product
from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.ops.einsum import parse


def group_einsum(graph: Graph) -> Graph:
    """The graph in which an einsum of rows of groups and a constant is a reshape, a convolution and a reshape."""
    return rewrite(graph, _fold, "einsum")


def _fold(editor: Editor, node: Node) -> None:
    if len(node.inputs) != 2 or node.inputs[0] is None:
        return
    x, weight = node.inputs[0], editor.constant_data(node.inputs[1])
    (left, right), out = parse(str(node.attrs["equation"]), 2)
    if weight is None or "..." in left + right + out or len(left) < 2 or len(right) != 3:
        return
    if right[:2] != left[-2:] or right[2] in left or out != left[:-1] + right[2] or len(set(left)) != len(left):
        return
    groups, inputs, outputs = weight.shape
    if x.shape[-2:] != (groups, inputs):  # a dimension of 1 would be repeated
        return
    stem = node.name or node.output.name
    turned = np.ascontiguousarray(weight.transpose(0, 2, 1).reshape(groups * outputs, inputs, 1))
    flat = editor.add("reshape", x, shape=(product(x.shape[:-2]), groups * inputs, 1), out=f"{node.output.name}:flat")
    stored, layer = editor.constant(turned, name=f"{stem}.weight"), {"name": node.name, "out": f"{node.output.name}:groups"}
    made = editor.add("conv", flat, stored, None, groups=groups, stride=(1,), pads=(0, 0), dilation=(1,), **layer)
    editor.become(node, "reshape", made, shape=node.output.shape)
