"""The emulated board of a generated folder: what `make test` finds, and what it says when something is not there.

That the self tests run on it is tested in tests/targets, where there are cross compilers and emulators.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from plan_networks import network

import lowbit
from lowbit.cli import main
from lowbit.codegen import TARGETS
from lowbit.codegen.boards import BOARDS, MARGIN, NOTE, Memory, too_large

CHIPS = [t.name for t in TARGETS.values() if t.bare]
TOOLS = ("make", "sh", "sed", "rm")


def make(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`make` in a folder; with `path` only the programs there are found."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    environment |= {"PATH": str(path)} if path is not None else {}
    return subprocess.run(["make", "-s", "--no-print-directory", *arguments], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with nothing but what runs a Makefile."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        (programs / name).symlink_to(str(shutil.which(name)))
    return programs


def test_every_chip_has_a_board_and_nothing_else_has() -> None:
    assert list(BOARDS) == CHIPS


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_chip_s_folder_has_its_board_beside_the_library(target: str) -> None:
    files = lowbit.emit_c(network(), None, target=target, measure=False).files
    board = {p: text for p, text in files.items() if p.startswith("board/")}
    if not TARGETS[target].bare:
        assert not board and "BOARD" not in files["Makefile"]
        return
    started = {"board/startup.c", "board/board.ld"} if target != "riscv32" else set()  # picolibc brings both
    assert set(board) == started | {"board/board.mk", "board/toolchain.cmake"}
    assert all(NOTE in text.splitlines()[0] for text in board.values()) and "@" not in board.get("board/board.ld", "")
    library = [line for line in files["Makefile"].splitlines() if line.startswith(("SOURCES", "OBJECTS"))]
    assert "board" not in "".join(library) and BOARDS[target].machine in files["README.md"]


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_what_is_not_there_is_said_in_one_line(target: str, tmp_path: Path, bare: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", target=target, measure=False)
    t, board = TARGETS[target], BOARDS[target]
    done = make(tmp_path / "c", "test", path=bare)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert (
        f"make test needs {t.compiler} {board.emulator}, not found here (Debian: {board.packages}). A board of yours: README.md"
        in done.stderr
    )
    for program in (t.compiler, board.emulator):  # a compiler that has no libc
        (bare / program).write_text("#!/bin/sh\necho $1\n")
        (bare / program).chmod(0o755)
    done = make(tmp_path / "c", "test", path=bare)
    assert done.stderr.count("\n") == 1 and f"make test needs {board.specs}, not found here" in done.stderr
    assert make(tmp_path / "c", "-n", "all", path=bare).returncode == 0


def test_host_programs_need_a_compiler_only(tmp_path: Path, bare: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", measure=False)
    done = make(tmp_path / "c", "test", path=bare)
    assert done.stderr.count("\n") == 1 and "make test needs gcc, not found here.  Stop." in done.stderr
    assert "0 of 12 outputs differ" in make(tmp_path / "c", "test").stdout


def test_a_board_of_the_user_takes_the_place_of_the_emulated_one(tmp_path: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", target="cortex-m4", measure=False)
    mine = tmp_path / "mine.mk"
    mine.write_text("BOARD_SOURCES := ../start.c\nBOARD_LDFLAGS := -lmine\nRUN := env\n")
    (tmp_path / "start.c").write_text("")
    ways = (["BOARD=../mine.mk", "CC=gcc"], ["BOARD_SOURCES=../start.c", "BOARD_LDFLAGS=-lmine", "RUN=env", "CC=gcc", "BOARD_SPECS="])
    for arguments in ways:
        told = make(tmp_path / "c", "-n", "test", *arguments).stdout
        assert "-lmine  ../start.c build/selftest.o build/libmodel.a" in told and "\nenv build/selftest\n" in told
        assert "board.ld" not in told and "qemu" not in told
    said = make(tmp_path / "c", "test", "BOARD=nowhere.mk", "CC=gcc").stderr
    assert said.count("\n") == 1 and "make test has nothing to run on: nowhere.mk does not set RUN" in said
    shutil.rmtree(tmp_path / "c" / "board")  # the library does without
    assert make(tmp_path / "c", "-n", "all").returncode == 0


def test_help_tells_what_there_is_to_make(tmp_path: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", target="cortex-m55", measure=False)
    told = make(tmp_path / "c", "help").stdout
    assert told.splitlines()[0] == "For cortex-m55." and "make test   runs the self test on an emulated board" in told
    assert "ifeq" not in told


def test_networks_that_are_too_large_for_the_board_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(BOARDS["cortex-m4"], ram=Memory(0x20000000, MARGIN + 5000))
    assert too_large(small, 1 << 20, 5000) is None
    assert too_large(small, 25 << 20, 0) == "it needs 26,214,400 bytes for constants, and the emulated board (mps2-an386) has 16,515,072"
    monkeypatch.setitem(BOARDS, "cortex-m4", small)
    network().save(tmp_path / "net.lowbit")
    out = tmp_path / "c"
    assert main(["emit-c", str(tmp_path / "net.lowbit"), "-o", str(out), "--target", "cortex-m4"]) == 0
    assert f"next     make -C {out}   ·" in capsys.readouterr().out and not (out / "board").exists()
    why = "it needs 5,082 bytes for RAM, and the emulated board (mps2-an386) has 5,000"
    assert f"It needs a board of yours: {why}." in (out / "README.md").read_text()
    done = make(out, "test", "CC=gcc")
    assert done.stderr.count("\n") == 1 and f"make test has nothing to run on: {why}. A board of yours: README.md" in done.stderr
    assert "env build/selftest" in make(out, "-n", "test", "CC=gcc", "RUN=env").stdout


def test_the_command_line_tells_to_run_the_self_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network().save(tmp_path / "net.lowbit")
    for target in ("portable", "cortex-m4"):
        out = tmp_path / target
        assert main(["emit-c", str(tmp_path / "net.lowbit"), "-o", str(out), "--target", target]) == 0
        assert f"next     make -C {out} test   ·" in capsys.readouterr().out
