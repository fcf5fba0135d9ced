"""lowbit.evaluate, and labels and metrics of quantize and compare: a score is that of the network that runs, on rows that are named."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.decide.engine import Decision
from lowbit.decide.samples import split
from lowbit.decide.verdict import verdict
from lowbit.dims import symbol
from lowbit.errors import InputError, LowbitError, LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.report.scores import BadScore, TopCount, as_labels
from lowbit.types import Array, TensorType


@cache
def network(classes: int = 12, batch: Any = None, last: str = "") -> Graph:
    """A classifier of 6 numbers; the last layer may be an argmax."""
    rng = np.random.default_rng(0)
    b = Builder("classifier")
    x = b.input("x", TensorType((symbol("batch") if batch is None else batch, 6), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((32, 6)).astype(np.float32)), name="fc1"), name="act")
    y = b.add("linear", h, b.constant(rng.standard_normal((classes, 32)).astype(np.float32)), name="fc2")
    return b.finish({"y": b.add("argmax", y, axis=1, keepdims=False) if last == "argmax" else y})


def rows(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 6)).astype(np.float32)


def logits(graph: Graph, x: Array) -> Array:
    made: Any = lowbit.compile(graph)(x)
    return np.asarray(made)


def labels_of(graph: Graph, x: Array, wrong: int = 0) -> Array:
    """The network's own answers, but for the first ones."""
    found = logits(graph, x).argmax(1)
    found[:wrong] = (found[:wrong] + 1) % logits(graph, x).shape[1]
    return found


# -- counting ----------------------------------------------------------------------------------------------------------------


def test_top1_and_top5_are_those_of_sorted_scores() -> None:
    graph, x = network(), rows(50)
    labels = np.random.default_rng(2).integers(0, 12, 50)
    order = np.argsort(-logits(graph, x), axis=1)
    with pytest.warns(LowbitWarning, match="no better than guessing among 12 classes: are the labels those of these rows"):
        found = lowbit.evaluate(graph, [x[:20], x[20:]], labels)
    assert found.score == np.mean(order[:, 0] == labels) and found.top5 == np.mean((order[:, :5] == labels[:, None]).any(1))
    assert (found.name, found.rows, found.backend) == ("top-1", 50, "native") and found.ms is not None and found.ms > 0


def test_of_equal_scores_the_first_is_the_answer() -> None:
    top = TopCount("y")
    top.add({"y": np.array([[1, 1, 0], [0, 1, 1]], np.int8)}, np.array([1, 1]))
    assert top.top1 == 0.5 and top.top5 is None


def test_batches_of_any_size_and_lists_of_labels_give_one_score() -> None:
    graph, x = network(), rows(50)
    y = labels_of(graph, x, wrong=5)
    whole = lowbit.evaluate(graph, [x], y)
    assert whole.score == 0.9
    parts = [lowbit.evaluate(g, np.split(x, n), given) for g, n, given in [(graph, 10, y), (network(batch=5), 10, np.split(y, 10))]]
    assert [p.score for p in parts] == [0.9, 0.9] and parts[0].top5 == whole.top5 and whole.rows == parts[0].rows == 50
    assert lowbit.evaluate(network(batch=1), x[:, None], y[:, None]).score == 0.9
    assert lowbit.evaluate(lowbit.compile(graph, threads=1), [x], y).score == 0.9


def test_a_network_that_gives_class_numbers_is_compared_with_them() -> None:
    x = rows(40)
    found = lowbit.evaluate(network(last="argmax"), [x], labels_of(network(), x, wrong=10))
    assert (found.score, found.top5) == (0.75, None)


def test_a_quantized_network_is_scored_as_it_runs() -> None:
    graph, x = network(), rows(64, 3)
    q = lowbit.quantize(graph, np.split(rows(64), 8))
    y = labels_of(graph, x)
    assert lowbit.evaluate(q, np.split(x, 8), y).score == np.mean(logits(q, x).argmax(1) == y)


def test_what_is_printed_is_what_was_measured() -> None:
    x = rows(12)
    text = str(lowbit.evaluate(network(), [x], labels_of(network(), x, wrong=3)))
    assert text.startswith("top-1 75.00%, top-5 75.00%; 12 rows (few: other data may differ), ") and " ms each (native" in text
    assert str(lowbit.evaluate(network(batch=4), metric=lambda _: 0.25)) == "score 0.25 (native)"
    beside = lowbit.evaluate(network(), [x], metric=lambda _: 0.25)
    assert (beside.score, beside.rows, beside.name) == (0.25, 12, "score")


# -- quantize ----------------------------------------------------------------------------------------------------------------


def decided(graph: Graph, data: list[Array], **options: Any) -> Decision:
    found: list[Decision] = []
    lowbit.quantize(graph, data, on_decision=found.append, **options)
    return found[0]


def test_quantize_tells_the_score_of_rows_that_nothing_was_fitted_to_or_chosen_by() -> None:
    graph, data = network(), np.split(rows(240), 24)
    y = labels_of(graph, np.concatenate(data), wrong=120)
    found = decided(graph, data, labels=y)
    told = split(data, 24, 24).report
    assert set(told.numbers).isdisjoint(split(data, 24, 24).fit.numbers) and len(told) == 4
    x, own = (np.concatenate([part[i] for i in told.numbers]) for part in (data, np.split(y, 24)))
    assert found.score == np.mean(logits(found.graph, x).argmax(1) == own)
    assert found.float_score == np.mean(logits(graph, x).argmax(1) == own) < 1
    text = f"top-1 {100 * found.score:.4g} % (float {100 * found.float_score:.4g} %) on 40 labelled rows, "
    assert verdict(graph, found).startswith(text) and found.graph.notes["decided"].startswith(text)


def test_rows_that_decided_or_were_fitted_to_are_said_to_be_such() -> None:
    graph, x = network(), rows(20)
    y = labels_of(graph, x)
    with pytest.warns(LowbitWarning, match="there is one batch, to calibrate and to measure with"):
        text = verdict(graph, decided(graph, [x], labels=y))
    assert "measured on the one batch there is, which the ranges were taken from, too" in text
    assert "on 20 labelled rows (they decided and were fitted to, too), " in text
    assert "on 10 labelled rows (they decided, too; few: other data may differ), " in (
        text := verdict(graph, decided(graph, [x[:10], x[10:]], labels=y))
    )
    assert "measured on the batches that the choice was made with: there are too few to keep others" in text
    found = decided(graph, np.split(x, 10), metric=lambda _: 0.5)
    assert verdict(graph, found).startswith("score 0.5 (float 0.5) on the metric's own data, which decided, ")


def test_a_score_that_fell_too_far_is_told_with_its_least() -> None:
    graph, data = network(), np.split(rows(240), 24)
    y = labels_of(graph, np.concatenate(data))
    q = lowbit.quantize(graph, data, recipe="w4a8", labels=y, max_drop=1.0)
    found: list[Decision] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowbitWarning)
        lowbit.quantize(graph, data, recipe="w4a8", labels=y, max_drop=0.0, prefer="speed", on_decision=found.append)
    assert found[0].met == (found[0].score == found[0].float_score == 1.0) and "not met" not in q.notes
    assert found[0].met or found[0].unmet == f"top-1 is {found[0].score:.6g} on 40 labelled rows, 1 is the least"


# -- compare -----------------------------------------------------------------------------------------------------------------


def test_compare_has_the_scores_of_both_networks(tmp_path: Path) -> None:
    graph, x = network(), rows(40, 5)
    q = lowbit.quantize(graph, np.split(rows(64), 8), recipe="w4a8")
    y = labels_of(graph, x, wrong=4)
    report = lowbit.compare(graph, q, np.split(x, 4), labels=y)
    assert report.score is not None and (report.score.float_score, report.score.rows) == (0.9, 40)
    assert report.score.score == np.mean(logits(q, x).argmax(1) == y)
    assert str(report.score) in str(report) and str(report.score).startswith(f"top-1 {report.score.score:.2%} of 40 rows, float 90.00% (")
    report.save(tmp_path / "r.html")
    report.save(tmp_path / "r.json")
    assert f"{report.score.score:.2%} of 40 rows, float 90.00%" in (tmp_path / "r.html").read_text()
    saved = json.loads((tmp_path / "r.json").read_text())["score"]
    assert saved["difference"] == report.score.difference == report.score.score - 0.9 and saved["top5"] == report.score.top5
    by_metric = lowbit.compare(graph, q, [x], metric=lambda session: float(session.graph.parameter_bytes))
    assert by_metric.score is not None and by_metric.score.score < by_metric.score.float_score == graph.parameter_bytes
    assert lowbit.compare(graph, q, [x]).to_dict()["score"] is None


# -- labels and metrics that are none ------------------------------------------------------------------------------------------


def raising(_: object) -> float:
    raise KeyError("labels")


X, Y = rows(30), labels_of(network(), rows(30))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"labels": Y[:29]}, r"batch 1: 29 labels for 30 rows of data or more.\n  Try: one label for each row"),
        ({"labels": np.append(Y, 0)}, r"31 labels for 30 rows of data.\n  Try: one label for each row"),
        ({"labels": Y + 1}, r"label 12, and output .y. has the classes 0 … 11.\n  Try: classes counted from 0"),
        ({"labels": Y - 1}, r"label -1, and output .y. has the classes 0 … 11"),
        ({"labels": [12, *Y[1:]]}, r"label 12, and output"),
        ({"labels": Y.astype(np.float32)}, r"labels: float32\[30\] given, one whole number for each row is needed.\n  Try: labels.astype"),
        (
            {"labels": np.eye(12)[Y]},
            r"labels: float64\[30, 12\] given, one whole number for each row .*\n  Try: labels.argmax\(1\)",
        ),
        ({"labels": None}, r"labels= and metric= are missing, one of them is needed"),
        ({"labels": Y, "metric": len}, r"labels= and metric= are both given"),
        ({"metric": 3}, r"metric=3 cannot be called"),
        ({"metric": raising}, r"metric raised KeyError: 'labels'"),
        ({"metric": lambda _: float("nan")}, r"metric gave nan, a finite number is needed"),
        ({"metric": lambda _: None}, r"metric gave NoneType, a number is needed"),
        ({"metric": lambda _: "0.9"}, r"metric gave str, a number is needed"),
        ({"metric": lambda _: np.zeros(2)}, r"metric gave ndarray, a number is needed"),
    ],
)
def test_labels_and_metrics_that_give_no_score_are_refused_everywhere(given: dict[str, Any], text: str) -> None:
    graph, data = network(), [X[:20], X[20:]]
    q = lowbit.quantize(graph, data, guard=False)
    with pytest.raises(LowbitError, match=text):
        lowbit.evaluate(graph, data, **given)
    if given.get("labels", 0) is None:
        return
    with pytest.raises(LowbitError, match=text.removeprefix("batch 1: ")):
        lowbit.compare(graph, q, data, **given)
    with pytest.raises(LowbitError, match=text.removeprefix("batch 1: ")):
        lowbit.quantize(graph, data, **given)  # the first two thirds are only fitted to: their labels are looked at all the same


def test_labels_need_data_and_outputs_that_are_classes() -> None:
    with pytest.raises(InputError, match="labels= are given without data"):
        lowbit.evaluate(network(), None, Y)
    with pytest.raises(BadScore, match=r"one number for each row, labels need a score for each class.\n  Try: metric= \(--metric file"):
        lowbit.evaluate(network(classes=1), [X], Y)
    b = Builder("pixels")
    graph = b.finish({"y": b.add("relu", b.input("x", TensorType((2, 3, 4, 4), "float32")))})
    with pytest.raises(BadScore, match=r"output .y. is \[2, 3, 4, 4\], a row of classes for each label is needed"):
        lowbit.evaluate(graph, [np.zeros((2, 3, 4, 4), np.float32)], [0, 1])
    with pytest.raises(InputError, match="labels= decides between candidates, and there are none"):
        lowbit.quantize(network(), [X], labels=Y, guard=False)
    assert np.array_equal(as_labels([3, 1, 2]), [3, 1, 2])


def test_an_output_that_is_nan_has_no_answer() -> None:
    b = Builder("root")
    x = b.input("x", TensorType((symbol("batch"), 3), "float32"))
    graph = b.finish({"y": b.add("sqrt", x)})
    data = np.ones((4, 3), np.float32)
    data[2, 0] = -1
    with pytest.raises(BadScore, match="batch 0: output 'y' has NaN in row 2: it has no answer there"):
        lowbit.evaluate(graph, [data], [0, 0, 0, 0])


# -- several outputs, and one array -----------------------------------------------------------------------------------------------


@cache
def detector(softmax: bool = True) -> Graph:
    """Boxes of four numbers first, then scores of three classes."""
    rng = np.random.default_rng(0)
    b = Builder("detector")
    x = b.input("x", TensorType((symbol("batch"), 6), "float32"))
    boxes = b.add("linear", x, b.constant(rng.standard_normal((4, 6)).astype(np.float32)), name="boxes")
    classes = b.add("linear", x, b.constant(rng.standard_normal((3, 6)).astype(np.float32)), name="head")
    return b.finish({"boxes": boxes, "classes": b.add("softmax", classes, axis=1, name="classes") if softmax else classes})


def detected(x: Array) -> Array:
    return lowbit.compile(detector()).run({"x": x})["classes"].argmax(1)


@pytest.mark.parametrize("quantized", [False, True])
def test_labels_score_the_output_that_has_classes_and_the_line_names_it(quantized: bool) -> None:
    graph, x = detector(), rows(64)
    made = lowbit.quantize(graph, np.split(rows(64), 8), guard=False) if quantized else graph
    for model in (made, lowbit.compile(made)):
        found = lowbit.evaluate(model, [x], detected(x))
        assert found.score > 0.9 and found.output == "classes" and str(found).startswith("top-1 of output 'classes' ")
    other = lowbit.evaluate(made, [x], lowbit.compile(graph).run({"x": x})["boxes"].argmax(1), output="boxes")
    assert other.score > 0.9 and str(other).startswith("top-1 of output 'boxes' ")


def test_labels_of_one_of_several_outputs_decide_and_are_compared() -> None:
    graph, x = detector(), rows(240)
    y = detected(x)
    found = decided(graph, np.split(x, 24), labels=y)
    assert found.float_score == 1.0 and found.scored == "output 'classes' of 40 labelled rows"
    assert "on output 'classes' of 40 labelled rows, " in verdict(graph, found)
    report = lowbit.compare(graph, found.graph, np.split(x, 24), labels=y)
    assert report.score is not None and report.score.output == "classes" and "top-1 of output 'classes' " in str(report)
    with pytest.warns(LowbitWarning, match="no better than guessing among 4 classes"):
        assert lowbit.compare(graph, found.graph, [x], labels=y, output="boxes").score != report.score


def test_outputs_that_are_not_plainly_classes_must_be_named() -> None:
    graph, x = detector(softmax=False), rows(12)
    q = lowbit.quantize(graph, [x], guard=False)
    text = r"labels are given, and any of these outputs may have their classes: boxes float32\[batch, 4\], classes float32\[batch, 3\]"
    with pytest.raises(InputError, match=rf'{text}.\n  Try: output="boxes" or output="classes"'):
        lowbit.evaluate(graph, [x], detected(x))
    with pytest.raises(InputError, match=text):
        lowbit.compare(graph, q, [x], labels=detected(x))
    with pytest.raises(InputError, match=text):
        lowbit.quantize(graph, [x], labels=detected(x))
    with pytest.raises(InputError, match="there is no output 'scores', the network has boxes, classes"):
        lowbit.evaluate(graph, [x], detected(x), output="scores")
    with pytest.raises(InputError, match="output= is for labels=, and there are none"):
        lowbit.evaluate(graph, metric=lambda _: 1.0, output="classes")


def test_a_second_input_of_another_size_is_not_counted_as_rows() -> None:
    b = Builder("two")
    x, table = b.input("x", TensorType((1, 6), "float32")), b.input("table", TensorType((77, 6), "float32"))
    graph = b.finish({"y": b.add("add", x, b.add("reduce_mean", table, axes=(0,), keepdims=True))})
    data = [{"x": rows(1, i), "table": rows(77, i)} for i in range(3)]
    assert lowbit.evaluate(graph, data, metric=lambda _: 1.0).rows == 3


def test_the_time_of_a_row_is_that_of_the_median_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def run(self: Any, inputs: dict[str, Array]) -> dict[str, Array]:
        now[0] += next(seconds)
        return {"y": np.zeros((4, 12), np.float32)}

    monkeypatch.setattr("lowbit.report.evaluate.Session.run", run)
    monkeypatch.setattr("lowbit.report.evaluate.time.perf_counter", lambda: now[0])
    seconds = iter([9.0, 0.004, 0.004, 0.8, 0.004, 0.004])  # compiling, and one disturbed run
    found = lowbit.evaluate(network(batch=4), np.split(rows(20), 5), np.zeros(20, int))
    assert found.ms is not None and abs(found.ms - 1) < 1e-9 and not found.busy
    seconds = iter([9.0, 0.004, 0.008, 0.008, 0.012, 0.008])
    found = lowbit.evaluate(network(batch=4), np.split(rows(20), 5), np.zeros(20, int))
    assert found.busy and str(found).endswith("2 ms each (native; the machine was busy, 1 ms at best)")
    seconds = iter([9.0, 0.4, 0.004, 0.004, 0.004, 0.004])  # one batch is repeated
    found = lowbit.evaluate(network(batch=4), [rows(4)], np.zeros(4, int))
    assert found.ms is not None and abs(found.ms - 1) < 1e-9


def test_one_array_of_all_rows_is_data_for_a_network_with_one_input() -> None:
    graph, x = network(), rows(50)
    y = labels_of(graph, x, wrong=5)
    assert lowbit.evaluate(graph, x, y).score == 0.9 and lowbit.evaluate(network(batch=5), x, y).score == 0.9
    q = lowbit.quantize(graph, x, guard=False)
    same = lowbit.quantize(graph, [x[i : i + 8] for i in range(0, 50, 8)], guard=False)
    assert str(q) == str(same) and lowbit.compare(graph, q, x).batches == 7
    with pytest.raises(LowbitError, match=r"an array of 50 rows cannot be cut into batches of 4.\n  Try: x\[:48\]"):
        lowbit.evaluate(network(batch=4), x, y)


def test_one_array_is_refused_where_its_first_axis_may_be_time() -> None:
    b = Builder("recurrent")
    x = b.input("x", TensorType((symbol("steps"), 1, 3), "float32"))
    w, r = (b.constant(np.zeros((1, 8, n), np.float32)) for n in (3, 2))
    functions = ("Sigmoid", "Tanh", "Tanh")
    made: Any = b.add("lstm", x, w, r, hidden=2, direction="forward", activations=functions, name="lstm")
    graph = b.finish({"y": made[0] if isinstance(made, tuple | list) else made})
    with pytest.raises(LowbitError, match="a network with a recurrent layer may have time in its first axis"):
        lowbit.evaluate(graph, np.zeros((40, 1, 3), np.float32), metric=lambda _: 1.0)
