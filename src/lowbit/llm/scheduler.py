"""Continuous batching: sequences come and go between steps, and every step runs rows of all that are there.

A token's bits do not depend on what else is in the batch. So a sequence may wait, be read in chunks, or lose its pages and be read again:
its text stays the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock

import numpy as np

from lowbit.errors import InputError, LowbitError
from lowbit.llm.cache import PAGE, Pages
from lowbit.llm.runner import MOST_ROWS, Runner
from lowbit.llm.sampler import Sampler, Sampling
from lowbit.numerics import F32

Allowed = Callable[[Sequence[int]], Callable[[int], bool]]  # of the tokens made so far: which may follow


@dataclass(frozen=True)
class Event:
    """A token of a sequence, or its end: "stop" (a token that ends texts), "length", "cancelled", "error".

    >>> Event(token=7).finish is None, Event(finish="length").token is None
    (True, True)
    """

    token: int | None = None
    finish: str | None = None


@dataclass(eq=False)
class TokenSequence:
    """A prompt and what was made after it. `events` fill up as steps are made.

    >>> from lowbit.llm import load
    >>> scheduler = Scheduler(load(path, threads=1).runner)
    >>> sequence = scheduler.add_sequence([5, 6, 7], max_tokens=2)
    >>> sequence.prompt, sequence.made, sequence.finish
    ([5, 6, 7], [], None)
    """

    prompt: list[int]
    sampler: Sampler
    max_tokens: int
    ends: frozenset[int]
    allowed: Allowed | None = None
    made: list[int] = field(default_factory=list)
    events: deque[Event] = field(default_factory=deque)
    finish: str | None = None
    error: LowbitError | None = None  # where finish is "error"
    reused: int = 0  # tokens of the prompt that the cache had already
    pages: Pages | None = None

    @property
    def tokens(self) -> list[int]:
        """The tokens of the prompt, then those that were made."""
        return self.prompt + self.made

    def emit(self, token: int | None, finish: str | None) -> None:
        """Tells a token, or the reason of the end."""
        self.finish = finish
        self.events.append(Event(token, finish))


class Scheduler:
    """add_sequence, step until its events say that it ended, or cancel. May be used by several threads.

    >>> from lowbit.llm import load
    >>> scheduler = Scheduler(load(path, threads=1).runner)
    >>> one, two = (scheduler.add_sequence([5, 6, i], max_tokens=3) for i in (7, 8))
    >>> while not scheduler.idle:
    ...     _ = scheduler.step()
    >>> len(one.made), len(two.made)
    (3, 3)
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.lock = RLock()
        self.waiting: deque[TokenSequence] = deque()
        self.running: list[TokenSequence] = []
        self._rows = list(range(runner.shape.sequences - 2, -1, -1))  # free lines of the page table; the last is of texts that are scored

    @property
    def context(self) -> int:
        """Tokens of the longest text, prompt and answer."""
        return self.runner.shape.length * PAGE

    def add_sequence(
        self,
        prompt: Sequence[int],
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 256,
        ends: frozenset[int] = frozenset(),
        allowed: Allowed | None = None,
    ) -> TokenSequence:
        """A sequence that waits for its turn. At most as many tokens are made as the context has room for."""
        ids = [int(i) for i in prompt]
        wrong = next((i for i in ids if not 0 <= i < self.runner.config.vocabulary), None)
        if wrong is not None:
            raise InputError(f"token {wrong} is outside a vocabulary of {self.runner.config.vocabulary:,}")
        if not ids:
            raise InputError("the prompt has no tokens", hint="one that begins a text: m.tokenizer.before, or some words")
        if len(ids) >= self.context:
            raise InputError(
                f"the prompt has {len(ids):,} tokens, the context is {self.context:,}", hint="a shorter one, or load(context=…)"
            )
        room = min(max_tokens, self.context - len(ids))
        sequence = TokenSequence(ids, Sampler(sampling or Sampling()), room, ends, allowed)
        with self.lock:
            if room <= 0:
                sequence.emit(None, "length")
            else:
                self.waiting.append(sequence)
        return sequence

    def cancel(self, sequence: TokenSequence) -> None:
        """Ends a sequence where it is. Its full pages can still be found by others."""
        with self.lock:
            if sequence.finish is None:
                self._end(sequence, None, "cancelled")

    @property
    def idle(self) -> bool:
        """Whether no sequence waits or runs."""
        return not self.waiting and not self.running

    def step(self) -> list[TokenSequence]:
        """One run of at most 128 rows: the next token of sequences that are read, a chunk of one that is not. Those with new events."""
        with self.lock:
            self._admit()
            chosen = self._choose()
            if not chosen:
                return []
            ids: list[int] = []
            positions: list[int] = []
            rows: list[int] = []
            for s, count in chosen:
                pages = _pages(s)
                begin = len(pages.tokens)
                ids += s.tokens[begin : begin + count]
                positions += range(begin, begin + count)
                rows += [pages.row] * count
            hidden = self.runner.hidden(ids, positions, rows)
            return self._take(chosen, hidden)

    def _take(self, chosen: list[tuple[TokenSequence, int]], hidden: F32) -> list[TokenSequence]:
        """Draws a token for each sequence that is read to its end; only then is anything noted, so that a step may be interrupted."""
        last, at = [], 0
        for s, count in chosen:
            at += count
            if len(_pages(s).tokens) + count == len(s.prompt) + len(s.made):
                last.append((s, at - 1))
        drawn: list[int | LowbitError] = []
        if last:
            logits = self.runner.logits(np.ascontiguousarray(hidden[[row for _, row in last]]))
            drawn = [_drawn(s, line) for (s, _), line in zip(last, logits)]
        for s, count in chosen:
            begin = len(_pages(s).tokens)
            _pages(s).wrote(s.tokens[begin : begin + count])
        for (s, _), token in zip(last, drawn):
            self._note(s, token)
        return [s for s, _ in last]

    def _note(self, s: TokenSequence, token: int | LowbitError) -> None:
        if isinstance(token, LowbitError):
            s.error = token
            self._end(s, None, "error")
        elif token in s.ends:
            self._end(s, None, "stop")
        else:
            s.made.append(token)
            if len(s.made) == s.max_tokens:
                self._end(s, token, "length")
            else:
                s.emit(token, None)

    def _end(self, s: TokenSequence, token: int | None, finish: str) -> None:
        if s in self.running:
            self.running.remove(s)
        elif s in self.waiting:
            self.waiting.remove(s)
        self._give_back(s)
        s.emit(token, finish)

    def _give_back(self, s: TokenSequence) -> None:
        if s.pages is not None:
            self._rows.append(s.pages.row)
            s.pages.close()
            s.pages = None

    def _admit(self) -> None:
        """Lets waiting sequences in, in their order, while there is a line of the table and room for their first chunk."""
        while self.waiting and self._rows:
            s = self.waiting[0]
            pages = Pages(self.runner.pool, self.runner.table, self._rows[-1])
            found = pages.reuse(s.tokens)
            if self.running and pages.missing(min(len(s.tokens) - found, MOST_ROWS) + 1) > self.runner.pool.available:
                pages.close()
                return
            self._rows.pop()
            s.pages = pages
            s.reused = max(s.reused, min(found, len(s.prompt)))
            self.running.append(self.waiting.popleft())

    def _choose(self) -> list[tuple[TokenSequence, int]]:
        """The rows of this step: one of each sequence that is read, then chunks of the others, oldest first."""
        by_left = [(s, len(s.prompt) + len(s.made) - len(_pages(s).tokens)) for s in self.running]
        wanted = [w for w in by_left if w[1] == 1] + [w for w in by_left if w[1] > 1]
        chosen: list[tuple[TokenSequence, int]] = []
        free = MOST_ROWS
        for s, left in wanted:
            count = min(left, free)
            if s.pages is None or not count:  # it lost its pages to one before it
                continue
            if self._reserve(s, count, {c for c, _ in chosen}):
                chosen.append((s, count))
                free -= count
        return chosen

    def _reserve(self, s: TokenSequence, count: int, chosen: set[TokenSequence]) -> bool:
        """Pages for some more tokens; where none are left, the youngest other sequence gives up its own and waits to be read again."""
        pages = _pages(s)
        while pages.missing(count) > self.runner.pool.available:
            others = [o for o in self.running if o is not s and o not in chosen]
            if not others:
                if chosen:
                    return False  # next time
                raise InputError(
                    f"the cache has {self.runner.pool.count} pages, too few for a text of {len(s.tokens):,} tokens", hint="load(context=…)"
                )
            youngest = others[-1]
            if self.running.index(youngest) < self.running.index(s):
                return False  # s is the youngest, and waits
            self.running.remove(youngest)
            self._give_back(youngest)
            self.waiting.appendleft(youngest)
        pages.reserve(count)
        return True


def _drawn(s: TokenSequence, logits: F32) -> int | LowbitError:
    """The next token; an error is the sequence's own, others go on."""
    try:
        return s.sampler(logits, s.tokens, None if s.allowed is None else s.allowed(s.made))
    except LowbitError as e:
        return e


def _pages(s: TokenSequence) -> Pages:
    assert s.pages is not None
    return s.pages
