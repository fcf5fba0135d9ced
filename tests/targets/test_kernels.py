"""Kernels for microcontrollers, on emulated cores: csrc's own tests, every byte against `ref`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from boards import link, run
from repository import ROOT

from lowbit.codegen.targets import TARGETS
from lowbit.kernels.kernel_table import (
    CONTRACTS,
    contract_headers,
    contracts_header,
    contracts_of,
    kernel_files,
    kernels_of,
    parse_isas,
    table,
    table_of_tests,
)

CSRC = ROOT / "csrc"
PACKING = {"linear_s8_pack", "linear_s8_sizes"}  # by which tests make weights
# those that test contracts of microcontrollers
TESTS = (
    "test_kernels.c",
    "test_layers.c",
    "test_images.c",
    "test_wide.c",
    "test_conv_wide.c",
    "test_rnn.c",
    "test_int4.c",
    "test_attention.c",
)
OTHERS = """\
#include "tests/test_support.h"
#include <malloc.h>
#include <stdlib.h>

int posix_memalign(void **out, size_t alignment, size_t bytes); /* aligned_alloc calls it, and newlib has none */

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    *out = memalign(alignment, bytes);
    return *out == NULL;
}

void test_soft(void) {
}
"""


def kernels_for(isa: str) -> dict[tuple[str, str], str]:
    """The C text of each kernel."""
    return {kernel: text for path in kernel_files(CSRC) for kernel, text in kernels_of(path).items() if kernel[1] == isa}


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"])
def test_kernels_give_the_bytes_of_ref(target: str, tmp_path: Path) -> None:
    missing = [p for p in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(p) is None]
    if missing:
        pytest.skip(f"NOT TESTED: {', '.join(missing)} not installed")
    isas = TARGETS[target].isas or ()
    own = {kernel: text for isa in isas if isa != "ref" for kernel, text in kernels_for(isa).items()}
    names = PACKING | {contract for contract, _ in own}
    kernels = {(contract, isa): text for (contract, isa), text in kernels_for("ref").items() if contract in names} | own
    files = []
    for (contract, isa), text in kernels.items():
        files.append(tmp_path / f"{contract}__{isa}.c")
        files[-1].write_text(text)
    contracts = {n: c for n, c in contracts_of(CSRC).items() if n in names}
    (tmp_path / CONTRACTS).write_text(contracts_header(contract_headers(CSRC)))
    made = tmp_path / "lb_table.c"
    made.write_text(table(contracts, parse_isas((CSRC / "isas.txt").read_text()), list(kernels)))
    (tmp_path / "others.c").write_text(OTHERS)
    (tmp_path / "table_of_tests.c").write_text(table_of_tests((CSRC / "tests" / t).read_text() for t in TESTS))
    sources = [
        *(CSRC / "tests" / t for t in TESTS),
        CSRC / "base" / "cpu.c",
        tmp_path / "others.c",
        tmp_path / "table_of_tests.c",
        made,
        *files,
    ]
    said = run(link(sources, target, tmp_path / "tests.elf", f"-I{CSRC}", f"-I{tmp_path}", "-lm"), target)
    for contract, isa in own:
        assert f"\n{contract:28} {isa:12} " in said, said
    assert "\nok: " in said and "not on this CPU" not in said, said[-2000:]
