"""Emulated boards: programs for microcontrollers built, run, and their instructions counted.

    program = link([*sources, "main.c"], "cortex-m4", Path("a.elf"))
    run(program, "cortex-m4")                         what it printed; its exit code must be 0
    count(folder, "cortex-m4")                        instructions that one inference of an emitted project takes

The boards are those of generated folders (lowbit.codegen.boards); aarch64 runs in qemu-aarch64. `missing()` names what is not there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from lowbit.codegen import target as target_of
from lowbit.codegen.boards import BOARDS, FOLDER
from lowbit.codegen.targets import EXACT, TARGETS, WARNINGS

HERE = Path(__file__).parent
SECONDS = 900  # after which a program hangs: a minute of work, on a machine that may be busy
USER = {t.name: t.emulator for t in TARGETS.values() if t.emulator is not None}  # programs of Linux


class BoardError(RuntimeError):
    """A program that does not compile, or does not run to its end."""


def missing(target: str, *more: str) -> list[str]:
    """The programs that the target needs and this machine does not have."""
    needed = [target_of(target).compiler, USER[target] if target in USER else BOARDS[target].emulator, *more]
    return [p for p in needed if shutil.which(p) is None]


def link(sources: Iterable[Path | str], target: str, out: Path, *flags: str, no_float: bool = False) -> Path:
    """A program for the board, with libc's semihosting; warnings are errors."""
    t = target_of(target)
    command = [t.compiler, *t.cpu_flags(no_float), *WARNINGS, EXACT, "-O2", "-ffunction-sections", "-fdata-sections", *map(str, sources)]
    with tempfile.TemporaryDirectory(prefix="lowbit-") as folder:
        if target in USER:
            command.append("-static")
        else:
            board = BOARDS[target]
            for name, text in board.files.items():
                (Path(folder) / name).write_text(text)
                command += [f"{folder}/{name}"] if name.endswith(".c") else []
            command += board.link_flags(folder)
        done = subprocess.run([*command, *flags, "-Wl,--gc-sections", "-o", str(out)], capture_output=True, text=True)
    if done.returncode:
        raise BoardError(f"{t.compiler} for {target}: {done.stderr[:3000]}")
    return out


def command_of(program: Path, target: str, *options: str) -> list[str]:
    """How QEMU is called for a program."""
    if target in USER:
        return [USER[target], *options, str(program)]
    return [*BOARDS[target].run_command(*options), str(program)]


def run(program: Path, target: str) -> str:
    """What a program prints; it must end with exit code 0."""
    done = subprocess.run(command_of(program, target), capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise BoardError(f"exit code {done.returncode} on {target}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


@cache
def _plugin() -> Path:
    """The plugin that counts, compiled for this machine."""
    out = Path(tempfile.mkdtemp(prefix="lowbit-")) / "count.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(HERE / "count.c"), "-o", str(out)], check=True)
    return out


def instructions(program: Path, target: str) -> int:
    """How many instructions a program takes from reset to its end. The same program takes the same number each time."""
    options = ("-plugin", str(_plugin()))
    done = subprocess.run(command_of(program, target, *options), capture_output=True, text=True, timeout=SECONDS)
    found = re.search(r"^instructions (\d+)$", done.stderr, re.M)
    if done.returncode or found is None:
        raise BoardError(f"exit code {done.returncode} on {target}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return int(found[1])


LOOP = "i < 2 * VECTORS"  # of selftest.c
ONCE_MORE = """\
#include <stdio.h>
#include <string.h>
#define memset(to, value, bytes) ((void)0)
#define memcmp(a, b, bytes) ((void)(a), (void)(b), 0)
"""


def count(folder: Path, target: str, *, no_float: bool = False) -> int:
    """Instructions that one inference of an emitted project takes on its target: the difference between two and one.

    Startup, printing and comparing are not in it; libc's and the compiler's helpers that the network itself calls are.
    """
    text = (folder / "selftest.c").read_text()
    if text.count(LOOP) != 1:
        raise BoardError(f"{folder / 'selftest.c'} has no loop `{LOOP}`")
    sources = [p for p in sorted(folder.rglob("*.c")) if p.name != "selftest.c" and p.parent.name != FOLDER]
    totals = []
    with tempfile.TemporaryDirectory(prefix="lowbit-") as name:
        for times in (1, 2):
            main = Path(name) / "main.c"
            main.write_text(ONCE_MORE + text.replace(LOOP, f"i < {times}"))
            program = link([*sources, main], target, Path(name) / "a.elf", f"-I{folder}", no_float=no_float)
            totals.append(instructions(program, target))
    return totals[1] - totals[0]
