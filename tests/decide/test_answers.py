"""What is said of answers and rows: expected and counted shares of other answers, batches put together, rows that were fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from lowbit.calibration.observers import make_observer
from lowbit.decide.answers import MANY, Answers, compared
from lowbit.decide.batches import Data, Joined, rows_together
from lowbit.decide.goal import Goal
from lowbit.decide.points import Point
from lowbit.decide.quality import Quality, Ruler
from lowbit.decide.samples import split
from lowbit.dims import symbol
from lowbit.errors import CalibrationError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.pipeline import decided, quantize
from lowbit.types import Array, TensorType

CLASSES, MASK = Point("y", "y", "classes", 1), Point("y", "y", "yes or no")


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def noisy(rows: int, noise: float, seed: int = 0) -> tuple[Array, Array]:
    want = rng(seed).standard_normal((rows, 10)) * 3
    return want, want + noise * rng(seed + 1).standard_normal(want.shape)


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_a_few_rows_tell_how_many_answers_of_many_will_change(noise: float) -> None:
    want, got = noisy(40_000, noise)
    counted = compared(CLASSES, [(want, got)])
    few = [compared(CLASSES, [noisy(60, noise, seed)]) for seed in range(10, 40)]
    truth = 1 - counted.same / counted.count
    assert counted.expected == pytest.approx(truth, rel=0.35)
    assert np.median([a.expected for a in few]) == pytest.approx(truth, rel=0.4)
    assert all(a.other == a.expected for a in few) and counted.other == truth


def test_many_answers_are_counted() -> None:
    want, got = noisy(MANY, 0.5)
    a = compared(CLASSES, [(want[:100], got[:100]), (want[100:], got[100:])])
    assert a.counted and a.count == MANY and a.same == int((want.argmax(1) == got.argmax(1)).sum()) and a.other == 1 - a.same / MANY


def test_of_a_mask_the_rare_answer_counts() -> None:
    """Ten thousand pixels of which one in a hundred is text, and a tenth of that is lost."""
    want = np.full(10_000, -5.0)
    want[:100] = 5.0
    got = want.copy()
    got[:10] = -5.0
    a = compared(MASK, [(want, got)])
    assert (a.same, a.count) == (180, 190) and a.expected > 0
    upside_down = compared(MASK, [(-want, -got)])
    assert (upside_down.same, upside_down.count) == (180, 190)


def test_classes_that_a_mask_hides_change_no_answer() -> None:
    want = np.array([[1.0, -np.inf, -np.inf], [2.0, 1.0, -np.inf]])
    got = np.array([[1.1, -np.inf, -np.inf], [2.0, 1.0, -np.inf]])
    a = compared(CLASSES, [(want, got)])
    assert (a.same, a.count, a.expected) == (2, 2, 0.0)
    assert compared(CLASSES, [(want, np.full_like(want, np.nan))]).other > 0


def test_clear_answers_need_fewer_decibels_and_ties_more() -> None:
    goal = Goal()
    row = (10**-1.7,) * 40  # 17 dB
    clear, tied = (Quality(row, row[0], Answers(40, 40, expected), classes=True) for expected in (0.0, 0.02))
    assert goal.good(clear) and not goal.good(tied)
    close = tuple(n / 100 for n in row)  # 37 dB
    assert goal.good(Quality(close, close[0], Answers(39, 40, 0.02), classes=True))
    assert "2.00% of the answers are expected to be other ones" in goal.lacks(
        Quality((10**-2.5,) * 40, 10**-2.5, Answers(39, 40, 0.02), classes=True)
    )
    numbers = Quality(row, row[0])
    assert not goal.good(numbers) and "17.0 dB on the worst tenth" in goal.lacks(numbers)


# -- batches ---------------------------------------------------------------------------------------------------------------


def network(open_batch: bool = True) -> Graph:
    b = Builder("rows")
    x = b.input("x", TensorType((symbol("n") if open_batch else 1, 6), "float32"))
    w = rng(1).standard_normal((4, 6)).astype(np.float32)
    return b.finish({"y": b.add("linear", x, b.constant(w, name="w"), name="fc", out="y")})


def rows(count: int, each: int = 1) -> list[dict[str, Array]]:
    return [{"x": rng(i).standard_normal((each, 6)).astype(np.float32)} for i in range(count)]


def test_rows_are_put_together_in_their_order() -> None:
    data = rows(30)
    fit = split(data).fit
    joined = Joined(fit, 8)
    assert [len(s["x"]) for s in joined] == [8, 8, 4] and joined.given == 20
    assert np.array_equal(np.concatenate([s["x"] for s in joined]), np.concatenate([data[i]["x"] for i in fit.numbers]))
    assert joined.numbers == ("0 to 10", "12 to 22", "24 to 28")
    assert len(joined.some(1)) == 1 and len(joined.some(20)) == 3


def test_batches_of_other_shapes_stay_apart() -> None:
    data = [{"x": np.zeros((2, k), np.float32)} for k in (3, 3, 5, 5, 3)]
    parts = split(data, 1, 1)
    assert [s["x"].shape for s in Joined(parts.fit, 16)] == [(4, 3), (2, 5), (2, 3)]


def test_rows_that_depend_on_each_other_stay_apart() -> None:
    assert rows_together(network(), rows(1)[0], 24) > 1
    assert rows_together(network(open_batch=False), rows(1)[0], 24) == 1


def test_the_figures_are_those_of_single_rows() -> None:
    graph, data = network(), rows(32)
    q = quantize(graph, data, guard=False)
    alone, together = Ruler(graph, data).measure(q), Ruler(graph, Joined(split(data * 3).report, 8)).measure(q)
    report = [data[i % 32] for i in split(data * 3).report.numbers]
    assert together.noise == pytest.approx(Ruler(graph, report).measure(q).noise, rel=1e-3)  # the float network's last bits
    assert len(alone.noise) == 32 and alone.fitted == 0


def test_few_held_back_rows_are_joined_by_some_that_were_fitted_to() -> None:
    graph, data = network(), rows(12)
    parts = split(data)
    found = Data.of(graph, parts, 24, 40)
    held = np.concatenate([data[i]["x"] for i in parts.decide.numbers])
    assert np.array_equal(found.decide[0]["x"], held) and found.fitted == 1
    seen = {x.tobytes() for s in found.decide for x in s["x"]}
    assert not seen & {data[i]["x"].tobytes() for i in parts.report.numbers}
    measured = Ruler(graph, found.decide, found.numbers, found.fitted).measure(quantize(graph, data, guard=False))
    assert measured.fitted == len(parts.fit) and len(measured.noise) == len(parts.fit) + len(parts.decide)


def test_an_error_names_the_batches_that_were_put_together() -> None:
    b = Builder("root")
    x = b.input("x", TensorType((symbol("n"), 6), "float32"))
    w = np.eye(6, dtype=np.float32)
    graph = b.finish({"y": b.add("linear", b.add("sqrt", x, name="root", out="r"), b.constant(w, name="w"), name="fc", out="y")})
    data = [{"x": np.full((1, 6), 4.0, np.float32)} for _ in range(12)]
    data[4] = {"x": np.full((1, 6), -4.0, np.float32)}
    with pytest.raises(CalibrationError, match="batch 0 to 10"):
        decided(graph, data)


def test_a_histogram_is_read_by_other_methods_as_they_would_have_made_it() -> None:
    x = rng(5).standard_normal(5000).astype(np.float32) ** 3
    mse, percentile = (make_observer(m).observe(x) for m in ("mse", "percentile"))
    assert mse.same_statistics("percentile") and not mse.same_statistics("minmax") and not mse.same_statistics("adaptive")  # type: ignore[attr-defined]
    assert mse.read_by("percentile").to_dict() == percentile.to_dict()  # type: ignore[attr-defined]


def test_candidates_have_a_margin_of_counted_answers_and_the_result_has_none() -> None:
    goal = Goal()
    many = Quality((1e-3,) * 20, 1e-3, Answers(9955, 10_000), classes=True)
    assert not goal.good(many) and "0.45% of the answers are other ones than the float network's, 0.40% may be" in goal.lacks(many)
    assert not goal.lacks(many, margin=False) and goal.needed(many) > many.worst_db
    few = Quality((1e-3,) * 20, 1e-3, Answers(20, 20, expected=0.0045), classes=True)
    assert goal.good(few)
