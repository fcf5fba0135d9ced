"""`quantize` keeps to the limits that are given, says which it cannot keep, and shows every network that it measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.decide import limits as module
from lowbit.decide.cost import Stopwatch, Times
from lowbit.decide.decision import Decision
from lowbit.decide.fewer import least
from lowbit.decide.front import Tried, front
from lowbit.decide.limits import Limits, Needs
from lowbit.decide.verdict import verdict
from lowbit.errors import InputError, LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.pipeline import compile, quantize
from lowbit.types import Array, TensorType


def f32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def network(spread: float = 1.0) -> Graph:
    """Four linear layers of other sizes. With a spread, `third` reads channels of other magnitudes that no scaling can reach."""
    rng = np.random.default_rng(0)
    b = Builder("net")
    v = b.input("x", TensorType((8, 32), "float32"))
    scale = np.ones((64, 1))
    scale[3] = spread
    for name, shape, factor in (
        ("first", (96, 32), 1.0),
        ("second", (64, 96), scale),
        ("third", (48, 64), 1 / scale.T),
        ("head", (10, 48), 1.0),
    ):
        w = b.constant(f32(rng.standard_normal(shape) * factor / np.sqrt(shape[1])), name=f"{name}.w")
        v = b.add("linear", v, w, b.constant(np.zeros(shape[0], np.float32), name=f"{name}.b"), name=name, out=name)
        if name != "head":
            v = b.add("clip", v, name=f"{name}.act", out=f"{name}.a", min=0.0, max=1e6)
    return b.finish({"y": v})


def data(count: int = 24) -> list[dict[str, Array]]:
    return [{"x": f32(np.random.default_rng(10 + i).standard_normal((8, 32)))} for i in range(count)]


def decided(graph: Graph, samples: list[dict[str, Array]] | None = None, **more: Any) -> tuple[Graph, Decision]:
    found: list[Decision] = []
    return quantize(graph, samples or data(), on_decision=found.append, **more), found[0]


# -- bytes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the goal is not met")
@pytest.mark.parametrize("share", [0.9, 0.75, 0.6])
def test_weights_get_four_bits_until_the_bytes_are_kept_and_no_longer(share: float) -> None:
    graph = network()
    most = int(quantize(graph, data(), guard=False).parameter_bytes * share)
    q, found = decided(graph, prefer="accuracy", wide=False, max_bytes=most)
    assert q.parameter_bytes <= most and not any("bytes" in text for text in found.unmet.split("; "))
    fours = found.widths.fours
    assert fours and any(c.value.type.dtype.name == "int4" for c in q.constants.values())
    smallest = min(graph.constants[f"{name}.w"].data.size // 2 for name in fours)
    assert q.parameter_bytes + smallest > most  # with the smallest of them in 8 bits again it would be too large
    assert compile(q).backend == "native"
    assert f"for max_bytes: 4-bit weights ({len(fours)})" in found.steps[-1].what and found.steps[-1].kept


@pytest.mark.filterwarnings("ignore:the goal is not met")
def test_four_bits_go_where_they_make_the_least_noise_for_each_byte() -> None:
    """Of layers of one size, one whose result hardly counts: it becomes 4 bits first."""
    rng = np.random.default_rng(1)
    b = Builder("quiet")
    x = b.input("x", TensorType((8, 32), "float32"))
    parts = [
        b.add("linear", x, b.constant(f32(rng.standard_normal((32, 32)) * size), name=f"{name}.w"), name=name, out=name)
        for name, size in (("loud", 1.0), ("quiet", 0.02), ("also", 1.0))
    ]
    total = b.add("add", b.add("add", parts[0], parts[1], out="s"), parts[2], out="t")
    graph = b.finish({"y": total})
    whole, _ = decided(graph)
    q, found = decided(graph, max_bytes=whole.parameter_bytes - 300)
    assert found.widths.fours == {"quiet"} and q.parameter_bytes <= whole.parameter_bytes - 300


def test_what_was_made_wide_is_made_narrow_again_where_that_is_what_is_too_large() -> None:
    graph = network(300.0)
    wide, before = decided(graph, prefer="accuracy", wide=False)
    narrow = quantize(graph, data(), guard=False)
    assert before.widths.floats and wide.parameter_bytes > narrow.parameter_bytes
    with pytest.warns(LowbitWarning, match="the goal is not met"):
        q, found = decided(graph, prefer="accuracy", wide=False, max_bytes=narrow.parameter_bytes + 64)
    assert q.parameter_bytes <= narrow.parameter_bytes + 64 and "bytes" not in found.unmet


def test_bytes_that_cannot_be_kept_give_the_smallest_network_and_the_reason() -> None:
    graph = network()
    with pytest.warns(LowbitWarning, match=r"the goal is not met: .*the parameters have [\d,]+ bytes, max_bytes is 1,000"):
        q, found = decided(graph, max_bytes=1000)
    assert not found.met and q.notes["not met"] == found.unmet
    assert verdict(graph, found).endswith(f"NOT MET: {found.unmet}")
    assert found.widths.fours == {"first", "second", "third", "head"}
    assert q.parameter_bytes < quantize(graph, data(), recipe="int8", guard=False).parameter_bytes


def test_a_few_bit_recipe_takes_its_eights_back() -> None:
    graph = network(40.0)
    small = quantize(graph, data(), recipe="w4a8", guard=False).parameter_bytes
    q, found = decided(graph, recipe="w4a8", max_bytes=small + 64)
    assert q.parameter_bytes <= small + 64 and "bytes" not in found.unmet
    free, _ = decided(graph, recipe="w4a8")
    assert q.parameter_bytes < free.parameter_bytes


# -- time and memory -------------------------------------------------------------------------------------------------------


def slow_where_wide(self: Stopwatch, integer: Graph) -> Times:
    """As if each 16-bit value and each float layer took a millisecond."""
    wide = sum(o.type.dtype.name == "int16" for n in integer.nodes for o in n.outputs)
    return Times(1.0 + wide + sum(n.op == "linear" for n in integer.nodes), 10.0)


@pytest.mark.filterwarnings("ignore:the goal is not met")
def test_repairs_take_no_more_time_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopwatch, "times", slow_where_wide)
    graph = network(300.0)
    _, free = decided(graph, prefer="accuracy")
    assert free.times is not None and free.times.made > 1.5
    _, found = decided(graph, prefer="accuracy", max_ms=1.5)
    assert found.times is not None and found.times.made <= 1.5 and "max_ms" not in found.unmet
    assert found.quality.worst_db < free.quality.worst_db


def test_a_time_that_cannot_be_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopwatch, "times", slow_where_wide)
    with pytest.warns(LowbitWarning, match=r"a batch takes 1 ms, max_ms is 0.5"):
        _, found = decided(network(), max_ms=0.5)
    assert not found.met and found.times is not None and found.times.made == 1.0


def test_memory_is_that_of_a_session_and_wide_values_are_taken_back_for_it() -> None:
    graph = network(300.0)
    sample = data(1)[0]["x"]
    (wide, before), narrow = decided(graph, prefer="accuracy"), quantize(graph, data(), guard=False)
    arenas = [compile(q, threads=1).arena_bytes(sample) for q in (wide, narrow)]
    assert arenas[1] < arenas[0] and before.met
    with pytest.warns(LowbitWarning, match="the goal is not met"):
        q, found = decided(graph, prefer="accuracy", max_ram=arenas[1])
    assert compile(q, threads=1).arena_bytes(sample) <= arenas[1] and "max_ram" not in found.unmet
    with pytest.warns(LowbitWarning, match=r"a session needs [\d,]+ bytes beside the weights, max_ram is 16"):
        decided(graph, max_ram=16)


# -- minutes, interrupts ---------------------------------------------------------------------------------------------------


def test_when_the_minutes_are_over_the_best_so_far_is_returned_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    graph = network(300.0)

    def metric(session: lowbit.Session) -> float:
        now[0] += 60
        return -float(np.abs(session.run(data(1)[0])["y"]).mean())

    q, found = decided(graph, prefer="accuracy", metric=metric, max_drop=10, minutes=2.5)
    assert found.stopped == "minutes=2.5 were over" and len(found.tried) == 3  # float, and two candidates; a third would begin at 3 minutes
    assert found.steps[-1].what == "minutes=2.5 were over: the best so far is returned" and "minutes=2.5" in str(q.notes)
    assert found.score == max(t.score for t in found.tried[1:] if t.score is not None)


def test_there_is_a_network_however_little_time_there_is() -> None:
    q, found = decided(network(), minutes=1e-9)
    assert found.stopped and len(found.tried) == 2 and compile(q).backend == "native"


def test_an_interrupt_of_quantize_is_an_interrupt() -> None:
    calls = [0]

    def metric(_: lowbit.Session) -> float:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return 0.5

    with pytest.raises(KeyboardInterrupt):
        quantize(network(300.0), data(), metric=metric, prefer="accuracy")


# -- the front -------------------------------------------------------------------------------------------------------------


def test_every_network_that_was_measured_is_told_and_the_front_is_what_no_other_beats() -> None:
    graph = network(300.0)
    q, found = decided(graph)
    first, *others = found.tried
    assert first.what == "float" and first.bytes == graph.parameter_bytes and first.worst == float("inf")
    assert found.times is not None and first.ms is not None and first.ms <= found.times.reference
    (chosen,) = (t for t in found.tried if t.chosen)
    assert chosen.bytes == q.parameter_bytes and chosen.ms == found.times.made
    assert others[0].what == "int8" and others[0].worst == found.plain.worst_db
    for t in found.tried:
        beaten = any(all(a >= b for a, b in zip(o.goods, t.goods, strict=True)) and o.goods != t.goods for o in found.tried)
        assert (beaten and not t.chosen) == (t.goods not in [f.goods for f in found.front])
    assert [t.bytes for t in found.front] == sorted(t.bytes for t in found.front)


def test_of_equal_networks_the_first_is_on_the_front_and_unknown_times_are_long() -> None:
    a, b, slow = Tried("a", 30, 30, 5, ms=1.0), Tried("b", 30, 30, 5, ms=1.0), Tried("c", 30, 30, 5)
    assert front([slow, a, b], lambda t: t.goods) == [a]
    assert front([slow, Tried("d", 40, 29, 5, ms=1.0)], lambda t: t.goods)[0] is slow


# -- arguments -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"max_ms": 0}, r"max_ms=0, a positive number is needed.\n  Try: max_ms=5.0"),
        ({"max_ms": float("nan")}, r"max_ms=nan, a positive number is needed"),
        ({"minutes": "2"}, r"minutes='2', a positive number is needed.\n  Try: minutes=2"),
        ({"max_bytes": 1.5}, r"max_bytes=1.5, a whole number of bytes from 1 on is needed"),
        ({"max_ram": -1}, r"max_ram=-1, a whole number of bytes from 1 on is needed"),
        ({"max_ram": 100, "guard": False}, r"max_ram= decides between candidates, and there are none: data and a recipe"),
        ({"minutes": 1, "recipe": "int16"}, r"minutes= decides between candidates"),
    ],
)
def test_wrong_limits_are_said_before_any_work(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        quantize(network(), data(), **bad)


def test_limits_say_what_is_too_much() -> None:
    limits = Limits.of(2.0, 100, None, 3)
    assert limits.named == ("max_ms", "max_bytes", "minutes")
    assert limits.excess(Needs(1.0, 100)) == 1.0 and limits.excess(Needs(1.0, 150, 10**9)) == 1.5
    assert limits.unmet(Needs(2.5, 100)) == ["a batch takes 2.5 ms, max_ms is 2"]


def test_the_least_number_is_found_by_halving() -> None:
    for count in range(9):
        for wanted in range(count + 2):
            assert least(count, lambda n, w=wanted: n >= w) == min(wanted, count)  # type: ignore[misc]
