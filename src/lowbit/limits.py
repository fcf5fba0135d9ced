"""Limits of the cost of loading. A hostile or damaged file ends in an error that names the limit, not in a process without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields

from lowbit.errors import FormatError, InputError


@dataclass(frozen=True)
class Limits:
    """Limits of loading: `lowbit.load(path, limits=lowbit.Limits(nodes=2_000_000))`. The defaults leave room for every network we know.

    nodes          nodes of a graph, after functions and loops were written out
    dim_parts      symbols in a symbolic dimension, counted as often as they stand in it: `2*h*w + h` has three
    folded_bytes   memory that constants computed at load time may take, beside eight times the constants of the file
    header_bytes   bytes of a header: the names, shapes and fields in front of the tensors

    >>> Limits().nodes
    500000
    """

    nodes: int = 500_000
    dim_parts: int = 1_000
    folded_bytes: int = 1 << 26
    header_bytes: int = 100_000_000

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"limit {f.name}={value!r}: a whole number of at least 1 is needed", hint="lowbit.Limits(nodes=1_000_000)")


_DEFAULT = Limits()
_CURRENT: ContextVar[Limits] = ContextVar("limits", default=_DEFAULT)


def limits() -> Limits:
    """The limits that hold here."""
    return _CURRENT.get()


@contextmanager
def within(chosen: Limits | None) -> Iterator[None]:
    """Inside the block, these limits hold; None changes nothing."""
    if chosen is not None and not isinstance(chosen, Limits):
        raise InputError(f"limits={chosen!r}: {type(chosen).__name__} given, lowbit.Limits needed", hint="lowbit.Limits(nodes=1_000_000)")
    token = _CURRENT.set(chosen if chosen is not None else limits())
    try:
        yield
    finally:
        _CURRENT.reset(token)


def over(name: str, found: int, what: str, where: str | None = None) -> FormatError:
    """The error for a limit that a file exceeds: what it counts, and how to raise it."""
    allowed = getattr(limits(), name)
    return FormatError(
        f"{what}: {found:,}, the limit is {allowed:,}",
        where=where,
        hint=f"if you trust the file, limits=lowbit.Limits({name}={max(found, 2 * allowed)})",
    )
