"""The parts of benchmarks/default.py that need no network: scores, decibels, the page, and the lines of criteria."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.ir.interp import run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import default_page
import default_scores as scores

Row = dict[str, Any]


def points(score: scores.Score, got: list[list[Any]], real: list[list[Any]] | None = None) -> float:
    kept = [[score.keep([np.asarray(y) for y in row]) for row in rows] for rows in (got, real or got)]
    return score.of(*kept)


# --- scores ---


def test_top1_counts_labels_at_the_largest_logit_over_all_batches() -> None:
    assert points(scores.top1(np.array([1, 0, 0, 1])), [[[[0, 1], [1, 0]]], [[[0, 1], [0, 1]]]]) == 75


def test_agreement_is_full_for_the_float_network_itself() -> None:
    y = [[np.eye(4)]]
    assert points(scores.agreement(), y) == 100
    assert points(scores.agreement(), [[np.eye(4)[::-1]]], y) == 0


def test_a_line_is_read_without_repeats_and_blanks() -> None:
    assert scores.ctc(np.array([0, 2, 2, 0, 2, 1, 1, 0])) == [2, 2, 1]
    y = np.eye(3)[[0, 2, 2, 0, 2, 1, 1, 0]][None]
    assert points(scores.lines_read("ab", ["bb a"]), [[y]]) == 100  # spaces apart
    assert points(scores.lines_read("ab", ["ba"]), [[y]]) == 0


def test_above_is_f1_of_the_elements_over_the_threshold() -> None:
    score = scores.above(0.5, "pixels")
    assert points(score, [[[1.0, 1.0, 0.0]]], [[[1.0, 0.0, 0.0]]]) == pytest.approx(100 * 2 / 3)
    assert points(score, [[[0.0]]]) == 100  # nothing there, nothing found


def yolo(*found: tuple[float, float, float, float, int, float]) -> np.ndarray:
    """An output of three classes with these boxes: centre, size, class, confidence."""
    y = np.zeros((1, 7, len(found)))
    for i, (*box, kind, confidence) in enumerate(found):
        y[0, :4, i], y[0, 4 + int(kind), i] = box, confidence
    return y


def test_boxes_match_one_to_one_by_class_and_overlap() -> None:
    score, real = scores.boxes_matched(), [[yolo((10, 10, 8, 8, 0, 0.9), (50, 50, 8, 8, 1, 0.8))]]
    assert points(score, real) == 100
    assert points(score, [[yolo((10, 10, 8, 8, 0, 0.5), (50, 50, 8, 8, 2, 0.8))]], real) == 50  # another class
    assert points(score, [[yolo((10, 10, 8, 8, 0, 0.5), (53, 50, 8, 8, 1, 0.8))]], real) == 50  # another place
    assert points(score, [[yolo((10, 10, 8, 8, 0, 0.9))]], real) == pytest.approx(200 / 3)
    assert points(score, [[yolo((10, 10, 8, 8, 0, 0.1))]], real) == 0  # not confident


def test_overlapping_boxes_of_a_class_are_suppressed_by_the_most_confident() -> None:
    found = scores.boxes(yolo((10, 10, 8, 8, 0, 0.5), (10.5, 10, 8, 8, 0, 0.9), (10, 10, 8, 8, 1, 0.7))[0], 0.25)
    assert scores.suppressed(found, 0.45)[:, 4].tolist() == [0.9, 0.7]


def test_neighbours_vote_on_labels_by_cosine() -> None:
    x = np.array([[1, 0], [2, 0.1], [0, 1], [0, 3], [5, 0], [0, 0.1]])
    labels = np.array([0, 0, 1, 1, 0, 0])
    assert points(scores.neighbours(labels, 4, k=2), [[x[:3]], [x[3:]]]) == 50


def test_cosine_is_a_mean_over_rows() -> None:
    assert points(scores.cosine(), [[[[1.0, 0.0], [0.0, 2.0]]]], [[[[3.0, 0.0], [1.0, 0.0]]]]) == 50


def test_pitches_count_within_fifty_cents() -> None:
    score = scores.within_cents(np.array([440.0, 440.0]), lambda y: 1200 * np.log2(y / 10))
    assert points(score, [[[440.0, 455.0]]]) == 50


# --- decibels ---


def test_noise_is_pooled_over_rows_and_taken_of_the_worst_output() -> None:
    noise = scores.Noise()
    real, got = [np.ones((2, 50)), np.ones((2, 50))], [np.full((2, 50), 1.1), np.full((2, 50), 1.01)]
    noise.add(real, got, rows=2)
    assert len(noise.rows) == 2
    assert noise.pooled() == pytest.approx(20)


def test_worst_tenth_is_what_nine_tenths_of_the_rows_reach() -> None:
    noise = scores.Noise()
    for error in [0.5, 0.5, *[0.01] * 18]:
        noise.add([np.ones((1, 4))], [np.full((1, 4), 1 + error)], rows=1)
    assert noise.worst_tenth() == pytest.approx(40)
    noise.add([np.ones((1, 4))], [np.full((1, 4), 1.5)], rows=1)
    assert noise.worst_tenth() == pytest.approx(20 * np.log10(2))


def test_a_network_that_gives_nan_has_no_decibels() -> None:
    assert scores.decibels(1.0, float("nan")) == -200
    assert scores.decibels(1.0, 0.0) == 200


def test_reported_decibels_are_read_from_the_notes() -> None:
    mlp = lowbit.load(simple_onnx())
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((4, 32)).astype(np.float32)} for _ in range(8)]
    assert 10 < (scores.said_decibels(lowbit.quantize(mlp, data).notes) or 0) < 100
    assert scores.said_decibels(lowbit.quantize(mlp, data, guard=False).notes) is None


def simple_onnx() -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, k]) for n, k in (("x", 32), ("y", 16))]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(w, "w")])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8).SerializeToString())


# --- the page and the criteria ---


def row(model: str = "net", **more: Any) -> Row:
    def way(score: float, ms: float, size: int) -> Row:
        return {"score": score, "ms": ms, "ms_median": ms, "bytes": size, "db": 30.0, "db_worst_tenth": 27.0}

    ways = {"lowbit fp32": way(90, 8, 400), "lowbit": way(89.8, 4, 100), "ort fp32": way(90, 10, 400)}
    ways |= {"ort u8s8": way(80, 5, 100), "ort u8u8": way(89.7, 7, 100), "ort dynamic": {"error": "no"}}
    found = {"model": model, "recipe": "int8", "metric": "top-1", "holdout": False, "classifier": True, "ways": ways, "said_db": 31.0}
    found |= {"seconds": 5.0, "integer_macs": 0.99, "wide_macs": 0.0, "native": {"fp32": "native", "int8": "native"}}
    return found | more


def test_the_best_setting_is_the_fastest_that_keeps_the_score() -> None:
    name, way, keeps = default_page.best_setting(row()) or ("", {}, False)
    assert (name, way["ms"], keeps) == ("u8u8", 7, True)
    lossy = row()
    lossy["ways"]["ort u8u8"]["score"] = 85
    assert (default_page.best_setting(lossy) or [None])[0] == "u8u8"  # no setting keeps it: the one with most points
    assert "(85.0) | " in default_page.line(lossy)


def test_every_criterion_holds_for_a_good_row() -> None:
    lines = default_page.criteria([row()])
    assert [text[:2] for text in lines] == ["OK"] * 10


@pytest.mark.parametrize(
    "change, words",
    [
        ({"seconds": 11.0}, "quantize ≤ 10 s where"),
        ({"seconds": 61.0}, "quantize ≤ 60 s"),
        ({"said_db": 34.0}, "reported dB within 3"),
        ({"said_db": None}, "reported dB within 3"),
        ({"integer_macs": 0.8}, "multiplications on integers"),
        ({"native": {"fp32": "native and interpreter", "int8": "native"}}, "native kernels"),
    ],
)
def test_a_criterion_that_is_missed_says_no_and_which_network(change: Row, words: str) -> None:
    (text,) = [line for line in default_page.criteria([row("first"), row("bad", **change)]) if words in line]
    assert text.startswith("NO") and "first" not in text


def test_slow_and_wrong_networks_miss_their_criteria() -> None:
    bad = row("bad")
    bad["ways"]["lowbit"] |= {"ms": 8.0, "score": 89.4}
    missed = [text for text in default_page.criteria([bad]) if text.startswith("NO")]
    assert len(missed) == 5  # mean time, none above 0.75, own fp32, points lost, below ONNX Runtime's best
    assert all("bad" in text for text in missed[1:])


def test_networks_held_out_and_failures_are_told_apart() -> None:
    failed = {"model": "gone", "recipe": "int8", "holdout": False, "metric": "", "error": "OSError: no | network"}
    rows = [row(), row("aside", holdout=True, seconds=99.0), failed]
    lines = default_page.criteria(rows)
    assert "NO  every network runs: gone failed" in lines
    assert any(text.startswith("NO  quantize ≤ 60 s (held out): aside") for text in lines)
    page = default_page.page(rows, {"cpu": "a CPU", "onnxruntime": "1.0"})
    main, _, aside = page.partition("networks held out")
    assert "| net |" in main and "| aside |" in aside and "OSError: no / network" in main


def test_w4a8_is_judged_on_classifiers_alone() -> None:
    other = row("tones", recipe="w4a8", classifier=False)
    other["ways"]["lowbit"]["score"] = 50
    (text,) = default_page.criteria([row(recipe="w4a8"), other])
    assert text.startswith("OK  w4a8 within 1.0 point")


# --- the seeded networks ---


def test_the_encoder_in_jax_spelling_means_what_onnxruntime_computes() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from zoo.jax_block import example, jax_encoder

    model, x = jax_encoder(8, 32, 4, 1), example(8, 32)
    graph = lowbit.load(model, shapes={"batch": 1})
    (y,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(run(graph, {"x": x})["y"], y, atol=1e-4)  # E[x²] − E[x]² loses digits, which the fused norm has


def test_the_bidirectional_stack_meets_all_classes_and_runs_natively() -> None:
    torch = pytest.importorskip("torch")
    from zoo import randomize
    from zoo.sequence import BidirectionalStack

    torch.manual_seed(0)
    model = randomize(BidirectionalStack(8, 12, 2, 3)).eval()
    x = torch.cumsum(torch.randn(1, 8, 200), 2)
    session = lowbit.compile(lowbit.load(model, inputs=(x,)))
    y = session.run({"x": x.numpy()})
    (found,) = y.values()
    np.testing.assert_allclose(found, model(x).detach().numpy(), atol=1e-4)
    assert session.backend == "native" and len(np.unique(found.argmax(-1))) == 3
