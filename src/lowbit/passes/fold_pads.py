"""Folds `pad` into the conv or pool after it, which pads by itself."""

from __future__ import annotations

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import dims, ints, options, real
from lowbit.passes.fuse_activations import BOUNDS, bounds

LOWEST = {"float16": -65504.0, "bfloat16": -3.3895313892515355e38, "float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}


def fold_pads(graph: Graph) -> Graph:
    """The graph in which conv, max_pool and avg_pool do the padding that was written before them, where that means the same."""
    return rewrite(graph, _fold, "conv", "max_pool", "avg_pool", "pad")


def _fold(editor: Editor, node: Node) -> None:
    pad = editor.producer(node.inputs[0])
    if pad is None or pad.op != "pad" or pad.attrs["mode"] != "constant":
        return
    if node.op == "pad":
        _two_pads(editor, node, pad)
        return
    x, outer = pad.inputs[0], _spatial(pad)
    if x is None or outer is None:
        return
    own = ints(node, "pads")
    pads = tuple(a + b for a, b in zip(own, outer, strict=True))
    attrs = options(node, pads=pads)
    value = real(pad, "value")
    if node.op == "conv":
        fits = value == 0
    elif node.op == "avg_pool":  # zeros that were written out count in the mean
        fits = value == 0 and not node.attrs["ceil_mode"] and (bool(node.attrs["count_include_pad"]) or not any(own))
        attrs["count_include_pad"] = True
    else:
        fits = _never_largest(editor, x, value, node, pads)
    if fits:
        editor.become(node, node.op, x, *node.inputs[1:], **attrs)


def _spatial(pad: Node) -> tuple[int, ...] | None:
    """The pads of the spatial axes as conv has them; None when others are padded too, or something is cut off."""
    pads = tuple(p for p in dims(pad, "pads") if isinstance(p, int) and p >= 0)
    half = len(pads) // 2
    if len(pads) != len(dims(pad, "pads")) or half < 3 or any((*pads[:2], *pads[half : half + 2])):
        return None
    return (*pads[2:half], *pads[half + 2 :])


def _never_largest(editor: Editor, x: Value, value: float, node: Node, pads: tuple[int, ...]) -> bool:
    """Whether a padding of this value changes no maximum: it is the lowest there is, or x is never below it and in every window."""
    if value <= LOWEST.get(x.type.dtype.name, float("-inf")):
        return True
    before = editor.producer(x)
    limits = bounds(editor, before) if before is not None and before.op in BOUNDS else None
    inside = all(p < k for p, k in zip(pads, ints(node, "kernel") * 2, strict=True))
    dense = all(d == 1 for d in ints(node, "dilation")) and not node.attrs["ceil_mode"]
    return limits is not None and limits[1] is not None and limits[1] >= value and inside and dense


def _two_pads(editor: Editor, node: Node, pad: Node) -> None:
    pads, inner = dims(node, "pads"), dims(pad, "pads")
    growing = all(isinstance(p, int) and p >= 0 for p in (*pads, *inner))
    if node.attrs["mode"] == "constant" and node.attrs["value"] == pad.attrs["value"] and growing:
        merged = tuple(a + b for a, b in zip(pads, inner, strict=True))
        editor.become(node, "pad", pad.inputs[0], mode="constant", pads=merged, value=node.attrs["value"])
