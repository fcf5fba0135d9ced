"""Linear layers: Gemm for matrices; MatMul, and Add for the bias, for everything else.

A MatMul wants the weight as (in, out): constants that only such layers read are stored transposed, also before a DequantizeLinear. Runtimes
turn this form into one integer product. The model's metadata say which MatMul and Add are a linear layer, so that reading
the file gives the layer back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from lowbit.export.onnx.movement import source
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Graph, Node, Value
from lowbit.types import Array


def is_gemm(node: Node) -> bool:
    return node.op == "linear" and source(node).type.rank == 2


def turned_constants(graph: Graph, weight: Value) -> tuple[str, ...] | None:
    """The constants that are stored transposed so that the weight is; () when it must be transposed by a node instead.

    That is a weight, or the integers (and the scales and zero points of blocks) of one, that only MatMuls read.
    """
    if any(
        is_gemm(u) or u.op != "linear" or u.inputs[1] != weight or weight in (u.inputs[0], u.input(2)) for u in graph.users[weight.name]
    ):
        return None
    if any(v.name == weight.name for v in graph.outputs.values()):
        return None
    if weight.name in graph.constants:
        return (weight.name,)
    dequantize = graph.producers.get(weight.name)
    if dequantize is None or dequantize.op != "dequantize_linear":
        return None
    q, scale, zero = dequantize.inputs[0], dequantize.inputs[1], dequantize.input(2)
    blocks = [scale, zero] if dequantize.attrs["block_size"] else []
    moved = [v.name for v in (q, *blocks) if v is not None]
    outputs = {v.name for v in graph.outputs.values()}
    alone = all(name in graph.constants and len(graph.users[name]) == 1 and name not in outputs for name in moved)
    return tuple(moved) if alone else None


@spells("linear")
def linear(w: Writer, node: Node) -> None:
    x, weight, bias = source(node), source(node, 1), node.input(2)
    blocks = four_bits(w.graph, node) if w.matmul_nbits else None
    if blocks is not None:
        _matmul_nbits(w, node, blocks)
        return
    if is_gemm(node):
        w.node(node, "Gemm", x, weight, bias, transB=1)
        return
    turned = turned_constants(w.graph, weight)
    right = weight if turned is not None else w.step(node, "Transpose", weight, perm=(1, 0))
    product = w.name(node.output)
    if bias is None:
        w.node(node, "MatMul", x, right)
    else:
        product = w.step(node, "MatMul", x, right)
        w.node(node, "Add", product, bias)
    if turned is not None:
        w.turned.update(turned)
        w.linears[product] = w.name(node.output) if bias is not None else ""


@dataclass(frozen=True)
class FourBits:
    """A weight of unsigned four-bit codes in blocks along its rows."""

    codes: Array  # (out, blocks * block)
    scales: Array  # (out, blocks)
    zeros: Array
    block: int
    inside: int  # columns that there are; the codes are filled up to whole blocks


def four_bits(graph: Graph, node: Node) -> FourBits | None:
    """The weight of a linear layer as MatMulNBits takes it, if it is one: int4 or uint4 in blocks of a power of two along its rows."""
    weight = node.input(1) if node.op == "linear" else None
    before = graph.producers.get(weight.name) if weight is not None else None
    if weight is None or before is None or before.op != "dequantize_linear" or len(graph.users[weight.name]) > 1:
        return None
    block = cast("int", before.attrs["block_size"])
    q, scale, zero = (graph.constant(before.input(i)) for i in range(3))
    kind = source(before).type.dtype
    if block < 16 or block & (block - 1) or before.attrs["axis"] != 1 or kind.bits != 4:
        return None
    if q is None or scale is None or (zero is None and before.input(2) is not None) or scale.dtype != np.float32:
        return None
    shift = 8 if kind.is_signed else 0
    codes = np.full((q.shape[0], scale.shape[1] * block), shift, np.uint8)
    codes[:, : q.shape[1]] = q.astype(np.int16) + shift
    zeros = np.full(scale.shape, shift, np.uint8) if zero is None else (zero.astype(np.int16) + shift).astype(np.uint8)
    return FourBits(codes, scale, zeros, block, q.shape[1])


def _matmul_nbits(w: Writer, node: Node, b: FourBits) -> None:
    out, blocks = b.scales.shape
    stem = w.name(node.inputs[1])
    codes = w.constant(_nibbles(b.codes).reshape(out, blocks, b.block // 2), hint=f"{stem}/codes")
    scales, zeros = w.constant(b.scales, hint=f"{stem}/scales"), w.constant(_nibbles(b.zeros), hint=f"{stem}/zeros")
    before = w.graph.producers[source(node, 1).name]
    w.nbits[w.name(node.output)] = {
        "at": w.held[before.output.name],
        "rank": list(w.held).index(before.output.name),
        "real": stem,
        "layer": before.name,
        "inputs": [w.name(v) for v in before.inputs],
        "dtype": source(before).type.dtype.name,
    }
    size = {"K": b.inside, "N": out, "bits": 4, "block_size": b.block}
    w.node(node, "com.microsoft:MatMulNBits", source(node), codes, scales, zeros, None, node.input(2), **size)


def _nibbles(codes: Array) -> Array:
    """Two a byte along the last axis, the low one first; an odd row is filled up with 0."""
    even = np.pad(codes, [(0, 0), (0, codes.shape[1] % 2)])
    return np.ascontiguousarray(even[:, 0::2] | (even[:, 1::2] << 4))
