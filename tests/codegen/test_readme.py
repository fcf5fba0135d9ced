"""The README of a generated folder: its example compiles, its figures are the compiler's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import compile_all
from plan_networks import network

import lowbit
from lowbit.cli import main
from lowbit.codegen.targets import WARNINGS
from lowbit.dims import symbol
from lowbit.errors import ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.types import TensorType

MAIN = '\n#include <stdio.h>\nint main(void) {\n    printf("%.9g\\n", (double)first_output());\n}\n'


def counter() -> Graph:
    """y = h + x, kept as h: a state, and an input and outputs of reals and integers."""
    b = Builder("counter")
    h, x = b.input("h", TensorType((3,), "int32")), b.input("x", TensorType((3,), "int32"))
    y = b.add("add", h, x)
    return b.finish({"y": y, "z": b.add("reshape", y, shape=(3, 1))})


def blocks(text: str) -> list[str]:
    return re.findall(r"```c\n(.*?)```", text, re.S)


@pytest.mark.parametrize("no_float", [False, True])
@pytest.mark.parametrize("io_in_arena", [False, True])
@pytest.mark.parametrize("float_io", [False, True])
def test_the_example_compiles_and_runs(no_float: bool, io_in_arena: bool, float_io: bool, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    files = lowbit.emit_c(network(), folder, no_float=no_float, io_in_arena=io_in_arena, float_io=float_io, measure=False).files
    example, in_ours = blocks(files["README.md"])
    arena, call = in_ours.strip().splitlines()
    (folder / "main.c").write_text(f"{example}\n{arena}\nvoid ours(void);\nvoid ours(void) {{\n    {call}\n}}\n{MAIN}")
    program = compile_all(folder, tmp_path / "main")
    said = float(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout)
    x = np.full((2, 3, 9, 7), 0.5, np.float32)
    want = float(run(network(), {"x": x})["y"].reshape(-1)[0])
    assert said == (round(want * 65536) if no_float else pytest.approx(want, rel=1e-8))


def test_the_example_has_a_state_where_the_network_has_one(tmp_path: Path) -> None:
    files = lowbit.emit_c(counter(), tmp_path / "c", state={"h": "y"}, measure=False).files
    example, in_ours = blocks(files["README.md"])
    assert "static model_state state;" in example and "model_run(&state, in, out);" in example and "model_run_in(memory, &state," in in_ours
    (tmp_path / "main.c").write_text(example)
    subprocess.run(["gcc", *WARNINGS, f"-I{tmp_path / 'c'}", "-c", str(tmp_path / "main.c"), "-o", str(tmp_path / "main.o")], check=True)


def test_flash_and_stack_are_those_of_the_compiler() -> None:
    done = lowbit.emit_c(network(), None)
    text = done.files["README.md"]
    assert done.flash_bytes is not None and done.stack_bytes is not None
    assert (
        f"- **Flash: {done.flash_bytes:,} bytes**: {done.weight_bytes:,} of weights" in text
        and f"- **Stack: {done.stack_bytes:,} bytes**" in text
    )
    assert re.search(r"measured with gcc \d+\.\d+\.\d+ -O2", text)
    rows = re.findall(r"^\| (?:kernels/\S+|model)\.c \| ([\d,]+) \| ([\d,]+) \|$", text, re.M)
    code, stack = (sum(int(r[i].replace(",", "")) for r in rows) for i in (0, 1))
    assert len(rows) == 1 + len({p for p in done.files if p.startswith("kernels/") and p.endswith(".c")})
    assert 0 < code <= done.flash_bytes - done.weight_bytes and stack >= done.stack_bytes
    plain = lowbit.emit_c(network(), None, measure=False).files["README.md"]
    assert "`make size`" in plain and "measured with" not in plain


def test_where_weights_and_arena_go_is_told(tmp_path: Path) -> None:
    text = lowbit.emit_c(network(), tmp_path / "c", name="net", measure=False).files["README.md"]
    section = re.search(r"`-D'(NET_WEIGHTS_SECTION=.*)'`", text)
    assert section is not None and "-DNET_NO_STATIC_ARENA" in text
    compile_all(tmp_path / "c", tmp_path / "net.so", flags=("-shared", "-fPIC", f"-D{section[1]}", "-DNET_NO_STATIC_ARENA"))
    told = subprocess.run(["objdump", "-h", str(tmp_path / "net.so")], capture_output=True, text=True, check=True).stdout
    assert ".qspi" in told


def test_ends_that_hold_nothing_are_refused() -> None:
    b = Builder()
    x = b.input("x", TensorType((0, 3), "int8"))
    with pytest.raises(
        ShapeError, match=r"input 'x' is int8\[0, 3\]: it holds nothing.\n  Try: sizes from 1 on, for example --shapes batch=1"
    ):
        lowbit.emit_c(b.finish({"y": b.add("reshape", x, shape=(3, 0))}), None, measure=False)


def test_the_command_line_names_the_target_that_is_meant_without_one_and_refuses_a_batch_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["emit-c", "--help"])
    assert re.search(r"--target NAME\s+one of host, portable,[^(]*\(portable\)", capsys.readouterr().out)
    b = Builder()
    x = b.input("x", TensorType((symbol("batch"), 3), "int8"))
    b.finish({"y": b.add("relu", x)}).save(tmp_path / "net.lowbit")
    assert main(["emit-c", str(tmp_path / "net.lowbit"), "-o", str(tmp_path / "c"), "--shapes", "batch=0"]) == 1
    assert "input 'x' is int8[0, 3]: it holds nothing" in capsys.readouterr().err and not (tmp_path / "c").exists()


def test_make_builds_again_what_a_changed_header_is_in(tmp_path: Path) -> None:
    """A folder that is written again may have other kernels' headers: objects of the old ones would be linked."""
    lowbit.emit_c(network(), tmp_path / "c", measure=False)
    make = ["make", "-s", "-C", str(tmp_path / "c")]
    subprocess.run(make, check=True, capture_output=True)
    assert subprocess.run([*make, "-q"]).returncode == 0
    later = (tmp_path / "c/build/libmodel.a").stat().st_mtime + 10
    os.utime(tmp_path / "c/kernels/lb_numerics.h", (later, later))
    assert subprocess.run([*make, "-q"]).returncode == 1
