"""Tuning chooses among ways that all give the same bits, measures a layer once, and never fails for want of a cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_networks import CLAMP, conv, inputs, network

from lowbit.dims import symbol
from lowbit.errors import LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate, run
from lowbit.kernels import native
from lowbit.plan import Packed, Target, physical
from lowbit.plan.build import build
from lowbit.plan.choices import Choices, signature
from lowbit.plan.kernels.products import DOT4
from lowbit.runtime import tune
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
    one_way = node.op == "q_linear" and len(x["x"]) == 1 and native.best("linear_s8").isa in DOT4  # one layout, and one row is one block
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
    assert any(name.startswith("q_conv_nhwc") and answers for name, answers in rows["layers"].items())
    for measuring in ("fastest", "pays"):
        monkeypatch.setattr(tune, measuring, lambda *_: pytest.fail("measured again"))
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
    with pytest.warns(LowbitWarning, match=r"what tuning measured cannot be kept in .*LOWBIT_CACHE names a folder"):
        session = Session(g, threads=1, tune=True)
    want, got = run(g, x), session.run(x)
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


def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Array]]:
    """What layers are measured on, by their signatures, instead of measuring them."""
    seen: dict[str, dict[str, Array]] = {}

    def fastest(graph: Graph, name: str, target: Target, values: dict[str, Array], usual: Any) -> dict[str, str]:
        seen[name] = dict(values)
        return {}

    monkeypatch.setattr(tune, "fastest", fastest)
    return seen


def test_layers_are_measured_on_what_the_layers_before_them_give(monkeypatch: pytest.MonkeyPatch) -> None:
    g = physical(network())
    seen = recorded(monkeypatch)
    tune.tuned(g, Target(threads=1))
    inputs = {v.name for v in g.inputs}
    given = next(iter(seen.values()))
    values = {name: x for alive in seen.values() for name, x in alive.items() if name not in inputs}
    want = evaluate(g, {name: given[name] for name in inputs}, keep=values)
    assert len(values) >= 3 and all(np.array_equal(values[name], want[name]) for name in values)
    assert max(map(len, seen.values())) < len(values)  # what nobody reads any more is gone


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_inputs_that_become_indices_do_not_stop_it(dtype: str) -> None:
    b = Builder()
    x = b.input("x", TensorType((4,), dtype))
    table = b.constant(np.arange(6, dtype=np.float32).reshape(1, 6), name="t")
    g = b.finish({"y": b.add("relu", b.add("gather", table, b.add("cast", x, to="int64"), axis=0))})
    feed = {"x": np.zeros(4, dtype)}
    assert np.array_equal(Session(g, threads=1, tune=True).run(feed)["y"], run(g, feed)["y"])


def test_a_network_that_takes_nothing_made_up_is_not_tuned() -> None:
    b = Builder()
    x = b.input("x", TensorType((4,), "int64"))
    table = b.constant(np.arange(6, dtype=np.float32).reshape(1, 6), name="t")
    one = b.constant(np.full(4, 1, np.int64), name="one")
    g = b.finish({"y": b.add("relu", b.add("gather", table, b.add("add", x, one), axis=0))})
    feed = {"x": np.full(4, -1, np.int64)}
    assert np.array_equal(Session(g, threads=1, tune=True).run(feed)["y"], run(g, feed)["y"])


def last_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "best_of", lambda ways, env: list(ways)[-1])


@pytest.mark.parametrize("pays", [True, False])
def test_a_network_takes_answers_only_where_it_is_not_slower_by_them(pays: bool, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = physical(one_convolution())
    asked: list[int] = []
    last_option(monkeypatch)
    monkeypatch.setattr(tune, "pays", lambda *_: asked.append(1) or pays)
    for _ in range(2):
        assert bool(tune.tuned(g, Target(threads=1)).choices.made) == pays
    (path,) = (cache / "tuned").iterdir()
    rows = json.loads(path.read_text())
    assert len(asked) == 1 and list(rows["networks"].values()) == [pays] and any(rows["layers"].values())


def test_answers_are_judged_for_every_network_that_has_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    last_option(monkeypatch)
    asked: list[Graph] = []
    monkeypatch.setattr(tune, "pays", lambda graph, *_: asked.append(graph) or len(asked) == 1)
    one = physical(one_convolution())
    b = Builder("two")
    x = b.input("x", TensorType((1, 32, 18, 18), "int8"))
    y = conv(b, x, 24, "c", 3)
    two = physical(b.finish({"y": y, "z": b.add("q_table", y, b.constant(np.zeros(256, np.int8), name="t"))}))
    assert tune.tuned(one, Target(threads=1)).choices.made and not tune.tuned(two, Target(threads=1)).choices.made
    assert len(asked) == 2 and tune.tuned(one, Target(threads=1)).choices.made


@pytest.mark.parametrize("where", ["pays", "fastest"])
def test_who_has_seen_enough_gets_nothing_that_was_not_judged(where: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = physical(network())
    last_option(monkeypatch)
    left = [2]

    def interrupted(*_: Any) -> dict[str, str]:
        left[0] -= 1
        if where == "pays" or left[0] < 0:
            raise KeyboardInterrupt
        return {}

    with monkeypatch.context() as m:
        m.setattr(tune, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune.tuned(g, Target(threads=1))
    (path,) = (cache / "tuned").iterdir()
    rows = json.loads(path.read_text())
    assert rows["networks"] == {} and len(rows["layers"]) >= 2
    judged: list[int] = []
    monkeypatch.setattr(tune, "pays", lambda *_: bool(judged.append(1)))
    assert not tune.tuned(g, Target(threads=1)).choices.made and judged


def test_the_first_option_is_that_of_the_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nibbles or bytes depends on how large the network is, where there is a choice."""
    rng = np.random.default_rng(0)
    b = Builder("wide")
    x = b.input("x", TensorType((16, 512), "int8"))
    for i in range(12):
        w = b.constant(rng.integers(-7, 8, (512, 512)).astype(np.int8), name=f"w{i}", dtype="int4")
        m = b.constant(np.full(512, 1e-3, np.float32), name=f"m{i}")
        x = b.add("q_linear", x, w, m, x_zero=0, y_zero=0, **CLAMP, bound=1 << 24)
    g = physical(b.finish({"y": x}))
    first: list[Any] = []
    monkeypatch.setattr(tune, "best_of", lambda ways, env: first.append(next(iter(ways))) or next(iter(ways)))
    monkeypatch.setattr(tune, "pays", lambda *_: True)
    chosen = tune.tuned(g, Target(threads=1))
    plain, other = (build(g, target, Packed()) for target in (Target(threads=1), chosen))
    assert [s.kernel for s in plain.steps] == [s.kernel for s in other.steps]
    assert "nibbles" in first or native.best("linear_s8").isa != "avx512vnni"


def test_one_lucky_measurement_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [{"a": 10.0, "b": 9.0, "c": 5.0}, {"a": 10.0, "c": 9.9}]
    monkeypatch.setattr(tune, "least", lambda ways: {option: times[0 if len(ways) == 3 else 1][option] for option in ways})
    ways: Any = {"a": None, "b": None, "c": None}
    assert tune.best_of(ways, {}) == "a"
    times[1]["c"] = 9.0
    assert tune.best_of(ways, {}) == "c"


def test_one_unlucky_measurement_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a network with a part that is interpreted: native ones are timed, with the inputs that they have in it."""
    b = Builder()
    x = b.input("x", TensorType((3, 8), "int8"))
    table = b.constant(np.arange(256).astype(np.uint8).view(np.int8), name="t")
    interpreted = b.add("depth_to_space", b.add("reshape", b.add("q_table", x, table), shape=(1, 24, 1, 1)), block=2, mode="DCR")
    g = b.finish({"y": b.add("q_table", interpreted, table)})
    given = {"x": np.zeros((3, 8), np.int8)}
    times: list[float] = []

    def least(ways: dict[str, Any]) -> dict[str, float]:
        assert all(way() > 0 for way in ways.values())
        return dict(zip(ways, (2.0, times.pop(0)), strict=True))

    monkeypatch.setattr(tune, "least", least)
    for times, want in (([1.0], True), ([3.0, 1.0], True), ([3.0, 3.0], False)):
        assert tune.pays(g, Target(threads=1), Target(threads=1), given) == want and not times


def test_caches_are_taken_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Bytes(np.ndarray[Any, Any]):
        def __iadd__(self, other: Any) -> Any:
            order.append("clear")
            return self

    monkeypatch.setattr(np, "zeros", lambda n, dtype: np.empty(n, dtype).view(Bytes))
    monkeypatch.setattr(tune, "ROUNDS", 2)
    took = tune.least({"a": lambda: order.append("a") or 2.0, "b": lambda: order.append("b") or 1.0})
    assert took == {"a": 2.0, "b": 1.0} and order == ["clear", "a", "clear", "b"] * 2


def test_what_is_remembered_is_of_an_instruction_set_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    best = native.isas()[-1]
    names = {tune.cache_file(Target(isa)).name for isa in ("ref", best)}
    monkeypatch.setenv("LOWBIT_ISA", "ref")
    assert len(names) == 2 and {tune.cache_file(Target(isa)).name for isa in ("ref", best, None)} == {tune.cache_file(Target("ref")).name}
    monkeypatch.setattr(tune, "METHOD", -1)
    tune.machine.cache_clear()
    assert tune.cache_file(Target("ref")).name not in names
    tune.machine.cache_clear()


def test_a_batch_that_is_cut_is_tuned_as_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder("batch")
    x = b.input("x", TensorType((symbol("batch"), 32, 18, 18), "int8"))
    g = b.finish({"y": conv(b, x, 24, "c", 3)})
    shapes: list[Any] = []
    monkeypatch.setattr("lowbit.runtime.session.tuned", lambda graph, target: shapes.append(graph.inputs[0].shape[0]) or target)
    monkeypatch.setattr("lowbit.runtime.session.rows_at_once", lambda batch, *_: min(batch, 4))
    session = Session(g, threads=1, tune=True)
    for rows in (3, 64):
        feed = {"x": np.random.default_rng(0).integers(-128, 128, (rows, 32, 18, 18)).astype(np.int8)}
        assert np.array_equal(session.run(feed)["y"], run(g, feed)["y"])
    assert shapes == [3, 4]
    names = [name for name, *_ in session._packed]
    assert names and len(names) == len(set(names))
