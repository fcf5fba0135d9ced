"""Pages with parts that are made from the code, each between two marks."""

from __future__ import annotations


def between(text: str, begin: str, end: str, made: str) -> str:
    """The text with `made` in the place between two marks."""
    head, _, rest = text.partition(begin)
    return head + begin + made + end + rest.partition(end)[2]
