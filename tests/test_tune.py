"""Tuning chooses among ways that all give the same bits, measures a layer once, and never fails for want of a cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_plan import CLAMP, conv, inputs, network

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate, run
from lowbit.plan import Packed, Target, physical
from lowbit.plan.build import build
from lowbit.plan.choices import Choices, signature
from lowbit.plan.kernels.products import QUADS
from lowbit.runtime import native, tune
from lowbit.runtime.program import Native
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and few rounds: what is fastest is no matter here."""
    monkeypatch.setenv("LOWBIT_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "ROUNDS", 1)
    return tmp_path


def one_convolution(size: int = 18, channels: int = 32, kernel: int = 3) -> Graph:
    b = Builder("one")
    x = b.input("x", TensorType((1, channels, size, size), "int8"))
    return physical(b.finish({"y": conv(b, x, 24, "c", kernel)}))


def one_linear(rows: int) -> Graph:
    b = Builder("one")
    rng = np.random.default_rng(0)
    w = b.constant(rng.integers(-128, 128, (40, 70)).astype(np.int8))
    m = b.constant(rng.uniform(1e-4, 1e-3, 40).astype(np.float32))
    x = b.input("x", TensorType((rows, 70), "int8"))
    return b.finish({"y": b.add("q_linear", x, w, m, x_zero=3, y_zero=-5, **CLAMP, bound=1 << 24)})


def questions(graph: Graph, target: Target) -> dict[str, tuple[Any, ...]]:
    asked: dict[str, tuple[Any, ...]] = {}
    build(graph, Target(target.isa, target.threads, choices=Choices({}, asked)))
    return asked


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "graph",
    [one_convolution(), one_convolution(9, 40), one_convolution(7, 3, 5), one_convolution(8, 17, 1), one_linear(1), one_linear(50)],
    ids=["3x3", "3x3 small", "stem", "1x1", "one row", "rows"],
)
def test_every_way_gives_the_bits_of_the_interpreter(graph: Graph, threads: int) -> None:
    rng = np.random.default_rng(1)
    x = {v.name: rng.integers(-128, 128, [int(d) for d in v.shape]).astype(np.int8) for v in graph.inputs}
    want = next(iter(run(graph, x).values()))
    node = next(n for n in graph.nodes if n.op in ("q_conv_nhwc", "q_linear"))
    found = questions(graph, Target(threads=threads))
    one_way = node.op == "q_linear" and len(x["x"]) == 1 and native.best("linear_s8").isa in QUADS  # one layout, and one row is one block
    assert found or one_way
    for question, options in found.items():
        for option in options:
            env: dict[str, Any] = dict(x)
            Native(graph, Target(threads=threads, choices=Choices({signature(node): {question: option}})), Packed()).run(env)
            assert np.array_equal(env[next(iter(graph.outputs.values())).name], want), (question, option)


def test_a_tuned_session_gives_the_same_bits_and_remembers_what_it_measured(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = network()
    x = inputs(g)
    want = run(g, x)
    got = Session(g, threads=2, tune=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)
    (path,) = (cache / "tuned").iterdir()
    rows = json.loads(path.read_text())
    assert any(name.startswith("q_conv_nhwc") for name in rows)
    monkeypatch.setattr(tune, "fastest", lambda *_: pytest.fail("measured again"))
    got = Session(g, threads=2, tune=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_a_layer_is_measured_once_however_often_it_stands_in_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder("twins")
    x = b.input("x", TensorType((1, 8, 6, 6), "int8"))
    g = b.finish({"y": conv(b, conv(b, x, 8, "one"), 8, "two")})
    seen: list[str] = []
    monkeypatch.setattr(tune, "fastest", lambda graph, name, *_: seen.append(name) or {})
    Session(g, threads=1, tune=True)
    assert len([name for name in seen if name.startswith("q_conv")]) == 1


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 5}', "{"])
def test_a_damaged_cache_is_measured_anew(cache: Path, content: str) -> None:
    path = tune.cache_file(Target())
    path.parent.mkdir(parents=True)
    path.write_text(content)
    g = network()
    Session(g, threads=1, tune=True)
    assert isinstance(json.loads(path.read_text()), dict)


def test_without_a_place_to_remember_it_tunes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOWBIT_CACHE", str(tmp_path / "file" / "below"))
    g = network()
    x = inputs(g)
    want, got = run(g, x), Session(g, threads=1, tune=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_choices_that_do_not_fit_a_layer_are_not_taken() -> None:
    g = one_convolution()
    node = next(n for n in g.nodes if n.op == "q_conv_nhwc")
    plan = build(g, Target(choices=Choices({signature(node): {"way": "by magic", "tiles at once": "6"}})))
    assert plan.steps == build(g, Target()).steps


def test_weights_are_kept_in_the_chosen_layout_alone() -> None:
    session = Session(network(), threads=1, tune=True)
    names = [name for name, *_ in session._packed]
    assert names and len(names) == len(set(names))


def test_layers_are_measured_on_what_the_layers_before_them_give(monkeypatch: pytest.MonkeyPatch) -> None:
    g = physical(network())
    seen: dict[str, Array] = {}

    def fastest(graph: Graph, name: str, target: Target, values: dict[str, Array]) -> dict[str, str]:
        seen.update((v.name, values[v.name].copy()) for v in graph.inputs)
        return {}

    monkeypatch.setattr(tune, "fastest", fastest)
    tune.tuned(g, Target(threads=1))
    inside = [name for name in seen if name not in {v.name for v in g.inputs}]
    want = evaluate(g, tune.made_up(g), keep=inside)
    assert len(inside) >= 3 and all(np.array_equal(seen[name], want[name]) for name in inside)


@pytest.mark.parametrize("pays", [True, False])
def test_what_makes_the_network_slower_is_not_kept(pays: bool, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = physical(one_convolution())
    monkeypatch.setattr(tune, "best_of", lambda ways, env: list(ways)[-1])
    monkeypatch.setattr(tune, "faster", lambda *_: pays)
    chosen = tune.tuned(g, Target(threads=1))
    node = next(n for n in g.nodes if n.op == "q_conv_nhwc")
    (path,) = (cache / "tuned").iterdir()
    kept = json.loads(path.read_text())[signature(node)]
    assert dict(chosen.choices.made[signature(node)]) == kept and bool(kept) == pays


def test_the_answers_of_the_cost_model_are_not_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "best_of", lambda ways, env: next(iter(ways)))
    monkeypatch.setattr(tune, "faster", lambda *_: pytest.fail("nothing to compare"))
    assert not any(tune.tuned(physical(one_convolution()), Target(threads=1)).choices.made.values())


def test_one_lucky_measurement_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [{"a": 10.0, "b": 9.0, "c": 5.0}, {"a": 10.0, "c": 9.9}]
    monkeypatch.setattr(tune, "least_times", lambda ways, env: {option: times[0 if len(ways) == 3 else 1][option] for option in ways})
    assert tune.best_of({"a": [], "b": [], "c": []}, {}) == "a"
    times[1]["c"] = 9.0
    assert tune.best_of({"a": [], "b": [], "c": []}, {}) == "c"


@pytest.mark.parametrize("tuned", [1.0, 3.0])
def test_a_network_is_timed_by_its_native_parts(tuned: float, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    x = b.input("x", TensorType((3, 8), "int8"))
    table = b.constant(np.arange(256).astype(np.uint8).view(np.int8), name="t")
    interpreted = b.add("depth_to_space", b.add("reshape", b.add("q_table", x, table), shape=(1, 24, 1, 1)), block=2, mode="DCR")
    g = b.finish({"y": b.add("q_table", interpreted, table)})

    def least_times(ways: dict[str, list[Native]], env: dict[str, Array]) -> dict[str, float]:
        for parts in ways.values():
            assert len(parts) == 2
            for part in parts:
                part.run({v.name: env[v.name] for v in part.plan.inputs})
        return dict(zip(ways, (2.0, tuned), strict=True))

    monkeypatch.setattr(tune, "least_times", least_times)
    assert tune.faster(g, Target(threads=1), Target(threads=1), tune.made_up(g)) == (tuned < 2)
