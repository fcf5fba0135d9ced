"""Pages that are made from the code are fresh, and what the README shows can be run."""

from __future__ import annotations

import re
import runpy
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT

import lowbit


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


def test_the_readme_s_road_from_a_file_to_a_report_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    pieces = [("stem", torch.nn.Conv2d(3, 4, 16, stride=16)), ("act", torch.nn.ReLU()), ("flat", torch.nn.Flatten())]
    net = torch.nn.Sequential(OrderedDict([*pieces, ("head", torch.nn.Linear(784, 10))])).eval()

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            return self.net(x)

    images = [np.random.default_rng(i).standard_normal((2, 3, 224, 224)).astype(np.float32) for i in range(3)]
    monkeypatch.chdir(tmp_path)
    lowbit.export_onnx(lowbit.load(Module().eval(), inputs=(torch.zeros(2, 3, 224, 224),), dynamic={"x": {0: "batch"}}), "model.onnx")
    text = (ROOT / "README.md").read_text()
    load, quantize = (text.partition(f"## {part}")[2].partition("```python\n")[2].partition("```")[0] for part in ("Load", "Quantize"))
    of_file, _, of_module = load.partition("g = lowbit.load(module")
    exec(of_file, names := {"lowbit": lowbit})
    assert names["g"].inputs[0].type.shape == (1, 3, 224, 224)
    names |= {"module": Module().eval(), "x": torch.from_numpy(images[0])}
    exec("g = lowbit.load(module" + of_module.replace("y = s(x)", "y = s(x.numpy())"), names)
    names |= {"data": images, "x": images[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lowbit.LowbitWarning)  # its rule is for layers whose names begin with head: here it is net.head
        exec(quantize, names)
    assert names["y"].shape == (2, 10) and {p.name for p in tmp_path.iterdir()} >= {"model.lowbit", "model.int8.onnx", "report.html"}


def test_the_readme_s_search_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowbit.ir.build import Builder
    from lowbit.types import TensorType

    block = (ROOT / "README.md").read_text().partition("## A width for each layer")[2].partition("```python\n")[2].partition("```")[0]
    rng = np.random.default_rng(0)
    b = Builder("net")
    x = b.input("x", TensorType((4, 8), "float32"))
    graph = b.finish({"y": b.add("linear", x, b.constant(rng.standard_normal((5, 8)).astype(np.float32)), name="fc")})
    data = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(8)]
    monkeypatch.chdir(tmp_path)
    exec(block, names := {"lowbit": lowbit, "g": graph, "data": data, "accuracy": lambda session: 1.0})
    assert names["best"].score == 1.0 and {p.name for p in tmp_path.iterdir()} == {"best.lowbit", "mixed.toml"}
