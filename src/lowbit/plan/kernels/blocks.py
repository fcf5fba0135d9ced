"""Layers of language models whose weights stay in GGUF's block formats (csrc/blocks/): products, embeddings, norms, gates, rotations.

Activations of integer products are rounded once for all layers that read them (`records`): by the norm or gate before them, where
there is one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.block_formats import PANEL, RUN, BlockFormat, block_format
from lowbit.ir.graph import Graph, Node, Value
from lowbit.kernels import native, threads
from lowbit.ops.token_rows import FUNCTIONS
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, kernels_for
from lowbit.plan.kernels.movement import shape_of
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array, TensorType

RECORD = 48  # bytes of 32 rounded activations (csrc/blocks/block_record.h)
BYTES_PER_NS = 8.0  # of weights that one thread reads, where rows are few: half of it, so that small layers are split
MACS_PER_NS = 120.0
PACKED_AT_ONCE = 64  # panels that a thread packs at once


def is_rounded(node: Node) -> bool:
    """Whether a layer multiplies rounded activations."""
    return node.op == "block_linear" and not block_format(str(node.attrs["format"])).is_float


def readers(graph: Graph, value: Value) -> tuple[Node, ...]:
    return graph.users.get(value.name, ())


def records(value: Value) -> Value:
    """The rounded form of a value, which its layers share."""
    rows, k = prod(shape_of(value)[:-1]), shape_of(value)[-1]
    return Value(f"{value.name}:records", TensorType((rows, k // RUN * RECORD), "uint8"))


def forms(node: Node, ctx: Context) -> tuple[bool, bool]:
    """Of a norm or gate: whether its result is read rounded, and whether it is read as floats."""
    out, kinds = node.output, [is_rounded(n) and n.inputs[0] == node.output for n in readers(ctx.graph, node.output)]
    wanted = any(v.name == out.name for v in ctx.graph.outputs.values())
    others = any(n.input(3) == out for n in readers(ctx.graph, out) if n.op == "block_linear")
    return any(kinds), wanted or others or not all(kinds)


def rounding(node: Node, ctx: Context, x: Value) -> list[KernelCall]:
    """The call that rounds the activations of a layer: none if an earlier layer or the node before has made it."""
    maker = ctx.graph.producers.get(x.name)
    first = next(n for n in readers(ctx.graph, x) if is_rounded(n) and n.inputs[0] == x)
    if (maker is not None and maker.op in ("rms_norm_rows", "gate")) or first is not node:
        return []
    rows, k = shape_of(x)
    return [KernelCall(ctx.kernel("block_quantize"), {"size": k}, (ctx.argument(x), records(x)), rows, rows * k * 0.15, macs=0)]


def pack(format: BlockFormat, w: Array, k: int) -> Array:
    """Rows of the file in the kernels' panels."""
    n = w.shape[0]
    panels, kernel = -(-n // PANEL), native.best("block_pack")
    out = aligned(panels * format.panel_bytes(k))
    source, target = native.address(w), native.address(out)
    row, panel = PANEL * format.row_bytes(k), format.panel_bytes(k)
    sequences = []
    for at in range(0, panels, PACKED_AT_ONCE):
        count = min(PACKED_AT_ONCE, panels - at)
        params = {"format": format.number, "k": k, "n": n - PANEL * at}
        sequences.append([kernel.step(params, source + row * at, target + panel * at, items=count)])
    native.run(sequences, threads.count())
    return out


@kernels_for("block_linear")
def block_linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, wv = node.inputs[0], node.inputs[1]
    w = ctx.constant(wv)
    if x is None or wv is None or w is None:
        return None
    f = block_format(str(node.attrs["format"]))
    rows, k, n = shape_of(x)[0], f.row_size(w.shape[1]), w.shape[0]
    bias, residual = node.input(2), node.input(3)
    packed = ctx.once(wv, "blocks", f.name, make=lambda: pack(f, w, k))
    params: dict[str, Param] = {
        "format": f.number, "rows": rows, "k": k, "n": n, "out_stride": n,
        "has_bias": int(bias is not None), "has_residual": int(residual is not None),
    }  # fmt: skip
    none = Data(np.zeros(1, np.float32))
    kernel = ctx.kernel("block_linear_f32" if f.is_float else "block_linear_s8")
    args = (
        ctx.argument(x) if f.is_float else records(x),
        packed,
        none if bias is None else ctx.argument(bias),
        none if residual is None else ctx.argument(residual),
        node.output,
        Scratch(0 if f.is_float or kernel.isa == "ref" else 40 * k + 4096),
    )
    panels = -(-n // PANEL)
    cost = max(panels * f.panel_bytes(k) / BYTES_PER_NS, rows * k * n / MACS_PER_NS)
    product = KernelCall(kernel, params, args, panels, cost, in_place=(3,) if residual is not None else ())
    return [product] if f.is_float else [*rounding(node, ctx, x), product]


@kernels_for("block_gather")
def block_gather(node: Node, ctx: Context) -> list[KernelCall] | None:
    wv, ids = node.inputs[0], node.inputs[1]
    w = ctx.constant(wv)
    if w is None or ids is None:
        return None
    f = block_format(str(node.attrs["format"]))
    rows, k = shape_of(node.output)
    params: dict[str, Param] = {"format": f.number, "k": k, "n": w.shape[0]}
    return [KernelCall(ctx.kernel("block_gather"), params, (Data(w), ctx.argument(ids), node.output), rows, rows * k * 1.0)]


@kernels_for("rms_norm_rows")
def rms_norm_rows(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, weight = node.inputs[0], node.inputs[1]
    assert x is not None and weight is not None
    n, rows = shape_of(x)[-1], prod(shape_of(x)[:-1])
    params: dict[str, Param] = {"n": n, "eps": float(node.attrs["eps"])}  # type: ignore[arg-type]
    rounded, floats = forms(node, ctx)
    args, calls = (ctx.argument(x), ctx.argument(weight)), []
    if rounded:
        calls.append(KernelCall(ctx.kernel("rms_norm_blocks"), params, (*args, records(node.output)), rows, rows * n * 0.3))
    if floats:
        calls.append(KernelCall(ctx.kernel("rms_norm_rows"), params, (*args, node.output), rows, rows * n * 0.15, in_place=(0,)))
    return calls


@kernels_for("gate")
def gate(node: Node, ctx: Context) -> list[KernelCall] | None:
    g, up = node.inputs[0], node.inputs[1]
    assert g is not None and up is not None
    size = prod(shape_of(g))
    params: dict[str, Param] = {"size": size, "function": FUNCTIONS.index(str(node.attrs["function"]))}
    rounded, floats = forms(node, ctx)
    items, args, calls = -(-size // RUN), (ctx.argument(g), ctx.argument(up)), []
    if rounded:
        calls.append(KernelCall(ctx.kernel("gate_blocks"), params, (*args, records(node.output)), items, size * 0.8))
    if floats:
        calls.append(KernelCall(ctx.kernel("gate_rows"), params, (*args, node.output), items, size * 0.6, in_place=(0, 1)))
    return calls


@kernels_for("rotary")
def rotary(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, cos, sin = node.inputs
    assert x is not None and cos is not None and sin is not None
    rows, heads, depth = shape_of(x)
    a: Any = node.attrs
    params: dict[str, Param] = {"heads": heads, "depth": depth, "dims": a["dims"], "neighbours": int(a["style"] == "neighbours")}
    args = (ctx.argument(x), ctx.argument(cos), ctx.argument(sin), node.output)
    return [KernelCall(ctx.kernel("rotary"), params, args, rows, rows * heads * depth * 0.2, in_place=(0,))]
