"""GGUF's block formats as NumPy arrays: what csrc/blocks/block_formats.h says in C.

A weight of an integer format is f · d · (c - z) + m: a code c, a constant z, an integer f of 16 neighbours, floats d and m
of 32 neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import FormatError

Bytes = NDArray[np.uint8]
F32 = NDArray[np.float32]
RUN = 32  # neighbours that share a float scale, in weights and in activations
PANEL = 16  # outputs that kernels compute together


@dataclass(frozen=True)
class BlockFormat:
    """A format: GGUF's number, elements and bytes of a block, bits of a code, the code that stands for zero.

    header: bytes of a panel's scales for a block (csrc/blocks/block_panel.h).
    """

    name: str
    number: int
    block: int
    bytes: int
    bits: int = 0
    zero: int = 0
    header: int = 0

    @property
    def is_float(self) -> bool:
        return self.bits == 0

    def row_bytes(self, k: int) -> int:
        if k % self.block:
            raise FormatError(f"{self.name}: a row of {k} is no multiple of {self.block}")
        return k // self.block * self.bytes

    def row_size(self, row_bytes: int) -> int:
        """How many elements a row of so many bytes has."""
        if row_bytes % self.bytes:
            raise FormatError(f"{self.name}: a row of {row_bytes} bytes is no multiple of {self.bytes}")
        return row_bytes // self.bytes * self.block

    def panel_bytes(self, k: int) -> int:
        """Bytes of sixteen outputs in the kernels' layout."""
        if self.is_float:
            return -(-self.bytes * k * PANEL // 64) * 64
        return -(-self.header * (k // self.block) // 64) * 64 + 64 * self.bits * (k // RUN)


FORMATS = {
    f.name: f
    for f in (
        BlockFormat("F32", 0, 1, 4),
        BlockFormat("F16", 1, 1, 2),
        BlockFormat("Q4_0", 2, 32, 18, 4, 8, 32),
        BlockFormat("Q4_1", 3, 32, 20, 4, 0, 64),
        BlockFormat("Q5_0", 6, 32, 22, 5, 16, 32),
        BlockFormat("Q5_1", 7, 32, 24, 5, 0, 64),
        BlockFormat("Q8_0", 8, 32, 34, 8, 128, 32),
        BlockFormat("Q2_K", 10, 256, 84, 2, 0, 320),
        BlockFormat("Q3_K", 11, 256, 110, 3, 4, 288),
        BlockFormat("Q4_K", 12, 256, 144, 4, 0, 256),
        BlockFormat("Q5_K", 13, 256, 176, 5, 0, 256),
        BlockFormat("Q6_K", 14, 256, 210, 6, 32, 288),
        BlockFormat("IQ4_NL", 20, 32, 18, 4, 128, 32),
        BlockFormat("BF16", 30, 1, 2),
    )
}
IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int32)


def block_format(name: str) -> BlockFormat:
    if name not in FORMATS:
        raise FormatError(f"{name!r} is not a block format that is computed with", hint="one of " + ", ".join(FORMATS))
    return FORMATS[name]


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows taken apart: integers c - z (N, K), factors of runs of 16 (N, K / 16), d and m of runs of 32 (N, K / 32).

    m is None where there are no offsets; with `offset_factors` (N, K / 16) it is multiplied by them.
    """

    ints: NDArray[np.int32]
    factors: NDArray[np.int32]
    d: F32
    m: F32 | None = None
    offset_factors: NDArray[np.int32] | None = None


def _half(x: Bytes) -> F32:
    return np.ascontiguousarray(x).view(np.float16).astype(np.float32)


def _nibbles(x: Bytes) -> NDArray[Any]:
    return np.concatenate([x & 15, x >> 4], axis=-1)


def floats_of(name: str, w: Bytes) -> F32:
    """Rows of F32, F16 or BF16."""
    raw = np.ascontiguousarray(w)
    if name == "F32":
        return raw.view(np.float32)
    if name == "F16":
        return raw.view(np.float16).astype(np.float32)
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def parts_of(name: str, w: Bytes) -> Parts:
    """Rows (N, bytes of a row) of an integer format."""
    f = block_format(name)
    n = w.shape[0]
    blocks = w.reshape(n, -1, f.bytes)
    if f.block == 256:
        return _parts_k(f, blocks)
    at = 2
    d, m = _half(blocks[..., :2])[..., 0], None
    if name in ("Q4_1", "Q5_1"):
        m, at = _half(blocks[..., 2:4])[..., 0], 4
    if name == "Q8_0":
        codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8).astype(np.int32)
    elif f.bits == 5:
        high = np.unpackbits(np.ascontiguousarray(blocks[..., at : at + 4]), axis=-1, bitorder="little")
        codes = (_nibbles(blocks[..., at + 4 :]) | high << 4).astype(np.int32) - f.zero
    else:
        codes = _nibbles(blocks[..., at:]).astype(np.int32)
        codes = IQ4_NL[codes] if name == "IQ4_NL" else codes - f.zero
    return Parts(codes.reshape(n, -1), np.ones((n, codes.size // n // 16), np.int32), d, m)


def _scales_k(s: Bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scales and offset scales of Q4_K and Q5_K, 6 bits each: (…, 8) of (…, 12)."""
    a, b, c = s[..., :4], s[..., 4:8], s[..., 8:]
    return np.concatenate([a & 63, (c & 15) | a >> 6 << 4], axis=-1), np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=-1)


def _parts_k(f: BlockFormat, blocks: Bytes) -> Parts:
    n, count = blocks.shape[:2]
    ones = np.ones((n, count * 16), np.int32)

    def runs(d: F32) -> F32:
        """A float of 256 for each 32."""
        return np.repeat(d[..., 0], 8, axis=-1)

    if f.name in ("Q4_K", "Q5_K"):
        scale, offset = _scales_k(blocks[..., 4:16])
        d, m = _half(blocks[..., 0:2]) * scale.astype(np.float32), _half(blocks[..., 2:4]) * offset.astype(np.float32)
        codes = blocks[..., f.bytes - 128 :].reshape(n, count, 4, 1, 32) >> np.array([0, 4], np.uint8).reshape(2, 1) & 15
        codes = codes.reshape(n, count, 8, 32)
        if f.name == "Q5_K":
            codes = codes | (blocks[..., 16:48].reshape(n, count, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(8, 1) & 1) << 4
        return Parts(codes.reshape(n, -1).astype(np.int32), ones, d.reshape(n, -1), -m.reshape(n, -1))
    twos = np.arange(0, 8, 2, dtype=np.uint8).reshape(4, 1)
    if f.name == "Q6_K":
        low = blocks[..., :128].reshape(n, count, 2, 1, 64) >> np.array([0, 4], np.uint8).reshape(2, 1) & 15
        high = blocks[..., 128:192].reshape(n, count, 2, 1, 32) >> twos & 3
        codes = low.reshape(n, count, 2, 4, 32) | high << 4
        factors = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
        d = _half(blocks[..., 208:210])
    elif f.name == "Q3_K":
        low = blocks[..., 32:96].reshape(n, count, 2, 1, 32) >> twos & 3
        high = blocks[..., :32].reshape(n, count, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(8, 1) & 1
        codes = low | high.reshape(n, count, 2, 4, 32) << 2
        s = blocks[..., 96:108]
        upper = s[..., 8:].reshape(n, count, 1, 4) >> twos & 3
        factors = (np.concatenate([s[..., :8] & 15, s[..., :8] >> 4], axis=-1) | upper.reshape(n, count, 16) << 4).astype(np.int32) - 32
        d = _half(blocks[..., 108:110])
    else:  # Q2_K
        codes = blocks[..., 16:80].reshape(n, count, 2, 1, 32) >> twos & 3
        factors = blocks[..., :16] & 15
        d = _half(blocks[..., 80:82])
    ints = codes.reshape(n, -1).astype(np.int32) - f.zero
    runs_of_16: NDArray[np.int32] = factors.reshape(n, -1).astype(np.int32)
    if f.name != "Q2_K":
        return Parts(ints, runs_of_16, runs(d))
    offsets = (blocks[..., :16] >> 4).reshape(n, -1).astype(np.int32)
    return Parts(ints, runs_of_16, runs(d), -runs(_half(blocks[..., 82:84])), offsets)


def dequantize(name: str, w: Bytes) -> F32:
    """Rows as floats, rounded as the `gguf` package rounds them: once for d · c, once for the sum with an offset."""
    if block_format(name).is_float:
        return floats_of(name, w)
    p = parts_of(name, w)
    d = np.repeat(p.d, 2, axis=-1) * p.factors.astype(np.float32)
    real = np.repeat(d, 16, axis=-1) * p.ints.astype(np.float32)
    if p.m is None:
        return real
    m = np.repeat(p.m, 2, axis=-1)
    m = m if p.offset_factors is None else m * p.offset_factors.astype(np.float32)
    return real + np.repeat(m, 16, axis=-1)


@dataclass(frozen=True, eq=False)
class Records:
    """Activations rounded in blocks of 32 (csrc/blocks/blocks.h): integers (T, K), scale and scaled sum (T, K / 32), sums of
    halves (T, K / 16)."""

    q: NDArray[np.int32]
    scale: F32
    scaled_sum: F32
    halves: NDArray[np.int32]


def records_of(x: F32) -> Records:
    rows, k = x.shape
    blocks = x.reshape(rows, k // RUN, RUN)
    most = np.abs(blocks).view(np.int32).max(axis=-1).view(np.float32)  # NaN is the largest
    finite, tiny = np.isfinite(most), most < np.float32(2.0**-100)
    used = np.where(finite & ~tiny, most, np.float32(1))
    q = np.where((finite & ~tiny)[..., None], np.rint(blocks * (np.float32(127) / used)[..., None]), 0).astype(np.int32)
    scale = np.where(tiny, np.float32(0), np.where(finite, used / np.float32(127), np.float32(np.nan)))
    halves = q.reshape(rows, -1, 16).sum(axis=-1, dtype=np.int32)
    return Records(q.reshape(rows, k), scale, scale * q.sum(axis=-1).astype(np.float32), halves)
