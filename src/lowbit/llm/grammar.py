"""Grammars over bytes, and which byte may follow: all ways to go on are followed at once.

A state is a stack: what is matched now, and what after it. Rules may call each other, so brackets nest to any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

MOST_STATES = 256  # ways to go on at the same time; more are no use of this grammar


@dataclass(frozen=True)
class One:
    """A byte of a set."""

    bytes: frozenset[int]


@dataclass(frozen=True)
class Text:
    """These bytes."""

    text: bytes


@dataclass(frozen=True)
class Row:
    """All of these, in order."""

    items: tuple[Term, ...]


@dataclass(frozen=True)
class Either:
    """One of these."""

    items: tuple[Term, ...]


@dataclass(frozen=True)
class Times:
    """From `least` to `most` of a term (None: any number)."""

    item: Term
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Rule:
    """The rule of this name."""

    name: str


Term = One | Text | Row | Either | Times | Rule
Stack = tuple[Term, "Stack"] | None  # None: the end


class Grammar:
    """Rules by name; a text is what "root" matches."""

    def __init__(self, rules: Mapping[str, Term]) -> None:
        self.rules = dict(rules)
        self.expanded = lru_cache(maxsize=1 << 14)(self._expanded)
        self.after = lru_cache(maxsize=1 << 16)(self._after)

    @property
    def begin(self) -> frozenset[Stack]:
        return frozenset(self.expanded((Rule("root"), None)))

    def _expanded(self, stack: Stack) -> tuple[Stack, ...]:
        """The stacks with a byte or a text on top (or the end) that this one may become without reading anything."""
        found: dict[Stack, None] = {}
        seen: set[Stack] = set()
        left = [stack]
        while left:
            s = left.pop()
            if s in seen:
                continue
            seen.add(s)
            if s is None:
                found[s] = None
                continue
            top, rest = s
            if isinstance(top, One) or (isinstance(top, Text) and top.text):
                found[s] = None
            elif isinstance(top, Text):
                left.append(rest)
            elif isinstance(top, Row):
                for item in reversed(top.items):
                    rest = (item, rest)
                left.append(rest)
            elif isinstance(top, Either):
                left += [(item, rest) for item in top.items]
            elif isinstance(top, Times):
                if top.least == 0:
                    left.append(rest)
                if top.most is None or top.most > 0:
                    again = Times(top.item, max(top.least - 1, 0), None if top.most is None else top.most - 1)
                    left.append((top.item, (again, rest)))
            else:
                left.append((self.rules[top.name], rest))
        return tuple(found)

    def _after(self, states: frozenset[Stack], byte: int) -> frozenset[Stack]:
        """The states after a byte; none where it may not follow."""
        found: set[Stack] = set()
        for s in states:
            if s is None:
                continue
            top, rest = s
            if isinstance(top, One) and byte in top.bytes:
                found.update(self.expanded(rest))
            elif isinstance(top, Text) and top.text[0] == byte:
                found.update(self.expanded((Text(top.text[1:]), rest)))
        return frozenset(found) if len(found) <= MOST_STATES else frozenset()

    def read(self, states: frozenset[Stack], text: Iterable[int]) -> frozenset[Stack]:
        """The states after some bytes."""
        for byte in text:
            states = self.after(states, byte)
            if not states:
                break
        return states

    def accepts(self, states: frozenset[Stack]) -> bool:
        """Whether a text may end here."""
        return None in states
