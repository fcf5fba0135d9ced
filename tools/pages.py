"""Pages with a part that is made from the code, between two marks."""

from __future__ import annotations

from pathlib import Path


def with_part(page: Path, begin: str, part: str, end: str) -> str:
    """The page's text with this part between the marks."""
    head, _, rest = page.read_text().partition(begin)
    return head + begin + part + end + rest.partition(end)[2]
