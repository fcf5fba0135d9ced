"""Names from hostile models cannot become C: whatever they hold, the code is that of a network with plain names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import compile_all
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lowbit
from lowbit.codegen.names import KEYWORDS, Names, cell, comment, identifier
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import TensorType

CLAMP = {"x_zero": 1, "y_zero": -2, "lo": -128, "hi": 127, "to": "int8", "bound": 1 << 20}
HOSTILE = [
    '*/ int x = system("rm -rf /"); /*', "a\nb\\\n#include </etc/passwd>", "??/\n*??/\n/", "int", "\x00\x1b[31m", "x" * 5000,
    "é\u2028\u202e", "`|<b>$(id)",
    "run", "run_in", "arena", "in", "x_count", "x", "X", "lb_linear_s8", "main", "__VA_ARGS__", "%s%n", '"', "'", "//", "",
]  # fmt: skip
names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.text(alphabet="*/\\?\n#\"'()xX_0 .", max_size=12))


def network(a: str, b: str, first: str, second: str, out: str) -> Graph:
    """Two inputs through one layer each, added; every name is given."""
    build = Builder(a)
    rng = np.random.default_rng(0)

    left, right = (build.input(x, TensorType((2, 3), "int8")) for x in (a, b))

    def layer(x: Value, name: str) -> Value:
        w = build.constant(rng.integers(-128, 128, (4, 3)).astype(np.int8), name=f"{name}:w")
        m = build.constant(np.full(4, 1e-2, np.float32), name=f"{name}:m")
        return build.add("q_linear", x, w, m, name=name, **CLAMP)

    y, z = layer(left, first), layer(right, second)
    total = build.add("q_add", y, z, name=first, x_zero=1, y_zero=2, z_zero=3, mx=0.5, my=0.25, lo=-128, hi=127, to="int8")
    return build.finish({out: total, f"{out}2": y})


def code(text: str) -> list[str]:
    """The tokens without comments, and with one word for every name that follows from the model's."""
    plain = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    mine = re.sub(r"\b(layer|model|in|out|known|got|known_in|MODEL_IN|MODEL_OUT)_\w+", "NAME", plain)
    return re.findall(r"\w+|[^\w\s]", mine)


PLAIN = lowbit.emit_c(network("a", "b", "first", "second", "out"), None, measure=False).files


@settings(max_examples=60, deadline=None)
@given(names, names, names, names, names)
@example("x", "x_count", "run", "run_in", "arena")
@example("x_count", "x", "a.b", "a_b", "y")
@example(HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[0], HOSTILE[5])
def test_code_does_not_depend_on_names(a: str, b: str, first: str, second: str, out: str) -> None:
    if a == b or not a or not b:
        b, a = b + "b", a + "a"
    files = lowbit.emit_c(network(a, b, first, second, out), None, measure=False).files
    assert files.keys() == PLAIN.keys()
    for path in ("model.h", "model.c", "weights.h", "weights.c", "selftest.c"):
        assert code(files[path]) == code(PLAIN[path]), path
        assert files[path].isascii() and "\\" not in files[path].replace("\\n", "") and "??" not in files[path]
    for path in ("Makefile", "CMakeLists.txt"):
        assert files[path] == PLAIN[path]
    assert len(files["README.md"].splitlines()) == len(PLAIN["README.md"].splitlines())


@pytest.mark.parametrize("k", range(0, len(HOSTILE) - 4, 4))
def test_hostile_names_compile(k: int, tmp_path: Path) -> None:
    a, b, first, second, *_ = HOSTILE[k:] + HOSTILE
    folder = tmp_path / "c"
    lowbit.emit_c(network(f"{a}a", b or "b", first, second, "x"), folder, measure=False)
    compile_all(folder, tmp_path / "selftest", extra=(folder / "selftest.c",))


WORDS = [
    "NULL",
    "EOF",
    "INT8_MAX",
    "unix",
    "linux",
    "int",
    "_Bool",
    "state",
    "reset",
    "a",
    "I",
    "errno",
    "memcpy",
    "lb_f32",
    "class",
    "this",
]


def test_hostile_names_of_states_compile(tmp_path: Path) -> None:
    """Each as it is: nothing is put behind a name that would make another word of it."""
    build = Builder("states")
    total = build.input("first", TensorType((2, 3), "int8"))
    state = {name: f"{name}:next" for name in [*filter(None, HOSTILE), *WORDS, *(k for k in sorted(KEYWORDS) if k not in WORDS + HOSTILE)]}
    values = {name: build.input(name, TensorType((2, 3), "int8")) for name in state}
    outputs = {}
    for name, out in state.items():
        zeros = {"x_zero": 1, "y_zero": 2, "z_zero": 3, "mx": 0.5, "my": 0.25, "lo": -128, "hi": 127, "to": "int8"}
        total = outputs[out] = build.add("q_add", total, values[name], name=name, **zeros)
    folder = tmp_path / "c"
    files = lowbit.emit_c(build.finish({"y": total, **outputs}), folder, state=state, measure=False).files
    compile_all(folder, tmp_path / "selftest", flags=("-std=gnu11",), extra=(folder / "selftest.c",))  # where unix and linux are macros
    header = files["model.h"]
    assert all(f"int8_t s_{word.strip('_')}[6];" in header for word in ("NULL", "EOF", "INT8_MAX", "unix", "int"))
    assert header.isascii() and "??" not in header and "system(" not in re.sub(r"/\*.*?\*/", "", header)


@given(st.text())
def test_identifiers_are_letters_digits_and_single_underscores(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*", identifier(name)) and len(identifier(name)) <= 48


@given(st.lists(names, max_size=20))
def test_identifiers_are_given_once_whatever_the_case(given_names: list[str]) -> None:
    book = Names(["Taken"])
    made = [book.new(n, suffixes=("_count",)) for n in given_names]
    lower = [m.lower() for m in made] + [m.lower() + "_count" for m in made]
    assert len(set(lower)) == len(lower) and not {"taken", *KEYWORDS} & set(lower)
    assert all(re.fullmatch(r"[A-Za-z]\w*", m) for m in made)


@given(st.text())
def test_comments_stay_one_comment_in_one_line(text: str) -> None:
    made = comment(text)
    assert "*/" not in f"{made} " and "/*" not in made and "??" not in made and "\\" not in made
    assert not made or (made.isprintable() and made.isascii())
    assert cell(text).count("|") == cell(text).count("\\|")
