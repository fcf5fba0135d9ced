"""Generated C on other machines, emulated: self tests give every bit.

`make test-targets`. Needs gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm, gcc-aarch64-linux-gnu, qemu-user,
gcc-riscv64-unknown-elf, picolibc, qemu-system-misc; installs nothing, and skips, with the reason, what is not there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from boards import BOARDS, run
from target_networks import FLOAT, INTEGER, NETWORKS, TINY, emitted, need, program

ALIKE = {"cortex-m7", "cortex-m33"}  # their kernels are the Cortex-M4's: a few networks tell whether their boards run them
FPU = ["cortex-m4", "cortex-m55"]


def agrees(name: str, target: str, folder: Path, no_float: bool = False) -> None:
    """The project's self test runs on the machine and finds no difference."""
    c = emitted(name, target, folder / "c", no_float=no_float)
    said = run(program(c, target, folder / "firmware.elf", no_float=no_float), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


def on_cortex_m(target: str) -> list[str]:
    if target in ALIKE:
        return ["net", "dscnn", "transformer", "demo int16", "frames lstm", *TINY]
    return [*NETWORKS, *TINY, *INTEGER, *(FLOAT if target in FPU else [])]


CASES = [(t, n) for t in BOARDS if t != "riscv32" for n in on_cortex_m(t) if t != "cortex-m3" or n in NETWORKS]


@pytest.mark.parametrize(("target", "name"), CASES)
def test_self_tests_on_emulated_cortex_m(target: str, name: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "qemu-system-arm")
    agrees(name, target, tmp_path)


@pytest.mark.parametrize(
    ("target", "name"),
    [*(("aarch64", n) for n in [*NETWORKS, *INTEGER, *FLOAT]), *(("aarch64-dot", n) for n in ("dscnn", "resnet", "dscnn w4a8"))],
)
def test_self_tests_on_emulated_aarch64(target: str, name: str, tmp_path: Path) -> None:
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    agrees(name, target, tmp_path)


@pytest.mark.parametrize("name", ["mlp", "net", "dscnn", "mlp int16", "lstm", *INTEGER])
def test_self_tests_on_emulated_riscv32(name: str, tmp_path: Path) -> None:
    need("riscv64-unknown-elf-gcc", "qemu-system-riscv32")
    agrees(name, "riscv32", tmp_path)
