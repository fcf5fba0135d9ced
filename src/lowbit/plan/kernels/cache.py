"""Keys and values in pages (csrc/attention/cache.h): cache_store, which writes over its input, and cache_attention."""

from __future__ import annotations

from typing import Any

from lowbit.ir.graph import Node
from lowbit.plan.kernels.call import Context, KernelCall, Scratch, kernels_for, updates
from lowbit.plan.kernels.movement import shape_of
from lowbit.plan.plan import Param

MOST_QUERIES = 12  # of a head of the cache that share its pages, as far as whole rows fit
MACS_PER_NS = 8.0


@kernels_for("cache_store")
@updates("cache_store")
def cache_store(node: Node, ctx: Context) -> list[KernelCall] | None:
    cache, x, positions, sequences, table = node.inputs
    assert cache is not None and x is not None and positions is not None and sequences is not None and table is not None
    rows, heads, depth = shape_of(x)
    params: dict[str, Param] = {
        "heads": heads, "depth": depth, "pages": shape_of(cache)[0], "sequences": shape_of(table)[0], "slots": shape_of(table)[1],
        "keys": int(bool(node.attrs["keys"])),
    }  # fmt: skip
    args = (*(ctx.argument(v) for v in (x, positions, sequences, table)), node.output)
    return [KernelCall(ctx.kernel("cache_store_f16"), params, args, rows, rows * heads * depth * 0.5)]


@kernels_for("cache_attention")
def cache_attention(node: Node, ctx: Context) -> list[KernelCall] | None:
    q, k, v, positions, sequences, table = node.inputs
    assert q is not None and k is not None and v is not None and positions is not None and sequences is not None and table is not None
    (rows, heads, depth), (pages, kv_heads) = shape_of(q), shape_of(k)[:2]
    slots, group, a = shape_of(table)[1], heads // kv_heads, node.attrs
    block = max(1, min(rows, MOST_QUERIES // group))
    number: Any = a
    params: dict[str, Param] = {
        "rows": rows, "heads": heads, "kv_heads": kv_heads, "depth": depth, "pages": pages, "sequences": shape_of(table)[0],
        "slots": slots, "window": int(number["window"]), "block": block, "scale": float(number["scale"]),
        "softcap": float(number["softcap"]),
    }  # fmt: skip
    queries = block * group
    args = (*(ctx.argument(x) for x in (q, k, v, positions, sequences, table)), node.output)
    cost = rows * heads * depth * 2 * min(slots * 32, 512) / MACS_PER_NS
    room = Scratch(4 * queries * (32 * slots + depth + 64))
    return [KernelCall(ctx.kernel("cache_attention_f16"), params, (*args, room), kv_heads * -(-rows // block), cost)]
