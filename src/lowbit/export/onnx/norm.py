"""Normalizations. What ONNX's op cannot say (a norm without a scale) is spelled out, in the form that `simplify` makes one op of."""

from __future__ import annotations

from typing import cast

import numpy as np

from lowbit.export.onnx.movement import source
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node, Value


@spells("batch_norm")
def batch_norm(w: Writer, node: Node) -> None:
    w.node(node, "BatchNormalization", *node.inputs, epsilon=node.attrs["eps"])


@spells("instance_norm")
def instance_norm(w: Writer, node: Node) -> None:
    w.node(node, "InstanceNormalization", *node.inputs, epsilon=node.attrs["eps"])


@spells("lrn")
def lrn(w: Writer, node: Node) -> None:
    w.node(node, "LRN", *node.inputs, **node.attrs)


@spells("lp_norm")
def lp_norm(w: Writer, node: Node) -> None:
    w.node(node, "LpNormalization", *node.inputs, **node.attrs)


@spells("layer_norm")
def layer_norm(w: Writer, node: Node) -> None:
    x, scale, bias = source(node), node.input(1), node.input(2)
    axis = cast("int", node.attrs["axis"])
    tail = x.shape[axis:]
    if scale is not None and scale.shape == tail and (bias is None or bias.shape == tail):
        w.node(node, "LayerNormalization", x, scale, bias, axis=axis, epsilon=node.attrs["eps"])
        return
    centered = w.step(node, "Sub", x, _mean(w, node, x, axis))
    variance = _mean(w, node, w.step(node, "Mul", centered, centered), axis)
    _scaled(w, node, ["Div", centered, _root(w, node, variance)], scale, bias)


@spells("rms_norm")
def rms_norm(w: Writer, node: Node) -> None:
    x, scale, axis = source(node), node.input(1), cast("int", node.attrs["axis"])
    if scale is not None and w.opset >= 23:
        w.node(node, "RMSNormalization", x, scale, axis=axis, epsilon=node.attrs["eps"])
        return
    square = _mean(w, node, w.step(node, "Mul", x, x), axis)
    _scaled(w, node, ["Div", x, _root(w, node, square)], scale, None)


def _mean(w: Writer, node: Node, x: str | Value, first: int) -> str:
    axes = tuple(range(first, source(node).type.rank))
    if w.opset >= 18:
        return w.step(node, "ReduceMean", x, w.ints(axes), keepdims=1)
    return w.step(node, "ReduceMean", x, axes=axes, keepdims=1)


def _root(w: Writer, node: Node, variance: str) -> str:
    return w.step(node, "Sqrt", w.step(node, "Add", variance, w.scalar(cast("float", node.attrs["eps"]), like=node.output)))


def _scaled(w: Writer, node: Node, last: list[str | Value], scale: str | Value | None, bias: str | Value | None) -> None:
    """The last node of the norm and, where they are there, its scale and bias after it."""
    for kind, factor in (("Mul", scale), ("Add", bias)):
        if factor is not None:
            last = [kind, w.step(node, cast("str", last[0]), *last[1:]), factor]
    w.node(node, cast("str", last[0]), *last[1:])


@spells("group_norm", since=lambda node: 21 if node.input(1) is not None and node.input(2) is not None else 17)
def group_norm(w: Writer, node: Node) -> None:
    """Without a scale: the groups as channels of an instance norm."""
    x, scale, bias = source(node), node.input(1), node.input(2)
    groups = cast("int", node.attrs["groups"])
    if scale is not None and bias is not None:
        w.node(node, "GroupNormalization", x, scale, bias, num_groups=groups, epsilon=node.attrs["eps"])
        return
    grouped = w.step(node, "Reshape", x, w.ints([0, groups, -1]))
    one, zero = (w.constant(np.full(groups, v).astype(x.type.dtype.numpy), x.type.dtype) for v in (1, 0))
    normed = w.step(node, "InstanceNormalization", grouped, one, zero, epsilon=node.attrs["eps"])
    column = w.ints([-1, *[1] * (x.type.rank - 2)])
    factors = [None if v is None else w.step(node, "Reshape", v, column) for v in (scale, bias)]
    _scaled(w, node, ["Reshape", normed, w.ints(x.shape)], factors[0], factors[1])
