"""Where buffers lie in the arena: those that live at the same time do not overlap, the rest shares memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowbit.plan.plan import ALIGNMENT


@dataclass(frozen=True)
class Buffer:
    """Bytes that hold something from step `first` (which writes it) to step `last` (which reads it)."""

    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both live at the same time."""
        return self.first <= other.last and other.first <= self.last


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], int]:
    """An offset for each buffer, and the size of the arena. The largest are placed first, each into the tightest gap that is free."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    end = 0
    for i in sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first)):
        size = rounded(buffers[i].size)
        if not size:
            continue
        taken = sorted((offsets[j], offsets[j] + rounded(buffers[j].size)) for j in placed if buffers[j].meets(buffers[i]))
        best, at = None, 0
        for start, stop in taken:
            gap = start - at
            if gap >= size and (best is None or gap < best[0]):
                best = gap, at
            at = max(at, stop)
        offsets[i] = at if best is None else best[1]
        end = max(end, offsets[i] + size)
        placed.append(i)
    return tuple(offsets), end


def least(buffers: Sequence[Buffer]) -> int:
    """No arena can be smaller: the bytes that are alive at the fullest step."""
    steps = {b.first for b in buffers}
    return max((sum(rounded(b.size) for b in buffers if b.first <= s <= b.last) for s in steps), default=0)
