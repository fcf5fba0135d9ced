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
from codegen_tools import selftest
from repository import ROOT

import lowbit
from lowbit.ir.bind import bind
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.ops.op import OPS
from lowbit.ops.quant import QUANTIZABLE
from lowbit.plan.kernels import KERNELS

FOLDER = ROOT / "examples" / "custom_rule_and_op"


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
            KERNELS.pop(op, None)


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


# -- the kernel ------------------------------------------------------------------------------------------------------------------


def test_the_c_kernel_runs_in_a_session_and_gives_the_bits_of_the_integer_form(example: ModuleType) -> None:
    quantized = lowbit.quantize(example.siamese(), example.samples(4), guard=False)
    session = lowbit.compile(quantized)
    inputs = example.samples(3)[2]
    assert session.run(inputs)["score"].tobytes() == run(lower(quantized).graph, inputs)["score"].tobytes()
    assert "abs_difference_s8__ref" in str(session.profile(*inputs.values()))
    assert lowbit.verify_backends(quantized, example.samples(3), layers=True).ok


def test_generated_c_takes_the_kernel_with_it(example: ModuleType, tmp_path: Path) -> None:
    quantized = bind(lowbit.quantize(example.siamese(), example.samples(4), guard=False), {"batch": 2})
    emitted = lowbit.emit_c(quantized, tmp_path / "c", measure=False)
    assert emitted.exact and '#include "abs_difference.h"' in emitted.files["kernels/lb.h"]
    assert {"kernels/abs_difference.h", "kernels/abs_difference_s8__ref.c"} <= set(emitted.files)
    assert "0 of 4 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    with pytest.raises(lowbit.UnsupportedOp, match="its kernel abs_difference_s8__ref computes in floating point"):
        lowbit.emit_c(quantized, None, no_float=True, measure=False)


def folder_with(tmp_path: Path) -> Path:
    for kept in (FOLDER / "kernels").iterdir():
        (tmp_path / kept.name).write_text(kept.read_text().replace("abs_difference_s8", "another_s8"))
    (tmp_path / "abs_difference_s8__ref.c").rename(tmp_path / "another_s8__ref.c")
    return tmp_path


def test_the_same_folder_is_loaded_once_and_a_contract_has_one_owner(example: ModuleType, tmp_path: Path) -> None:
    first, second = (lowbit.load_kernels(FOLDER / "kernels") for _ in range(2))
    assert [(k.contract.name, k.isa) for k in first] == [("abs_difference_s8", "ref")] and first == second
    for kept in (FOLDER / "kernels").iterdir():
        (tmp_path / kept.name).write_text(kept.read_text())
    with pytest.raises(lowbit.InputError, match="there is a contract abs_difference_s8 already"):
        lowbit.load_kernels(tmp_path)


def test_what_is_wrong_with_a_folder_of_kernels_is_said(tmp_path: Path) -> None:
    with pytest.raises(lowbit.InputError, match="no header with a contract"):
        lowbit.load_kernels(tmp_path)
    folder = folder_with(tmp_path)
    source = folder / "another_s8__ref.c"
    good = source.read_text()
    source.write_text(good.replace("int32_t i = begin", "int32_t i = beginning"))
    with pytest.raises(lowbit.InputError, match=r"(?s)the C compiler refuses it.*beginning"):
        lowbit.load_kernels(folder)
    source.rename(folder / "another_s8__sse9.c")
    with pytest.raises(
        lowbit.InputError, match=r"(?s)another_s8__sse9\.c is not named after an instruction set.*<name>_<isa>\.c, of ref, "
    ):
        lowbit.load_kernels(folder)
    (folder / "another_s8__sse9.c").rename(folder / "another_mve.c")
    with pytest.raises(lowbit.InputError, match="contract another_s8 has no kernel lb_another_s8__ref"):
        lowbit.load_kernels(folder)
    (folder / "another_mve.c").unlink()
    source.write_text(good.replace("lb_another_s8_fn lb_another_s8__ref;", ""))
    with pytest.raises(lowbit.InputError, match=r"another_s8__ref\.c: declares no kernel by a line"):
        lowbit.load_kernels(folder)
    header = folder / "abs_difference.h"
    header.write_text(header.read_text().replace("float a_multiplier", "double a_multiplier"))
    with pytest.raises(lowbit.InputError, match="field `double a_multiplier`"):
        lowbit.load_kernels(folder)
