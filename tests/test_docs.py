"""Pages that are made from the code are fresh, and what the README shows can be run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit

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


def test_the_readme_s_arrays_observers_and_hardware_run() -> None:
    text = (ROOT / "README.md").read_text().partition("## Quantized arrays")[2].partition("## In PyTorch")[0]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 64)).astype(np.float32)
    names = {"lowbit": lowbit, "np": np, "x": x, "qa": lowbit.quantize_array(x), "qb": lowbit.quantize_array(x.T), "batches": [x, x]}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert names["best"].sqnr_db > 15 and names["hw"].threads >= 1


def test_the_readme_s_pytorch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    block = (ROOT / "README.md").read_text().partition("## In PyTorch")[2].partition("```python\n")[2].partition("```")[0]
    x = torch.randn(4, 4)
    names: dict[str, Any] = {"lowbit": lowbit, "model": torch.nn.Linear(4, 4).eval(), "x": x, "batches": [x, x + 1]}
    monkeypatch.chdir(tmp_path)
    exec(block, names)
    assert names["y"].shape == (4, 4) and (tmp_path / "out" / "model.h").is_file() and (names["q"] @ names["q"]).shape == (4, 4)
