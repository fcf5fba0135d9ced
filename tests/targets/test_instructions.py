"""Instructions are counted exactly, and kernels of a core take a fraction of those of portable C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import count, instructions, link, missing
from target_networks import TINY, emitted, need

from lowbit.codegen import target as target_of
from lowbit.codegen.targets import TARGETS

LOOP = """
int main(void) {
    unsigned long n = TIMES;
    __asm volatile("1: subs %0, %0, #1\\n bne 1b" : "+r"(n) : : "cc");
    return (int)n;
}
"""


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "aarch64"])
def test_instructions_are_counted_exactly(target: str, tmp_path: Path) -> None:
    need(target_of(target).compiler, "qemu-aarch64" if target == "aarch64" else "qemu-system-arm", "gcc")
    main = tmp_path / "main.c"
    main.write_text(LOOP.replace("%0", "%w0") if target == "aarch64" else LOOP)
    few, many = (instructions(link([main], target, tmp_path / "a.elf", f"-DTIMES={n}"), target) for n in (1000, 1500))
    assert many - few == 2 * 500
    folder = emitted("mlp", target, tmp_path / "c")
    assert count(folder, target) == count(folder, target) > 1000


PERF = [name for name, m in TINY.items() if m.arena is not None]  # MLPerf Tiny's four: convolutions and linear layers
CASES = [  # at most that part of the portable instructions
    *(("cortex-m4", n, 0.45) for n in PERF),
    ("cortex-m4", "tiny-lstm", 0.5),
    ("cortex-m4", "dscnn w4a8", 0.3),
    ("cortex-m4", "tiny-transformer", 0.5),
    *(("cortex-m55", n, 0.25) for n in PERF),
    ("cortex-m55", "dscnn w4a8", 0.1),
    ("cortex-m55", "tiny-transformer", 0.45),
    ("cortex-m55", "tiny-lstm", 0.35),
    ("aarch64", "dscnn", 0.08),
    ("aarch64-dot", "dscnn", 0.06),
]


@pytest.mark.parametrize(("target", "name", "most"), CASES)
def test_kernels_of_a_core_take_a_fraction_of_the_portable_instructions(
    target: str, name: str, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(*missing(target), "gcc")
    own = count(emitted(name, target, tmp_path / "own"), target)
    monkeypatch.setitem(TARGETS, target, replace(TARGETS[target], isas=("ref",)))
    assert own <= most * count(emitted(name, target, tmp_path / "ref"), target)
