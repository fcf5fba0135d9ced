"""The networks of benchmarks/tiny as C: every bit, RAM near what no arena can be smaller than and below those set by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from codegen_tools import has, selftest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "tiny"))

from models import MODELS, Tiny

import lowbit


@pytest.mark.parametrize("tiny", MODELS, ids=lambda m: m.name)
def test_ram_is_within_a_tenth_of_the_tensors_that_live_at_once(tiny: Tiny) -> None:
    emitted = lowbit.emit_c(tiny.graph(), None, io_in_arena=True, channels_last=True, vectors=1, measure=False)
    assert emitted.exact and emitted.live_bytes <= emitted.ram_bytes <= 1.1 * emitted.live_bytes
    for target in ("cortex-m4", "cortex-m55"):  # scratch memory of their kernels included
        own = lowbit.emit_c(tiny.graph(), None, target=target, io_in_arena=True, channels_last=True, vectors=1, measure=False)
        assert own.ram_bytes <= 1.1 * own.live_bytes and (tiny.arena is None or own.ram_bytes <= tiny.arena << 10)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("tiny", MODELS, ids=lambda m: m.name)
def test_they_compile_without_warnings_run_clean_under_sanitizers_and_give_every_bit(tiny: Tiny, compiler: str, tmp_path: Path) -> None:
    if not has(compiler):
        pytest.skip(f"NOT TESTED: {compiler} is not installed")
    assert lowbit.emit_c(tiny.graph(), tmp_path / "c", vectors=1, measure=False).exact
    assert selftest(tmp_path / "c", tmp_path / "selftest", compiler=compiler).startswith("model: 0 of ")
