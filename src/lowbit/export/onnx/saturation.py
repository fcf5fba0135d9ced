"""Weights that no CPU saturates.

CPUs with AVX2 and without VNNI multiply u8 by s8 with vpmaddubsw, which adds two neighbouring products in 16 bits: ONNX Runtime's sums
are then wrong where |a₀·w₀ + a₁·w₁| > 32,767. With activations of up to 255 that needs two neighbouring weights of one sign that add up
to more than 128. A layer that has such neighbours gets its weights as uint8 (zero point 128), which ONNX Runtime multiplies in 16 bits:
the same results on every CPU, but slower where the CPU has VNNI. Or the output channels that have them get weights of 7 bits (half the
codes, twice the scale): as fast as before, but other weights than those that were measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Union

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.types import Array

Safe = Union[bool, Literal["7-bit"]]  # noqa: UP007 (True: as uint8)
LARGEST = 255  # of an activation's code, counted from the least
ROOM = 32767


@dataclass(frozen=True)
class Made:
    """The graph to write, and the layers whose weights were changed."""

    graph: Graph
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """Constant int8 weights that a layer multiplies by quantized activations."""

    layer: Node
    bracket: Node
    codes: Array  # output channels × products


def safe_weights(graph: Graph, how: Safe) -> Made:
    """The graph with weights that cannot saturate."""
    if how is False:
        return Made(graph)
    editor, done = Editor(graph), list[str]()
    for found in list(layers(graph)):
        unsafe = saturating(found)
        if not unsafe.any():
            continue
        done.append(found.layer.name or found.layer.output.name)
        if how is True:
            _as_unsigned(editor, graph, found)
        else:
            _with_seven_bits(editor, graph, found, unsafe)
    return Made(editor.done(), tuple(done))


def saturating(found: Weights) -> Array:
    """The output channels with neighbouring weights that could leave 16 bits. Engines add in one order or the other: both count."""
    codes = found.codes.astype(np.int32)
    orders = [codes.reshape(len(codes), -1)]
    if codes.ndim > 2:
        orders.append(np.moveaxis(codes, 1, -1).reshape(len(codes), -1))
    unsafe = np.zeros(len(codes), bool)
    for row in orders:
        for sign in (1, -1):
            part = np.maximum(sign * row, 0)
            unsafe |= (LARGEST * (part[:, :-1] + part[:, 1:]) > ROOM).any(axis=1)
    return unsafe


def layers(graph: Graph) -> Iterator[Weights]:
    """The layers whose weights are int8 constants that only they read, and whose activations have 8 bits."""
    for node in graph.nodes:
        if node.op not in ("conv", "linear"):
            continue
        x, w = node.inputs[0], node.inputs[1]
        if x is None or w is None or (node.op == "conv" and node.attrs["groups"] == x.shape[1]):
            continue  # depthwise layers are multiplied without vpmaddubsw
        bracket, before = _dequantized(graph, w), _dequantized(graph, x)
        if bracket is None or before is None or len(graph.users[w.name]) != 1:
            continue
        codes = graph.constant(bracket.inputs[0])
        if codes is None or bracket.inputs[0].type.dtype.name != "int8" or before.inputs[0].type.dtype.bits != 8:  # type: ignore[union-attr]
            continue
        if len(graph.users[bracket.inputs[0].name]) == 1 and bracket.attrs["block_size"] == 0:  # type: ignore[union-attr]
            yield Weights(node, bracket, codes)


def _dequantized(graph: Graph, value: Value | None) -> Node | None:
    node = graph.producers.get(value.name) if value is not None else None
    return node if node is not None and node.op == "dequantize_linear" else None


def _with_seven_bits(editor: Editor, graph: Graph, found: Weights, unsafe: Array) -> None:
    bracket = found.bracket
    scale = graph.constant(bracket.inputs[1])
    assert scale is not None and bracket.inputs[0] is not None and bracket.inputs[1] is not None
    rows = unsafe if scale.ndim else np.full(len(unsafe), True)
    factor = np.where(rows, 2, 1).reshape(-1, *(1,) * (found.codes.ndim - 1))
    codes = np.where(factor == 2, np.clip(np.rint(found.codes / 2), -64, 64), found.codes).astype(np.int8)
    editor.set_constant(bracket.inputs[0], codes)
    wider = np.asarray(scale * (factor.reshape(scale.shape) if scale.ndim else 2), scale.dtype)
    editor.set_inputs(bracket, [bracket.inputs[0], editor.constant(wider, name=f"{bracket.output.name}.scale7"), *bracket.inputs[2:]])
    bias = _dequantized(graph, found.layer.input(2))
    sums, step = (None, None) if bias is None else (graph.constant(bias.inputs[0]), graph.constant(bias.inputs[1]))
    if bias is None or sums is None or step is None or bias.inputs[0] is None or step.size != rows.size:
        return
    twice = np.where(rows, 2, 1).reshape(step.shape)  # the bias has the scale of the products, or engines do not fuse it
    editor.set_constant(bias.inputs[0], np.where(twice.reshape(sums.shape) == 2, np.rint(sums / 2), sums).astype(sums.dtype))
    new = editor.constant(np.asarray(step * twice, step.dtype), name=f"{bias.output.name}.scale7")
    editor.set_inputs(bias, [bias.inputs[0], new, *bias.inputs[2:]])


def _as_unsigned(editor: Editor, graph: Graph, found: Weights) -> None:
    bracket = found.bracket
    scale, zero = graph.constant(bracket.inputs[1]), graph.constant(bracket.input(2))
    assert scale is not None
    codes = editor.constant((found.codes.astype(np.int16) + 128).astype(np.uint8), name=f"{bracket.output.name}.uint8")
    zeros = (np.zeros(scale.shape, np.int16) if zero is None else zero.astype(np.int16)) + 128
    editor.set_inputs(bracket, [codes, bracket.inputs[1], editor.constant(zeros.astype(np.uint8), name=f"{bracket.output.name}.zero")])
