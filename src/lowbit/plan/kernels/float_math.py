"""Functions of one float: exp, tanh, gelu and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, KernelCall, kernels_for
from lowbit.plan.kernels.elementwise import broadcast, size_of
from lowbit.plan.kernels.float_products import is_float
from lowbit.plan.plan import Param

NAMES = "exp log sqrt erf tanh sigmoid silu gelu hardswish hardsigmoid elu leaky_relu softplus mish abs neg reciprocal floor ceil round"
UNARY = NAMES.split()
COST = {"abs": 0.1, "neg": 0.1, "reciprocal": 0.3, "floor": 0.1, "ceil": 0.1, "round": 0.1, "leaky_relu": 0.1, "hardswish": 0.3}
NO_CLAMP = {"lo": -np.inf, "hi": np.inf}


@kernels_for(*UNARY)
def unary(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    if x is None or not is_float(x):
        return None
    name = "gelu_tanh" if node.attrs.get("approximate") == "tanh" else node.op
    alpha: Any = node.attrs.get("alpha", 0.0)
    beta: Any = node.attrs.get("beta", 0.0)
    n = size_of(x)
    fields: dict[str, Param] = {"alpha": float(alpha), "beta": float(beta)}
    return [
        KernelCall(
            ctx.kernel(f"{name}_f32"),
            fields,
            (ctx.argument(x), node.output),
            n,
            n * COST.get(node.op, 0.7),
            in_place=(0,),
            elementwise=True,
        )
    ]


@kernels_for("prelu")
def prelu(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, slope = node.inputs
    shapes = broadcast(node) if is_float(x, slope) else None
    if x is None or slope is None or shapes is None:
        return None
    n = size_of(x)
    args = (ctx.argument(x), ctx.argument(slope), node.output)
    return [KernelCall(ctx.kernel("prelu_f32"), {**shapes, **NO_CLAMP}, args, n, n * 0.2, in_place=(0,))]


def same_twice(x: Value) -> dict[str, Param]:
    """Shape and strides of an operation on a tensor and itself."""
    n = size_of(x)
    return {"shape": (1, 1, 1, n), "a_stride": (0, 0, 0, 1), "b_stride": (0, 0, 0, 1), **NO_CLAMP}


@kernels_for("pow")
def power(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Whole powers that are one operation, and the root."""
    x, exponent = node.inputs[0], ctx.constant(node.inputs[1])
    if x is None or not is_float(x) or exponent is None or exponent.size != 1 or node.output.shape != x.shape:
        return None
    n, by, a = size_of(x), float(exponent.reshape(())), ctx.argument(x)
    plain: dict[str, Param] = {"alpha": 0.0, "beta": 0.0}
    if by == 2:
        return [KernelCall(ctx.kernel("mul_f32"), same_twice(x), (a, a, node.output), n, n * 0.2)]
    if by == 3:
        square = KernelCall(ctx.kernel("mul_f32"), same_twice(x), (a, a, node.output), n, n * 0.2)
        return [square, KernelCall(ctx.kernel("mul_f32"), same_twice(x), (node.output, a, node.output), n, n * 0.2)]
    if by == -1:
        return [KernelCall(ctx.kernel("reciprocal_f32"), plain, (a, node.output), n, n * 0.3)]
    return None
