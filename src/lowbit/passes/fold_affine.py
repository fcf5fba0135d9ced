"""Folds multiplications and additions of constants per channel into the conv, conv_transpose or linear before or after them."""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints, options, whole
from lowbit.types import Array

LAYERS = ("conv", "conv_transpose", "linear")
AFFINE = ("mul", "add", "sub", "div")


def fold_affine(graph: Graph) -> Graph:
    """The graph in which constant scales and shifts next to a layer are part of its weight and bias.

    y = conv(x, w, b) * s + t   becomes   conv(x, w * s, b * s + t), computed in float64 and rounded once.
    """
    return rewrite(graph, _fold, *AFFINE, *LAYERS)


def _fold(editor: Editor, node: Node) -> None:
    if node.op in LAYERS:
        _fold_into_next(editor, node)
        return
    for value, constant in (node.inputs, node.inputs[::-1]):
        layer = editor.producer(value)
        if layer is None or layer.op not in LAYERS:
            continue
        step = affine_step(editor, node, value, constant, channel_axis(layer))
        if step is not None and fold_into(editor, layer, node, *step):
            return


def channel_axis(layer: Node) -> int:
    """The axis of a layer's output (and of linear's and conv's input) that has one weight slice each."""
    return layer.output.type.rank - 1 if layer.op == "linear" else 1


Step = tuple["Array | None", "Array | None"]  # scale and shift per channel; None for 1 and for 0


def affine_step(editor: Editor, node: Node, value: Value | None, constant: Value | None, axis: int) -> Step | None:
    """(scale, shift) per channel such that node = value * scale + shift; None when it is no such thing."""
    data = editor.constant_data(constant)
    if data is None or value is None or node.output.type != value.type or not value.type.dtype.is_float:
        return None
    c = per_channel(data, value, axis)
    if c is None:
        return None
    on_left = node.inputs[0] is constant
    if node.op == "mul":
        return c, None
    if node.op == "add":
        return None, c
    if node.op == "sub":
        return (-np.ones_like(c), c) if on_left else (None, -c)
    return None if on_left or (c == 0).any() else (1.0 / c, None)


def per_channel(data: Array, value: Value, axis: int) -> Array | None:
    """The constant as float64 with one element per index of the axis, if it varies along no other axis."""
    channels = value.shape[axis]
    if not isinstance(channels, int) or data.ndim > value.type.rank:
        return None
    shape = (1,) * (value.type.rank - data.ndim) + data.shape
    if any(d != 1 for i, d in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1), (channels,)).astype(np.float64)


def fold_into(editor: Editor, layer: Node, node: Node, scale: Array | None, shift: Array | None) -> bool:
    """Makes `node` = layer * scale + shift the layer itself, if nothing else reads the layer or its weight."""
    x, w, b = layer.input(0), layer.input(1), layer.input(2)
    weight, bias = editor.constant_data(w), editor.constant_data(b)
    if editor.only_user(layer.output) is None or node.output.type != layer.output.type or w is None or (b is not None and bias is None):
        return False
    if scale is not None and (weight is None or editor.only_user(w) is None):
        return False  # a weight that is shared, or computed, stays as it is
    channels = layer.output.shape[channel_axis(layer)]
    new_bias = np.zeros(int(channels)) if bias is None else bias.astype(np.float64)
    if scale is not None:
        assert weight is not None
        editor.set_constant(w, (weight.astype(np.float64) * _per_output(scale, layer, weight)).astype(weight.dtype))
        new_bias = new_bias * scale
    if shift is not None:
        new_bias = new_bias + shift
    if shift is not None or bias is not None:
        b = with_data(editor, b, new_bias, w)
    return editor.become(node, layer.op, x, w, b, name=layer.name, **options(layer)) is not None


def with_data(editor: Editor, old: Value | None, data: Array, weight: Value) -> Value:
    """A bias with these data: the old constant if it is read once, else a new one, named after the weight."""
    data = data.astype(weight.type.dtype.numpy)
    if old is not None and editor.only_user(old) is not None:
        editor.set_constant(old, data)
        return old
    stem = weight.name.removesuffix("weight")
    return editor.constant(data, name=stem + "bias" if stem.endswith((".", "_", "/")) else f"{stem}.bias")


def _per_output(scale: Array, layer: Node, weight: Array) -> Array:
    """The scale of each output channel, shaped to multiply the weight."""
    if layer.op != "conv_transpose":
        return scale.reshape(-1, *[1] * (weight.ndim - 1))
    groups = whole(layer, "groups")  # w is (C, O/g, *K): rows of group i make outputs i*O/g …
    rows = np.repeat(scale.reshape(groups, 1, weight.shape[1]), weight.shape[0] // groups, axis=1)
    return rows.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))


def _fold_into_next(editor: Editor, layer: Node) -> None:
    """conv(x * s + t) with s and t per input channel; t only where no padding would have to be shifted too."""
    if layer.op == "conv_transpose":
        return
    x, w, b = layer.input(0), layer.input(1), layer.input(2)
    node = editor.producer(x)
    weight, bias = editor.constant_data(w), editor.constant_data(b)
    if node is None or node.op not in AFFINE or w is None or weight is None or (b is not None and bias is None):
        return
    if editor.only_user(node.output) is None or editor.only_user(w) is None:
        return
    for value, constant in (node.inputs, node.inputs[::-1]):
        step = affine_step(editor, node, value, constant, channel_axis(layer) if layer.op == "conv" else node.output.type.rank - 1)
        if step is None:
            continue
        scale, shift = step
        padded = layer.op == "conv" and any(ints(layer, "pads"))
        if shift is not None and padded:
            continue
        wide = weight.astype(np.float64)
        if shift is not None:
            moved = (wide * _per_input(shift, layer, weight)).reshape(weight.shape[0], -1).sum(axis=1)
            b = with_data(editor, b, moved if bias is None else bias + moved, w)
        if scale is not None:
            editor.set_constant(w, (wide * _per_input(scale, layer, weight)).astype(weight.dtype))
        editor.become(layer, layer.op, value, w, b, **options(layer))
        return


def _per_input(c: Array, layer: Node, weight: Array) -> Array:
    """A number for each input channel, shaped to multiply the weight."""
    if layer.op == "linear":
        return c.reshape(1, -1)
    groups = whole(layer, "groups")
    per_group = np.repeat(c.reshape(groups, 1, weight.shape[1]), weight.shape[0] // groups, axis=1)
    return per_group.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))
