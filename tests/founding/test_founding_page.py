"""docs/founding.md is what the tests say, and every name in it exists."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")
ROOT = Path(__file__).resolve().parents[2]


def resolve(name: str) -> object:
    """What a dotted name stands for: the longest importable module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_the_page_of_the_founding_documents_is_what_the_tests_say() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_founding_doc.py"))["page"]()
    assert (ROOT / "docs" / "founding.md").read_text() == page, "run: make docs"


def test_every_name_on_the_page_exists() -> None:
    page = (ROOT / "docs" / "founding.md").read_text()
    names = sorted(set(re.findall(r"`(lowbit(?:\.\w+)+)", page)))
    assert names
    for name in names:
        resolve(name)


def test_every_verb_on_the_page_is_one_of_the_command_line() -> None:
    page = (ROOT / "docs" / "founding.md").read_text()
    verbs = sorted(set(re.findall(r"`lowbit ([a-z-]+)", page)))
    for verb in verbs:
        done = subprocess.run([sys.executable, "-m", "lowbit", verb, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
