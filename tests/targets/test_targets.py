"""Generated C on other machines, emulated: self tests give every bit, and without floats no float instruction is left.

`make test-targets`. Needs gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm, gcc-aarch64-linux-gnu, qemu-user,
gcc-riscv64-unknown-elf, picolibc, qemu-system-misc; installs nothing, and skips, with the reason, what is not there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from boards import BOARDS, USER, count, instructions, link, run
from codegen_tools import c_files
from test_native_session import integer_graph
from test_plan import network

import lowbit
from benchmarks.tiny.models import MODELS
from lowbit.codegen import target as target_of
from lowbit.codegen.targets import EXACT, TARGETS, WARNINGS
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule
from zoo import entry
from zoo.vision import ResNet9

FLOATS = re.compile(r"\tv(mul|add|sub|div|cvt|ldr|str|mov|cmp|neg|sqrt|mla|fma)\S*\s|__aeabi_(f|d|i2f|i2d|ui2f|ui2d|l2f|ul2f)")
NETWORKS = ["mlp", "net", "dscnn", "mlp16", "resnet", "transformer", "lstm", "gru"]
TINY = {m.name: m for m in MODELS if m.arena is not None}  # MLPerf Tiny's four


def need(*programs: str) -> None:
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"NOT TESTED: {', '.join(missing)} not installed")


def needed(target: str) -> list[str]:
    return [target_of(target).compiler, USER[target] if target in USER else BOARDS[target].emulator, "make"]


@cache
def graph(name: str) -> Graph:
    if name in TINY:
        return lower(TINY[name].graph()).graph
    if name == "net":
        return network()
    if name == "mlp16":  # 16-bit activations, 64-bit sums
        e = entry("mlp")
        g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
        x = {g.inputs[0].name: e.example()["x"].numpy()}
        return lower(lowbit.quantize(g, [x], rules=[CalibratedQuantRule(".*", "int16")])).graph
    if name == "resnet":
        torch.manual_seed(0)
        image = torch.randn(1, 3, 32, 32)
        g = lowbit.load(ResNet9(width=8).eval(), inputs=(image,))
        return lower(lowbit.quantize(g, [{g.inputs[0].name: image.numpy()}], rules=[CalibratedQuantRule(".*", "int8")])).graph
    return integer_graph({"lstm": "lstm_lm", "gru": "gru_lm"}.get(name, name))[0]


def emitted(name: str, target: str, folder: Path, **options: bool) -> Path:
    assert lowbit.emit_c(graph(name), folder, target=target, measure=False, **options).exact  # type: ignore[arg-type]
    return folder


def program(folder: Path, target: str, out: Path, no_float: bool = False) -> Path:
    """The project's self test for the board."""
    return link([*c_files(folder), folder / "selftest.c"], target, out, no_float=no_float)


@pytest.mark.parametrize("no_float", [False, True])
@pytest.mark.parametrize("target", [*BOARDS, *USER])
def test_make_test_runs_in_the_folder_as_it_is(target: str, no_float: bool, tmp_path: Path) -> None:
    need(*needed(target))
    folder = emitted("net", target, tmp_path / "c", no_float=no_float)
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
    assert done.returncode == 0 and "model: 0 of 12 outputs differ" in done.stdout, done.stdout + done.stderr
    (folder / "selftest.c").write_text((folder / "selftest.c").read_text().replace("int wrong = 0", "int wrong = 1"))
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
    assert done.returncode == 2 and "model: 1 of 12 outputs differ" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", list(BOARDS))
def test_ctest_runs_with_the_toolchain_file_of_the_folder(target: str, tmp_path: Path) -> None:
    need(*needed(target), "cmake", "ctest")
    folder, out = emitted("net", target, tmp_path / "c"), str(tmp_path / "build")
    for command in (
        ["cmake", "-S", str(folder), "-B", out, "--toolchain", str(folder / "board/toolchain.cmake")],
        ["cmake", "--build", out],
    ):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(["ctest", "--test-dir", out, "-V"], capture_output=True, text=True)
    assert done.returncode == 0 and "model: 0 of 12 outputs differ" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", [*NETWORKS, *TINY])
@pytest.mark.parametrize("target", [t for t in BOARDS if t != "riscv32"])
def test_self_tests_on_emulated_cortex_m(target: str, name: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "qemu-system-arm")
    said = run(program(emitted(name, target, tmp_path / "c"), target, tmp_path / "firmware.elf"), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("name", ["net", "dscnn", "mlp16", "transformer", "lstm", "gru"])
def test_without_floats_the_same_bits_and_no_float_instruction(name: str, target: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "arm-none-eabi-objdump", "qemu-system-arm")
    folder = emitted(name, target, tmp_path / "c", no_float=True)
    said = run(program(folder, target, tmp_path / "firmware.elf", no_float=True), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said
    t = target_of(target)
    for source in c_files(folder):
        o = tmp_path / f"{source.stem}.o"
        flags = [*t.cpu_flags(True), *WARNINGS, EXACT, "-O2"]
        subprocess.run([t.compiler, *flags, "-c", str(source), "-o", str(o)], check=True)
        code = subprocess.run(["arm-none-eabi-objdump", "-dr", str(o)], check=True, capture_output=True, text=True).stdout
        assert not FLOATS.search(code), source


@pytest.mark.parametrize(
    ("target", "name"), [*(("aarch64", name) for name in NETWORKS), ("aarch64-dot", "dscnn"), ("aarch64-dot", "resnet")]
)
def test_self_tests_on_emulated_aarch64(target: str, name: str, tmp_path: Path) -> None:
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    said = run(program(emitted(name, target, tmp_path / "c"), target, tmp_path / "selftest"), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


@pytest.mark.parametrize("no_float", [False, True])
@pytest.mark.parametrize("name", ["mlp", "net", "dscnn", "mlp16", "lstm"])
def test_self_tests_on_emulated_riscv32(name: str, no_float: bool, tmp_path: Path) -> None:
    need("riscv64-unknown-elf-gcc", "qemu-system-riscv32")
    folder = emitted(name, "riscv32", tmp_path / "c", no_float=no_float)
    said = run(program(folder, "riscv32", tmp_path / "firmware.elf", no_float=no_float), "riscv32")
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


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


@pytest.mark.parametrize(("target", "most"), [("cortex-m4", 0.45), ("cortex-m55", 0.25), ("aarch64", 0.08), ("aarch64-dot", 0.06)])
@pytest.mark.parametrize("name", ["dscnn"])
def test_kernels_of_a_core_take_a_fraction_of_the_portable_instructions(
    name: str, target: str, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(target_of(target).compiler, "qemu-aarch64" if target.startswith("aarch64") else "qemu-system-arm", "gcc")
    own = count(emitted(name, target, tmp_path / "own"), target)
    monkeypatch.setitem(TARGETS, target, replace(TARGETS[target], isas=("ref",)))
    assert own <= most * count(emitted(name, target, tmp_path / "ref"), target)
