"""Transposes: copies, where no kernel before them writes its result turned."""

from __future__ import annotations

from typing import Any

from lowbit.ir.graph import Node
from lowbit.plan.kernels.attention import is_written_by_attention
from lowbit.plan.kernels.call import Context, KernelCall, kernels_for
from lowbit.plan.kernels.movement import calls, copy_call, dense, shape_of


@kernels_for("transpose")
def transpose(node: Node, ctx: Context) -> list[KernelCall] | None:
    if is_written_by_attention(node, ctx):
        return []
    x, out = node.inputs[0], shape_of(node.output)
    assert x is not None
    steps = dense(shape_of(x))
    perm: Any = node.attrs["perm"]
    return calls(copy_call(ctx, x, node.output, out, [steps[p] for p in perm], dense(out), 0, 0))
