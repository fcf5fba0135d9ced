"""Matrix products: MatMul, Gemm, Einsum, and ONNX Runtime's FusedMatMul."""

from __future__ import annotations

from lowbit.errors import ShapeError
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import shape_text


@onnx_op("MatMul")
def matmul(c: Importer, node: OnnxNode) -> Value:
    return c.add("matmul", c.input(node, 0), c.input(node, 1))


def swapped(c: Importer, x: Value) -> Value:
    """The value with its last two dimensions exchanged."""
    rank = x.type.rank
    return c.add("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


@onnx_op("Gemm")
def gemm(c: Importer, node: OnnxNode) -> Value:
    """alpha * A' B' + beta * C: a linear layer; what it cannot say is said around it."""
    a, b, bias = c.input(node, 0), c.input(node, 1), c.optional(node, 2)
    if a.type.rank != 2 or b.type.rank != 2:
        raise ShapeError(f"A {shape_text(a.shape)} and B {shape_text(b.shape)} must be matrices")
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    a = swapped(c, a) if node.attr("transA", 0) else a
    w = b if node.attr("transB", 0) else swapped(c, b)
    if bias is not None and beta != 1:
        bias = c.add("mul", bias, c.scalar(beta, bias))
    if alpha == 1 and (bias is None or bias.shape == (w.shape[0],)):
        return c.add("linear", a, w, bias)
    y = c.add("linear", a, w)
    if alpha != 1:
        y = c.add("mul", y, c.scalar(alpha, y))
    return y if bias is None else c.add("add", y, bias)


@onnx_op("FusedMatMul", domain="com.microsoft")
def fused_matmul(c: Importer, node: OnnxNode) -> Value:
    a, b = c.input(node, 0), c.input(node, 1)
    a = swapped(c, a) if node.attr("transA", 0) else a
    b = swapped(c, b) if node.attr("transB", 0) else b
    y = c.add("matmul", a, b)
    alpha = node.attr("alpha", 1.0)
    return y if alpha == 1 else c.add("mul", y, c.scalar(alpha, y))


@onnx_op("Einsum")
def einsum(c: Importer, node: OnnxNode) -> Value:
    return c.add("einsum", *(c.input(node, i) for i in range(len(node.inputs))), equation=node.attr("equation", ""))
