"""Generated C on other machines, emulated: self tests give every bit.

`make test-targets`. Needs gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm, gcc-aarch64-linux-gnu, qemu-user,
gcc-riscv64-unknown-elf, picolibc, qemu-system-misc; installs nothing, and skips, with the reason, what is not there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from boards import run
from target_networks import FLOAT, INTEGER, NETWORKS, TINY, emitted, need, program

EVERYWHERE = [*NETWORKS, "demo int8", *TINY]
MORE = {  # recipes and streams, where kernels differ: those of Cortex-M7 and M33 are the Cortex-M4's
    "cortex-m0plus": INTEGER,
    "cortex-m3": [],
    "cortex-m4": [*INTEGER, *FLOAT],
    "cortex-m7": ["demo int16", "frames lstm"],
    "cortex-m33": ["demo int16", "frames lstm"],
    "cortex-m55": [*INTEGER, *FLOAT],
}


def agrees(name: str, target: str, folder: Path, no_float: bool = False) -> None:
    """The project's self test runs on the machine and finds no difference."""
    c = emitted(name, target, folder / "c", no_float=no_float)
    said = run(program(c, target, folder / "firmware.elf", no_float=no_float), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


@pytest.mark.parametrize(("target", "name"), [(t, n) for t, more in MORE.items() for n in dict.fromkeys([*EVERYWHERE, *more])])
def test_self_tests_on_emulated_cortex_m(target: str, name: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "qemu-system-arm")
    agrees(name, target, tmp_path)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        *(("aarch64", n) for n in dict.fromkeys([*EVERYWHERE, *INTEGER, *FLOAT])),
        *(("aarch64-dot", n) for n in ("dscnn", "resnet", "dscnn w4a8")),
    ],
)
def test_self_tests_on_emulated_aarch64(target: str, name: str, tmp_path: Path) -> None:
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    agrees(name, target, tmp_path)


@pytest.mark.parametrize("name", ["mlp", "net", "dscnn", "mlp int16", "lstm", *INTEGER])
def test_self_tests_on_emulated_riscv32(name: str, tmp_path: Path) -> None:
    need("riscv64-unknown-elf-gcc", "qemu-system-riscv32")
    agrees(name, "riscv32", tmp_path)
