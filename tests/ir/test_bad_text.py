"""A .lowbit file is text from anywhere: whatever stands in it loads, or is refused by a LowbitError."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import lowbit
from lowbit.dims import symbol
from lowbit.errors import FormatError, LowbitError
from lowbit.ir.build import Builder
from lowbit.ir.text import parse_graph, print_graph
from lowbit.ir.verify import verify
from lowbit.types import TensorType


def text() -> str:
    """A graph with a value of every kind in it."""
    b, n = Builder("g"), symbol("n")
    x = b.input("x", TensorType((n, 4), "float32"))
    product = b.add("mul", x, b.constant(np.array([1.5, -2, 3, 4], np.float32), name="w"), name="m")
    clipped = b.add("clip", product, min=-1.0, max=float("inf"))
    y = b.add("slice", clipped, axes=(0,), starts=(n // 2,), ends=(5,), steps=(1,))
    return print_graph(b.finish({"y": y, "i": b.constant(np.array([1, 2, 3]), name="i"), "t": b.constant(np.array([True]), name="t")}))


SCRAPS = """
    [ ] < > ( ) { } " \\ nan fnan finf -1 _ @ = : , null true 1.5 min( max( n ** <n//0> int4 float64 complex64 sha256:00 const input
    assume 0x1p+9999 999999999999999999999 "\\ud800" 1x""".split()  # noqa: SIM905 (a list of quotes is hard to read)
SCRAPS += ["9" * 5000, "[" * 3000, "(" * 300, "\0", "\ud800"]


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_text_is_a_graph_or_is_refused(data: st.DataObject) -> None:
    now = text()
    for _ in range(data.draw(st.integers(1, 3))):
        at, gone = data.draw(st.integers(0, len(now))), data.draw(st.integers(0, 5))
        now = now[:at] + data.draw(st.sampled_from(["", *SCRAPS])) + now[at + gone :]
    with contextlib.suppress(LowbitError):
        verify(parse_graph(now))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('const "c": float32[3] = 5', r"'' found, \[3 elements\] needed"),
        ('const "c": int8[1] = [999999]', "OverflowError"),
        ('const "c": float32[1] = ["a"]', "ValueError"),
        ('const "c": float32[1] = [0x1p+9999]', "OverflowError"),
        ('const "c": float32[1] = ' + "[" * 3000, "RecursionError"),
        ('const "c": float32[1] = [' + "9" * 5000 + "]", "ValueError"),
    ],
)
def test_what_python_cannot_hold_is_refused_with_its_line(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"line 2.*{said}"):
        parse_graph("\n" + line)
    meta = {"version": 1, "bytes": {}, "packed": {}, "notes": {}, "graph": "\n" + line}
    save_file({}, tmp_path / "m.lowbit", metadata={"lowbit": json.dumps(meta)})
    with pytest.raises(FormatError, match=said):
        lowbit.load(tmp_path / "m.lowbit")


@pytest.mark.parametrize("meta", ["[" * 100_000, "5", "{}", '{"version": 1, "graph": "", "bytes": {"a": 5}, "packed": {}}'])
def test_metadata_that_are_none_are_refused(meta: str, tmp_path: Path) -> None:
    save_file({}, tmp_path / "m.lowbit", metadata={"lowbit": meta})
    with pytest.raises(FormatError, match=r"m\.lowbit"):
        lowbit.load(tmp_path / "m.lowbit")
