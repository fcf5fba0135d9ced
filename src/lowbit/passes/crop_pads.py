"""Padding by negative numbers, which cuts elements off, is a slice; what it adds at other ends is joined to that (a shift in time)."""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints, real


def crop_pads(graph: Graph) -> Graph:
    """The graph without constant padding by negative numbers, where sizes are known."""
    return rewrite(graph, _crop, "pad")


def _crop(editor: Editor, node: Node) -> None:
    pads, x = ints(node, "pads"), node.inputs[0]
    if x is None or node.attrs["mode"] != "constant" or min(pads, default=0) >= 0:
        return
    rank = x.type.rank
    if not all(isinstance(d, int) for d in (*x.shape, *node.output.shape)) or len(pads) != 2 * rank:
        return
    cut = [a for a in range(rank) if pads[a] < 0 or pads[rank + a] < 0]
    starts = tuple(max(0, -pads[a]) for a in cut)
    ends = tuple(int(x.shape[a]) + min(0, pads[rank + a]) for a in cut)
    now = editor.add("slice", x, name=node.name, axes=tuple(cut), starts=starts, ends=ends, steps=(1,) * len(cut))
    added = [a for a in range(rank) if pads[a] > 0 or pads[rank + a] > 0]
    for a in added:
        sides = []
        for count in (pads[a], pads[rank + a]):
            shape = [max(count, 0) if i == a else int(d) for i, d in enumerate(now.shape)]
            sides.append(editor.constant(np.full(shape, real(node, "value"), x.type.dtype.numpy)) if count > 0 else None)
        parts = [v for v in (sides[0], now, sides[1]) if v is not None]
        if a == added[-1]:
            editor.become(node, "concat", *parts, axis=a)
            return
        now = editor.add("concat", *parts, name=node.name, axis=a)
    editor.replace(node.output, now, inherit=True)
