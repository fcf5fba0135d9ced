"""Conditions on symbolic sizes under which the types of a graph are right.

`x[a] + y[b]` is typed [a]: right when b is a, or 1. The first element of an axis of n is there when n is at least 1. Types are computed
once for all sizes, so such conditions are noted while they are computed, kept with the graph, and checked when its symbols are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from lowbit.dims import Dim, Sym, at_least, extreme, substitute, symbol, symbols
from lowbit.errors import ShapeError


@dataclass(frozen=True)
class Assumption:
    """`a` is 1 or equals `b` ("fits"), or is at least `b` ("least")."""

    kind: Literal["fits", "least"]
    a: Dim
    b: Dim

    def bound(self, binding: Mapping[str, Dim]) -> Assumption | None:
        """The condition that remains with these sizes: none if it holds, a ShapeError if it does not."""
        a, b = substitute(self.a, binding), substitute(self.b, binding)
        if a == b or (self.kind == "fits" and a == 1) or (self.kind == "least" and at_least(a, b, unknown=False)):
            return None
        if isinstance(a, Sym) or isinstance(b, Sym):
            return Assumption(self.kind, a, b)
        need = f"{self.a} must be 1 or equal {self.b}" if self.kind == "fits" else f"{self.a} must be at least {self.b}"
        given = ", ".join(f"{s}={binding[s]}" for s in sorted(symbols(self.a) | symbols(self.b)))
        raise ShapeError(f"{need}, {given} given", hint="load the model with shapes=: all is then computed for these sizes")


_notes: ContextVar[dict[Assumption, None] | None] = ContextVar("notes", default=None)


@contextmanager
def noting(into: dict[Assumption, None]) -> Iterator[None]:
    """While open, what `note` is told goes into that dict (which keeps the order)."""
    token = _notes.set(into)
    try:
        yield
    finally:
        _notes.reset(token)


def note(kind: Literal["fits", "least"], a: Dim, b: Dim) -> None:
    notes = _notes.get()
    if notes is not None:
        notes[Assumption(kind, a, b)] = None


def still_open(assumed: Iterable[Assumption], binding: Mapping[str, Dim]) -> tuple[Assumption, ...]:
    """Those that these sizes do not settle yet, each once; a ShapeError for one that does not hold."""
    left = (a.bound(binding) for a in assumed)
    return tuple(dict.fromkeys(a for a in left if a is not None))


def larger(a: Dim, b: Dim) -> Dim:
    """The larger of both. Where it is the same one for all sizes but 0, that one, and the sizes are noted not to be 0."""
    found = _ordered(a, b)
    return found[0] if found is not None else extreme("max", a, b)


def smaller(a: Dim, b: Dim) -> Dim:
    """The smaller of both, as `larger`."""
    found = _ordered(a, b)
    return found[1] if found is not None else extreme("min", a, b)


def _ordered(a: Dim, b: Dim) -> tuple[Dim, Dim] | None:
    """The larger and the smaller, or None when sizes of 1 and more decide."""
    for x, y in ((a, b), (b, a)):
        if at_least(x, y, unknown=False):
            return x, y
    for x, y in ((a, b), (b, a)):
        if at_least(substitute(x - y, {s: symbol(s) + 1 for s in symbols(x - y)}), 0, unknown=False):
            note_least(x, y)
            return x, y
    return None


def note_least(a: Dim, b: Dim) -> None:
    """Notes that a is at least b, with the number on the right: n - 5 ≥ 0 reads n ≥ 5."""
    difference = a - b
    number = dict(difference.terms).get((), 0) if isinstance(difference, Sym) else 0
    note("least", difference - number, -number)
