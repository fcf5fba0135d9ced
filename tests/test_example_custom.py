"""examples/custom_rule_and_op: a rule and an op from outside the package go the whole road."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import lowbit
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.ops.op import OPS
from lowbit.ops.quant import QUANTIZABLE

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "custom_rule_and_op"


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The example's main module; what it made known is forgotten again, for other tests count the ops."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("main")
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("main", "abs_difference", "long_sums"):
            sys.modules.pop(name, None)
        for op in ("abs_difference", "q_abs_difference"):
            OPS.pop(op, None)
            QUANTIZABLE.pop(op, None)


def test_the_example_runs_as_its_readme_says() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "main.py")], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("siamese: 8 of 8 layers integer\n")
    assert done.stderr == ""


def test_the_rule_decides_by_what_it_counts_and_the_report_says_so(example: ModuleType) -> None:
    rows = {r.layer: r for r in example.main().layers}
    assert rows["left.first"].because == "each output adds up 100 products"
    assert rows["left.first"].types == "int16 × int8 → int8"
    assert rows["left.second"].because == "the rest"
    assert rows["distance"].became == "q_abs_difference"


def test_the_integer_form_is_the_rounded_difference_of_the_reals(example: ModuleType) -> None:
    graph = example.siamese()
    integer = verify(lower(lowbit.quantize(graph, example.samples(4))).graph)
    node = next(n for n in integer.nodes if n.op == "q_abs_difference")
    names = [v.name for v in node.inputs if v is not None]
    values = run(integer, example.samples(5)[-1], keep=[*names, node.output.name])
    a, b, y = (values[n].astype(int).ravel().tolist() for n in (*names, node.output.name))
    t = node.attrs
    for i, j, got in zip(a, b, y, strict=True):
        left = Fraction(float(np.float32(i - t["a_zero"]) * np.float32(t["ma"])))  # type: ignore[operator,arg-type]
        right = Fraction(float(np.float32(j - t["b_zero"]) * np.float32(t["mb"])))  # type: ignore[operator,arg-type]
        distance = round(Fraction(float(np.float32(float(abs(left - right))))))  # Python rounds halves to even
        assert got == min(max(distance + t["y_zero"], t["lo"]), t["hi"])  # type: ignore[operator,type-var]


def test_the_op_is_saved_loaded_verified_and_known_in_workers(example: ModuleType, tmp_path: Path) -> None:
    graph = example.siamese()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = lowbit.calibrate(graph, example.samples(3), executor=pool)
    here = lowbit.calibrate(graph, example.samples(3))
    assert json.dumps(there.to_dict()) == json.dumps(here.to_dict())
    q = lowbit.quantize(graph, here)
    q.save(tmp_path / "q.lowbit")
    loaded = lowbit.load(tmp_path / "q.lowbit")
    assert loaded == q
    found = lowbit.verify_backends(loaded, example.samples(2))
    assert all(d.largest <= 1 for r in found.results for d in r.layers)
    assert np.isfinite(next(iter(lowbit.compile(loaded).run(example.samples(1)[0]).values()))).all()
