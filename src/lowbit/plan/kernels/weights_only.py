"""Weights that are stored in few bits and multiplied as floats (csrc/int4/weights.h).

A linear layer of `ref` multiplies four-bit weights as they are. Every other layer has its weights expanded into the arena just before
it, in the order that its kernel wants: the kernel's own family packs the integers and the scales, each as if they were the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.ops.quantize_linear import spread
from lowbit.plan.kernels.call import KERNELS, Context, Data, KernelCall, Planner, kernels_for
from lowbit.plan.kernels.float_products import bias_of, bounds, is_float
from lowbit.plan.kernels.int4 import pack, pack_scales
from lowbit.plan.plan import Param
from lowbit.types import Array, TensorType

PANEL = 16  # neighbours that have scales of their own in the layouts of vector units
LAYERS = ("linear", "linear_clip", "conv_nhwc", "conv_nhwc_clip", "conv_transpose_nhwc", "conv", "conv_transpose", "matmul", "lstm", "gru")
F32 = np.float32


@dataclass(frozen=True)
class Few:
    """Constant integers and their scales, spread over them; `block` of the last axis share one, if they do."""

    ints: Array
    scales: Array
    four_bits: bool
    axis: int
    block: int


def few_bits(value: Value | None, ctx: Context) -> Few | None:
    """What a value is dequantized from, where that is a constant without zero point."""
    node = ctx.graph.producers.get(value.name) if value is not None else None
    if node is None or node.op != "dequantize_linear" or node.attrs["to"] != "float32":
        return None
    q, scale, zero = node.inputs[0], ctx.constant(node.inputs[1]), ctx.constant(node.input(2))
    data = ctx.constant(q)
    if q is None or data is None or scale is None or scale.dtype != F32 or (node.input(2) is not None and (zero is None or zero.any())):
        return None
    if data.dtype != np.int8 or not data.size or (not q.type.dtype.is_integer and q.type.dtype.name != "binary"):
        return None
    axis, block = int(node.attrs["axis"]), int(node.attrs["block_size"])  # type: ignore[arg-type]
    full = np.ascontiguousarray(np.broadcast_to(spread(scale, data.shape, axis, block), data.shape), F32)
    return Few(data, full, bool(data.min() >= -8 and data.max() <= 7), axis % data.ndim, block)


class _Given(Context):
    """A context in which some values are constants."""

    def __init__(self, ctx: Context, given: dict[str, Array]) -> None:
        super().__init__(ctx.graph, ctx.target)
        object.__setattr__(self, "given", given)

    given: dict[str, Array]

    def constant(self, value: Value | None) -> Array | None:
        found = self.given.get(value.name) if value is not None else None
        return found if found is not None else super().constant(value)

    def argument(self, value: Value) -> Value | Data:
        return Data(self.given[value.name]) if value.name in self.given else super().argument(value)

    def once(self, value: Value, *how: str, make: Callable[[], Array]) -> Data:
        return Data(make())


def runs(scales: Array) -> tuple[int, int, Array]:
    """How many neighbours share a scale, how many such runs stand side by side, and the scales."""
    flat = scales.reshape(-1)
    found = []
    for inner in (1, PANEL):
        if flat.size % inner == 0:
            rows = flat.reshape(-1, inner)
            changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
            run = gcd(rows.shape[0], *map(int, changes))
            found.append((run, inner, np.ascontiguousarray(rows[::run]).reshape(-1)))
    return min(found, key=lambda f: f[2].size)


def nibbles(ints: Array) -> Array:
    """Integers two a byte, the low nibble first."""
    flat = np.zeros(-(-ints.size // 2) * 2, np.uint8)
    flat[: ints.size] = ints.reshape(-1).astype(np.int8).view(np.uint8) & 15
    return np.ascontiguousarray(flat[::2] | flat[1::2] << 4)


def expand(ctx: Context, ints: Array, scales: Array, four_bits: bool, out: Value) -> KernelCall:
    """The call that writes ints × scales into `out`."""
    run, inner, few = runs(scales)
    data = Data(nibbles(ints) if four_bits else np.ascontiguousarray(ints, np.int8))
    kernel = ctx.kernel("expand_w4_f32" if four_bits else "expand_s8_f32")
    return KernelCall(kernel, {"run": run, "inner": inner}, (data, Data(few), out), ints.size, float(ints.size), macs=0)


@kernels_for("dequantize_linear")
def dequantize(node: Node, ctx: Context) -> list[KernelCall] | None:
    """A constant that somebody wants as floats. Layers take it as it is stored: then nobody does, and the call falls away."""
    few = few_bits(node.output, ctx)
    return None if few is None else [expand(ctx, few.ints, few.scales, few.four_bits, node.output)]


@kernels_for("dequantize_linear")
def dequantize_gathered(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Rows of a table, which bring the scales of their blocks along."""
    q, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
    if q is None or scale is None or zero is not None or q.type.dtype.name != "int8" or not is_float(scale, node.output):
        return None
    axis, block = int(node.attrs["axis"]), int(node.attrs["block_size"])  # type: ignore[arg-type]
    last = q.type.rank - 1
    if not block or axis % q.type.rank != last or (*scale.shape[:last], scale.shape[last] * block) != q.shape:
        return None
    n = prod(int(d) for d in q.shape)
    return [
        KernelCall(
            ctx.kernel("expand_s8_f32"),
            {"run": block, "inner": 1},
            (ctx.argument(q), ctx.argument(scale), node.output),
            n,
            float(n),
            macs=0,
        )
    ]


@kernels_for("linear", "linear_clip", first=True)
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Four-bit weights as they are, on machines that run portable C: an arena for their floats is what they do not have."""
    x, wv = node.inputs[0], node.inputs[1]
    few = few_bits(wv, ctx)
    if x is None or wv is None or few is None or not few.four_bits or not is_float(x, node.output) or ctx.kernel("linear_f32").isa != "ref":
        return None
    n, k = few.ints.shape
    segment = few.block if few.block and few.axis == 1 else k
    if (few.block and few.axis != 1) or not np.isfinite(few.scales).all():
        return None
    rows = prod(int(d) for d in x.shape[:-1])
    scales = pack_scales("ref", np.ascontiguousarray(few.scales[:, ::segment]), k, segment)
    params: dict[str, Param] = {"rows": rows, "k": k, "n": n, "segment": segment, **bounds(node)}
    args = (ctx.argument(x), Data(pack("ref", few.ints, segment)), Data(scales), bias_of(ctx, node.input(2), n), node.output)
    return [KernelCall(ctx.kernel("linear_w4_f32"), params, args, rows, float(rows * n * k))]


def expanded(known: Planner, node: Node, ctx: Context) -> list[KernelCall] | None:
    """The calls of the layer on float weights, after calls that make those from what is stored."""
    few = {v.name: f for v in node.inputs if v is not None and (f := few_bits(v, ctx)) is not None}
    if not few or len(node.inputs) < 2:
        return None
    whole = known(node, _Given(ctx, {name: f.scales * f.ints.astype(F32) for name, f in few.items()}))
    ints = known(node, _Given(ctx, {name: f.ints.astype(F32) for name, f in few.items()}))
    scales = known(node, _Given(ctx, {name: f.scales for name, f in few.items()}))
    if whole is None or ints is None or scales is None:
        return None
    before: list[KernelCall] = []
    made: list[KernelCall] = []
    for calls in zip(whole, ints, scales, strict=True):
        args = list(calls[0].args)
        for i, (a, q, s) in enumerate(zip(*(c.args for c in calls), strict=True)):
            if not isinstance(a, Data) or not isinstance(q, Data) or not isinstance(s, Data) or a.array.tobytes() == q.array.tobytes():
                continue
            real, held, scale = (d.array.view(F32).reshape(-1) for d in (a, q, s))
            if real.tobytes() != (held * scale).tobytes() or 4 * runs(scale)[2].size > real.size:
                continue  # packing computes, or there are as many scales as weights: the floats are stored
            out = Value(f"{node.output.name}:{len(before)}:weights", TensorType((real.size,), "float32"))
            before.append(expand(ctx, held.astype(np.int8), scale, all(f.four_bits for f in few.values()), out))
            args[i] = out
        made.append(replace(calls[0], args=tuple(args)))
    return [*before, *made]


def _register() -> None:
    for op in LAYERS:
        if op in KERNELS:
            known = KERNELS[op]
            kernels_for(op)(lambda node, ctx, known=known: expanded(known, node, ctx))  # type: ignore[misc]


_register()
