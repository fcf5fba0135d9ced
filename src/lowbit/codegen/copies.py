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

from lowbit.kernels import own_kernels, sources

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
MENTION = re.compile(r"(?<![\w/\"<])\w+\.h\b")  # of a header, in a comment
HEAD = "lb.h"
NO_FLOAT = "#define LB_NO_FLOAT /* real numbers are held in integers, and computed by them */\n"
FIXED = "base/fixed.h"  # what the header of a network without floats offers beside
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
    found: dict[str, str] = {}
    for path in INCLUDE.findall(_text(HEAD)):
        for name in re.findall(r"\b(lb_\w+_(?:params|fn))(?=;|\()", _text(path)):
            found.setdefault(name, path)
    return found


REALS = re.compile(
    r"\((?:float|double)\)|LB_DEFINE_\w+\([^)]*\bfloat\b|\b\d+\.\d*(?:[eE][-+]?\d+)?f?\b|\b0x[\da-fA-F.]+p[-+]?\d+f?\b"
    r"|immintrin|arm_neon|arm_mve"
)


def computes_in_floats(kernel: str) -> bool:
    """Whether a kernel computes reals without the functions of base/numerics.h: those of contracts in float_*.h do, others if they cast.

    Operators on reals do not show in the text of a kernel of yours. There the compiler refuses: a real is a struct without floats.
    """
    contract = _defined().get(f"lb_{kernel.rpartition('__')[0]}_fn", "")
    if basename(contract).startswith("float_"):
        return True
    seen: set[str] = {HEAD, *NUMBERS, *_defined().values()}
    wanted = [f"{kernel}.c"]
    while wanted:
        path = wanted.pop()
        if path in seen:
            continue
        seen.add(path)
        text = re.sub(r"/\*.*?\*/", " ", _text(path), flags=re.S)
        if REALS.search(text):
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
    theirs = sorted(path for path, text in files.items() if _own(path) and re.search(r"\btypedef void lb_\w+_fn\(", text))
    head, _, tail = files[HEAD].rpartition("#endif")
    files[HEAD] = head + "".join(f'#include "{path}"\n' for path in theirs) + ("\n" if theirs else "") + "#endif" + tail
    contracts |= set(theirs)
    return {_place(path): _printed(path, text, contracts, no_float) for path, text in sorted(files.items())}


def _name(path: str) -> str:
    """What a file is called in the project's folder: the last part of its path, which no two headers share, after `lb_`."""
    return path if path.endswith(".c") or path == HEAD or path not in sources.headers() else f"lb_{basename(path)}"


@cache
def _paths() -> dict[str, str]:
    """The last part of a header's path → the path."""
    return {basename(path): path for path in sources.headers()}


def _place(path: str) -> str:
    return f"{FOLDER}/{_name(path)}"


def _printed(path: str, text: str, contracts: set[str], no_float: bool) -> str:
    def include(match: re.Match[str]) -> str:
        return f'#include "{_name(match[1])}"' if path != HEAD or match[1] in contracts else ""

    out = MENTION.sub(lambda m: _name(_paths().get(m[0], m[0])), INCLUDE.sub(include, text))
    if path == HEAD:
        out = re.sub(r'(#include "[^"]+"\n)\n+(?=#include)', r"\1", re.sub(r"\n{3,}", "\n\n", out))
    if no_float and path == NUMBERS[0]:
        return out.replace(
            "#ifndef LB_NUMERICS_H\n#define LB_NUMERICS_H\n", f"#ifndef LB_NUMERICS_H\n#define LB_NUMERICS_H\n\n{NO_FLOAT}", 1
        )
    if no_float and path not in NUMBERS:
        out = re.sub(r"\bfloat\b", "lb_f32", out)
        if path.endswith(".h"):
            out = out.replace("#include <stdint.h>\n", f'#include <stdint.h>\n\n#include "{_name(NUMBERS[0])}"\n', 1)
    return out
