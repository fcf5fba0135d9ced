"""Packed weights and sizes, asked of C: `<contract>_sizes` and `<contract>_pack` (csrc/conv/conv_pack.h) know the layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.kernels import native, sources
from lowbit.plan.pages import aligned
from lowbit.types import Array


def ask(contract: str, isa: str, params: dict[str, Any], count: int, *inputs: Array) -> tuple[int, ...]:
    """The `count` numbers that a contract of sizes has for a kernel of this instruction set."""
    answer = np.zeros(count, np.int64)
    _call(contract, isa, params, *map(np.ascontiguousarray, inputs), answer)
    return tuple(map(int, answer))


def pack_by(contract: str, isa: str, params: dict[str, Any], weights: Array, size: int, dtype: str = "uint8") -> Array:
    """Weights as the kernel of this instruction set takes them, in so many bytes."""
    packed = aligned(size).view(dtype)
    _call(contract, isa, params, np.ascontiguousarray(weights), packed)
    return packed


def _call(contract: str, isa: str, params: dict[str, Any], *args: Array) -> None:
    """Portable C, which answers for every machine. Parameters that the contract has not are left out."""
    kernel = native.having(contract, "ref")
    given = {**params, "isa": list(sources.isas()).index(isa)}
    kernel({name: given[name] for name in kernel.contract.layout.names or ()}, *args)
