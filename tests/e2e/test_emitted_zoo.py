"""Generated C of the whole zoo with every recipe, by gcc and clang, under the sanitizers. Some minutes: `make e2e`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from platform import machine

import pytest
from codegen_tools import has
from codegen_zoo import RECIPES, check_c
from repository import ROOT

from lowbit.codegen.targets import EXACT, WARNINGS
from lowbit.kernels import kernel_table, sources

NETWORKS = ("demo", "mlp", "resnet9", "dscnn", "unet", "lstm_lm", "gru_lm", "transformer", "gpt", "vit")
LARGE = ("mobilenetv2", "resnet18")  # millions of weights as text: with one recipe of each kind
COMPILERS = ("gcc", "clang")
CSRC = ROOT / "csrc"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_c_gives_the_bits_of_the_interpreter(name: str, recipe: str, compiler: str, tmp_path: Path) -> None:
    if not has(compiler):
        pytest.skip(f"NOT TESTED: {compiler} is not installed")
    check_c(name, recipe, tmp_path, compiler)


@pytest.mark.parametrize("recipe", ["int8", "w4a8"])
@pytest.mark.parametrize("name", LARGE)
def test_c_of_large_networks_gives_the_bits_of_the_interpreter(name: str, recipe: str, tmp_path: Path) -> None:
    check_c(name, recipe, tmp_path, "gcc")


@pytest.mark.parametrize("isa", ["ref", "avx2", "avxvnni", "avx512vnni"])
def test_clang_has_no_warning_for_any_kernel(isa: str, tmp_path: Path) -> None:
    if not has("clang") or machine() != "x86_64":
        pytest.skip("NOT TESTED: clang is not installed, or this is no x86")
    files = []
    for path in kernel_table.kernel_files(CSRC):
        if isa in (texts := kernel_table.texts_of(path)):
            files.append(str(tmp_path / f"{path.parent.name}_{path.name}"))
            Path(files[-1]).write_text(texts[isa])
    command = ["clang", "-fsyntax-only", f"-I{CSRC}", f"-I{sources.folder()}", *WARNINGS, EXACT, *sources.isas()[isa].flags, *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert files and done.returncode == 0, done.stderr[:3000]
