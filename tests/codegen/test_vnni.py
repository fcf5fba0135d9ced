"""Plans for CPUs with VNNI, as generated C: SIMDe computes the instructions, and every bit is the interpreter's."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from codegen_tools import c_files
from native_laws import integer_graph

import lowbit
from lowbit.codegen.targets import EXACT, TARGETS, WARNINGS

SIMDE = Path("/usr/include/simde/x86/avx512.h")


@pytest.mark.parametrize(("name", "isa"), [("mlp", "avxvnni"), ("dscnn", "avx512vnni")])
def test_self_tests_of_plans_for_vnni(name: str, isa: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not SIMDE.is_file():
        pytest.skip("NOT TESTED: libsimde-dev not installed")
    monkeypatch.setitem(TARGETS, "portable", replace(TARGETS["portable"], isas=(isa, "ref"), alignment=64))
    folder, out = tmp_path / "c", tmp_path / "selftest"
    assert lowbit.emit_c(integer_graph(name)[0], folder, target="portable", measure=False).exact
    files = [*c_files(folder), folder / "selftest.c"]
    assert any(f.stem == f"linear_s8__{isa}" for f in files)
    flags = [*WARNINGS, EXACT, "-Wno-psabi", "-O1", "-mavx2", "-mfma", "-DLB_SIMDE"]
    done = subprocess.run(["gcc", *flags, *map(str, files), "-o", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    done = subprocess.run([str(out)], capture_output=True, text=True)
    assert done.returncode == 0 and "model: 0 of " in done.stdout, done.stdout + done.stderr
