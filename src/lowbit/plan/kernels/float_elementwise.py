"""Floats one element at a time: sums, products, clips."""

from __future__ import annotations

from lowbit.ir.graph import Node
from lowbit.plan.fuse import bounds as clip_bounds
from lowbit.plan.kernels.call import Context, KernelCall, kernels_for
from lowbit.plan.kernels.elementwise import broadcast, size_of
from lowbit.plan.kernels.float_products import bounds, is_float

BINARY = {"add": "add_f32", "sub": "sub_f32", "mul": "mul_f32", "div": "div_f32", "maximum": "max_f32", "minimum": "min_f32"}


@kernels_for(*BINARY, "add_clip", "sub_clip", "mul_clip", "div_clip")
def binary(node: Node, ctx: Context) -> list[KernelCall] | None:
    a, b = node.inputs
    shapes = broadcast(node) if is_float(a, b) else None
    if a is None or b is None or shapes is None:
        return None
    n = size_of(node.output)
    same = tuple(i for i, v in enumerate((a, b)) if v.shape == node.output.shape)
    kernel = ctx.kernel(BINARY[node.op.removesuffix("_clip")])
    args = (ctx.argument(a), ctx.argument(b), node.output)
    return [KernelCall(kernel, {**shapes, **bounds(node)}, args, n, n * 0.2, in_place=same, elementwise=len(same) == 2)]


@kernels_for("relu", "relu6", "clip")
def clip(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, found = node.inputs[0], clip_bounds(node)
    if x is None or found is None or not is_float(x):
        return None
    n = size_of(x)
    return [
        KernelCall(
            ctx.kernel("clip_f32"),
            {"lo": found[0], "hi": found[1]},
            (ctx.argument(x), node.output),
            n,
            n * 0.1,
            in_place=(0,),
            elementwise=True,
        )
    ]
