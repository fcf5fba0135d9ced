"""Products: linear, matmul in all its spellings, einsum, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lowbit.dims import product
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value


@aten("linear")
def linear(c: Importer, x: Value, w: Value, b: Value | None = None) -> Value:
    if w.type.rank == 1:  # one output, which has no axis
        y = c.add("matmul", x, w)
        return y if b is None else c.add("add", y, b)
    return c.add("linear", x, w, b)


@aten("matmul", "mm", "bmm", "mv", "dot", "linalg_matmul")
def matmul(c: Importer, a: Value, b: Value) -> Value:
    return c.add("matmul", a, b)


@aten("outer", "ger")
def outer(c: Importer, a: Value, b: Value) -> Value:
    return c.add("mul", c.reshape(c.cast(a, c.dtype()), (*a.shape, 1)), c.cast(b, c.dtype()))


def _times(c: Importer, x: Value, factor: float) -> Value:
    return x if factor == 1 else c.add("mul", x, c.tensor(factor, x.type.dtype))


@aten("addmm", "baddbmm", "addmv")
def addmm(c: Importer, b: Value, x: Value, w: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    y = _times(c, c.add("matmul", x, w), alpha)
    return y if beta == 0 else c.add("add", y, _times(c, b, beta))


@aten("addbmm")
def addbmm(c: Importer, b: Value, x: Value, w: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    y = _times(c, c.add("reduce_sum", c.add("matmul", x, w), axes=(0,), keepdims=False), alpha)
    return y if beta == 0 else c.add("add", y, _times(c, b, beta))


@aten("einsum")
def einsum(c: Importer, equation: str, xs: Sequence[Value], *, path: Any = None) -> Value:
    return c.add("einsum", *xs, equation=equation.replace(" ", ""))


@aten("bilinear")
def bilinear(c: Importer, a: Value, b: Value, w: Value, bias: Value | None = None) -> Value:
    rows = product(a.shape[:-1])
    y = c.add("einsum", c.reshape(a, (rows, a.shape[-1])), w, c.reshape(b, (rows, b.shape[-1])), equation="ni,oij,nj->no")
    y = c.reshape(y, c.shape())
    return y if bias is None else c.add("add", y, bias)


@aten("scaled_dot_product_attention")
def attention(
    c: Importer,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        k, v = heads_repeated(c, k, q), heads_repeated(c, v, q)
    if scale is None:
        width = q.shape[-1]
        if not isinstance(width, int):
            raise UnsupportedOp("attention over a symbolic width is not supported", hint="leave that dimension out of dynamic=")
        scale = 1 / math.sqrt(width)
    return c.add("attention", q, k, v, mask, scale=float(scale), causal=bool(causal))


def heads_repeated(c: Importer, kv: Value, q: Value) -> Value:
    """Keys or values (…, G, S, E) with every head repeated for its group of query heads (…, H, L, E)."""
    *batch, groups, length, width = kv.shape
    times = q.shape[-3] // groups
    wide = c.reshape(kv, (*batch, groups, 1, length, width))
    return c.reshape(c.expand(wide, (*batch, groups, times, length, width)), (*batch, q.shape[-3], length, width))


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    c: Importer,
    q: Value,
    k: Value,
    v: Value,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, None]:
    """Attention in a fully decomposed program. Its second result is for training."""
    return attention(c, q, k, v, attn_mask, dropout, causal, scale=scale), None
