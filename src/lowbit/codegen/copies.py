"""The kernels that a plan calls, with the headers that they include and no others, as they stand in a generated project.

All stand in one folder, so that the project needs no include path: a kernel in a file of its own, `linear_s8__ref.c`, and the header
base/numerics.h as `lb_numerics.h`. Of lb.h only the contracts that are used stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from posixpath import basename

from lowbit.kernels import kernel_table, own_kernels, sources

INCLUDE = re.compile(r'^#include "([^"]+)"(?: /\*.*\*/)?', re.M)
MENTION = re.compile(r"(?<![\w/\"<])\w+\.h\b")  # of a header, in a comment
HEAD = "lb.h"
NO_FLOAT = "#define LB_NO_FLOAT /* real numbers are held in integers, and computed by them */\n"
FIXED = "base/fixed.h"  # additional names of the header of a network without floats
NUMBERS = ("base/numerics.h", "base/soft.h")  # files that know both ways of computing
FOLDER = "kernels"


def _own(path: str) -> Path | None:
    """The header of a folder that `load_kernels` was given."""
    return next((f / path for f in own_kernels.folders() if (f / path).is_file()), None)


def _text(path: str) -> str:
    """The text of a header, by its path in csrc/ or in a folder of one's own, or of a kernel ("conv_s8__ref.c")."""
    if path.endswith(".c"):
        kernel = path.removesuffix(".c")
        return sources.kernels().get(kernel) or own_kernels.sources_of_kernels()[kernel]
    own = None if path in sources.headers() else _own(path)
    return own.read_text() if own else sources.headers()[path]


@cache
def _defined() -> dict[str, str]:
    """Params struct or function type → the header that defines it."""
    found = {}
    for path, text in sources.headers().items():
        for name in kernel_table.CONTRACT.findall(text):
            found[f"lb_{name}_params"] = found[f"lb_{name}_fn"] = path
    return found


FLOATS = frozenset(["float", "double", "immintrin", "arm_neon", "arm_mve"])


def computes_in_floats(kernel: str) -> bool:
    """Whether a kernel names a type of floats: one that may run without them calls reals lb_f32 (base/numerics.h)."""
    wanted, seen = [f"{kernel}.c"], {HEAD, *NUMBERS}
    while wanted:
        path = wanted.pop()
        if path in seen:
            continue
        seen.add(path)
        text = re.sub(r"/\*.*?\*/", " ", _text(path), flags=re.S)
        if not FLOATS.isdisjoint(re.findall(r"\w+", text)):
            return True
        wanted += INCLUDE.findall(text)
    return False


def copies(kernels: Iterable[str], no_float: bool = False) -> dict[str, str]:
    """Path in the project → text, of the kernels ("conv_s8__ref") and what they include."""
    wanted = [HEAD, NUMBERS[0], *([FIXED] if no_float else []), *(f"{kernel}.c" for kernel in dict.fromkeys(kernels))]
    files: dict[str, str] = {}
    contracts: set[str] = set()
    while wanted:
        path = wanted.pop()
        if path in files:
            continue
        text = files[path] = _text(path)
        if path == HEAD:
            continue  # its own includes are those that somebody needs
        includes = INCLUDE.findall(text)
        used = {_defined()[name] for name in set(re.findall(r"\blb_\w+_(?:params|fn)\b", text)) if name in _defined()}
        contracts |= used | set(includes) & set(_defined().values())
        wanted += [*used, HEAD, *includes]
    contracts |= {path for path, text in files.items() if _own(path) and kernel_table.CONTRACT.search(text)}
    return {_place(path): _printed(path, text, contracts, no_float) for path, text in sorted(files.items())}


def _name(path: str) -> str:
    """The name of a file in the project's folder: `lb_` and the last part of its path, which no two headers share."""
    return path if path.endswith(".c") or path == HEAD or path not in sources.headers() else f"lb_{basename(path)}"


@cache
def _paths() -> dict[str, str]:
    """The last part of a header's path → the path."""
    return {basename(path): path for path in sources.headers()}


def _place(path: str) -> str:
    return f"{FOLDER}/{_name(path)}"


def _printed(path: str, text: str, contracts: set[str], no_float: bool) -> str:
    """The text with includes by the names that files have here; of lb.h with the contracts that are used."""

    def include(match: re.Match[str]) -> str:
        named = sorted(contracts) if match[1] == kernel_table.CONTRACTS else [match[1]]
        return "\n".join(f'#include "{_name(path)}"' for path in named)

    out = MENTION.sub(lambda m: _name(_paths().get(m[0], m[0])), INCLUDE.sub(include, text))
    if no_float and path == NUMBERS[0]:
        guard = "#ifndef LB_NUMERICS_H\n#define LB_NUMERICS_H\n"
        return out.replace(guard, f"{guard}\n{NO_FLOAT}", 1)
    return out
