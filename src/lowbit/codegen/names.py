"""Names from a model as C identifiers and comments: whatever they hold, they cannot end a comment or begin a statement."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 48
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern float for goto if inline int long main register restrict "
        "return short signed sizeof static struct switch typedef union unsigned void volatile while",
    )
)
FILES = frozenset(["weights", "selftest"])  # of every project, beside model.c and model.h
HEADERS = frozenset(
    re.findall(
        r"\w+",
        "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool stddef "
        "stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype",
    )
)
TARGETS = frozenset(["all", "clean", "edit_cache", "help", "install", "package", "package_source", "preinstall", "rebuild_cache", "test"])


def reserved(name: str) -> str | None:
    """Why C keeps the name, which is an identifier, for itself; None if it does not."""
    small = name.lower()
    if small == "main":
        return "main is where a program begins"
    return f"{small} is a keyword of C" if small in KEYWORDS else None


def unusable(name: str) -> str | None:
    """Why a project cannot have the name, which is an identifier; None if it can. Letter case tells no two files apart everywhere.

    >>> unusable("model"), unusable("Weights")
    (None, "Weights.c, Weights.h would be in the way of the project's weights.c, weights.h")
    """
    small = name.lower()
    if reserved(name) is not None:
        return reserved(name)
    if small in FILES:
        return f"{name}.c, {name}.h would be in the way of the project's {small}.c{f', {small}.h' if small == 'weights' else ''}"
    if small == "lb" or small.startswith("lb_"):
        return "lb_ begins the symbols and the header guards of the kernels"
    if small in HEADERS:
        return f"{name}.h would be in the way of <{small}.h>"
    if small in TARGETS:
        return f"CMake has a target {small} of its own"
    return None


def identifier(name: str) -> str:
    """Letters, digits and single underscores of the name, none at its ends; "x" if there are none. May begin with a digit.

    >>> identifier("layer1.0/conv-2"), identifier("*/ exit(1); /*"), identifier("\N{SNOWMAN}")
    ('layer1_0_conv_2', 'exit_1', 'x')
    """
    return re.sub(r"[^A-Za-z0-9]+", "_", name[: 4 * LONGEST]).strip("_")[:LONGEST].strip("_") or "x"


class Names:
    """Identifiers that are given once: the second layer of a name gets a number after it. Letter case is not enough to tell two apart."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {t.lower() for t in taken} | KEYWORDS

    def new(self, name: str, prefix: str = "", suffixes: Iterable[str] = ()) -> str:
        """An identifier that is not taken, nor is any of those that it makes with the suffixes."""
        base = prefix + identifier(name)
        base = base if base[0].isalpha() else f"x{base}"
        found, n, ends = base, 2, ("", *suffixes)
        while any((found + end).lower() in self._taken for end in ends):
            found, n = f"{base}_{n}", n + 1
        self._taken |= {(found + end).lower() for end in ends}
        return found


def comment(text: str) -> str:
    """The text for one line of a C comment: printable ASCII that neither ends nor nests one, and makes no trigraph or line splice.

    >>> comment("a */ b \\ ??/ c")
    'a * / b / ?_?_/ c'
    """
    plain = "".join(c if " " <= c <= "~" else "?" for c in text[: 8 * LONGEST])
    plain = plain.replace("\\", "/").replace("??", "?_?_")
    while "*/" in plain or "/*" in plain:
        plain = plain.replace("*/", "* /").replace("/*", "/ *")
    return plain


def cell(text: str) -> str:
    """The text for a cell of a Markdown table: no markup, no cell borders."""
    return re.sub(r"([|<>`\[\]_*~#&])", r"\\\1", comment(text))
