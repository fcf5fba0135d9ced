"""Fits rows of weights to a block format of GGUF: scales by weighted least squares, then the grid of what the format can say.

weights (K,) or (N, K) tell how much a column's error counts: the mean square of what it is multiplied by.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import BlockFormat, block_format
from lowbit.errors import QuantError
from lowbit.llm.quantization.grid import LEVELS, Bytes, Codes, Grid
from lowbit.llm.quantization.scales import affine, symmetric
from lowbit.numerics import F32

LARGEST = np.float32(65504)  # of float16


def fit(name: str, x: F32, weights: F32) -> Grid:
    """The grid of rows x (N, K)."""
    f = block_format(name)
    if name not in LEVELS:
        raise QuantError(f"{name} is not written", hint="one of " + ", ".join(LEVELS))
    if x.shape[1] % f.block:
        raise QuantError(f"{name}: rows of {x.shape[1]} are no multiple of {f.block}", hint="Q8_0, Q5_0 or Q4_0 for such rows")
    w = np.broadcast_to(weights, x.shape)
    return _FITS[name](f, np.ascontiguousarray(x, np.float32), w)


def half(x: F32) -> F32:
    """As float16 has it."""
    return np.clip(x, -LARGEST, LARGEST).astype(np.float16).astype(np.float32)


def _bytes_of_half(x: F32) -> Bytes:
    return np.ascontiguousarray(x.astype(np.float16))[..., None].view(np.uint8)


def _runs(x: F32, run: int) -> F32:
    return np.ascontiguousarray(x.reshape(-1, run))


def nibbles(codes: Codes) -> Bytes:
    """Halves of the last axis in the low and the high bits."""
    n = codes.shape[-1] // 2
    return np.asarray(codes[..., :n] | codes[..., n:] << 4, np.uint8)


def _fit_symmetric(f: BlockFormat, x: F32, w: F32) -> Grid:
    """Q4_0, Q5_0, Q8_0, IQ4_NL: a step for 32."""
    tries = (0.0,) if f.name == "Q8_0" else None
    step = symmetric(_runs(x, 32), _runs(w, 32), LEVELS[f.name], *([tries] if tries else []))
    step = half(step.reshape(len(x), -1))
    return Grid(f, 32, step, None, partial(_pack_small, f, step, None))


def _fit_affine(f: BlockFormat, x: F32, w: F32) -> Grid:
    """Q4_1, Q5_1: a step and an offset for 32."""
    step, offset = affine(_runs(x, 32), _runs(w, 32), LEVELS[f.name].count, below=False)
    step, offset = half(step.reshape(len(x), -1)), half(offset.reshape(len(x), -1))
    return Grid(f, 32, step, offset, partial(_pack_small, f, step, offset))


def _pack_small(f: BlockFormat, step: F32, offset: F32 | None, codes: Codes) -> Bytes:
    blocks = codes.reshape(len(codes), -1, 32)
    head = [_bytes_of_half(t) for t in (step, offset) if t is not None]
    if f.name == "Q8_0":
        body = [(blocks.astype(np.int16) - 127).astype(np.int8).view(np.uint8)]
    elif f.bits == 5:
        body = [np.packbits(blocks >> 4, axis=-1, bitorder="little"), nibbles(np.asarray(blocks & 15, np.uint8))]
    else:
        body = [nibbles(blocks)]
    return np.concatenate([*head, *body], axis=-1).reshape(len(codes), -1)


def _fit_k(f: BlockFormat, x: F32, w: F32) -> Grid:
    """Q4_K, Q5_K: eight runs of 32 in a block have a step and an offset of 6 bits each, times two floats of the block."""
    count, n = LEVELS[f.name].count, len(x)
    runs, weights = _runs(x, 32), _runs(w, 32)
    s, m = affine(runs, weights, count, below=True)
    s, m = s.reshape(-1, 8), -m.reshape(-1, 8)
    d, e = half(s.max(axis=1) / 63), half(m.max(axis=1) / 63)
    for turn in range(3):
        scale, least = _six_bits(s, d), _six_bits(m, e)
        if turn == 2:
            break
        step, offset = d[:, None] * scale, e[:, None] * least  # (blocks, 8)
        inverse = np.divide(np.float32(1), step, out=np.zeros_like(step), where=step > 0)
        b = runs.reshape(-1, 8, 32)
        level = np.clip(np.rint((b + offset[..., None]) * inverse[..., None]), 0, count - 1)
        d, e = _block_floats(b, weights.reshape(-1, 8, 32), level * scale[..., None], least, d, e)
    step, offset = (d[:, None] * scale).reshape(n, -1), -(e[:, None] * least).reshape(n, -1)
    return Grid(f, 32, step, offset, partial(_pack_k, f, d, e, scale.astype(np.uint8), least.astype(np.uint8)))


def _six_bits(x: F32, unit: F32) -> F32:
    return np.clip(np.rint(np.divide(x, unit[:, None], out=np.zeros_like(x), where=unit[:, None] > 0)), 0, 63)


def _block_floats(x: F32, w: F32, a: F32, least: F32, d: F32, e: F32) -> tuple[F32, F32]:
    """The floats d and e of least Σ w (x − d a + e least)² over a block, where they are positive; else as they were."""
    b = np.broadcast_to(least[..., None], a.shape)
    aa, bb, ab = (np.einsum("kij,kij,kij->k", w, p, q) for p, q in ((a, a), (b, b), (a, b)))
    xa, xb = (np.einsum("kij,kij,kij->k", w, x, p) for p in (a, b))
    determinant = aa * bb - ab * ab
    regular = determinant > 1e-6 * aa * bb
    nd = np.divide(xa * bb - xb * ab, determinant, out=np.zeros_like(d), where=regular)
    ne = np.divide(xa * ab - xb * aa, determinant, out=np.zeros_like(e), where=regular)
    alone = np.divide(xa, aa, out=np.zeros_like(d), where=aa > 0)
    use, only = regular & (nd > 0) & (ne > 0), (bb == 0) & (alone > 0)
    return half(np.where(use, nd, np.where(only, alone, d))), half(np.where(use, ne, e))


def _pack_k(f: BlockFormat, d: F32, e: F32, scale: Codes, least: Codes, codes: Codes) -> Bytes:
    n = len(codes)
    q = codes.reshape(-1, 4, 2, 32)  # pairs of runs share bytes
    low = (q[:, :, 0] & 15) | (q[:, :, 1] & 15) << 4
    a = scale[:, :4] | (scale[:, 4:] >> 4) << 6
    b = least[:, :4] | (least[:, 4:] >> 4) << 6
    c = (scale[:, 4:] & 15) | (least[:, 4:] & 15) << 4
    parts = [_bytes_of_half(d), _bytes_of_half(e), a, b, c]
    if f.name == "Q5_K":
        high = codes.reshape(-1, 8, 32) >> 4
        parts.append((high << np.arange(8, dtype=np.uint8)[:, None]).sum(axis=1, dtype=np.uint8))
    parts.append(low.reshape(-1, 128))
    return np.concatenate(parts, axis=-1).reshape(n, -1)


def _fit_q6(f: BlockFormat, x: F32, w: F32) -> Grid:
    """Q6_K: sixteen runs of 16 have a factor of 8 bits each, times a float of the block."""
    levels, n = LEVELS[f.name], len(x)
    runs, weights = _runs(x, 16), _runs(w, 16)
    s = symmetric(runs, weights, levels, (-0.6, 0.0, 0.6)).reshape(-1, 16)
    at = np.abs(s).argmax(axis=1)[:, None]
    d = half(np.take_along_axis(s, at, axis=1)[:, 0] / np.float32(-128))
    for turn in range(2):
        factor = np.clip(np.rint(np.divide(s, d[:, None], out=np.zeros_like(s), where=d[:, None] != 0)), -128, 127)
        if turn == 1:
            break
        step = (d[:, None] * factor).reshape(-1, 1)
        level = levels.nearest(np.divide(runs, step, out=np.zeros_like(runs), where=step != 0))
        a = level * factor.reshape(-1, 1)
        dot, square = (np.einsum("bn,bn,bn->b", weights, p, a).reshape(-1, 16).sum(axis=1) for p in (runs, a))
        d = half(np.asarray(np.divide(dot, square, out=np.zeros_like(d), where=square > 0), np.float32))
    step = (d[:, None] * factor).reshape(n, -1)
    return Grid(f, 16, step, None, partial(_pack_q6, d, factor.astype(np.int8)))


def _pack_q6(d: F32, factor: NDArray[np.int8], codes: Codes) -> Bytes:
    n = len(codes)
    q = codes.reshape(-1, 2, 4, 32)
    low = q & 15
    low = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], axis=-1)  # (blocks, 2, 64)
    high = ((q >> 4) << np.arange(0, 8, 2, dtype=np.uint8)[:, None]).sum(axis=2, dtype=np.uint8)
    parts = [low.reshape(-1, 128), high.reshape(-1, 64), factor.view(np.uint8), _bytes_of_half(d)]
    return np.concatenate(parts, axis=-1).reshape(n, -1)


_FITS = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "IQ4_NL"), _fit_symmetric),
    **dict.fromkeys(("Q4_1", "Q5_1"), _fit_affine),
    **dict.fromkeys(("Q4_K", "Q5_K"), _fit_k),
    "Q6_K": _fit_q6,
}
