"""Bars: after a second, on a terminal, one at a time; and every long loop has one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_networks import network

import lowbit
from lowbit import progress as module
from lowbit.progress import progress

DEMO = str(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx")


class Bar:
    """Tells what it was asked to show."""

    open = 0
    told: list[str] = []  # noqa: RUF012

    def start(self) -> None:
        Bar.open += 1
        assert Bar.open == 1, "two bars at once"

    def stop(self) -> None:
        Bar.open -= 1

    def add_task(self, what: str, **_: Any) -> int:
        Bar.told.append(what)
        return 0

    def update(self, *_: Any, **__: Any) -> None:
        pass


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(module, "_bar", Bar)
    Bar.told = []
    yield Bar.told
    assert Bar.open == 0


def test_a_loop_inside_a_loop_with_a_bar_has_none(terminal: list[str]) -> None:
    assert [x for _ in progress(range(2), "outer") for x in progress(range(2), "inner")] == [0, 1, 0, 1]
    assert terminal == ["outer"]
    assert list(progress([7], "later")) == [7] and terminal == ["outer", "later"]


def test_a_bar_goes_with_the_loop_that_breaks(terminal: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        for _ in progress([0], "broken"):
            _ = 1 / 0
    list(progress([1], "next"))
    assert terminal == ["broken", "next"]


def test_loading_simplifying_running_and_trying_show_where_they_are(terminal: list[str]) -> None:
    from lowbit.ir.interp import run

    g = lowbit.load(DEMO)
    run(g, {g.inputs[0].name: np.zeros((1, 1, 28, 28), np.float32)})
    lowbit.auto_quantize(np.arange(4.0))
    assert {"loading", "simplifying, round 1", "running", "trying parameters", "trying to clip"} <= set(terminal)


def test_compiling_c_shows_where_it_is(terminal: list[str]) -> None:
    lowbit.emit_c(network(), None)
    assert "compiling" in terminal


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(module, "_bar", None)
    assert list(progress([1, 2], "silent")) == [1, 2]


def test_an_inspection_prints_as_a_table() -> None:
    found = lowbit.inspect(lowbit.load(DEMO, shapes={"batch": 1}))
    lines = str(found).splitlines()
    assert lines[1].split() == ["#", "layer", "op", "output", "parameters", "MACs"]
    assert len(lines) == len(found.rows) + 3 and lines[2].split()[:1] == ["0"]
    assert f"{found.macs:,} MACs" in lines[-1]
    assert "<pre>" in found._repr_html_()
