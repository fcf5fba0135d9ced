"""Attention in integers: attention_s8 and attention_s16. Head splits are strides of its operands, no copies."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, ints, kernels_for, short
from lowbit.plan.kernels.movement import dense, item_bytes, shape_of
from lowbit.plan.kernels.strided import Strided, strided, written_through
from lowbit.plan.plan import Param

ROWS = 32  # queries of an item, where heads alone are too few for the threads
MOST_KEYS = 8192


def two_leading(shape: list[int], strides: tuple[int, ...], lead: list[int]) -> tuple[int, int] | None:
    """Strides of the leading axes of `lead` as two; an axis of length 1 repeats. None where two are too few."""
    full = [0] * (len(lead) - len(shape) + 2) + [0 if n == 1 else s for n, s in zip(shape[:-2], strides[:-2], strict=True)]
    if len(lead) <= 2:
        pair = [0] * (2 - len(lead)) + full
        return pair[0], pair[1]
    *_, inner = full
    outer = [(n, step) for n, step in zip(lead[:-1], full, strict=False) if n != 1]
    if any(step != below * n for (_, step), (n, below) in pairwise(outer)):  # they must be one axis
        return None
    return outer[-1][1] if outer else 0, inner


def operand(ctx: Context, value: Value, lead: list[int]) -> tuple[Strided, tuple[int, int, int]] | None:
    """Where a matrix operand stands: its strides of batch, head and row. As it was before head splits, if its rows are rows there too."""
    shape = shape_of(value)
    for s in (strided(ctx.graph, value), Strided(value, 0, tuple(dense(shape)))):
        pair = two_leading(shape, s.strides, lead)
        if pair is not None and (s.strides[-1] == 1 or shape[-1] == 1):
            return s, (*pair, s.strides[-2])
    return None


def mask_fields(mask: Value | None, shape: list[int]) -> dict[str, Param] | None:
    """The strides of a mask over scores of `shape`; None where two leading axes are too few."""
    if mask is None:
        return {"mask_bytes": 0, "mask_stride": (0, 0, 0, 0)}
    own = [1] * (len(shape) - mask.type.rank) + shape_of(mask)
    steps = tuple(0 if n == 1 else s for n, s in zip(own, dense(own), strict=True))
    pair = two_leading(own, steps, shape[:-2])
    if pair is None:
        return None
    return {"mask_bytes": item_bytes(mask), "mask_stride": (*pair, steps[-2], steps[-1])}


@kernels_for("q_attention")
def attention(node: Node, ctx: Context) -> list[KernelCall] | None:
    q, k, v = node.inputs[:3]
    mask = node.input(3)
    assert q is not None and k is not None and v is not None
    width, target = short(q, k, v), written_through(ctx.graph, node)
    out = shape_of(node.output)
    lead, (rows, values), (keys, features) = out[:-2], out[-2:], shape_of(k)[-2:]
    places = [operand(ctx, x, lead) for x in (q, k, v)]
    masked = mask_fields(mask, [*lead, rows, keys])
    limits = ints(node, "bound", "bound_per_key")
    if width not in ("s8", "s16") or short(node.output) is None or masked is None or 0 in (rows, keys, features, values):
        return None
    if limits["bound_per_key"] * keys >= 1 << 52 or limits["bound"] >= 1 << (31 if width == "s8" else 52) or keys > MOST_KEYS:
        return None
    written, steps = node.output, dense(out)
    if target is not None:
        perm: Any = target.attrs["perm"]
        there = dense(shape_of(target.output))
        steps, written = [there[perm.index(i)] for i in range(len(perm))], target.output
    to = two_leading(out, tuple(steps), lead)
    if to is None and target is not None:
        return None  # the transpose counts on it
    if to is None or any(p is None for p in places):
        return None
    fields: dict[str, Param] = {**masked, "out_stride": (*to, steps[-2])}
    args: list[Value | Data | Scratch] = []
    for name, place in zip("qkv", places, strict=True):
        assert place is not None
        fields |= {f"{name}_stride": place[1], f"{name}_offset": place[0].offset}
        args.append(ctx.argument(place[0].base))
    heads = lead[-1] if lead else 1
    batch = prod(lead[:-1])
    block = rows if batch * heads >= 2 * ctx.target.threads or ctx.target.threads == 1 else ROWS
    a: Any = node.attrs
    fields |= {
        "batch": batch, "heads": heads, "rows": rows, "keys": keys, "features": features, "values": values, "block_rows": block,
        "causal": int(a["causal"]), "out_bytes": item_bytes(node.output), "score_scale": float(a["score_scale"]),
        "multiplier": float(a["multiplier"]), **ints(node, "q_zero", "k_zero", "v_zero", "y_zero", "lo", "hi"),
    }  # fmt: skip
    wide = {n: -(-x // 16) * 16 for n, x in (("keys", keys), ("features", features), ("values", values))}
    panels = 4 * wide["keys"] * (wide["features"] + wide["values"])
    kernel, size = (
        ctx.kernel(f"attention_{width}"),
        item_bytes(q) * (24 * wide["keys"] + panels) + 24 * (wide["features"] + 2 * wide["keys"]),
    )
    scratch = Scratch(4 * keys if kernel.isa in ("ref", "armdsp") else size)
    args += [args[0] if mask is None else ctx.argument(mask), written, scratch]
    macs = batch * heads * rows * keys * (features + values)
    return [KernelCall(kernel, fields, tuple(args), batch * heads * -(-rows // block), macs / 30.0)]


def is_written_by_attention(node: Node, ctx: Context) -> bool:
    """Whether a transpose has nothing to do, because the attention before it writes its result."""
    x = node.inputs[0]
    made = ctx.graph.producers.get(x.name) if x is not None else None
    if made is None or made.op != "q_attention" or written_through(ctx.graph, made) is not node:
        return False
    return attention(made, ctx) is not None
