"""Helpers of the tests of generated C: projects are compiled with every warning an error, and called from Python."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lowbit.codegen import EmittedC
from lowbit.codegen.targets import EXACT, WARNINGS
from lowbit.kernels import sources
from lowbit.types import Array

INCLUDE = re.compile(rb'^#include "([^"]+)"', re.M)
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def c_files(folder: Path) -> list[Path]:
    """Those of the library."""
    return [p for p in sorted(folder.rglob("*.c")) if p.name != "selftest.c" and p.parent.name != "board"]


def closure(source: Path) -> dict[Path, bytes]:
    """A C file and the headers that it includes, from the folders of the files that name them."""
    found: dict[Path, bytes] = {}
    todo = [source]
    while todo:
        path = todo.pop()
        if path not in found:
            found[path] = path.read_bytes()
            todo += [p for name in INCLUDE.findall(found[path]) if (p := path.parent / name.decode()).is_file()]
    return found


@cache
def objects() -> TemporaryDirectory[str]:
    """Where the objects of this process are, until it ends."""
    return TemporaryDirectory()


def compiled(source: Path, command: tuple[str, ...]) -> Path:
    """The object of a C file. Networks share kernels: files with the same text, headers and flags are compiled once."""
    key = hashlib.sha256(repr((command, source.name)).encode())
    for path, text in sorted(closure(source).items(), key=lambda item: item[0].name):
        key.update(path.name.encode() + b"\0" + text + b"\0")
    out = Path(objects().name) / f"{key.hexdigest()}.o"
    if not out.exists():
        done = subprocess.run([*command, "-c", str(source), "-o", str(out)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
    return out


def compile_all(folder: Path, out: Path, *, compiler: str = "gcc", flags: tuple[str, ...] = (), extra: tuple[Path, ...] = ()) -> Path:
    """One program or library of all C files of a project."""
    isas = sources.isas()
    needed = [f for s in c_files(folder) for f in (isas[s.stem.rpartition("__")[2]].flags if "__" in s.stem else ())]
    command = (compiler, *WARNINGS, EXACT, "-O1", *dict.fromkeys(needed), *flags)
    made = [str(compiled(source, command)) for source in (*c_files(folder), *extra)]
    done = subprocess.run([*command, *made, "-o", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return out


def selftest(folder: Path, out: Path, *, compiler: str = "gcc", flags: tuple[str, ...] = SANITIZE) -> str:
    """What the self test says; it must succeed."""
    program = compile_all(folder, out, compiler=compiler, flags=flags, extra=(folder / "selftest.c",))
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[:3000]
    return done.stdout


class Compiled:
    """A project as a shared library: `run(arrays…)` gives the outputs of model_run_in, in an arena full of rubbish."""

    def __init__(self, folder: Path, emitted: EmittedC, name: str = "model", compiler: str = "gcc") -> None:
        library = compile_all(folder, folder.parent / f"{folder.name}.so", compiler=compiler, flags=("-shared", "-fPIC"))
        self.library = ctypes.CDLL(str(library))
        self.run_in = getattr(self.library, f"{name}_run_in")
        self.bytes = emitted.arena_bytes

    def run(self, inputs: list[Array], outputs: list[tuple[tuple[int, ...], Any]], seed: int = 0) -> list[Array]:
        arena = np.random.default_rng(seed).integers(0, 256, self.bytes + 128).astype(np.uint8)
        before = arena.copy()
        start = -arena.ctypes.data % 64
        made = [np.full(shape, 77, dtype) for shape, dtype in outputs]
        given = [np.ascontiguousarray(x) for x in inputs]
        self.run_in(
            ctypes.c_void_p(arena.ctypes.data + start), *(ctypes.c_void_p(a.ctypes.data) for a in given),
            *(ctypes.c_void_p(a.ctypes.data) for a in made),
        )  # fmt: skip
        end = start + self.bytes
        assert np.array_equal(arena[end:], before[end:]) and np.array_equal(arena[:start], before[:start])
        return made


@cache
def has(program: str) -> bool:
    """Whether a program is installed; a compiler with the libraries of its sanitizers, which may be a package of their own."""
    if program != "clang" or shutil.which(program) is None:
        return shutil.which(program) is not None
    with TemporaryDirectory() as folder:
        command = [program, *SANITIZE, "-x", "c", "-", "-o", f"{folder}/linked"]
        return subprocess.run(command, input="int main(void) { return 0; }", capture_output=True, text=True).returncode == 0


NO_UNIT = ("-mgeneral-regs-only",) if platform.machine() in ("x86_64", "AMD64", "aarch64") else ()
