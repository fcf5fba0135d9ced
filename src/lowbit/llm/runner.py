"""Runs a network on rows of tokens: plans of some numbers of rows over the same packed weights and the same cache."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import InputError
from lowbit.ir.graph import Constant
from lowbit.llm.architectures import Config
from lowbit.llm.architectures.layers import CacheShape, Decoder
from lowbit.llm.cache import PagePool, anonymous
from lowbit.llm.weights import Weights
from lowbit.numerics import F32, lb_tanh
from lowbit.plan import Packed
from lowbit.plan.pages import HugePageArena
from lowbit.runtime.token_plan import TokenPlan
from lowbit.types import Array

I32 = NDArray[np.int32]
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)  # rows of plans
MOST_ROWS = SIZES[-1]
HEAD_ROWS = 16  # logits of more rows are computed in turns
RELEASED = 16 << 20  # bytes of the file that stay in memory while weights are packed


class MappedPacked(Packed):
    """Packed weights. The file's pages are given back as soon as they are packed, so that weights are in memory once."""

    def __init__(self, release: Callable[[], None]) -> None:
        super().__init__(None, HugePageArena())
        self._release, self._read = release, 0

    def keep(self, constant: Constant, how: tuple[str, ...], make: Callable[[], Array]) -> Array:
        before = len(self)
        found = super().keep(constant, how, make)
        self._read += constant.data.nbytes if len(self) > before else 0
        if self._read >= RELEASED:
            self._release()
            self._read = 0
        return found


@dataclass(eq=False)
class Runner:
    """One call at a time. `table` is the page table, which the owner of the pages writes."""

    config: Config
    weights: Weights
    shape: CacheShape
    threads: int
    table: I32 = field(init=False)
    pool: PagePool = field(init=False)

    def __post_init__(self) -> None:
        c = self.config
        self.table = np.full((self.shape.sequences, self.shape.length), -1, np.int32)
        self.pool = PagePool(self.shape.pages)
        self._decoder = Decoder(c, self.weights)
        self._decoder.body(1, self.shape)  # every tensor is looked at before memory is taken
        self._decoder.head(1)
        self.weights.need_all_used()
        half = np.dtype(np.float16)
        shapes = {"k": self.shape.keys(c), "v": self.shape.values(c)}
        try:
            self._states = {f"{n}_cache.{i}": anonymous(s, half) for i in range(c.layers) for n, s in shapes.items()}
        except (OSError, ValueError, OverflowError) as e:
            raise InputError(f"no memory for a cache of {self.shape.pages:,} pages ({e})", hint="a smaller context=") from None
        self._packed = MappedPacked(lambda: released(self.weights))
        self._bodies: dict[int, TokenPlan] = {}
        self._heads: dict[int, TokenPlan] = {}
        self._body(1)
        self._head(1)

    def hidden(self, ids: Sequence[int], positions: Sequence[int], sequences: Sequence[int]) -> F32:
        """The hidden state of each row (rows, width), and their keys and values in the cache. At most 128 rows.

        Rows of one sequence stand in the order of their positions. Plans have some numbers of rows: what is missing is filled up with rows
        of no sequence, or, where those would be many, cut in two.
        """
        count, parts = len(ids), []
        at = 0
        while at < count:
            left = count - at
            size = next(s for s in SIZES if s >= min(left, MOST_ROWS))
            if left < size - size // 4:  # a row costs about the same in plans of all sizes
                size //= 2
            used = min(size, left)
            parts.append(self._run(size, ids[at : at + used], positions[at : at + used], sequences[at : at + used]))
            at += used
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _run(self, size: int, ids: Sequence[int], positions: Sequence[int], sequences: Sequence[int]) -> F32:
        plan, n = self._body(size), len(ids)
        given = plan.inputs
        given["ids"][:n], given["ids"][n:] = ids, 0
        given["positions"][:n], given["positions"][n:] = positions, 0
        given["sequences"][:n], given["sequences"][n:] = sequences, -1
        given["table"][:] = self.table
        at = np.asarray(given["positions"])
        given["cos"][:], given["sin"][:] = self.config.rope.angles(at)
        if self.config.local_rope is not None:
            given["cos_local"][:], given["sin_local"][:] = self.config.local_rope.angles(at)
        return plan.run()["hidden"][:n].copy()

    def logits(self, hidden: F32) -> F32:
        """Logits (rows, vocabulary) of rows of the hidden state."""
        parts = []
        for at in range(0, len(hidden), HEAD_ROWS):
            rows = hidden[at : at + HEAD_ROWS]
            plan = self._head(next(s for s in SIZES if s >= len(rows)))
            plan.inputs["hidden"][: len(rows)], plan.inputs["hidden"][len(rows) :] = rows, 0
            parts.append(plan.run()["logits"][: len(rows)].copy())
        out = parts[0] if len(parts) == 1 else np.concatenate(parts)
        cap = np.float32(self.config.logit_softcap)
        return out if not cap else cap * lb_tanh(out / cap)

    def _body(self, rows: int) -> TokenPlan:
        if rows not in self._bodies:
            graph, updates = self._decoder.body(rows, self.shape)
            self._bodies[rows] = TokenPlan(graph, self._states, updates, threads=self.threads, packed=self._packed)
            released(self.weights)
        return self._bodies[rows]

    def _head(self, rows: int) -> TokenPlan:
        if rows not in self._heads:
            self._heads[rows] = TokenPlan(self._decoder.head(rows), {}, {}, threads=self.threads, packed=self._packed)
            released(self.weights)
        return self._heads[rows]


def released(weights: Weights) -> None:
    """Gives the file's pages back to the system; they are read again when they are touched."""
    maps: dict[int, mmap.mmap] = {}
    for t in weights.tensors.values():
        base: Any = t.data
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        if isinstance(base, mmap.mmap):
            maps[id(base)] = base
    for m in maps.values():
        if hasattr(m, "madvise"):
            m.madvise(mmap.MADV_DONTNEED)
