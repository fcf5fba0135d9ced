"""Notebook and demos."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "quantization_demo.ipynb"


def cells() -> list[tuple[str, str]]:
    """The cells as the tool has them, read without importing it."""
    tree = ast.parse((ROOT / "tools" / "make_notebook.py").read_text())
    found = next(n.value for n in tree.body if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "CELLS")
    made: list[tuple[str, str]] = ast.literal_eval(found)  # type: ignore[arg-type]
    return made


def committed() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
    return made


def test_the_notebook_has_its_outputs() -> None:
    """`examples/quantization_demo.ipynb` with committed outputs → `make notebook`"""
    assert [(("code" if c["cell_type"] == "code" else "text"), "".join(c["source"])) for c in committed()] == cells(), "run: make notebook"
    code = [c for c in committed() if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))  # from the top, once
    outputs = [o for c in code for o in c["outputs"]]
    assert not any(o["output_type"] == "error" for o in outputs)
    assert sum("image/png" in o.get("data", {}) for o in outputs) >= 2


def test_the_notebook_s_figures_say_what_its_text_says() -> None:
    """The notebook's story: four networks in four ways, and the same bits in C → `make notebook`"""
    text = "".join("".join(o.get("text", "")) for c in committed() if c["cell_type"] == "code" for o in c["outputs"])
    for network in ("MLP, MNIST", "ResNet-9, CIFAR-10", "LSTM, Penn Treebank", "Transformer, Penn Treebank"):
        block = text.partition(network)[2].split("(", 1)[1]
        rows = {w: float(block.partition(f"  {w} ")[2].split()[0]) for w in ("float", "int8-dynamic", "int8", "w4a8")}
        assert abs(rows["int8"] - rows["float"]) < 0.01 * rows["float"], network
    assert "100 of 100 images have the same bits" in text and "integers exact: True" in text
    assert "no GPU was there" in text or "bytes at most" in text
    assert str(ROOT) not in NOTEBOOK.read_text()  # nothing of the machine that ran it


def test_every_network_tells_its_story() -> None:
    """`python -m examples.<network>` → `python -m examples.mlp_mnist`"""
    for name in ("mlp_mnist", "resnet9_cifar10", "lstm_ptb", "transformer_ptb"):
        source = (ROOT / "examples" / name / "__main__.py").read_text()
        assert f'story("{name}")' in source
