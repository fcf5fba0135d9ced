"""Elementwise ops: mostly the same name in lower case."""

from __future__ import annotations

from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value

UNARY = {"Relu": "relu", "Exp": "exp", "Sqrt": "sqrt", "Neg": "neg", "Abs": "abs", "Identity": "identity"}


@onnx_op(*UNARY)
def unary(c: Importer, node: OnnxNode) -> Value:
    return c.add(UNARY[node.op_type], c.input(node, 0))
