"""What is measured of outputs: joined parts by themselves, quiet rows by their own signal, ties, and classes only where they are sure."""

from __future__ import annotations

import numpy as np
import pytest
from decide_networks import conv, f32, rng, samples

import lowbit
from lowbit.decide.answers import Answers, compared, together
from lowbit.decide.decision import Decision
from lowbit.decide.goal import Goal
from lowbit.decide.parts import find_parts, part_numbers
from lowbit.decide.points import Point, find_points, noise_at, rows_of
from lowbit.decide.quality import QUIET, Quality, Quantized, Ruler, _summed, decibels, rows_in
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.pipeline import compile, decided, quantize
from lowbit.types import Array, TensorType

CLASSES = Point("y", "y", "classes", 1)


# -- ties ------------------------------------------------------------------------------------------------------------------


def clear_answers(rows: int, noise: float, tied: int) -> tuple[Array, Array]:
    """Answers with wide margins but for some ties."""
    want = rng(0).standard_normal((rows, 10)) * 0.1
    want[np.arange(rows), rng(1).integers(0, 10, rows)] += 5
    want[:tied] = rng(2).standard_normal((tied, 10)) * 0.1
    want[:tied, :2] = 4.0
    want[:tied, 0] += 1e-3
    return want, want + noise * rng(3).standard_normal(want.shape)


def quality_of(pairs: tuple[Array, Array]) -> Quality:
    want, got = pairs
    noise = tuple(((want - got) ** 2).sum(1) / ((want - want.mean(1, keepdims=True)) ** 2).sum(1))
    return Quality(noise, float(np.mean(noise)), compared(CLASSES, [pairs]), classes=True)


@pytest.mark.parametrize("rows", [24, 40])
def test_one_tie_among_few_rows_is_no_loss(rows: int) -> None:
    quality = quality_of(clear_answers(rows, 0.05, tied=1))
    assert 20 < quality.worst_db < 35 and quality.answers.other > 0.01  # half of one answer
    assert Goal().good(quality)


@pytest.mark.parametrize("rows", [24, 40])
def test_many_small_margins_among_few_rows_are_a_loss(rows: int) -> None:
    quality = quality_of(clear_answers(rows, 0.05, tied=3))
    assert not Goal().good(quality) and "of the answers are expected to be other ones" in Goal().lacks(quality)
    assert not Goal().good(quality_of(clear_answers(rows, 1.5, tied=0)))  # noise that wide margins do not bear


def test_a_few_answers_of_one_output_are_not_hidden_by_many_of_another() -> None:
    both = together([Answers(9990, 10_000), Answers(450, 500)])
    assert (both.same, both.count) == (10_440, 10_500) and both.other == pytest.approx(0.1) and both.counted
    assert "10.00% of the answers are other ones" in Goal().lacks(Quality((1e-3,) * 20, 1e-3, both))


def test_a_yes_is_asked_for_at_a_half_and_at_a_quarter() -> None:
    """Two hundred probabilities of 0.26 in a mask of zeros: at a half, none is a yes."""
    want = np.full(10_000, -8.0)
    want[:200], want[200:400] = np.log(0.26 / 0.74), 4.0
    got = want - 0.1
    found = compared(Point("y", "y", "yes or no"), [(want, got)])
    assert (found.same, found.count) == (400, 400)
    assert found.other == pytest.approx(1 - 400 / 600)


# -- quiet rows ------------------------------------------------------------------------------------------------------------


def decision_of(graph: Graph, data: list[dict[str, Array]], **options: object) -> Decision:
    told: list[Decision] = []
    lowbit.quantize(graph, data, on_decision=told.append, **options)  # type: ignore[arg-type]
    return told[0]


@pytest.mark.filterwarnings("ignore:the goal is not met")
def test_a_quiet_row_is_measured_by_its_own_signal() -> None:
    b = Builder("quiet")
    x = b.input("x", TensorType((1, 1, 16, 16), "float32"))
    h = b.add("relu", conv(b, x, rng(1).standard_normal((16, 1, 3, 3)) / 3, np.full(16, 0.01), "a"))
    graph = b.finish({"y": conv(b, h, rng(2).standard_normal((1, 16, 3, 3)) / 12, np.zeros(1), "b")})
    data = [{"x": s["x"] * f32(1 if i % 7 == 0 else 0.01)} for i, s in enumerate(samples(graph, 126))]
    found = decision_of(graph, data, wide=False, prefer="size")
    ways = compile(graph), compile(found.graph)
    rows = []
    for sample in data[5::6]:
        want, got = (w.run(sample)["y"].astype(np.float64) for w in ways)
        rows.append(decibels(float(((want - got) ** 2).sum() / (want**2).sum())))
    assert found.quality.db == pytest.approx(float(np.mean(rows)), abs=0.1)


def test_silence_is_compared_with_the_mean_signal_and_not_with_itself() -> None:
    found = _summed([("y", [(np.array([4.0, 0.0, 1e-9, 4e-4]), np.array([4e-3, 4e-3, 4e-3, 4e-5]))])])
    assert found.noise[0] == pytest.approx(1e-3) and found.noise[3] == pytest.approx(0.1)
    assert found.noise[1] == found.noise[2] == pytest.approx(4e-3 / (4.0004 / 3), rel=1e-3)


def test_rows_without_a_difference_have_no_decibels() -> None:
    quality = Quality((10**-1.5,) * 10 + (0.0,) * 10, 10**-1.5)
    assert quality.db == pytest.approx(15) and Quality((0.0, 0.0), 0.0).db == np.inf


def test_an_output_that_is_always_zero_is_named() -> None:
    b = Builder("rare")
    x = b.input("x", TensorType((2, 8), "float32"))
    h = b.add("linear", x, b.constant(f32(rng(1).standard_normal((8, 8))), name="w"), name="fc", out="h")
    never = b.add("relu", b.add("sub", h, b.constant(f32([1e3])), name="far", out="far"), name="never", out="never")
    graph = b.finish({"y": b.add("tanh", h, out="y"), "never": never})
    found = decided(graph, samples(graph, 12))
    assert found.quality.silent == ("never",) and found.quality.worst_db > 10
    assert "never is 0 on all of them" in found.graph.notes["decided"]


def test_the_rows_that_were_fitted_to_are_counted_as_they_are_measured() -> None:
    """Time comes first in the output: each batch is one row, however many rows its inputs have."""
    parts = [(np.array([1.0]), np.array([0.1]))] * 12
    assert _summed([("y", parts)], fitted=2).fitted == 2 and _summed([("y", parts)]).fitted == 0
    unseen = _summed([("y", [(np.array([1.0]), np.array([1e-2]))] * 10 + [(np.array([1.0]), np.array([1e-6]))] * 2)], fitted=2)
    assert unseen.unseen_db == pytest.approx(20)


def test_a_batch_without_rows_is_one_row() -> None:
    b = Builder("past")
    x, past = b.input("x", TensorType((1, 4), "float32")), b.input("past", TensorType((0, 4), "float32"))
    graph = b.finish({"y": b.add("concat", past, x, axis=0)})
    assert rows_in(graph, {"x": np.zeros((1, 4), np.float32), "past": np.zeros((0, 4), np.float32)}) == 1


# -- joined parts ------------------------------------------------------------------------------------------------------------


def detector(sizes: int = 1) -> Graph:
    """Boxes of hundreds and scores between 0 and 1, joined along the channels; and the sizes of objects along the positions."""
    b = Builder("detector")
    x = b.input("x", TensorType((1, 8, 6, 6), "float32"))
    found = []
    for i in range(sizes):
        boxes = b.add(
            "mul", conv(b, x, rng(i).standard_normal((4, 8, 1, 1)), np.full(4, 4), f"box{i}"), b.constant(f32([64.0])), out=f"b{i}"
        )
        logits = conv(b, x, rng(9 + i).standard_normal((3, 8, 1, 1)), np.full(3, -3.0), f"cls{i}")
        joined = b.add("concat", boxes, b.add("sigmoid", logits, out=f"s{i}"), axis=1, out=f"cat{i}")
        found.append(b.add("reshape", joined, shape=(1, 7, 36), out=f"flat{i}"))
    y = b.add("concat", *found, axis=2, out="all") if sizes > 1 else found[0]
    return b.finish({"y": b.add("transpose", y, perm=(0, 2, 1), out="y")})


def test_the_parts_of_a_joined_output_are_found() -> None:
    graph = detector()
    assert find_parts(graph, "y") == (("b0",), ("s0",))
    numbers = part_numbers(graph, "y", find_parts(graph, "y"))
    assert numbers.shape == (1, 36, 7) and (numbers[..., :4] == 0).all() and (numbers[..., 4:] == 1).all()
    graph = detector(3)
    assert find_parts(graph, "y") == (("b0", "b1", "b2"), ("s0", "s1", "s2"))  # sizes of objects are one part
    points = find_points(graph)
    assert [(p.value, p.kind, p.part, p.probabilities) for p in points[:2]] == [("y", "numbers", 0, False), ("y", "numbers", 1, True)]
    assert [(p.value, p.kind) for p in points[2:]] == [(f"cls{i}", "yes or no") for i in range(3)]


def test_inputs_and_constants_are_no_parts_and_many_parts_are_one_thing() -> None:
    b = Builder("cache")
    x, past = b.input("x", TensorType((1, 4), "float32")), b.input("past", TensorType((3, 4), "float32"))
    graph = b.finish({"y": b.add("concat", past, b.add("relu", x, out="r"), b.constant(np.zeros((1, 4), np.float32)), axis=0, out="y")})
    assert find_parts(graph, "y") == (("r",),)
    assert part_numbers(graph, "y", (("r",),))[:, 0].tolist() == [-1, -1, -1, 0, -1]
    steps = b.finish({"y": b.add("concat", *(b.add("relu", x) for _ in range(40)), axis=0, out="many")})
    assert find_parts(steps, "many") == () and [p.kind for p in find_points(steps)] == ["numbers"]


def test_scores_are_not_hidden_by_boxes() -> None:
    """One scale for boxes up to hundreds and scores up to 1 rounds the scores to nothing."""
    graph = detector()
    data = samples(graph, 12)
    ruler = Ruler(graph, data)
    plain = ruler.measure(quantize(graph, data, guard=False))
    whole = [compile(g).run(data[0])["y"].astype(np.float64) for g in (graph, quantize(graph, data, guard=False))]
    assert decibels(float(((whole[0] - whole[1]) ** 2).sum() / (whole[0] ** 2).sum())) > 30 and plain.worst_db < 10
    found = decided(graph, data)
    scores = [w.run(s)["y"][..., 4:].astype(np.float64) for s in data for w in (compile(graph), compile(found.graph))]
    want, got = (np.concatenate(scores[k::2]) for k in range(2))
    assert decibels(float(((want - got) ** 2).sum() / (want**2).sum())) > 20 and found.met


def test_probabilities_that_are_a_no_are_neither_signal_nor_noise() -> None:
    want, got = np.array([[0.9, 0.001, 0.002, 0.2]]), np.array([[0.9, 0.0, 0.01, 0.1]])
    point = Point("y", "y", "numbers", parts=(("s",),), part=0, probabilities=True)
    x, y = rows_of(point, want, got, 1, np.zeros((1, 4), int))
    assert x.tolist() == [[0.9, 0.0, 0.0, 0.2]] and y.tolist() == [[0.9, 0.0, 0.0, 0.1]]
    signal, noise = noise_at(point, x, y)
    assert signal.tolist() == [1.0] and noise[0] == pytest.approx(0.01)  # compared with one sure yes


# -- classes ---------------------------------------------------------------------------------------------------------------


def head(*after: str) -> tuple[Graph, list[dict[str, Array]]]:
    b = Builder("head")
    x = b.input("x", TensorType((4, 16), "float32"))
    y: Value = b.add(
        "linear", x, b.constant(f32(rng(1).standard_normal((2, 16))), name="w"), b.constant(f32([9.0, -9.0])), name="fc", out="h"
    )
    for op in after:
        y = b.add(op, y, axis=1)
    graph = b.finish({"y": y})
    return graph, samples(graph, 24)


def test_a_linear_head_asks_for_the_decibels_of_numbers() -> None:
    """Two numbers of which the first is always larger may be a position: that the largest is the same says nothing of it."""
    (graph, data), (sure, _) = head(), head("softmax")
    numbers, classes = (Ruler(g, data).measure(quantize(g, data, guard=False)) for g in (graph, sure))
    assert classes.classes and not numbers.classes and numbers.agreement == 1.0
    assert Goal().least(numbers) == Goal().worst and Goal().least(classes) == Goal().answers
    noisy = Quality((10**-2.0,) * 40, 10**-2.0, Answers(40, 40))
    assert not Goal().good(noisy) and not Goal().sure(noisy)


def test_the_answers_of_a_linear_head_are_not_chased_as_far_as_those_that_are_sure() -> None:
    other = Answers(39, 40, 0.02)
    for answered in (False, True):
        quality = Quality((10**-3.1,) * 40, 10**-3.1, other, answered=answered)
        assert Goal().good(quality) is not answered


def test_decibels_of_a_masks_background_do_not_excuse_lost_answers() -> None:
    lost = Answers(980, 1000, mask=True)
    quality = Quality((10**-4.0,) * 40, 10**-4.0, lost)
    assert "2.00% of the answers are other ones" in Goal().lacks(quality)
    assert Goal().good(Quality((10**-4.0,) * 40, 10**-4.0, Answers(980, 1000)))  # of classes, these are ties


def test_a_sigmoid_whose_input_is_inside_a_table_has_answers_all_the_same() -> None:
    """SiLU and sigmoid are one table of bytes: the value between them is in no integer graph."""
    b = Builder("chain")
    x = b.input("x", TensorType((4, 16), "float32"))
    h = b.add("linear", x, b.constant(f32(rng(1).standard_normal((10, 16))), name="w"), name="fc", out="h")
    graph = b.finish({"y": b.add("sigmoid", b.add("silu", h, out="s"), out="y")})
    data = samples(graph, 9)
    made = Quantized(quantize(graph, data, guard=False), graph)
    assert "s" not in made.seen
    found = Ruler(graph, data).measure(made)
    ways = compile(graph), compile(made.graph)
    want, got = (np.concatenate([w.run(s)["y"] for s in data]).astype(np.float64).clip(1e-3, 1 - 1e-3) for w in ways)
    want, got = (np.log(p / (1 - p)) for p in (want, got))
    signal = (want**2).sum(1)
    noise = ((want - got) ** 2).sum(1) / np.maximum(signal, QUIET * signal.mean())  # before a sigmoid, noise is absolute
    assert found.answers.count > 0 and found.noise == pytest.approx(tuple(noise), rel=1e-3)
