"""Writes docs/founding.md from the tests in tests/founding: `make docs`. A test keeps the page fresh.

The docstring of an item's test is its row: "the document's name → `lowbit's name`".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "founding.md"
TESTS = ROOT / "tests" / "founding"
ARROW = " → "


@dataclass(frozen=True)
class Item:
    """One named part of a document."""

    name: str
    here: str
    test: str


def items(module: Path) -> Iterator[Item]:
    """The items that a module tests, in its order."""
    for node in ast.parse(module.read_text()).body:
        said = (ast.get_docstring(node) or "").split("\n")[0] if isinstance(node, ast.FunctionDef) else ""
        if ARROW in said and isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            name, _, here = said.partition(ARROW)
            yield Item(name, here.rstrip("."), node.name)


def documents() -> dict[Path, str]:
    """The test modules that stand for a document, with its title."""
    found = {}
    for module in sorted(TESTS.glob("test_*.py")):
        title = (ast.get_docstring(ast.parse(module.read_text())) or "").split("\n")[0]
        if any(items(module)):
            found[module] = title.rstrip(".")
    return found


def page() -> str:
    """The whole page."""
    lines = [
        "# The founding documents, item by item",
        "",
        "Five documents asked for lowbit. Each row is an item that one of them names, its name here, and the test that runs it.",
        "`make docs` makes this page from the tests in `tests/founding`.",
    ]
    for module, title in documents().items():
        where = module.relative_to(ROOT)
        lines += ["", f"## {title}", "", f"`pytest {where}`", "", "| item | here | test |", "|---|---|---|"]
        lines += [f"| {i.name} | {i.here} | [`{i.test}`](../{where}) |" for i in items(module)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
