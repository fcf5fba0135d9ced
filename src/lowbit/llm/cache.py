"""Keys and values of tokens that were read, in pages of 32 positions. Pages of equal beginnings are shared between sequences.

A full page never changes again. It is found by its tokens and by those of all pages before it: a text that begins as an earlier one did
is not read anew. Pages that nobody uses keep their content until the memory is needed; the longest unused one goes first.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from lowbit.errors import InputError
from lowbit.types import Array

PAGE = 32  # positions
Key = tuple[int, tuple[int, ...]]  # the number of the text before the page (0: none), and the page's tokens


@dataclass(frozen=True)
class Full:
    """A full page. Every text of whole pages has a number of its own, which is never used for another."""

    page: int
    text: int


def anonymous(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Zeros whose memory is taken when it is first written."""
    size = prod(shape) * dtype.itemsize
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), dtype, prod(shape)).reshape(shape)


class PagePool:
    """Which pages are used, by how many, and which full ones can be found again."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._users = [0] * count
        self._free = list(range(count - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()  # pages that nobody uses and that can be found, longest unused first
        self._full: dict[Key, Full] = {}
        self._keys: dict[int, Key] = {}  # of pages that can be found
        self._texts = 0

    @property
    def available(self) -> int:
        """Pages that can be taken."""
        return len(self._free) + len(self._idle)

    def take(self) -> int:
        """A page for somebody to write; there must be one available."""
        if not self._free:
            page, _ = self._idle.popitem(last=False)
            del self._full[self._keys.pop(page)]
            self._free.append(page)
        page = self._free.pop()
        self._users[page] = 1
        return page

    def release(self, page: int) -> None:
        self._users[page] -= 1
        if self._users[page] == 0:
            if page in self._keys:
                self._idle[page] = None
            else:
                self._free.append(page)

    def keep(self, page: int, before: int, tokens: Sequence[int]) -> int:
        """The page is full and can be found from now on; the number of the text up to its end. Of equal pages the first is found."""
        key = (before, tuple(tokens))
        if key not in self._full:
            self._texts += 1
            self._full[key] = Full(page, self._texts)
            self._keys[page] = key
        return self._full[key].text

    def found(self, tokens: Sequence[int]) -> list[Full]:
        """The pages that hold the beginning of these tokens, now used by the caller. The last token is never among them."""
        pages: list[Full] = []
        for at in range(0, (len(tokens) - 1) // PAGE * PAGE, PAGE):
            full = self._full.get((pages[-1].text if pages else 0, tuple(tokens[at : at + PAGE])))
            if full is None:
                break
            self._idle.pop(full.page, None)
            self._users[full.page] += 1
            pages.append(full)
        return pages

    def forget(self) -> None:
        """Drops the contents of pages that nobody uses."""
        while self._idle:
            page, _ = self._idle.popitem()
            del self._full[self._keys.pop(page)]
            self._free.append(page)


@dataclass(eq=False)
class Pages:
    """The pages of one sequence. `row` is its line in the page table."""

    pool: PagePool
    table: Array  # int32 (sequences, pages of the longest text)
    row: int
    tokens: list[int] = field(default_factory=list)  # those whose keys and values are in the cache
    pages: list[int] = field(default_factory=list)
    text: int = 0  # the number of the text in full pages

    def reuse(self, tokens: Sequence[int]) -> int:
        """Takes the pages that hold a beginning of the text; how many tokens that is."""
        found = self.pool.found(tokens)
        self.pages, self.text = [f.page for f in found], found[-1].text if found else 0
        self.tokens = list(tokens[: len(self.pages) * PAGE])
        self.table[self.row, : len(self.pages)] = self.pages
        return len(self.tokens)

    def missing(self, count: int) -> int:
        """Pages that `count` more tokens need."""
        return -(-(len(self.tokens) + count) // PAGE) - len(self.pages)

    def reserve(self, count: int) -> None:
        """Takes pages for `count` more tokens; all or, with an error, none."""
        need = self.missing(count)
        if len(self.pages) + need > self.table.shape[1]:
            raise InputError(
                f"{len(self.tokens) + count:,} tokens, the context is {self.table.shape[1] * PAGE:,}",
                hint="a shorter text, or load(context=…)",
            )
        if need > self.pool.available:
            what = f"{need} pages of the cache needed, {self.pool.available} of {self.pool.count} are left"
            raise InputError(what, hint="fewer sequences at once, shorter ones, or load(context=…)")
        for _ in range(need):
            self.table[self.row, len(self.pages)] = page = self.pool.take()
            self.pages.append(page)

    def wrote(self, tokens: Sequence[int]) -> None:
        """The keys and values of these tokens are in the cache now."""
        full = len(self.tokens) // PAGE
        self.tokens.extend(tokens)
        for i in range(full, len(self.tokens) // PAGE):
            self.text = self.pool.keep(self.pages[i], self.text, self.tokens[i * PAGE : (i + 1) * PAGE])

    def close(self) -> None:
        for page in reversed(self.pages):  # the end of a text is forgotten before its beginning
            self.pool.release(page)
        self.pages, self.tokens, self.text = [], [], 0
        self.table[self.row] = -1
