"""Flash and stack of a project, measured with its compiler, if that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lowbit.codegen.boards import FOLDER
from lowbit.codegen.building import isa_flags
from lowbit.codegen.data import weights_source
from lowbit.codegen.project import Project
from lowbit.codegen.targets import EXACT, WARNINGS
from lowbit.errors import FormatError, UnsupportedOp
from lowbit.progress import progress

IN_INTEGERS = "a rule that quantizes this layer (recipe int8, or w4a8), or without no_float (--no-float)"


@dataclass(frozen=True)
class Measured:
    """flash: code and constants of all object files and what they take of libgcc; stack: the deepest chain of calls, without libraries'.

    library_bytes  of flash, of the compiler's own functions: soft floats, long divisions. None where it could not be linked; 0 where an
                   operating system has them
    files          source → bytes of flash, and bytes of stack of its functions together: all of them may be open at once
    """

    compiler: str
    version: str
    flash_bytes: int
    library_bytes: int | None
    stack_bytes: int
    files: Mapping[str, tuple[int, int]]


def measure(p: Project, files: Mapping[str, str]) -> Measured | None:
    """Compiles the project in a folder of its own; None without a compiler for the target."""
    compiler, size = shutil.which(p.target.compiler), shutil.which(f"{p.target.prefix}size")
    if compiler is None or size is None:
        return None
    with tempfile.TemporaryDirectory(prefix="lowbit-") as name:
        folder = Path(name)
        sources = [s for s in files if s.endswith(".c") and s != "selftest.c" and not s.startswith(f"{FOLDER}/")]
        for path in [*sources, *(h for h in files if h.endswith(".h"))]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(weights_source(p, outline=True) if path == "weights.c" else files[path])
        _compile(p, compiler, folder, sources)
        objects = [f"{s[:-2]}.o" for s in sources]
        told = subprocess.run([size, *objects], cwd=folder, capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in told.splitlines()[1:]]
        found = {s: (int(r[0]) + int(r[1]), _stack(folder / s)) for s, r in zip(sources, rows, strict=True)}
        version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        stack = found[f"{p.name}.c"][1] + max((used for s, (_, used) in found.items() if s.startswith("kernels/")), default=0)
        library = _library(p, compiler, size, folder, objects) if p.target.bare else 0
        return Measured(compiler, version, sum(flash for flash, _ in found.values()) + (library or 0), library, stack, found)


def _compile(p: Project, compiler: str, folder: Path, sources: list[str]) -> None:
    """Object files beside the sources, as many at once as there are processors; the first source that fails is the one that is named.

    An interrupt ends it when the compilers that run are done: the terminal interrupts these too.
    """
    flags = isa_flags(p)

    def made(s: str) -> subprocess.CompletedProcess[str]:
        isa = flags.get(Path(s).stem.rpartition("__")[2], ())
        command = [compiler, *p.target.cpu_flags(p.no_float), *isa, p.target.optimize, *WARNINGS, EXACT, "-ffunction-sections"]
        return subprocess.run([*command, "-fstack-usage", "-c", s, "-o", f"{s[:-2]}.o"], cwd=folder, capture_output=True, text=True)

    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        for s, done in zip(sources, progress(pool.map(made, sources), "compiling", len(sources)), strict=True):
            if done.returncode:
                raise _refused(p, s, done.stderr)
    finally:
        pool.shutdown(cancel_futures=True)


def _refused(p: Project, source: str, said: str) -> UnsupportedOp | FormatError:
    """The error for a source that does not compile."""
    if p.no_float and source.startswith("kernels/"):
        call = next(c for c in p.calls if source == f"kernels/{c.step.kernel}.c")
        return UnsupportedOp(
            f"its kernel {call.step.kernel} computes in floating point", where=f"{call.step.op} '{call.step.layer}'", hint=IN_INTEGERS
        )
    return FormatError(
        f"{p.target.compiler} does not compile {source}: {said[:400]}",
        where=p.name,
        hint="if it is a kernel of yours, mend it; measure=False writes the folder without compiling it",
    )


def _library(p: Project, compiler: str, size: str, folder: Path, objects: list[str]) -> int | None:
    """Bytes that the linker takes of libgcc: what a program is larger by with it. Those of libc stay open in both."""
    entry = ["-nostdlib", "-nostartfiles", "-Wl,--gc-sections", f"-Wl,-e,{p.name}_run_in", "-Wl,--unresolved-symbols=ignore-all"]
    sizes = []
    for libraries in ([], ["-lgcc"]):
        command = [compiler, *p.target.cpu_flags(p.no_float), *entry, *objects, *libraries, "-o", "linked.elf"]
        if subprocess.run(command, cwd=folder, capture_output=True).returncode:
            return None
        told = subprocess.run([size, "linked.elf"], cwd=folder, capture_output=True, text=True, check=True).stdout
        sizes.append(sum(map(int, told.splitlines()[1].split()[:2])))
    return sizes[1] - sizes[0]


def _stack(source: Path) -> int:
    """Bytes of stack of all functions of a file. An error where one takes as much as its arguments say: no number would be true."""
    usage = source.with_suffix(".su")
    rows = [line.split("\t") for line in usage.read_text().splitlines()] if usage.exists() else []
    for function, _, kind in rows:
        if kind == "dynamic":  # "dynamic,bounded" has its bound in the number
            raise FormatError(
                f"{function.rpartition(':')[2]} takes stack that is not known when compiling",
                where=source.name,
                hint="arrays of a fixed size, or scratch memory of the contract, for alloca and variable-length arrays",
            )
    return sum(int(n) for _, n, _ in rows)
