"""Kernels from elsewhere: a folder with contracts and C files, compiled with the machine's C compiler and known from then on.

The folder holds one header or more with contracts, written as those of lowbit are (csrc/elementwise/elementwise.h), and C files that
declare kernels and whose names end with an instruction set (kernel_table.py); `ref` is needed for each contract. They include
"base/numerics.h" and the folder's own headers. Which nodes they serve is said by `kernels_for`, as for lowbit's own.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lowbit import _native
from lowbit.arguments import path as needed
from lowbit.errors import InputError
from lowbit.kernels import kernel_table, native, sources

FLAGS = "-std=c11 -O3 -fPIC -shared -ffp-contract=off -Wall -Wextra -Wconversion"
TAIL = """
const lb_library lb_exported = {{LB_LIBRARY_ABI, {kernels}, {contracts}, lb_kernels, lb_contracts}};
"""
_libraries: dict[Path, ctypes.CDLL] = {}  # they stay loaded: plans hold addresses in them


def load_kernels(folder: str | os.PathLike[str]) -> tuple[native.Kernel, ...]:
    """The kernels of a folder, compiled for this machine and known to every plan made from now on. A folder is loaded once.

    >>> import lowbit, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         lowbit.load_kernels(Path(folder))
    ...     except lowbit.LowbitError as e:
    ...         print(type(e).__name__)  # examples/custom_rule_and_op has a folder with a kernel
    InputError
    """
    path = needed(folder, "the path of a folder").resolve()
    if path not in _libraries:
        with tempfile.TemporaryDirectory(prefix="lowbit-kernels-") as work:
            library = ctypes.CDLL(str(_compiled(path, Path(work))))
        try:
            _native.add(ctypes.addressof(ctypes.c_int.in_dll(library, "lb_exported")))
        except ValueError as error:
            raise InputError(f"kernels cannot be added: {error}", where=str(path)) from None
        _libraries[path] = library
        native.forget()
    return tuple(k for k in native.kernels() if k.contract.name in _contracts(path))


def folders() -> tuple[Path, ...]:
    """Those that were loaded."""
    return tuple(_libraries)


def sources_of_kernels() -> dict[str, str]:
    """The C text of each kernel that was loaded from a folder, "abs_difference_s8__ref"."""
    files = (path for folder in _libraries for path in _files(folder))
    return {f"{contract}__{isa}": text for path in files for (contract, isa), text in kernel_table.kernels_of(path).items()}


def _files(folder: Path) -> list[Path]:
    """The C files of a folder that this processor can hold; those of another one are left."""
    files = sorted(folder.glob("*.c"))
    if strange := [f.name for f in files if kernel_table.isa_of(f) not in sources.isas()]:
        known = ", ".join(sources.isas())
        raise InputError(
            f"{', '.join(strange)} is not named after an instruction set", where=str(folder), hint=f"<name>_<isa>.c, of {known}"
        )
    return [f for f in files if kernel_table.isa_of(f) in native.isas()]


def _contracts(folder: Path) -> dict[str, kernel_table.Contract]:
    headers = sorted(folder.glob("*.h"))
    if not headers:
        raise InputError("no header with a contract", where=str(folder), hint="write one as csrc/elementwise/elementwise.h is written")
    try:
        return kernel_table.parse_contracts("\n".join(h.read_text() for h in headers))
    except kernel_table.ContractError as error:
        raise InputError(str(error), where=str(folder)) from None


def _compiled(folder: Path, work: Path) -> Path:
    """A shared library of every kernel that this processor can hold."""
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc") or "cc"]
    contracts = _contracts(folder)
    known = {c.name for c in native.contracts().values()} & set(contracts)
    if known:
        raise InputError(f"there is a contract {', '.join(sorted(known))} already", where=str(folder), hint="give it another name")
    built = {isa: row for isa, row in sources.isas().items() if isa in native.isas()}
    files = _files(folder)
    header = work / "contracts.h"
    header.write_text("".join(f'#include "{h.name}"\n' for h in sorted(folder.glob("*.h"))))
    try:
        needs = {isa: list(row.needs) for isa, row in built.items()}
        kernels = [kernel for f in files for kernel in kernel_table.kernels_of(f)]
        table = kernel_table.table(contracts, needs, kernels, header.name)
    except kernel_table.ContractError as error:
        raise InputError(str(error), where=str(folder)) from None
    (work / "table.c").write_text(table + TAIL.format(kernels=len(kernels), contracts=len(contracts)))
    include = [f"-I{folder}", f"-I{sources.folder()}", f"-I{work}"]
    objects = []
    for file in [*files, work / "table.c"]:
        isa = built.get(kernel_table.isa_of(file))
        objects.append(str(work / f"{file.stem}.o"))
        _run(
            [*compiler, *FLAGS.replace("-shared", "-c").split(), *(isa.flags if isa else ()), *include, str(file), "-o", objects[-1]],
            folder,
        )
    library = work / ("kernels.dll" if sys.platform == "win32" else "kernels.so")
    _run([*compiler, *FLAGS.split(), *objects, "-o", str(library)], folder)
    return library


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"no C compiler: {error}", where=str(folder), hint="install one, or name it by CC") from None
    if done.returncode:
        raise InputError(f"the C compiler refuses it:\n{done.stderr.strip()}", where=str(folder))
