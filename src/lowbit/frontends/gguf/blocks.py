"""GGUF's block formats as integers and scales, bit for bit. 32 neighbours along the last axis share a scale d (and an offset m), float16:

    Q4_0   d · (c - 8)    c in 0 … 15
    Q4_1   d · c + m      c in 0 … 15
    Q8_0   d · c          c in -128 … 127

Every one of them is a QArray, plus one offset for each block in Q4_1: m is no multiple of d, so no integer zero point stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import FormatError, QuantError
from lowbit.numerics import F32, Ints
from lowbit.quant_params import PerBlock, QuantParams

BLOCK = 32
F16 = NDArray[np.float16]


@dataclass(frozen=True)
class Kind:
    """A block format: the dtype of its codes, the code that stands for zero, whether blocks have an offset."""

    name: str
    dtype: str
    zero: int
    offset: bool

    @property
    def range(self) -> tuple[int, int]:
        return (0, 15) if self.dtype == "uint4" else (-128, 127)

    @property
    def block_bytes(self) -> int:
        return (4 if self.offset else 2) + (BLOCK // 2 if self.dtype == "uint4" else BLOCK)


KINDS = {k.name: k for k in (Kind("Q4_0", "uint4", 8, False), Kind("Q4_1", "uint4", 0, True), Kind("Q8_0", "int8", 0, False))}


@dataclass(frozen=True, eq=False)
class BlockTensor:
    """Codes of the tensor's shape, d (and m) with one number a block. `to_bytes` gives the very bytes it was read from."""

    kind: Kind
    codes: Ints  # (…, K), uint8 or int8
    d: F16  # (…, K / 32)
    m: F16 | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    @property
    def nbytes(self) -> int:
        return self.d.size * self.kind.block_bytes

    def to_bytes(self) -> NDArray[np.uint8]:
        """The file's bytes: (…, bytes of a row)."""
        lead, blocks = self.shape[:-1], self.d.shape[-1]
        codes = self.codes.reshape(*lead, blocks, BLOCK)
        if self.kind.dtype == "uint4":  # the first 16 in the low nibbles, the others in the high ones
            stored = codes[..., : BLOCK // 2] | (codes[..., BLOCK // 2 :] << 4)
        else:
            stored = codes.view(np.uint8)
        numbers = [t[..., None].view(np.uint8) for t in (self.d, self.m) if t is not None]
        return np.concatenate([*numbers, stored], axis=-1).reshape(*lead, blocks * self.kind.block_bytes)

    def dequantize(self) -> F32:
        """The float32 tensor it stands for: one rounding, that of + m (d · c is exact: 11 bits times 8)."""
        params, codes, offset = self.affine()
        scale, zero_point = params.expand(codes.shape)
        real = (codes.astype(np.int32) - zero_point).astype(np.float32) * scale
        return real if offset is None else real + np.repeat(offset, BLOCK, axis=-1)

    def affine(self) -> tuple[QuantParams, Ints, F32 | None]:
        """Parameters, integers and offsets with real = scale · (q - zero_point) + offset, equal to the file's numbers.

        A scale is positive: where d < 0 the codes and the zero point are mirrored, where d = 0 every code is the zero point.
        """
        d = self.d.astype(np.float32)
        if not (np.isfinite(d).all() and (self.m is None or np.isfinite(self.m).all())):
            raise FormatError(f"a {self.kind.name} block has a scale that is not finite", hint="the file is damaged")
        low, high = self.kind.range
        zero = np.where(d < 0, low + high - self.kind.zero, self.kind.zero).astype(np.int32)
        sign, null = (np.repeat(t, BLOCK, axis=-1) for t in (d < 0, d == 0))
        codes = np.where(null, self.kind.zero, np.where(sign, low + high - self.codes.astype(np.int16), self.codes)).astype(
            self.codes.dtype
        )
        params = QuantParams(self.kind.dtype, np.where(d == 0, 1, np.abs(d)), zero, "asymmetric", PerBlock(self.codes.ndim - 1, BLOCK))
        return params, codes, None if self.m is None else self.m.astype(np.float32)


def from_bytes(kind: str, data: NDArray[np.uint8], shape: Sequence[int]) -> BlockTensor:
    """The tensor of `shape` whose rows these bytes are."""
    k = KINDS[kind]
    if not shape or shape[-1] % BLOCK:
        raise FormatError(f"{kind} of shape {tuple(shape)}: the last dimension is no multiple of {BLOCK}")
    lead, blocks = tuple(shape[:-1]), shape[-1] // BLOCK
    raw = np.ascontiguousarray(data, np.uint8)
    if raw.size != int(np.prod(lead, dtype=np.int64)) * blocks * k.block_bytes:
        raise FormatError(f"{raw.size} bytes do not hold {kind} of shape {tuple(shape)}")
    raw = raw.reshape(*lead, blocks, k.block_bytes)
    numbers = np.ascontiguousarray(raw[..., : 4 if k.offset else 2]).view(np.float16)
    stored = raw[..., 4 if k.offset else 2 :]
    codes = np.concatenate([stored & 15, stored >> 4], axis=-1) if k.dtype == "uint4" else np.ascontiguousarray(stored).view(np.int8)
    m = np.ascontiguousarray(numbers[..., 1]) if k.offset else None
    return BlockTensor(k, codes.reshape(tuple(shape)), np.ascontiguousarray(numbers[..., 0]), m)


def from_ints(params: QuantParams, ints: Ints) -> BlockTensor:
    """Integers with block scales as the GGUF format that holds them exactly: Q4_0 for four bits, Q8_0 for eight.

    QuantError where none does: other blocks than 32 along the last axis, zero points that vary, scales that float16 does not hold.
    """
    g = params.granularity
    if not isinstance(g, PerBlock) or g.size != BLOCK or g.axis % ints.ndim != ints.ndim - 1 or ints.shape[-1] % BLOCK:
        raise QuantError(
            f"GGUF has blocks of {BLOCK} along the last axis, not {params.granularity} of {ints.shape}", hint="PerBlock(-1, 32)"
        )
    d = params.scale.astype(np.float16)
    if not np.array_equal(d.astype(np.float32), params.scale):
        raise QuantError(
            "GGUF's scales are float16, and these are not", hint="round the scales to float16 before quantizing, or encode(x, kind)"
        )
    centred = ints.astype(np.int32) - params.expand(ints.shape)[1]
    kind = KINDS["Q4_0" if params.dtype.bits == 4 else "Q8_0"]
    low, high = kind.range
    if params.dtype.bits not in (4, 8) or (ints.size and (centred.min() + kind.zero < low or centred.max() + kind.zero > high)):
        raise QuantError(f"{params.dtype} with these zero points has no GGUF format", hint="int4 or int8, symmetric")
    return BlockTensor(kind, (centred + kind.zero).astype(np.uint8 if kind.dtype == "uint4" else np.int8), d, None)


def encode(x: NDArray[np.floating], kind: str) -> BlockTensor:
    """Real numbers in a block format, rounded as the `gguf` package rounds them."""
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    if kind not in KINDS:
        raise QuantError(f"{kind!r} is not a block format that is written", hint="one of " + ", ".join(KINDS))
    if not x.shape or x.shape[-1] % BLOCK:
        raise QuantError(f"shape {x.shape}: the last dimension is no multiple of {BLOCK}", hint="F16 or F32 for such tensors")
    return from_bytes(kind, quantize(np.ascontiguousarray(x, np.float32), GGMLQuantizationType[kind]), x.shape)
