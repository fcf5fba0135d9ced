"""Reductions, searches and scans."""

from __future__ import annotations

from typing import cast

import numpy as np

from lowbit.dims import Dim
from lowbit.export.onnx.movement import ints, source
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Graph, Node, Value

REDUCE = {
    "reduce_sum": "ReduceSum",
    "reduce_mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "reduce_l1": "ReduceL1",
    "reduce_l2": "ReduceL2",
    "reduce_log_sum": "ReduceLogSum",
    "reduce_log_sum_exp": "ReduceLogSumExp",
    "reduce_sum_square": "ReduceSumSquare",
}
GLOBAL = {"reduce_mean": "GlobalAveragePool", "reduce_max": "GlobalMaxPool"}


@spells(*REDUCE, since=lambda node: 20 if source(node).type.dtype.name == "bool" else 17)
def reduce(w: Writer, node: Node) -> None:
    """Over the spatial axes it is a global pool, which runtimes have integer kernels for."""
    x, axes, keep = source(node), ints(node, "axes"), node.attrs["keepdims"]
    if node.op in GLOBAL and keep and x.type.rank > 2 and axes == tuple(range(2, x.type.rank)) and x.type.dtype.name == "float32":
        w.node(node, GLOBAL[node.op], x)
    elif not axes and node.op in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"):
        w.node(node, "Identity", x)
    elif w.opset >= 18 or node.op == "reduce_sum":
        w.node(node, REDUCE[node.op], x, w.ints(axes), keepdims=keep)
    else:
        w.node(node, REDUCE[node.op], x, axes=axes, keepdims=keep)


@spells("argmax", "argmin")
def arg(w: Writer, node: Node) -> None:
    a = node.attrs
    kind = "ArgMax" if node.op == "argmax" else "ArgMin"
    w.node(node, kind, source(node), axis=a["axis"], keepdims=a["keepdims"], select_last_index=a["select_last"])


@spells("topk")
def topk(w: Writer, node: Node) -> None:
    a = node.attrs
    w.node(node, "TopK", source(node), w.ints((cast("Dim", a["k"]),)), axis=a["axis"], largest=a["largest"], sorted=a["sorted"])


@spells("cumsum")
def cumsum(w: Writer, node: Node) -> None:
    a = node.attrs
    axis = w.constant(np.array(a["axis"], np.int64))
    w.node(node, "CumSum", source(node), axis, exclusive=a["exclusive"], reverse=a["reverse"])


@spells("trilu")
def trilu(w: Writer, node: Node) -> None:
    w.node(node, "Trilu", source(node), w.constant(np.array(node.attrs["k"], np.int64)), upper=node.attrs["upper"])


SOFTMAX = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "hardmax": "Hardmax"}


@spells(*SOFTMAX)
def softmax(w: Writer, node: Node) -> None:
    w.node(node, SOFTMAX[node.op], source(node), axis=node.attrs["axis"])


@spells("matmul")
def matmul(w: Writer, node: Node) -> None:
    a, b = source(node), source(node, 1)
    if not has_row_scales(w.graph, a) or a.type.rank < 2 or b.type.rank < 2:
        w.node(node, "MatMul", a, b)
        return
    # Runtimes make one integer product of it, and have scales for the columns of the right factor only: A·B = (Bᵀ·Aᵀ)ᵀ.
    right, left = (w.step(node, "Transpose", v, perm=turned(v.type.rank)) for v in (b, a))
    w.node(node, "Transpose", w.step(node, "MatMul", right, left), perm=turned(node.output.type.rank))


def turned(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def has_row_scales(graph: Graph, value: Value) -> bool:
    """Whether a value is dequantized by more scales than one."""
    before = graph.producers.get(value.name)
    scale = before.input(1) if before is not None and before.op == "dequantize_linear" else None
    return scale is not None and scale.type.rank > 0 and scale.type.size != 1


@spells("einsum")
def einsum(w: Writer, node: Node) -> None:
    w.node(node, "Einsum", *node.inputs, equation=node.attrs["equation"])
