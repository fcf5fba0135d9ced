"""Generated C of every kind of network and of every recipe; all of them with each other are in tests/e2e/test_emitted_zoo.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from codegen_tools import has, selftest
from codegen_zoo import RECIPES, check_c, made

import lowbit

NETWORKS = ("demo", "mlp", "dscnn", "unet", "lstm_lm", "gru_lm", "transformer", "gpt", "vit")
CASES = [*((n, "int8") for n in NETWORKS), *((n, r) for n, r in zip(NETWORKS[1:] * 2, RECIPES[1:], strict=False)), ("demo", "mixture")]


@pytest.mark.parametrize(("name", "recipe"), CASES)
def test_c_gives_the_bits_of_the_interpreter(name: str, recipe: str, tmp_path: Path) -> None:
    other = has("clang") and CASES.index((name, recipe)) % 2
    check_c(name, recipe, tmp_path, "clang" if other else "gcc")


@pytest.mark.skipif(not has("clang"), reason="needs clang")
def test_clang_has_no_warning_for_the_kernels_of_this_machine(tmp_path: Path) -> None:
    """Headers that two compilers read otherwise: all kernels are read by clang in tests/e2e."""
    graph, feed = made("demo", "int8")
    lowbit.emit_c(graph, tmp_path / "c", target="host", float_io=True, samples=[feed], vectors=1, measure=False)
    assert selftest(tmp_path / "c", tmp_path / "selftest", compiler="clang", flags=()).startswith("model: 0 of 2 outputs differ")
