"""The CPU instructions that multiply bytes, best first: their operand types decide which dtypes are cheap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Pair = tuple[str, str]  # activation dtype, weight dtype


@dataclass(frozen=True)
class Instruction:
    """A way to multiply bytes. `isa` is its kernels' suffix (csrc/isas.txt), `width` the int8 in one register.

    `pairs` are the dtype pairs that kernels multiply with it, exact and as bytes, lowbit's first choice first; others are widened.
    """

    isa: str
    title: str
    needs: frozenset[str]
    width: int
    pairs: tuple[Pair, ...]
    because: str


_S8S8, _U8S8, _S8U8, _U8U8 = ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512vl"})

# NEON without dotprod and plain C have no instruction that multiplies bytes into int32: they widen, and no signedness is better.
INSTRUCTIONS = (
    Instruction(
        "amx", "AMX-INT8", frozenset({"amx_int8"}), 64, (_S8S8, _U8S8, _S8U8, _U8U8),
        "tdpbssd/tdpbusd/tdpbsud/tdpbuud multiply tiles of bytes of any signedness into int32",
    ),
    Instruction(
        "avx512vnni", "AVX-512-VNNI", _AVX512 | {"avx512vnni"}, 64, (_S8S8, _U8S8),
        "vpdpbusd multiplies uint8 by int8 into int32; kernels add 128 to int8 activations as they copy them, and take it off the sums",
    ),
    Instruction(
        "avxvnni", "AVX-VNNI", frozenset({"avx2", "avxvnni"}), 32, (_S8S8, _U8S8),
        "vpdpbusd multiplies uint8 by int8 into int32; kernels add 128 to int8 activations as they copy them, and take it off the sums",
    ),
    Instruction(
        "neoni8mm", "NEON i8mm", frozenset({"i8mm"}), 16, (_S8S8, _U8U8, _U8S8),
        "smmla/ummla/usmmla multiply 2x8 by 8x2 bytes into int32",
    ),
    Instruction(
        "neondot", "NEON dotprod", frozenset({"dotprod"}), 16, (_S8S8, _U8U8),
        "sdot/udot multiply bytes of one signedness into int32; uint8 by int8 would need an offset of 128 first",
    ),
    Instruction(
        "avx2", "AVX2", frozenset({"avx2"}), 32, (),
        "vpmaddubsw (uint8 by int8) saturates in int16, so that exact kernels widen or go around it, and it prefers no signedness",
    ),
)  # fmt: skip


def best_instruction(features: Collection[str]) -> Instruction | None:
    """The best way to multiply bytes that a CPU with these features has; None if it has none of the table.

    >>> best_instruction(["avx2", "fma"]).title, best_instruction([])
    ('AVX2', None)
    """
    return next((i for i in INSTRUCTIONS if i.needs <= set(features)), None)
