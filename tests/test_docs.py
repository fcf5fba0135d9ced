"""Pages that are made from the code or from other pages are fresh, and the examples of README and docs run."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import runpy
import shlex
import sys
import textwrap
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT

import lowbit
from lowbit.cli import parser
from lowbit.quantization.recipes import RECIPES


def test_ops_page_is_what_the_code_says() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_ops_doc.py"))["page"]()
    assert (ROOT / "docs" / "ops.md").read_text() == page, "run: make docs"


def test_the_results_of_the_readme_are_those_of_the_pages() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_results.py"))["page"]()
    assert (ROOT / "README.md").read_text() == page, "run: make docs"


def test_the_recipes_of_the_page_are_those_of_the_code() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "gen_recipes_doc.py"))
    assert (ROOT / "docs" / "quantize.md").read_text() == tool["page"](), "run: make docs"
    assert all(f"| `{name}` |" in tool["table"]() for name in RECIPES)


def test_the_page_of_defaults_is_that_of_the_measurements() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from default_page import page
    finally:
        sys.path.pop(0)
    found = json.loads((ROOT / "benchmarks" / "results" / "default.json").read_text())
    assert (ROOT / "docs" / "defaults.md").read_text() == page(found["rows"], found["machine"])


def test_the_readme_claims_what_its_measurements_say(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "gen_results.py"))
    rows = tool["defaults"]()
    of_float = [r["ways"]["lowbit"]["ms"] / r["ways"]["ort fp32"]["ms"] for r in rows]
    assert f"takes {min(of_float):.2f} to {max(of_float):.2f} " in tool["claim"]() in (ROOT / "README.md").read_text()
    table = tool["table"]()
    for r in rows:  # a setting that loses too much is said to
        best = tool["best_setting"](r)
        title = tool["DEFAULTS"].get(r["model"])
        if title is not None and best is not None:
            line = next(text for text in table.splitlines() if text.startswith(f"| {title}: "))
            assert (": too low)" in line) == (not best[2])


def test_the_kernels_of_csrc_s_page_are_those_that_are_declared() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_kernel_coverage.py"))["page"]()
    assert (ROOT / "csrc" / "README.md").read_text() == page, "run: make docs"


def blocks(page: str, heading: str = "# ") -> list[str]:
    """The Python examples of a page after a heading."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text().partition(heading)[2], re.S)


def test_links_in_the_documents_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("csrc/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_every_make_target_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {t for p in ROOT.glob("*.md") for t in re.findall(r"\bmake ([a-z][a-z0-9-]+)", p.read_text())}
    assert named - targets == set()


def test_the_readme_s_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from lowbit.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--files", "fashion"]) == 0
    (block,) = blocks("README.md")
    exec(block, names := dict[str, Any]())
    assert names["y"].shape == (64, 10)
    assert {p.name for p in tmp_path.iterdir()} == {"fashion", "report.html", "small.lowbit", "small.onnx", "firmware"}


def test_the_examples_of_arrays_observers_and_hardware_run() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 64)).astype(np.float32)
    names = {"lowbit": lowbit, "np": np, "x": x, "qa": lowbit.quantize_array(x), "qb": lowbit.quantize_array(x.T), "batches": [x, x]}
    examples = blocks("docs/arrays.md")
    assert len(examples) == 2
    for block in examples:
        exec(block, names)
    assert names["best"].sqnr_db > 15 and names["hw"].threads >= 1


def test_the_short_example_of_pytorch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    block = blocks("docs/pytorch.md", "## In short")[0]
    x = torch.randn(4, 4)
    names: dict[str, Any] = {"lowbit": lowbit, "model": torch.nn.Linear(4, 4).eval(), "x": x, "batches": [x, x + 1]}
    monkeypatch.chdir(tmp_path)
    exec(block, names)
    assert names["y"].shape == (4, 4) and (tmp_path / "out" / "model.h").is_file() and (names["q"] @ names["q"]).shape == (4, 4)


def test_the_examples_from_a_file_to_a_report_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    load, quantize = blocks("docs/loading.md")[0], blocks("docs/quantize.md")[0]
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


def test_the_example_of_search_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowbit.ir.build import Builder
    from lowbit.types import TensorType

    block = blocks("docs/search.md")[0]
    rng = np.random.default_rng(0)
    b = Builder("net")
    x = b.input("x", TensorType((4, 8), "float32"))
    graph = b.finish({"y": b.add("linear", x, b.constant(rng.standard_normal((5, 8)).astype(np.float32)), name="fc")})
    data = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(8)]
    monkeypatch.chdir(tmp_path)
    exec(block, names := {"lowbit": lowbit, "g": graph, "data": data, "accuracy": lambda session: 1.0})
    assert names["best"].score == 1.0 and {p.name for p in tmp_path.iterdir()} == {"mixed.toml"}


def test_every_option_of_the_command_line_is_on_its_page() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "gen_cli_doc.py"))["page"]()
    assert (ROOT / "docs" / "cli-reference.md").read_text() == page, "run: make docs"


def test_the_pictures_of_the_concepts_are_drawn() -> None:
    for name, made in runpy.run_path(str(ROOT / "tools" / "draw_concepts.py"))["pictures"]().items():
        assert (ROOT / "docs" / "pictures" / name).read_text() == made, "run: make docs"


def test_the_first_table_of_the_site_is_that_of_the_measurements() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "gen_results.py"))
    assert tool["SITE"].read_text() == tool["site"](), "run: make docs"


PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def code_blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page: their language, and their text."""
    return [(m[1], textwrap.dedent(m[2])) for m in re.finditer(r"(?ms)^ *```(\w*)[^\n]*\n(.*?)^ *```", page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_on_the_pages_are_commands(page: Path) -> None:
    """Every line that begins with lowbit has the words and options of a verb."""
    lines = (line.partition("   #")[0] for _, text in code_blocks(page) for line in text.replace("\\\n", " ").splitlines())
    commands = [line.removeprefix("$ ").removeprefix(".venv/bin/") for line in lines]
    for command in commands:
        if not command.startswith("lowbit "):
            continue
        plain = command.replace("…", "x").replace("$IMAGE", "imagenet").replace("[", "").replace("]", "")  # [--may-be-left-out]
        words = shlex.split(plain, comments=True)
        if words[:1] != ["lowbit"] or len(words) < 2 or not words[1].replace("-", "").isalpha():
            continue
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                parser().parse_args(words[1:])
            except SystemExit as e:
                assert e.code == 0, f"{page.name}: {command}\n{said.getvalue()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_on_the_pages_is_python(page: Path) -> None:
    for language, text in code_blocks(page):
        if language == "python":
            ast.parse(text)
