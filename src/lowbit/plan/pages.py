"""Memory for a session's weights on huge pages (2 MB), where the system has them.

A network that does not fit the caches reads every weight once a run. On pages of 4 KB the CPU looks up an address every few hundred
cycles, and its prefetchers stop at the end of each page.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np
from numpy.typing import NDArray

from lowbit.types import Array

PAGE = 2 << 20
LINE = 64
LARGE = 2 * PAGE  # bytes of an array that has pages of its own
ROOM = 32 * PAGE  # of an arena's first block; each further one has twice as much, so that few have an end that is not full


def aligned(size: int) -> NDArray[np.uint8]:
    """Fresh bytes at a multiple of 64; large ones from a multiple of 2 MB on, the whole pages among them huge."""
    found = _huge(size) if size >= LARGE else None
    if found is not None:
        return found
    block = np.empty(size + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start : start + size]


class HugePageArena:
    """Arrays that are not large, one after the other. Only pages that hold something are memory: less than one beyond the arrays in
    each block, which lasts as long as somebody holds an array in it."""

    def __init__(self) -> None:
        self._room = ROOM
        self._free: NDArray[np.uint8] | None = None  # what is left of the block at hand

    def put(self, x: Array) -> Array:
        """A copy in the arena, at a multiple of 64 bytes; the array itself if it is large, or where the system has no such pages."""
        if x.nbytes >= LARGE:
            return x
        need = -(-x.nbytes // LINE) * LINE
        if self._free is None or need > self._free.size:
            block = _huge(self._room)
            if block is None:
                return x
            self._free, self._room = block, 2 * self._room
        out = self._free[: x.nbytes].view(x.dtype).reshape(x.shape)
        self._free = self._free[need:]
        out[...] = x
        return out


def _huge(size: int) -> NDArray[np.uint8] | None:
    """Bytes from a multiple of 2 MB on, whose whole pages are huge once they are touched; None where there are no such pages."""
    if sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        view = np.frombuffer(memory, np.uint8)
        start = -view.ctypes.data % PAGE
        memory.madvise(mmap.MADV_HUGEPAGE, start, size // PAGE * PAGE)
    except (OSError, ValueError):  # no address space left, or a kernel without them
        return None
    return view[start : start + size]
