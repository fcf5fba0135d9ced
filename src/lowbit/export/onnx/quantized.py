"""Quantize and dequantize, and the integer ops of ONNX itself."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import UnsupportedOp
from lowbit.export.onnx.linear import four_bits, turned_constants
from lowbit.export.onnx.movement import source
from lowbit.export.onnx.network import window
from lowbit.export.onnx.tensors import element_type
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node


def _since(node: Node) -> int:
    """float16 scales came with opset 19, int16, int4 and blocks with 21, results of another type than the scale with 23."""
    if node.op == "dequantize_linear" and dtype(str(node.attrs["to"])) != source(node, 1).type.dtype:
        return 23
    integers = node.output if node.op == "quantize_linear" else source(node)
    half = source(node, 1).type.dtype.name != "float32"
    return 21 if node.attrs["block_size"] or integers.type.dtype.bits not in (8, 32) else 19 if half else 17


def _grid(node: Node, turned: bool = False) -> dict[str, Any]:
    """The axis and blocks, where there is more than one scale."""
    axis, block = cast("int", node.attrs["axis"]), node.attrs["block_size"]
    if not source(node, 1).type.rank:
        return {}
    return {"axis": 1 - axis if turned else axis, "block_size": block or None}


@spells("quantize_linear", since=_since)
def quantize_linear(w: Writer, node: Node) -> None:
    x, scale, zero = source(node), source(node, 1), node.input(2)
    if node.output.name in w.codes:
        w.node(node, "Identity", w.codes[node.output.name])
        return
    d = node.output.type.dtype
    if d.name == "binary":
        hint = 'recipe="w1a8": binary weights, 8-bit activations; or save a .lowbit file'
        raise UnsupportedOp("ONNX has no activations of one bit", where=x.name, hint=hint)
    given: Any = zero
    kind = None
    if zero is None and d.name != "uint8":  # uint8 is what a missing zero point means
        if w.opset >= 21:
            kind = element_type(d)
        else:
            given = w.constant(np.zeros([int(n) for n in scale.shape], d.numpy), d, hint="zero")
    saturate = None if node.attrs["saturate"] or w.opset < 19 else 0
    w.node(node, "QuantizeLinear", x, scale, given, **_grid(node), output_dtype=kind, saturate=saturate)


@spells("dequantize_linear", since=_since)
def dequantize_linear(w: Writer, node: Node) -> None:
    users = w.graph.users.get(node.output.name, ())
    if w.matmul_nbits and len(users) == 1 and users[0].input(1) == node.output and four_bits(w.graph, users[0]) is not None:
        w.held[node.output.name] = w.count
        return  # the layer holds it
    if users and all(u.output.name in w.integer for u in users) and node.output not in w.graph.outputs.values():
        return  # the layers read its integers
    turned = bool(users) and users[0].op == "linear" and turned_constants(w.graph, node.output) is not None
    to = dtype(str(node.attrs["to"]))
    other = element_type(to) if to != source(node, 1).type.dtype else None
    w.node(node, "DequantizeLinear", *node.inputs, **_grid(node, turned), output_dtype=other)


@spells("dynamic_quantize_linear")
def dynamic_quantize_linear(w: Writer, node: Node) -> None:
    w.node(node, "DynamicQuantizeLinear", source(node))


@spells("matmul_integer")
def matmul_integer(w: Writer, node: Node) -> None:
    w.node(node, "MatMulInteger", *node.inputs)


@spells("conv_integer")
def conv_integer(w: Writer, node: Node) -> None:
    w.node(node, "ConvInteger", *node.inputs, **window(node), group=node.attrs["groups"])


@spells("qlinear_conv")
def qlinear_conv(w: Writer, node: Node) -> None:
    w.node(node, "QLinearConv", *node.inputs, **window(node), group=node.attrs["groups"])


@spells("qlinear_matmul", since=lambda node: 21 if source(node, 1).type.dtype.name != "float32" else 17)
def qlinear_matmul(w: Writer, node: Node) -> None:
    w.node(node, "QLinearMatMul", *node.inputs)


@spells("quantize_rows")
def quantize_rows(w: Writer, node: Node) -> None:
    """scale = max |x| ÷ 127 (1 where that is 0 or not finite), q = clamp(rne(x ÷ scale), -127, 127); NaN is 0."""
    x, (q, scale) = source(node), node.outputs
    zero, one = w.scalar(0, like=x), w.scalar(1, like=x)
    known = w.step(node, "Where", w.step(node, "IsNaN", x), zero, x)
    size = w.step(node, "Abs", known)
    last = x.type.rank - 1
    if w.opset >= 18:
        largest = w.step(node, "ReduceMax", size, w.ints([last]), keepdims=1)
    else:
        largest = w.step(node, "ReduceMax", size, axes=[last], keepdims=1)
    found = w.step(node, "Div", largest, w.scalar(127, like=x))
    usable = w.step(node, "And", w.step(node, "Greater", found, zero), w.step(node, "Not", w.step(node, "IsInf", found)))
    w.define(node, scale, "Where", usable, found, one)
    steps = w.step(node, "Round", w.step(node, "Div", known, scale))
    clamped = w.step(node, "Clip", steps, w.scalar(-127, like=x), w.scalar(127, like=x))
    w.define(node, q, "Cast", clamped, to=element_type(q.type.dtype))


@spells("dequantize_rows")
def dequantize_rows(w: Writer, node: Node) -> None:
    q, scale = source(node), source(node, 1)
    w.node(node, "Mul", w.step(node, "Cast", q, to=element_type(node.output.type.dtype)), scale)
