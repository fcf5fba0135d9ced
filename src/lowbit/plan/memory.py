"""Placement of buffers in the arena: buffers that live at the same time do not overlap, others share memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowbit.plan.plan import ALIGNMENT

WORK = 300_000  # pairs of neighbours that a search examines at most: a fraction of a second


@dataclass(frozen=True)
class Buffer:
    """Bytes that hold something from step `first` (which writes it) to step `last` (which reads it)."""

    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both live at the same time."""
        return self.first <= other.last and other.first <= self.last


def rounded(size: int, alignment: int = ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def place(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> tuple[tuple[int, ...], int]:
    """An offset for each buffer, and the size of the arena: the smallest that several orders of placing them give.

    The search ends when no arena can be smaller. The same buffers give the same places.
    """
    sizes = [rounded(b.size, alignment) for b in buffers]
    neighbours = [[j for j, b in enumerate(buffers) if j != i and sizes[j] and b.meets(a)] for i, a in enumerate(buffers)]
    goal = least(buffers, alignment)
    best: tuple[tuple[int, ...], int] | None = None
    tries = max(3, WORK // (10 * (len(buffers) + sum(map(len, neighbours)) + 1)))
    for order in _orders(buffers, neighbours):
        for tightest in (True, False):
            current = order
            for _ in range(tries):
                found = _fit(sizes, neighbours, current, tightest)
                if best is None or found[1] < best[1]:
                    best = found
                if best[1] == goal:
                    return best
                moved = _raised(sizes, found, current)
                if moved == current:
                    break
                current = moved
    assert best is not None
    return best


def _orders(buffers: Sequence[Buffer], neighbours: list[list[int]]) -> Iterator[list[int]]:
    """Orders to try: large buffers first; large in memory × time first; those of the fullest steps first; as they come."""
    n = range(len(buffers))
    yield sorted(n, key=lambda i: (-buffers[i].size, buffers[i].first))
    load = [b.size + sum(buffers[j].size for j in near) for b, near in zip(buffers, neighbours, strict=True)]
    yield sorted(n, key=lambda i: (-buffers[i].size * (buffers[i].last - buffers[i].first + 1), buffers[i].first))
    yield sorted(n, key=lambda i: (-load[i], -buffers[i].size, buffers[i].first))
    yield sorted(n, key=lambda i: (buffers[i].first, -buffers[i].size))
    yield sorted(n, key=lambda i: (-buffers[i].last, -buffers[i].size))


def _fit(sizes: list[int], neighbours: list[list[int]], order: list[int], tightest: bool) -> tuple[tuple[int, ...], int]:
    """Places buffers in this order, each into a gap between buffers that live at the same time: the tightest gap, or the lowest."""
    offsets = [-1] * len(sizes)
    end = 0
    for i in order:
        size = sizes[i]
        if not size:
            continue
        taken = sorted((offsets[j], offsets[j] + sizes[j]) for j in neighbours[i] if offsets[j] >= 0)
        best, at = None, 0
        for start, stop in taken:
            gap = start - at
            if gap >= size and (best is None or (tightest and gap < best[0])):
                best = gap, at
            at = max(at, stop)
        offsets[i] = at if best is None else best[1]
        end = max(end, offsets[i] + size)
    return tuple(max(o, 0) for o in offsets), end


def _raised(sizes: list[int], found: tuple[tuple[int, ...], int], order: list[int]) -> list[int]:
    """Another order: buffers at the top of the arena move half of the way to the front."""
    offsets, end = found
    order = list(order)
    for i in [i for i in order if sizes[i] and offsets[i] + sizes[i] == end]:
        at = order.index(i)
        order.insert(at // 2, order.pop(at))
    return order


def fullest(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> tuple[int, int]:
    """The bytes that are alive at the fullest step, and the first such step."""
    steps = sorted({b.first for b in buffers})
    alive = [sum(rounded(b.size, alignment) for b in buffers if b.first <= s <= b.last) for s in steps]
    most = max(alive, default=0)
    return most, steps[alive.index(most)] if alive else 0


def least(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> int:
    """No arena can be smaller: the bytes that are alive at the fullest step."""
    return fullest(buffers, alignment)[0]
