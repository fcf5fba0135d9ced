"""Attention and RotaryEmbedding of opset 23, said in `attention`, `rotary_embedding` and plain ops around them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowbit.dims import Dim
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.matmul import swapped
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import shape_text


def split_heads(c: Importer, x: Value, heads: int | None) -> Value:
    """(batch, length, heads * size) as (batch, heads, length, size); rank 4 is that already."""
    if x.type.rank == 4:
        return x
    if not heads or x.type.rank != 3:
        raise ShapeError(
            f"input {shape_text(x.shape)} given, (batch, heads, length, size) or (batch, length, hidden) with a number of heads needed"
        )
    batch, length, hidden = x.shape
    return c.add("transpose", c.add("reshape", x, shape=(batch, length, heads, hidden // heads)), perm=(0, 2, 1, 3))


def merge_heads(c: Importer, x: Value) -> Value:
    batch, heads, length, size = x.shape
    return c.add("reshape", c.add("transpose", x, perm=(0, 2, 1, 3)), shape=(batch, length, heads * size))


def repeat_heads(c: Importer, x: Value, heads: Dim) -> Value:
    """Each head repeated so that there are `heads`: query heads share keys and values in groups."""
    batch, have, length, size = x.shape
    if have == heads:
        return x
    if isinstance(heads, int) and isinstance(have, int) and (have == 0 or heads % have):
        raise ShapeError(f"{heads} query heads cannot share {have} key heads")
    grouped = c.add("reshape", x, shape=(batch, have, 1, length, size))
    wide = c.add("expand", grouped, shape=(batch, have, heads // have, length, size))
    return c.add("reshape", wide, shape=(batch, heads, length, size))


@onnx_op("Attention")
def attention(c: Importer, node: OnnxNode) -> Sequence[Value | None]:
    q, k, v = (c.input(node, i) for i in range(3))
    flat = q.type.rank == 3
    q = split_heads(c, q, node.attr("q_num_heads"))
    k, v = (split_heads(c, t, node.attr("kv_num_heads")) for t in (k, v))
    past_k, past_v = c.optional(node, 4), c.optional(node, 5)
    past: Dim = 0 if past_k is None else past_k.shape[2]
    k = k if past_k is None else c.add("concat", past_k, k, axis=2)
    v = v if past_v is None else c.add("concat", past_v, v, axis=2)
    keys, values = repeat_heads(c, k, q.shape[1]), repeat_heads(c, v, q.shape[1])

    scale = node.attr("scale") or 1 / math.sqrt(max(int(q.shape[3]), 1))
    causal = bool(node.attr("is_causal", 0))
    softcap, mode = node.attr("softcap", 0.0), node.attr("qk_matmul_output_mode", 0)
    if mode not in range(4):
        raise UnsupportedOp(f"qk_matmul_output_mode {mode} is not 0, 1, 2 or 3")
    wants_scores = len(node.outputs) > 3 and bool(node.outputs[3])
    plain = not softcap and not wants_scores
    own_causal = causal and plain and past == 0  # the op's own mask starts at the top left
    mask = _mask(c, node, q.shape[2], k.shape[2], causal and not own_causal, past)
    scores: Value | None = None
    if plain:
        y = c.add("attention", q, keys, values, mask, scale=scale, causal=own_causal)
    else:
        y, scores = _spelled_out(c, q, keys, values, mask, scale, softcap, mode)
    return [merge_heads(c, y) if flat else y, k, v, scores]


def _mask(c: Importer, node: OnnxNode, length: Dim, total: Dim, causal: bool, past: Dim) -> Value | None:
    """Everything that hides keys from queries in one mask: the given one, causality after `past` keys, and keys that are padding."""
    mask = c.optional(node, 3)
    like = c.input(node, 0)
    if mask is not None and mask.shape[-1] != total:
        ends = [0] * (mask.type.rank - 1) + [int(total - mask.shape[-1])]
        hidden = 0.0 if mask.type.dtype.name == "bool" else -math.inf
        mask = c.add("pad", mask, pads=[0] * mask.type.rank + ends, mode="constant", value=hidden)
    allowed = []
    if causal or len(node.inputs) > 6:
        columns = c.add("range", start=0, limit=total, step=1, dtype="int64")
    if causal:
        rows = c.add("range", start=past, limit=past + length, step=1, dtype="int64")
        allowed.append(c.add("less_equal", columns, c.add("reshape", rows, shape=(length, 1))))
    lengths = c.optional(node, 6)
    if lengths is not None:
        if lengths.type.rank != 1:
            raise ShapeError(f"nonpad_kv_seqlen {shape_text(lengths.shape)} given, (batch) needed")
        allowed.append(c.add("less", columns, c.add("reshape", lengths, shape=(lengths.shape[0], 1, 1, 1))))
    for seen in allowed:
        if mask is None:
            mask = seen
        elif mask.type.dtype.name == "bool":
            mask = c.add("logical_and", mask, seen)
        else:
            mask = c.add("where", seen, mask, c.scalar(-math.inf, like))
    return mask


def _spelled_out(
    c: Importer, q: Value, k: Value, v: Value, mask: Value | None, scale: float, softcap: float, mode: int
) -> tuple[Value, Value]:
    """Output and scores, where something between the steps is asked for: 0 after the product, 1 with mask, 2 capped, 3 after softmax."""
    scores = [c.add("mul", c.add("matmul", q, swapped(c, k)), c.scalar(scale, q))]
    if mask is None:
        scores.append(scores[-1])
    elif mask.type.dtype.name == "bool":
        scores.append(c.add("where", mask, scores[-1], c.scalar(-math.inf, q)))
    else:
        scores.append(c.add("add", scores[-1], mask))
    cap = c.scalar(softcap, q)
    scores.append(c.add("mul", c.add("tanh", c.add("div", scores[-1], cap)), cap) if softcap else scores[-1])
    scores.append(c.add("softmax", scores[-1], axis=q.type.rank - 1))
    return c.add("matmul", scores[-1], v), scores[mode]


@onnx_op("RotaryEmbedding")
def rotary_embedding(c: Importer, node: OnnxNode) -> Value:
    return _rotary(c, node, c.input(node, 1), c.input(node, 2), c.optional(node, 3))


@onnx_op("RotaryEmbedding", domain="com.microsoft")
def rotary_embedding_microsoft(c: Importer, node: OnnxNode) -> Value:
    positions = c.input(node, 1)
    if positions.type.rank != 2:
        raise ShapeError(f"position_ids {shape_text(positions.shape)} given, (batch, length) needed")
    return _rotary(c, node, c.input(node, 2), c.input(node, 3), positions)


def _rotary(c: Importer, node: OnnxNode, cos: Value, sin: Value, positions: Value | None) -> Value:
    x = c.input(node, 0)
    whole = x
    if x.type.rank not in (3, 4):
        raise ShapeError(f"input {shape_text(x.shape)} given, (batch, heads, length, size) or (batch, length, hidden) needed")
    if x.type.rank == 3:
        heads = node.attr("num_heads", 0)
        if not heads:
            raise ShapeError(f"input {shape_text(x.shape)} of rank 3 needs num_heads")
        x = c.add("reshape", x, shape=(*x.shape[:2], heads, x.shape[2] // heads))
    over_heads = 2 if whole.type.rank == 3 else 1  # the axis of the heads, over which the angles broadcast
    turned_size = node.attr("rotary_embedding_dim", 0) or x.shape[3]
    if positions is not None:
        cos, sin = (c.add("gather", t, positions, axis=0) for t in (cos, sin))
    cos, sin = (c.add("reshape", t, shape=(*t.shape[:over_heads], 1, *t.shape[over_heads:])) for t in (cos, sin))
    parts = [x] if turned_size == x.shape[3] else c.add_node("split", x, axis=3, sizes=(turned_size, x.shape[3] - turned_size))
    y = c.add("rotary_embedding", parts[0], cos, sin, interleaved=bool(node.attr("interleaved", 0)))
    if len(parts) > 1:
        y = c.add("concat", y, parts[1], axis=3)
    return c.add("reshape", y, shape=whole.shape) if whole.type.rank == 3 else y
