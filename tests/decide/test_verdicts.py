"""What is told of a decision is true of the network that is returned."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from decide_networks import f32, rng

import lowbit
from lowbit.decide.answers import compared
from lowbit.decide.cost import Stopwatch, Times
from lowbit.decide.decision import Decision
from lowbit.decide.goal import reaches
from lowbit.decide.points import Point, find_points, rows_of
from lowbit.decide.quality import Quality, _summed
from lowbit.decide.search.given import Given
from lowbit.decide.spread import mean_error
from lowbit.decide.verdict import verdict
from lowbit.decide.widths import Widths
from lowbit.errors import LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower.integer import quantized_nodes
from lowbit.report.text import times_smaller
from lowbit.types import Array, TensorType


def two_layers() -> Graph:
    b = Builder("two")
    x = b.input("x", TensorType((4, 16), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(f32(rng(1).standard_normal((32, 16))), name="w1"), name="a"))
    return b.finish({"y": b.add("linear", h, b.constant(f32(rng(2).standard_normal((10, 32))), name="w2"), name="b")})


def batches(count: int, shape: tuple[int, ...] = (4, 16)) -> list[dict[str, Array]]:
    return [{"x": f32(rng(i).standard_normal(shape))} for i in range(count)]


def decision_of(graph: Graph, data: list[dict[str, Array]], **options: object) -> Decision:
    told: list[Decision] = []
    lowbit.quantize(graph, data, on_decision=told.append, **options)  # type: ignore[arg-type]
    return told[0]


def test_a_score_at_the_limit_is_met_although_floats_round() -> None:
    assert 0.8 - 0.1 > 0.7 and reaches(0.7, 0.8 - 0.1) and not reaches(0.69999, 0.8 - 0.1)

    def metric(session: lowbit.runtime.session.Session) -> float:
        return 0.7 if any(n.op.startswith("q_") for n in session.graph.nodes) else 0.8

    found = decision_of(two_layers(), batches(9), metric=metric, max_drop=0.1)
    assert found.met and found.score == 0.7 and not found.widths.floats


@pytest.mark.filterwarnings("ignore:nothing is quantized")
def test_a_network_that_integers_only_slow_down_stays_float(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(self: Stopwatch, graph: Graph) -> Times:
        return Times(3.0 if any(n.op.startswith("q_") for n in graph.nodes) else 1.0, 1.0)

    monkeypatch.setattr(Stopwatch, "times", times)
    found = decision_of(two_layers(), batches(9))
    assert not quantized_nodes(found.graph) and found.times is not None and found.times.ratio == 1.0
    assert quantized_nodes(decision_of(two_layers(), batches(9), prefer="size").graph)  # bytes count there, not time


def test_a_silent_output_does_not_make_thousands_of_decibels() -> None:
    loud = [(np.array([4.0, 4.0]), np.array([0.004, 0.004]))]
    silent = [(np.zeros(2), np.array([1e-4, 0.0]))]
    both = _summed([("y", loud), ("rare", silent)])
    assert both.noise == _summed([("y", loud)]).noise and both.silent == ("rare",)
    assert _summed([("rare", silent)]).noise == (1.0, 0.0)


def test_a_generator_that_reuses_its_array_is_searched_on_all_its_batches() -> None:
    graph, data = two_layers(), batches(12)

    def reused() -> Iterator[dict[str, Array]]:
        held = np.empty((4, 16), np.float32)
        for sample in data:
            held[:] = sample["x"]
            yield {"x": held}

    listed, generated = Given.of(graph, data, None, False), Given.of(graph, reused(), None, False)
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(listed.data.fit, generated.data.fit, strict=True))


def test_a_network_that_grew_is_not_told_as_smaller() -> None:
    assert (times_smaller(400, 100), times_smaller(100, 200)) == ("4.0× smaller", "2.0× larger")


def test_a_layer_has_one_width() -> None:
    both = Widths(rows=frozenset("ab"), layers=frozenset("abc")) | Widths(floats=frozenset("a"))
    assert (both.floats, both.rows, both.layers) == (frozenset("a"), frozenset("b"), frozenset("c"))


def test_warnings_point_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lowbit.quantize(two_layers(), batches(1))
        rules = [lowbit.FloatRule("no such layer")]
        lowbit.quantize(two_layers(), batches(3), rules=rules, recipe="int8")
        lowbit.quantize(two_layers(), batches(3), rules=rules, recipe="int8", guard=False)
        record = lowbit.calibrate(two_layers(), [{"x": np.zeros((4, 16), np.float32)}])
        lowbit.quantize(two_layers(), record)
        lowbit.search(two_layers(), batches(1), trials=1, cost="bytes", least_db=200)
    assert len(found) > 5 and all(w.filename == __file__ for w in found), [(w.filename, str(w.message)) for w in found]


def test_numbers_beside_classes_are_no_answers() -> None:
    """A face detector's boxes are no classes, whichever of their numbers is the largest."""
    b = Builder("detector")
    x = b.input("x", TensorType((4, 16), "float32"))

    def layer(n: int, seed: int) -> Value:
        return b.add("linear", x, b.constant(f32(rng(seed).standard_normal((n, 16)))))

    boxes, faces = layer(4, 1), b.add("softmax", layer(2, 2), axis=1)
    assert [p.kind for p in find_points(b.finish({"boxes": boxes, "faces": faces}))] == ["numbers", "classes"]
    assert [p.kind for p in find_points(b.finish({"logits": boxes}))] == ["scores"]


def masks() -> Graph:
    b = Builder("mask")
    x = b.input("x", TensorType((1, 3, 16, 16), "float32"))
    w, bias = b.constant(f32(rng(1).standard_normal((1, 3, 3, 3)))), b.constant(np.array([-5.0], np.float32))
    y = b.add("conv", x, w, bias, stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1, name="c")
    return b.finish({"y": b.add("sigmoid", y, name="s")})


def classes(last: str) -> Graph:
    b = Builder("classes")
    x = b.input("x", TensorType((8, 16), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(f32(rng(1).standard_normal((64, 16)))), name="a"))
    y = b.add("linear", h, b.constant(f32(rng(2).standard_normal((100, 64)))), name="b")
    for op in last.split():
        y = b.add(op, y, axis=1, keepdims=False) if op == "argmax" else b.add(op, y, axis=1)
    return b.finish({"y": y})


def test_a_dice_score_is_told_as_one() -> None:
    found = decision_of(masks(), batches(24, (1, 3, 16, 16)))
    answers = found.quality.answers
    assert 0 < answers.count < answers.total == 256 * len(found.quality.noise)
    text = f"Dice {100 * answers.same / answers.count:.4g} % with float's rarer answer, over {answers.total:,} yes-or-no answers, "
    assert verdict(masks(), found).startswith(text) and "before the sigmoid" in verdict(masks(), found)


@pytest.mark.parametrize("last", ["argmax", "softmax argmax"])
def test_class_numbers_are_measured_by_their_scores(last: str) -> None:
    graph = classes(last)
    point = find_points(graph)[0]
    assert (point.kind, point.axis) == ("classes", 1) and point.value == find_points(classes(""))[0].value
    found, plain = decision_of(graph, batches(24, (8, 16))), decision_of(classes(""), batches(24, (8, 16)))
    assert found.quality.db > 20 and abs(found.quality.db - plain.quality.db) < 6
    text = verdict(graph, found)
    assert f"answers as in float, {found.quality.db:.1f} dB, worst tenth " in text and "before the argmax" in text


def test_integers_that_are_no_class_numbers_have_an_agreement_and_no_decibels() -> None:
    b = Builder("steps")
    x = b.input("x", TensorType((8, 16), "float32"))
    y = b.add("linear", x, b.constant(f32(rng(1).standard_normal((4, 16)))), name="a")
    graph = b.finish({"y": b.add("cast", b.add("floor", y), to="int32")})
    found = decision_of(graph, batches(24, (8, 16)), prefer="speed")
    share = found.quality.answers.same / found.quality.answers.count
    assert verdict(graph, found).startswith(f"{100 * share:.4g} % of {found.quality.answers.count} answers as in float; ")
    point = Point("y", "y", "integers")
    want, got = np.arange(100).reshape(10, 10), np.arange(100).reshape(10, 10)
    got[0, 0] = 50
    answers = compared(point, [(want, got)])
    assert answers.other == answers.expected == pytest.approx(0.01)
    far = want.copy()
    far[0, 0] = 10**6
    assert all(np.array_equal(a, b) for a, b in zip(rows_of(point, want, got, 10), rows_of(point, want, far, 10), strict=True))


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 12, 24])
def test_the_error_of_a_mean_of_few_rows_holds_in_nine_cases_of_ten(rows: int) -> None:
    """Rows of 40 dB with a spread of 4: the mean of a few is within its error of the true mean."""
    draws = rng(rows).normal(40.0, 4.0, (4000, rows))
    within = [abs(np.mean(x) - 40.0) <= (mean_error(x) or 0.0) for x in draws]
    assert 0.9 <= np.mean(within) <= 0.97
    skewed = rng(rows).gamma(4.0, 2.0, (4000, rows))  # a tail on one side, as rows with one hard part have
    assert np.mean([abs(np.mean(x) - 8.0) <= (mean_error(x) or 0.0) for x in skewed]) >= 0.9
    noise = tuple(float(10 ** (-x / 10)) for x in draws[0])
    assert Quality(noise, 0.0).db_error == pytest.approx(mean_error(draws[0])) and mean_error([1.0]) is None


def test_a_result_has_a_verdict_that_a_prompt_shows(tmp_path: Path) -> None:
    graph, told = two_layers(), list[Decision]()
    q = lowbit.quantize(graph, batches(24), on_decision=told.append, prefer="size")
    assert q.verdict == verdict(graph, told[0]) and "× as fast as float (" in q.verdict and " ms a batch, one thread)" in q.verdict
    assert re.search(r"; parameters \d\.\d× smaller", q.verdict) and repr(q).endswith(f"; {q.verdict}>") and "\n" not in repr(q)
    q.save(tmp_path / "q.lowbit")
    stored = lowbit.load(tmp_path / "q.lowbit").verdict  # without times: the same data gives the same file
    assert stored == q.notes["decided"] and "fast" not in stored and "; parameters " in stored
    assert graph.verdict == "" and lowbit.quantize(graph, batches(24), guard=False).verdict == ""
    assert {"a", "b"} <= set(q.reasons)
    with pytest.warns(LowbitWarning, match="max_bytes is 1"):
        small = lowbit.quantize(graph, batches(24), max_bytes=1)
    small.save(tmp_path / "s.lowbit")
    assert lowbit.load(tmp_path / "s.lowbit").verdict.endswith("max_bytes is 1") and "NOT MET: " in small.verdict
