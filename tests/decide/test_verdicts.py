"""What is told of a decision is true of the network that is returned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from decide_networks import f32, rng

import lowbit
from lowbit.decide.cost import Stopwatch, Times
from lowbit.decide.decision import Decision
from lowbit.decide.goal import reaches
from lowbit.decide.points import find_points
from lowbit.decide.quality import _summed
from lowbit.decide.search.given import Given
from lowbit.decide.verdict import size_text
from lowbit.decide.widths import Widths
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower.integer import quantized_nodes
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
    assert (size_text(400, 100), size_text(100, 200)) == ("4.0× smaller", "2.0× larger")


def test_a_layer_has_one_width() -> None:
    both = Widths(rows=frozenset("ab"), layers=frozenset("abc")) | Widths(floats=frozenset("a"))
    assert (both.floats, both.rows, both.layers) == (frozenset("a"), frozenset("b"), frozenset("c"))


def test_warnings_point_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lowbit.quantize(two_layers(), batches(1))
    assert found and all(w.filename == __file__ for w in found), [w.filename for w in found]


def test_numbers_beside_classes_are_no_answers() -> None:
    """A face detector's boxes are no classes, whichever of their numbers is the largest."""
    b = Builder("detector")
    x = b.input("x", TensorType((4, 16), "float32"))

    def layer(n: int, seed: int) -> Value:
        return b.add("linear", x, b.constant(f32(rng(seed).standard_normal((n, 16)))))

    boxes, faces = layer(4, 1), b.add("softmax", layer(2, 2), axis=1)
    assert [p.kind for p in find_points(b.finish({"boxes": boxes, "faces": faces}))] == ["numbers", "classes"]
    assert [p.kind for p in find_points(b.finish({"logits": boxes}))] == ["scores"]
