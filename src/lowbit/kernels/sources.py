"""The C sources of the kernels, which come with lowbit: plans for other machines choose from them, and generated C copies them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lowbit import _native
from lowbit.errors import InputError
from lowbit.kernels import kernel_table, native


def folder() -> Path:
    """Where lb.h and the families' folders are: beside the compiled kernels, from the same build."""
    return Path(_native.__file__).parent / "csrc"


@cache
def kernels() -> dict[str, str]:
    """The C text of each kernel, "linear_s8__avx2", also of those that this build leaves out."""
    texts = (kernel_table.kernels_of(path) for path in kernel_table.kernel_files(folder()))
    return {f"{contract}__{isa}": text for of_file in texts for (contract, isa), text in of_file.items()}


@cache
def headers() -> dict[str, str]:
    """The headers that kernels include: path in csrc/ → text."""
    return {path.relative_to(folder()).as_posix(): path.read_text() for path in sorted(folder().rglob("*.h"))}


@cache
def digest() -> str:
    """A name for this version of the kernels: packed weights and measurements are valid for it alone."""
    found = hashlib.sha256()
    for source in sorted([*folder().rglob("*.h"), *folder().rglob("*.c")]):
        found.update(source.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Isa:
    """A row of isas.txt: processor, CPU features that it needs, compiler flags."""

    name: str
    processor: str
    needs: tuple[str, ...]
    flags: tuple[str, ...]


@cache
def isas() -> dict[str, Isa]:
    """Every instruction set that kernels may be written for, worst first."""
    rows = {}
    for line in (folder() / "isas.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, processor, needs, flags = (cell.strip() for cell in line.split("|"))
            rows[name] = Isa(name, processor, tuple(needs.split()), tuple(flags.split()))
    return rows


@cache
def kernel(contract: str, wanted: tuple[str, ...]) -> native.Kernel:
    """The implementation for the first of the wanted instruction sets that has one, whether this machine can run it or not."""
    for isa in wanted:
        built = [k for k in native.of(contract) if k.isa == isa]
        if built or f"{contract}__{isa}" in kernels():
            return built[0] if built else native.Kernel(native.contracts()[contract], isa, False, -1)
    raise InputError(f"{contract} has no kernel for {', '.join(wanted)}", hint="`ref` is there for every contract")
