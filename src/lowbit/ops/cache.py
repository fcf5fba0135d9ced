"""cache_store, cache_attention: keys and values of earlier tokens in pages of 32 positions (csrc/attention/cache.h).

Keys are (pages, heads, features, 32), values (pages, heads, 32, features). Position p of sequence s is in page table[s][p ÷ 32].
"""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import lb_exp, lb_tanh
from lowbit.ops.checks import differ
from lowbit.ops.op import Op, register
from lowbit.ops.token_rows import LANES, lane_sums, need_f32
from lowbit.types import Array, TensorType, shape_text

PAGE = 32


def _need_places(rows: object, positions: TensorType, sequences: TensorType, table: TensorType) -> None:
    for name, t, rank in (("positions", positions, 1), ("sequences", sequences, 1), ("table", table, 2)):
        if t.dtype.name != "int32" or t.rank != rank:
            raise DTypeError(f"{name} is {t}, int32 of {rank} axes needed")
    for name, t in (("positions", positions), ("sequences", sequences)):
        if t.shape[0] != rows:
            raise ShapeError(f"{name} {shape_text(t.shape)} given, one for each of {rows} rows needed")


def _need_cache(what: str, cache: TensorType, keys: bool, heads: Dim, depth: Dim) -> None:
    if cache.dtype.name != "float16" or cache.rank != 4:
        raise DTypeError(f"{what} is {cache}, float16 of four axes needed")
    want = (cache.shape[0], heads, depth, PAGE) if keys else (cache.shape[0], heads, PAGE, depth)
    if cache.shape != want:
        raise ShapeError(f"{what} {shape_text(cache.shape)} given, {shape_text(want)} needed")


def infer_store(
    cache: TensorType, x: TensorType, positions: TensorType, sequences: TensorType, table: TensorType, *, keys: bool
) -> TensorType:
    need_f32(x=x)
    if x.rank != 3:
        raise ShapeError(f"x {shape_text(x.shape)} given, (rows, heads, features) needed")
    _need_places(x.shape[0], positions, sequences, table)
    _need_cache("cache", cache, keys, x.shape[1], x.shape[2])
    return cache


def _page(table: Array, sequence: int, position: int, pages: int) -> int:
    """The page of a position, or -1."""
    if not 0 <= sequence < table.shape[0] or position < 0 or position // PAGE >= table.shape[1]:
        return -1
    page = int(table[sequence, position // PAGE])
    return page if 0 <= page < pages else -1


def cache_store(cache: Array, x: Array, positions: Array, sequences: Array, table: Array, *, keys: bool) -> Array:
    """The cache with the rows of x at their positions, rounded to float16. A plan writes them over its input."""
    out = cache.copy()
    for row, position, sequence in zip(x, positions.tolist(), sequences.tolist(), strict=True):
        page = _page(table, sequence, position, cache.shape[0])
        if page < 0:
            continue
        if keys:
            out[page, :, :, position % PAGE] = row
        else:
            out[page, :, position % PAGE] = row
    return out


def infer_attention(
    q: TensorType, k: TensorType, v: TensorType, positions: TensorType, sequences: TensorType, table: TensorType,
    *, scale: float, softcap: float = 0.0, window: int = 0,
) -> TensorType:  # fmt: skip
    need_f32(q=q)
    if q.rank != 3:
        raise ShapeError(f"q {shape_text(q.shape)} given, (rows, heads, features) needed")
    _need_places(q.shape[0], positions, sequences, table)
    _need_cache("k", k, True, k.shape[1] if k.rank == 4 else 0, q.shape[2])
    _need_cache("v", v, False, k.shape[1], q.shape[2])
    if differ(k.shape[0], v.shape[0]):
        raise ShapeError(f"k has {k.shape[0]} pages, v {v.shape[0]}")
    heads, kv_heads = q.shape[1], k.shape[1]
    if isinstance(heads, int) and isinstance(kv_heads, int) and (kv_heads == 0 or heads % kv_heads):
        raise ShapeError(f"{heads} heads of q, a multiple of the cache's {kv_heads} needed")
    return q


def cache_attention(
    q: Array, k: Array, v: Array, positions: Array, sequences: Array, table: Array, *, scale: float, softcap: float = 0.0, window: int = 0
) -> Array:
    """Causal attention of each row over the positions 0 … its own of its sequence, the last `window` of them if window > 0."""
    out = np.zeros_like(q)
    group = q.shape[1] // k.shape[1]
    for row, (position, sequence) in enumerate(zip(positions.tolist(), sequences.tolist(), strict=True)):
        first = max(0, position - window + 1) if window > 0 else 0
        last = min(position, table.shape[1] * PAGE - 1)
        pages = [(t, _page(table, sequence, t, k.shape[0])) for t in range(first, last + 1)]
        seen = [(t, page) for t, page in pages if page >= 0]
        if not seen:
            continue
        at = [t for t, _ in seen]
        kt = np.stack([k[page, :, :, t % PAGE] for t, page in seen]).astype(np.float32)  # (seen, kv heads, features)
        vt = np.stack([v[page, :, t % PAGE] for t, page in seen]).astype(np.float32)
        for head in range(q.shape[1]):
            out[row, head] = _attend(q[row, head], kt[:, head // group], vt[:, head // group], at, scale, softcap)
    return out


def _attend(q: Array, k: Array, v: Array, at: list[int], scale: float, softcap: float) -> Array:
    s = np.zeros(len(at), np.float32)
    for d in range(q.size):
        s += q[d] * k[:, d]
    s = s * np.float32(scale)
    if softcap > 0:
        s = np.float32(softcap) * lb_tanh(s / np.float32(softcap))
    s = np.where(np.isnan(s), np.float32(-np.inf), s)
    if np.isneginf(s.max()):
        return np.zeros_like(q)
    e = lb_exp(s - s.max())
    lanes = np.zeros(-(-(at[-1] + 1) // LANES) * LANES, np.float32)
    lanes[at] = e
    y = np.zeros_like(q)
    for t in range(len(at)):
        y = y + e[t] * v[t]
    return np.asarray(y / lane_sums(lanes))


def macs_attention(
    q: TensorType, k: TensorType, v: TensorType, positions: TensorType, sequences: TensorType, table: TensorType,
    *, scale: float, softcap: float = 0.0, window: int = 0,
) -> Dim:  # fmt: skip
    """Of full tables: how many positions are seen is run-time data."""
    return product(q.shape) * table.shape[1] * (2 * PAGE)


register(Op("cache_store", infer_store, cache_store), Op("cache_attention", infer_attention, cache_attention, macs_attention))
