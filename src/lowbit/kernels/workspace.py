"""Memory for packed matrices and scratch, kept between calls: fresh pages from the system cost more than a small product.

At most KEPT bytes are kept by the process; what is lent at the moment is not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT = 16 << 20
_LEAST = 1 << 16


@dataclass(frozen=True)
class Block:
    """Bytes of which `size` start at `address`, a multiple of 64."""

    size: int
    address: int
    memory: NDArray[Any]

    def split(self, *sizes: int) -> tuple[int, ...]:
        """The addresses of parts of these sizes, each a multiple of 64."""
        return tuple(accumulate((room(size) for size in sizes[:-1]), initial=self.address))


_free: list[Block] = []
_lock = threading.Lock()


def room(size: int) -> int:
    """The size, rounded up so that the next block is aligned."""
    return -(-size // 64) * 64


def lend(size: int) -> Block:
    """A block of at least that size, with anything in it."""
    with _lock:
        for i, block in enumerate(_free):
            if block.size >= size:
                return _free.pop(i)
    size = max(_LEAST, 1 << (size - 1).bit_length()) if size < KEPT else size  # powers of two fit the next one, too
    memory = np.empty(size + 64, np.uint8)
    return Block(size, -(-memory.ctypes.data // 64) * 64, memory)


def give_back(blocks: Iterable[Block]) -> None:
    """Returns lent memory to the pool."""
    with _lock:
        kept = sum(block.size for block in _free)
        for block in blocks:
            kept += block.size
            if kept <= KEPT:
                _free.append(block)
            else:
                kept -= block.size
        _free.sort(key=lambda block: block.size)  # the smallest that fits is lent first
