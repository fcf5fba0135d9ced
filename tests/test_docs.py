"""Pages that are made from the code are fresh, and what the README shows can be run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_ops_page_is_what_the_code_says() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_ops_doc.py"))["page"]()
    assert (ROOT / "docs" / "ops.md").read_text() == page, "run: make docs"


def test_links_in_the_documents_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_every_make_target_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {t for p in ROOT.glob("*.md") for t in re.findall(r"\bmake ([a-z][a-z0-9-]+)", p.read_text())}
    assert named - targets == set()
