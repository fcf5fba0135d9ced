"""The package itself: what importing costs, and which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lowbit

SRC = Path(lowbit.__file__).parent

# A module may import from its own layer's rows above and below only where listed: numbers ← ops ← ir ← stages ← pipeline ← cli.
LAYERS = [
    {"errors", "arguments", "files", "progress", "blas", "limits"},
    {"dtypes", "dims"},
    {"assumptions"},
    {"types", "numerics", "packing", "block_formats"},
    {"quant_params", "ranges", "metrics"},
    {"kernels"},  # the compiled kernels by name: plan, runtime, codegen and hardware stand on it
    {"ops"},
    {"ir"},
    {"data"},
    {
        "frontends",
        "passes",
        "calibration",
        "qarray",
        "matmul",
        "runtime",
        "report",
        "auto",
        "hardware",
        "quantization",
        "lower",
        "export",
        "plan",
        "codegen",
        "frames",
    },
    {"decide"},  # tries the stages in turn and keeps what helps
    {"pipeline", "llm"},  # llm: token models, with a road of their own
    {"mixed"},  # walks the road for many networks, and keeps the best
    {"torch"},  # walks the road for a module, and writes what it found into it
    {"recommend"},  # measures what the road gives, and says what to choose
    {"cli", "demo"},
    {"__main__"},
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
# Stages that stand on another one, each with its reason.
ALLOWED = {
    ("auto", "calibration"): "chooses among the observers",
    ("auto", "qarray"): "gives a QArray",
    ("qarray", "matmul"): "`@` runs an integer kernel",
    ("calibration", "runtime"): "taps are observed while kernels run",
    ("quantization", "calibration"): "brackets take their parameters from the calibration record",
    ("quantization", "plan"): "a decision of the user's own brings its kernel",
    ("report", "lower"): "tells what each layer became, and runs the integers",
    ("report", "runtime"): "verifies the sessions",
    ("export", "lower"): "a recurrence is written by its integers, and the file is compared with them",
    ("export", "frontends"): "a file says which nodes spell one op by the digest that the reader checks",
    ("runtime", "plan"): "a session executes plans",
    ("codegen", "plan"): "prints plans",
    ("codegen", "runtime"): "the self test's outputs come from the native session",
    ("hardware", "matmul"): "measures the integer kernels as users call them",
}


def imports(path: Path) -> set[str]:
    """The lowbit modules a file imports when it is imported itself, by their first name."""
    tree = ast.parse(path.read_text())
    skip = {
        id(n) for block in ast.walk(tree) if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test) for n in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skip:
            continue
        names = [a.name for a in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"lowbit.{n}" for n in names if n in RANK] if node.module == "lowbit" else [node.module or ""]
        found |= {n.split(".")[1] for n in names if n.startswith("lowbit.")}
    return found


def first_name(path: Path) -> str:
    relative = path.relative_to(SRC)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def test_imports_point_one_way() -> None:
    wrong = []
    for path in sorted(SRC.rglob("*.py")):
        me = first_name(path)
        if me == "__init__":
            continue
        assert me in RANK, f"{path}: put {me!r} into a layer"
        for other in imports(path) - {me, "_native"}:
            if RANK[other] > RANK[me] or (RANK[other] == RANK[me] and RANK[me] >= RANK["frontends"] and (me, other) not in ALLOWED):
                wrong.append(f"{path.relative_to(SRC)} imports lowbit.{other}")
    # Graph prints and saves itself, and so reaches one file up inside ir; everything else points down.
    assert wrong == []


def test_no_stage_stands_on_itself_through_others() -> None:
    """Without cycles, stages can be taken away in turn: each time one that stands on none of those that are left."""
    left = {name for pair in ALLOWED for name in pair}
    while free := {name for name in left if not any((name, other) in ALLOWED for other in left)}:
        left -= free
    assert left == set()


def test_every_exception_is_needed() -> None:
    used = {(first_name(path), other) for path in SRC.rglob("*.py") for other in imports(path)}
    assert [pair for pair in ALLOWED if pair not in used] == []


def test_every_file_holds_one_idea() -> None:
    too_long = {str(p.relative_to(SRC)): n for p in SRC.rglob("*.py") if (n := len(p.read_text().splitlines())) > 600}
    assert too_long == {}


def test_import_is_quick_and_brings_in_neither_torch_nor_onnxruntime() -> None:
    code = "import time; t = time.perf_counter(); import lowbit; s = time.perf_counter() - t; import sys; " + (
        "print([m for m in ('torch', 'onnxruntime', 'onnx') if m in sys.modules], s)"
    )
    times = []
    for _ in range(3):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        loaded, seconds = out.rsplit(" ", 1)
        assert loaded == "[]"
        times.append(float(seconds))
    assert min(times) < 0.3


def test_lowbit_torch_is_there_when_asked_for_and_torch_is_not_imported_before() -> None:
    pytest.importorskip("torch", reason="the extra torch is not installed")
    code = "import lowbit, sys; before = 'torch' in sys.modules; print(before, lowbit.torch.QTensor.__name__, 'torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "QTensor", "True"]


def test_every_public_name_can_be_had() -> None:
    for name in lowbit._PUBLIC:
        assert getattr(lowbit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lowbit.nothing  # type: ignore[attr-defined]
