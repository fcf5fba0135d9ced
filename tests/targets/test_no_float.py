"""Without floats the same bits, and in no object file a float instruction or a call of a function that computes floats."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from boards import link, missing, run
from codegen_tools import c_files
from target_networks import emitted, need

from lowbit.codegen import target as target_of
from lowbit.codegen.targets import EXACT, TARGETS, WARNINGS

# What a compiler calls where a chip has no instruction: __aeabi_fadd, __aeabi_ul2d, __aeabi_cfcmple, __addsf3, __floatundidf, sqrtf …
HELPERS = (
    r"\b__aeabi_(?:[fd]\w*|c[fdr]+cmp\w*|\w*2[fdh]\w*)"
    r"|\b__\w*(?:[hsdtx]f|bf|[hsdtx]c3)\w*"
    r"|\t(?:sqrt|exp|exp2|expm1|log|log2|log1p|pow|tanh|sin|cos|erf|floor|ceil|trunc|round|rint|nearbyint|l?lrint|l?lround|fabs|fmod|fma|fmin|fmax"
    r"|copysign|ldexp|frexp|scalbn)[fl]?\b"
)
SCALAR = r"f(?!ence)|[su]cvtf"  # RISC-V and 64-bit Arm: fadd, flw, fmov; `fence` is none
INSTRUCTIONS = {
    "cortex": r"v|f(?:ld|st|m|cm|add|sub|mul|div|ui|si|to)",  # every instruction that names a float or vector register
    "riscv32": SCALAR,
    "aarch64": SCALAR + r"|.*[\s,{\[](?:v\d{1,2}\.\w+|[bhsdq]\d{1,2})(?=[\s,\]}]|$)(?! <)",
}
LINE = r"^\s*[0-9a-f]+:\s+(?!R_)"  # of an instruction; relocations stand on lines of their own
CHIPS = [t for t in TARGETS if t not in ("host", "portable")]
EVERY = ["net", "dscnn", "mlp int16", "transformer", "lstm", "gru", "dscnn int16", "dscnn w4a8", "frames gru"]
SOME = ["dscnn int16", "transformer", "frames gru"]
CASES = [(t, n) for t in CHIPS if t != "aarch64-dot" for n in (EVERY if t in ("cortex-m0plus", "cortex-m4") else SOME)]


def objects(sources: list[Path], target: str, folder: Path, no_float: bool) -> list[Path]:
    t, made = target_of(target), []
    for source in sources:
        made.append(folder / f"{source.stem}.o")
        command = [t.compiler, *t.cpu_flags(no_float), *WARNINGS, EXACT, "-O2", "-ffunction-sections", "-fdata-sections", "-c", str(source)]
        subprocess.run([*command, "-o", str(made[-1])], check=True)
    return made


def floats(file: Path, target: str) -> list[str]:
    """Lines of the disassembly that have to do with floats."""
    command = [f"{target_of(target).prefix}objdump", "-dr", "--no-show-raw-insn", str(file)]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    family = next(f for f in INSTRUCTIONS if target.startswith(f))
    return [line for line in code.splitlines() if re.search(f"{HELPERS}|{LINE}(?:{INSTRUCTIONS[family]})", line)]


@pytest.mark.parametrize(("target", "name"), CASES)
def test_without_floats_the_same_bits_and_no_float_instruction(target: str, name: str, tmp_path: Path) -> None:
    need(*missing(target), f"{target_of(target).prefix}objdump")
    folder = emitted(name, target, tmp_path / "c", no_float=True)
    made = objects(c_files(folder), target, tmp_path, no_float=True)
    assert {o.name: found for o in made if (found := floats(o, target))} == {}
    said = run(link([*made, folder / "selftest.c"], target, tmp_path / "firmware.elf", no_float=True), target)
    assert re.search(r"model: 0 of \d+ outputs differ", said), said


SINS = {
    "a product": "float f(float a, float b) { return a * b; }",
    "a sum of doubles": "double f(double a, double b) { return a + b; }",
    "from 32 bits": "float f(int a) { return (float)a; }",
    "from 64 bits": "double f(long long a) { return (double)a; }",
    "from 64 bits without a sign": "double f(unsigned long long a) { return (double)a; }",
    "to an integer": "int f(double a) { return (int)a; }",
    "a comparison": "int f(float a, float b) { return a < b; }",
    "a square root": "float sqrtf(float);\nfloat f(float a) { return sqrtf(a); }",
    "to another width": "double f(float a) { return (double)a; }",
}
HARD = {"cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"}


@pytest.mark.parametrize("target", CHIPS)
def test_floats_are_found_where_they_are(target: str, tmp_path: Path) -> None:
    """The law above can fail: on every chip, with its float instructions and with the functions that stand for them."""
    need(target_of(target).compiler)
    for what, text in SINS.items():
        source = tmp_path / "sin.c"
        source.write_text(text)
        for no_float in {False, target in HARD}:
            assert all(floats(o, target) for o in objects([source], target, tmp_path, no_float)), (what, no_float)


@pytest.mark.parametrize("target", CHIPS)
def test_integers_are_not_taken_for_floats(target: str, tmp_path: Path) -> None:
    need(target_of(target).compiler)
    source = tmp_path / "pure.c"
    source.write_text(
        "#include <string.h>\n"
        "long long f(long long a, long long b) { return a / b + a * b + (a << (b & 31)) + __builtin_clzll((unsigned long long)b); }\n"
        "unsigned g(unsigned a, unsigned b) { return a / b + a % b; }\n"
        "void lb_add_f32__ref(void *a, const void *b, unsigned n) { memcpy(a, b, n); }\n"
    )
    for no_float in (False, True):
        assert [floats(o, target) for o in objects([source], target, tmp_path, no_float)] == [[]]
