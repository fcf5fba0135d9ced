"""If, when its condition is known at load time: the branch that is taken stands in its place."""

from __future__ import annotations

from lowbit.errors import FormatError
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxNode
from lowbit.ir.graph import Value


@onnx_op("If")
def if_(c: Importer, node: OnnxNode) -> list[Value]:
    condition = c.const(node, 0, "condition")
    branch = node.attr("then_branch" if condition is not None and condition.any() else "else_branch")
    if not isinstance(branch, OnnxGraph):
        raise FormatError("a branch is missing")
    return c.inline(branch)
