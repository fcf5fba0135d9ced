"""The kernels that a plan calls, with the headers that they include and no others, as they stand in a generated project.

Paths of includes are made relative to the file, so that the project needs no include path. Of lb.h only the contracts that are used stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from posixpath import dirname, normpath, relpath

from lowbit.kernels import own_kernels, sources

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
HEAD = "lb.h"
NO_FLOAT = "#define LB_NO_FLOAT /* real numbers are held in integers, and computed by them */\n"
FIXED = "lb_fixed.h"  # what the header of a network without floats offers beside
NUMBERS = ("lb_numerics.h", "lb_soft.h")  # files that know both ways of computing


def _own(path: str) -> Path | None:
    """The file of a folder that `load_kernels` was given."""
    return next((f / Path(path).name for f in own_kernels.folders() if (f / Path(path).name).is_file()), None)


def _text(path: str) -> str:
    own = _own(path) if not (sources.folder() / path).is_file() else None
    return (own or sources.folder() / path).read_text()


def _exists(path: str) -> bool:
    return (sources.folder() / path).is_file()


def _found(include: str, by: str) -> str:
    """The file that an include means: beside the one that includes it, or in csrc/."""
    beside = normpath(f"{dirname(by)}/{include}") if dirname(by) else include
    return beside if _exists(beside) else include


@cache
def _defined() -> dict[str, str]:
    """Params struct or function type → the file of contracts/ that defines it."""
    found: dict[str, str] = {}
    for path in INCLUDE.findall(_text(HEAD)):
        for name in re.findall(r"\b(lb_\w+_(?:params|fn))(?=;|\()", _text(path)):
            found.setdefault(name, path)
    return found


def kernel_file(kernel: str) -> str:
    return f"kernels/{kernel}.c"


REALS = re.compile(
    r"\((?:float|double)\)|LB_DEFINE_\w+\([^)]*\bfloat\b|\b\d+\.\d*(?:[eE][-+]?\d+)?f?\b|\b0x[\da-fA-F.]+p[-+]?\d+f?\b"
    r"|immintrin|arm_neon|arm_mve"
)


def computes_in_floats(kernel: str) -> bool:
    """Whether a kernel computes reals without the functions of lb_numerics.h: those of contracts/float_*.h do, others if they cast.

    Operators on reals do not show in the text of a kernel of yours. There the compiler refuses: a real is a struct without floats.
    """
    contract = _defined().get(f"lb_{kernel.rpartition('__')[0]}_fn", "")
    if contract.startswith("contracts/float_"):
        return True
    seen: set[str] = set()
    wanted = [kernel_file(kernel)]
    while wanted:
        path = wanted.pop()
        if path in seen or path in NUMBERS or path == HEAD or path.startswith("contracts/"):
            continue
        seen.add(path)
        text = re.sub(r"/\*.*?\*/", " ", _text(path), flags=re.S)
        if REALS.search(text):
            return True
        wanted += [_found(i, path) for i in INCLUDE.findall(text)]
    return False


def copies(kernels: Iterable[str], no_float: bool = False) -> dict[str, str]:
    """Path in the project → text, of the kernels ("conv_s8__ref") and what they include."""
    wanted = [HEAD, NUMBERS[0], *([FIXED] if no_float else []), *map(kernel_file, dict.fromkeys(kernels))]
    files: dict[str, str] = {}
    contracts: set[str] = set()
    while wanted:
        path = wanted.pop()
        if path in files:
            continue
        text = files[path] = _text(path)
        if path == HEAD:
            continue  # its own includes are those that somebody needs
        used = {_defined()[name] for name in set(re.findall(r"\blb_\w+_(?:params|fn)\b", text)) if name in _defined()}
        contracts |= used
        wanted += [*used, HEAD, *(_found(i, path) for i in INCLUDE.findall(text))]
        contracts |= {i for i in INCLUDE.findall(text) if i.startswith("contracts/")}
    theirs = sorted(path for path, text in files.items() if not _exists(path) and re.search(r"\btypedef void lb_\w+_fn\(", text))
    head, _, tail = files[HEAD].rpartition("#endif")
    files[HEAD] = head + "".join(f'#include "{path}"\n' for path in theirs) + ("\n" if theirs else "") + "#endif" + tail
    contracts |= set(theirs)
    return {_place(path): _printed(path, text, contracts, no_float) for path, text in sorted(files.items())}


def _place(path: str) -> str:
    return path if path.startswith("kernels/") else f"kernels/{path}"


def _printed(path: str, text: str, contracts: set[str], no_float: bool) -> str:
    here = dirname(_place(path))

    def include(match: re.Match[str]) -> str:
        found = _found(match[1], path)
        return f'#include "{relpath(_place(found), here)}"' if path != HEAD or found in contracts else ""

    out = re.sub(r"\n{3,}", "\n\n", INCLUDE.sub(include, text)) if path == HEAD else INCLUDE.sub(include, text)
    if path == HEAD:
        out = re.sub(r'(#include "[^"]+"\n)\n+(?=#include)', r"\1", out)
    if no_float and path == NUMBERS[0]:
        return out.replace(
            "#ifndef LB_NUMERICS_H\n#define LB_NUMERICS_H\n", f"#ifndef LB_NUMERICS_H\n#define LB_NUMERICS_H\n\n{NO_FLOAT}", 1
        )
    if no_float and path not in NUMBERS:
        out = re.sub(r"\bfloat\b", "lb_f32", out)
        if path.endswith(".h"):
            numbers = relpath(_place(NUMBERS[0]), here)
            out = out.replace("#include <stdint.h>\n", f'#include <stdint.h>\n\n#include "{numbers}"\n', 1)
    return out
