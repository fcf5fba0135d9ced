"""Activations quantized at run time: quantize_rows_f32_s8, and int8 layers after it, whose sums are scaled by rows and channels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from lowbit.ir.graph import Attr, Node, Value
from lowbit.plan.kernels.call import KERNELS, Context, Data, KernelCall, ints, is_int8, kernels_for, short
from lowbit.plan.kernels.products import DOT4, product_call
from lowbit.plan.plan import Param
from lowbit.types import Array, TensorType


@kernels_for("quantize_rows")
def quantize_rows(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    if x is None or x.type.dtype.name != "float32":
        return None
    size, rows = int(x.shape[-1]), prod(int(d) for d in x.shape[:-1])
    return [KernelCall(ctx.kernel("quantize_rows_f32_s8"), {"size": size}, (ctx.argument(x), *node.outputs), rows, rows * size * 0.3)]


@dataclass(frozen=True)
class _With(Context):
    """A context that knows one constant more."""

    value: Value | None = None
    data: Array | None = None

    def constant(self, value: Value | None) -> Array | None:
        return self.data if value is not None and value is self.value else super().constant(value)


def real_bias(bias: Value | None, ctx: Context, n: int) -> Data | None:
    """The bias of a scaled sum; zeros where there is none, which change no bit (a sum that began at +0 is never -0)."""
    data = ctx.constant(bias)
    if bias is not None and data is None:
        return None
    return Data(np.zeros(n, np.float32) if data is None else data)


@kernels_for("q_linear_rows")
def linear_rows(node: Node, ctx: Context) -> list[KernelCall] | None:
    """linear_s8_rows_f32 of weights in quads; else the sums of an int8 layer as floats, fl32(acc) × 1, then their scales, in place."""
    x, x_scale, w, scales = node.inputs[0], node.inputs[1], node.inputs[2], ctx.constant(node.inputs[3])
    if x is None or x_scale is None or w is None or scales is None or ints(node, "block")["block"] or not is_int8(x, w):
        return None
    n, rows = int(w.shape[0]), prod(int(d) for d in x.shape[:-1])
    bias = real_bias(node.input(4), ctx, n)
    channels = Data(np.ascontiguousarray(scales.reshape(n)))
    attrs: dict[str, Attr] = {"x_zero": 0, "y_zero": 0, "lo": 0, "hi": 0, "to": "float32", "bound": node.attrs["bound"]}
    kernel, weights = ctx.kernel("linear_s8_rows_f32"), ctx.constant(w)
    if kernel.isa in DOT4 and bias is not None and weights is not None and ints(node, "bound")["bound"] < 2**31:
        product = Node("q_linear", (x, w, None, None), attrs, node.name, node.outputs)
        size = (rows, int(w.shape[1]), n)
        return [product_call(product, ctx, kernel, x, size, weights, (bias, channels, ctx.argument(x_scale)))]
    one = Value(f"{w.name}:one", TensorType((1,), "float32"))
    sums = KERNELS["q_linear"](
        Node("q_linear", (x, w, one, None), attrs, node.name, node.outputs),
        _With(ctx.graph, ctx.target, ctx.packed, value=one, data=np.ones(1, np.float32)),
    )
    if sums is None or bias is None:
        return None
    args = (node.output, ctx.argument(x_scale), channels, bias, node.output)
    return [*sums, KernelCall(ctx.kernel("scale_rows_f32"), {"n": n}, args, rows, rows * n * 0.15, macs=0)]


@kernels_for("q_linear_rows", "q_linear_blocks")
def linear_blocks(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Int8 weights with block scales, in generated C, and in sessions by AVX2; portable C is slower than the interpreter's products."""
    x, rest = node.inputs[0], list(node.inputs[1:])
    x_scale = rest.pop(0) if node.op == "q_linear_rows" else None
    w, scales, fields = rest[0], ctx.constant(rest[1]), ints(node, "block", "bound")
    kernel = ctx.kernel("linear_s8_blocks_f32")
    portable = kernel.isa == "ref" and not ctx.target.scratch_in_arena
    if portable or x is None or w is None or ctx.constant(w) is None or scales is None or not is_int8(x, w):
        return None
    (n, k), rows = (int(d) for d in w.shape), prod(int(d) for d in x.shape[:-1])
    bias = real_bias(rest[2] if len(rest) > 2 else None, ctx, n)
    if bias is None or fields["bound"] >= 2**31:
        return None
    params = {
        "k": k,
        "n": n,
        "segment": fields["block"] or max(k, 1),
        "x_zero": 0 if x_scale is not None else ints(node, "x_zero")["x_zero"],
    }
    factor = ctx.argument(x_scale) if x_scale is not None else Data(np.ones(rows, np.float32))
    to = node.output.type.dtype.name
    out = node.output if to == "float32" else Value(f"{node.output.name}:real", node.output.type.with_dtype("float32"))
    args = (ctx.argument(x), factor, ctx.argument(w), Data(np.ascontiguousarray(scales, np.float32)), bias, out)
    calls = [KernelCall(kernel, params, args, rows, rows * n * k * (1.0 if kernel.isa == "ref" else 0.05))]
    if to == "float32":
        return calls
    narrow: dict[str, Param] = {"scale": float(node.attrs["y_scale"]), **ints(node, "lo", "hi")}  # type: ignore[arg-type]
    narrow["zero_point"] = ints(node, "y_zero")["y_zero"]
    size = rows * n
    return [*calls, KernelCall(ctx.kernel(f"quantize_{short(out, node.output)}"), narrow, (out, node.output), size, size * 0.1, macs=0)]
