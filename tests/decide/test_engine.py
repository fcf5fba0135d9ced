"""The engine finds planted problems, says what it did, and every figure that it tells is true of the network that it returns."""

from __future__ import annotations

import gc
import re
import weakref
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from decide_networks import RULES, conv, depthwise_network, f32, outlier_network, rng, samples

from lowbit.calibration.run import calibrate
from lowbit.decide.batches import Data, Joined
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.cost import LayerCosts, Stopwatch, Times
from lowbit.decide.decision import Decision
from lowbit.decide.effort import Effort
from lowbit.decide.engine import Engine
from lowbit.decide.goal import FASTER, Goal, Step
from lowbit.decide.points import find_points
from lowbit.decide.quality import Quantized, Ruler, decibels, layer_decibels
from lowbit.decide.repairs import Repair, enough, find_repairs, in_order, within
from lowbit.decide.rounding import better_weights
from lowbit.decide.samples import StoredSamples, split
from lowbit.decide.smooth import channel_peaks, seams, smoothed
from lowbit.decide.verdict import verdict
from lowbit.decide.weights import weighted_layers
from lowbit.decide.widths import Widths
from lowbit.errors import CalibrationError, InputError, LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.pipeline import compile, decided, quantize
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array, TensorType


def shifted_network() -> Graph:
    """Weights that all round the same way, fed with inputs that are all positive: the mean of the output is off."""
    b = Builder("shifted")
    x = b.input("x", TensorType((8, 64), "float32"))
    w = np.full((6, 64), 0.4 / 127) * np.sign(rng(6).standard_normal((6, 1)))
    w[:, 0] = 1.0
    y = b.add("linear", x, b.constant(f32(w), name="w"), b.constant(np.ones(6, np.float32), name="b"), name="only", out="y")
    return b.finish({"y": y})


NETWORKS = {"outlier": outlier_network, "depthwise": depthwise_network, "shifted": shifted_network}
pytestmark = pytest.mark.filterwarnings("ignore:the goal is not met")


def decision_of(name: str, prefer: str = "accuracy") -> tuple[Graph, list[dict[str, Array]], Decision]:
    """Accuracy: the decision does not depend on what else the machine does."""
    graph = NETWORKS[name]()
    data = samples(graph, positive=name == "shifted")
    return graph, data, decided(graph, data, goal=Goal.of(prefer))  # type: ignore[arg-type]


def kept(found: Decision) -> list[Step]:
    return [s for s in found.steps if s.kept]


# -- what is told is true -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_the_figure_is_that_of_the_session_on_samples_that_nothing_was_fitted_to(name: str) -> None:
    graph, data, found = decision_of(name)
    session, reference = compile(found.graph), compile(graph)
    outputs = [[s.run(data[i])["y"].astype(np.float64) for i in split(data).report.numbers] for s in (reference, session)]
    want, got = (np.concatenate(rows).reshape(sum(map(len, rows)), -1) for rows in outputs)
    signal, noise = (want**2).sum(axis=1), ((want - got) ** 2).sum(axis=1)
    assert found.quality.pooled_db == pytest.approx(decibels(noise.sum() / signal.sum()), abs=1e-3)
    rows = [min(decibels(r), 100.0) for r in noise / signal if r > 0]
    assert found.quality.db == pytest.approx(np.mean(rows) if rows else np.inf, abs=1e-3)
    assert f"{found.quality.db:.1f} dB, worst tenth {found.quality.worst_db:.1f} dB" in found.graph.notes["decided"]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_samples_that_decide_are_never_worse_than_with_the_plain_rules(name: str) -> None:
    graph, data, found = decision_of(name, "balanced")
    parts = split(data)
    ruler = Ruler(graph, Data.of(graph, parts, 1000, Effort.of(1000).decided).decide)
    plain = quantize(graph, list(parts.fit), guard=False)
    assert ruler.measure(verify(found.graph)).db >= found.plain.db - 0.5
    assert ruler.measure(plain).worst_db == pytest.approx(found.plain.worst_db)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_tells_what_it_gained(name: str) -> None:
    _, _, found = decision_of(name)
    assert found.steps
    reached = found.plain.worst_db
    for step in found.steps:
        assert step.before == reached
        reached = step.after if step.kept else reached
    assert " dB" in str(found.steps[0]) and str(found.steps[0]).endswith("kept")


def test_the_notes_tell_every_step_the_result_and_the_weakest_layers() -> None:
    graph = outlier_network()
    told: list[Step] = []
    found = quantize(graph, samples(graph), on_step=told.append)
    assert told and [found.notes[f"decided {i + 1}"] for i in range(len(told))] == [str(s) for s in told]
    assert "weakest layers: " in found.notes["decided"] and "nothing was fitted to or chosen by" in found.notes["decided"]


def test_a_goal_that_cannot_be_met_comes_back_with_the_best_and_the_reason() -> None:
    graph = depthwise_network()
    with pytest.warns(LowbitWarning, match=r"the goal is not met: the outputs have .* dB on the worst tenth, 200 are wanted"):
        found = decided(graph, samples(graph), goal=Goal(worst=200.0, answers=200.0, wanted=200.0, enough=200.0, bits16=False))
    assert not found.met and found.graph.notes["not met"] == found.unmet and verdict(graph, found).endswith(found.unmet)


def test_few_samples_are_said_to_be_few() -> None:
    graph = depthwise_network()
    told = decided(graph, samples(graph)).graph.notes["decided"]
    assert re.search(r"only 4 samples tell the dB to ±\d+\.\d: other data may differ", told)
    assert "only" not in decided(outlier_network(), samples(outlier_network(), 60)).graph.notes["decided"]


def test_one_batch_is_warned_of() -> None:
    graph = outlier_network()
    with pytest.warns(LowbitWarning, match="there is one batch"):
        found = quantize(graph, samples(graph, 1))
    assert "the one batch there is" in found.notes["decided"]


# -- planted problems ---------------------------------------------------------------------------------------------------


def test_an_outlier_channel_is_smoothed_into_the_weights() -> None:
    _, _, found = decision_of("outlier")
    assert any("channels" in s.what and s.after > s.before + 6 for s in kept(found))


def test_a_shift_of_the_mean_is_taken_up_by_the_bias() -> None:
    _, _, found = decision_of("shifted")
    assert any(s.what.startswith("biases") and s.after > s.before + 6 for s in kept(found))


def test_the_layers_that_need_more_bits_are_named() -> None:
    _, _, found = decision_of("depthwise")
    assert found.widths != Widths() and found.quality.worst_db >= 33
    names = [s.where for s in kept(found) if "16" in s.what or "float" in s.what]
    assert any("depth" in where or "point" in where or "sum" in where for where in names)


def head_network() -> Graph:
    """A layer whose result is precise, for it is a mean, and a regression head on one number: sigmoid, times a range, plus an offset."""
    b = Builder("head")
    x = b.input("x", TensorType((4, 64), "float32"))
    z = b.add("linear", x, b.constant(np.full((1, 64), 1 / 64, np.float32), name="wz"), name="z", out="z")
    y = b.add("add", b.add("mul", b.add("sigmoid", z, name="s", out="s"), b.constant(f32([900.0])), name="m", out="m"),
              b.constant(f32([-450.0])), name="a", out="a")  # fmt: skip
    return b.finish({"y": y})


def test_a_few_elementwise_operations_at_the_end_stay_float_before_any_layer_gets_16_bits() -> None:
    graph = head_network()
    found = decided(graph, samples(graph, 24), goal=Goal(worst=32.0, wanted=32.0, enough=60.0, slower=True, bits16=True))
    assert {"s", "m", "a"} <= found.widths.floats and not found.widths.layers | found.widths.weights
    assert found.plain.pooled_db < 35 < found.quality.pooled_db


def test_a_sharp_softmax_does_not_hide_a_broken_inside() -> None:
    """Logits of hundreds: the probabilities are 1 and 0 however noisy the logits are."""
    b = Builder("sharp")
    x = b.input("x", TensorType((8, 16), "float32"))
    y = b.add("linear", x, b.constant(f32(200 * rng(3).standard_normal((10, 16))), name="w"), name="fc", out="logits")
    graph = b.finish({"p": b.add("softmax", y, axis=1, out="p")})
    (point,) = find_points(graph)
    assert (point.value, point.kind) == ("logits", "classes")
    data = samples(graph, 6)
    coarse = [CalibratedQuantRule(".*", "int8", "int4", because="coarse")]
    q = quantize(graph, data, rules=coarse, guard=False)
    measured = Ruler(graph, data).measure(q)
    assert measured.worst_db < 25 and measured.answers.count == 48


def test_a_layer_below_ten_decibels_is_mended_whatever_the_outputs_show() -> None:
    """max(E[x²] − E[x]², 0) of values far from zero: a difference of two large numbers, which 8 bits do not have."""
    b = Builder("variance")
    x = b.input("x", TensorType((8, 32), "float32"))
    shift = b.add("add", x, b.constant(f32([12.0])), name="shift", out="shift")
    square = b.add("reduce_mean", b.add("mul", shift, shift, out="sq"), axes=(1,), keepdims=True, name="e2", out="e2")
    mean = b.add("reduce_mean", shift, axes=(1,), keepdims=True, name="e", out="e")
    var = b.add("maximum", b.add("sub", square, b.add("mul", mean, mean, out="mm"), name="var", out="var"), b.constant(f32([0.0])), out="v")
    large = b.add("linear", x, b.constant(f32(rng(1).standard_normal((32, 32))), name="w"), name="fc", out="fc")
    graph = b.finish({"y": b.add("add", large, b.add("mul", var, b.constant(f32([1e-3])), out="small"), name="out", out="y")})
    data = samples(graph, 18)
    plain = layer_decibels(Quantized(quantize(graph, data, guard=False), graph), data[:1])
    assert plain["var"] < 10
    found = decided(graph, data)
    assert min(layer_decibels(Quantized(found.graph, graph), data[:1]).values()) >= 10
    assert found.widths.floats  # mended as a layer below 10 dB, or because the outputs were better for it


# -- time ---------------------------------------------------------------------------------------------------------------


def test_repairs_are_taken_by_noise_for_each_millisecond() -> None:
    def floats(*nodes: str) -> Widths:
        return Widths(floats=frozenset(nodes))

    offered = [
        Repair("tap a", "16 bits", 0.5, 1.0, Widths(layers=frozenset("a"))), Repair("tap a", "float", 0.5, 0.001, floats("a")),
        Repair("tap b", "float", 0.4, 0.2, floats("a", "b")), Repair("tap c", "float", 0.1, 5.0, floats("c")),
    ]  # fmt: skip
    ordered = in_order(offered, 0.01)
    assert [(r.unit, r.what) for r in ordered] == [("tap a", "float"), ("tap b", "float"), ("tap c", "float")]
    costs = LayerCosts({"a": 0.101, "b": 0.3, "c": 5.1}, dict.fromkeys("abc", 0.1), {}, {})
    assert [r.unit for r in within(ordered, costs, 0.1)] == ["tap a"]
    assert [r.unit for r in within(ordered, costs, 0.202)] == ["tap a", "tap b"]  # what both keep float counts once
    assert enough(ordered, 1.0, 0.2) == 2 and enough(ordered, 1.0, 0.0) == 3 and enough(ordered, 0.1, 0.2) == 1


def test_a_float_layer_takes_the_clamp_after_it_along() -> None:
    """A relu6 alone in integers would round what it is about to cut off."""
    b = Builder("clamped")
    x = b.input("x", TensorType((2, 4, 6, 6), "float32"))
    y = b.add("relu6", conv(b, x, rng(1).standard_normal((4, 4, 3, 3)), np.zeros(4), "c"), name="r", out="r")
    graph = b.finish({"y": conv(b, y, rng(2).standard_normal((4, 4, 1, 1)), np.zeros(4), "d")})
    maker = CandidateMaker(graph, Joined(split(samples(graph)).fit, 1), RULES[0], None)
    costs = LayerCosts({"c": 1.0, "d": 1.0}, {"c": 0.5, "d": 0.5}, {}, {})
    (float_,) = [r for r in find_repairs(maker, Candidate(graph, "mse"), {"weights c": 1.0}, costs, False) if r.what == "float"]
    assert float_.widths.floats == {"c", "r"}


def test_a_balanced_network_is_never_slower_than_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 16 bits and float islands were slow: the plain network stays what it is."""
    graph = depthwise_network()
    data = samples(graph)

    def times(self: object, integer: Graph) -> Times:
        wide = sum(o.type.dtype.name == "int16" for n in integer.nodes for o in n.outputs)
        floats = sum(n.op in ("conv", "sigmoid", "tanh", "add") for n in integer.nodes)
        return Times(0.5 + wide + floats, 1.0)

    monkeypatch.setattr("lowbit.decide.cost.Stopwatch.times", times)
    found = decided(graph, data, goal=Goal(worst=60.0, answers=60.0, wanted=60.0, enough=60.0))
    assert found.times is not None and found.times.ratio <= FASTER and not found.met
    slower = decided(graph, data, goal=replace(Goal.of("accuracy"), worst=60.0, wanted=60.0, enough=60.0))
    assert slower.times is not None and slower.times.ratio > FASTER and slower.quality.worst_db > found.quality.worst_db


@pytest.mark.parametrize("bad", ["fast", 3, None])
def test_an_unknown_preference_is_refused(bad: object) -> None:
    graph = outlier_network()
    with pytest.raises(InputError, match=r"prefer=.* is none"):
        quantize(graph, samples(graph), prefer=bad)  # type: ignore[arg-type]


# -- the user's metric --------------------------------------------------------------------------------------------------


def test_a_metric_decides_in_the_place_of_decibels() -> None:
    graph = depthwise_network()
    data = samples(graph)
    reference = compile(graph)
    seen: list[float] = []

    def metric(session: object) -> float:
        off = max(float(np.abs(session.run(s)["y"] - reference.run(s)["y"]).max()) for s in data)  # type: ignore[attr-defined]
        seen.append(-off)
        return -off

    found = decided(graph, data, metric=metric, max_drop=0.05, goal=Goal.of("accuracy"))
    assert found.float_score == 0.0 and found.score == max(seen[1:]) and f"score {found.score:.6g}" in verdict(graph, found)
    assert found.met == (found.score >= -0.05)


@pytest.mark.parametrize("bad", [float("nan"), "high", None])
def test_a_metric_that_gives_no_number_is_an_error(bad: object) -> None:
    graph = outlier_network()
    with pytest.raises(InputError, match="metric gave"):
        quantize(graph, samples(graph), metric=lambda _: bad)


def test_a_metric_that_raises_is_an_error_that_says_what_it_raised() -> None:
    def metric(_: object) -> float:
        raise KeyError("labels")

    graph = outlier_network()
    with pytest.raises(InputError, match="metric raised KeyError: 'labels'"):
        quantize(graph, samples(graph), metric=metric)


# -- the same result ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_data_give_the_same_bytes(name: str) -> None:
    (_, _, a), (_, _, b) = decision_of(name), decision_of(name)
    assert a.graph == b.graph and [str(s) for s in a.steps] == [str(s) for s in b.steps]


@pytest.mark.parametrize("name", NETWORKS)
def test_no_clock_decides_where_accuracy_is_preferred(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, wanted = decision_of(name)
    clock = rng(5)
    monkeypatch.setattr("lowbit.decide.cost.Stopwatch.times", lambda *_: Times(float(clock.uniform(0.1, 2)), 1.0))
    _, _, found = decision_of(name)
    assert found.graph == wanted.graph and [str(s) for s in found.steps] == [str(s) for s in wanted.steps]


def test_workers_calibrate_and_the_bytes_are_the_same() -> None:
    graph = outlier_network()
    data = samples(graph)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        many = quantize(graph, data, executor=executor, prefer="accuracy")
    assert many == quantize(graph, data, prefer="accuracy")


def test_without_the_guard_the_rules_are_left_alone() -> None:
    graph = outlier_network()
    data = samples(graph)
    transform = QuantizationTransform(RULES)
    made = transform.apply(graph, calibrate(graph, data, transform.taps(graph).observed))
    assert quantize(graph, data, guard=False) == made


def test_nothing_is_tried_where_the_outputs_have_enough() -> None:
    graph = head_network()
    found = decided(graph, samples(graph), goal=Goal(worst=-99.0, answers=-99.0, wanted=-99.0, enough=-99.0, other=1.0))
    assert [s for s in found.steps if "faster" not in s.what] == []


# -- repairs that cost nothing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.75])
def test_smoothing_keeps_the_float_meaning(alpha: float) -> None:
    graph = outlier_network()
    found = seams(graph)
    assert [(s.maker.name, s.value) for s in found] == [("first", "a")]
    data = samples(graph)
    other = verify(smoothed(graph, channel_peaks(graph, data, found), found, alpha))
    assert other != graph
    for s in data:
        want = run(graph, s)["y"]
        assert np.abs(run(other, s)["y"] - want).max() <= 1e-5 * np.abs(want).max()


def test_a_value_that_anything_else_reads_is_no_seam() -> None:
    assert [s.value for s in seams(depthwise_network())] == []


def test_other_integers_keep_every_type() -> None:
    graph = outlier_network()
    data = samples(graph)
    q = quantize(graph, data, recipe="w4a8", guard=False)
    better = verify(better_weights(graph, q, data, clip=True))
    assert [n.output.type for n in better.nodes] == [n.output.type for n in q.nodes]
    codes = better.constants["w2:int4"].data
    assert codes.min() >= -7 and codes.max() <= 7


@pytest.mark.parametrize("clip", [False, True])
def test_biases_are_on_the_grid_of_clipped_scales_whatever_bits_other_layers_have(clip: bool) -> None:
    graph = outlier_network()
    maker = CandidateMaker(graph, Joined(split(samples(graph)).fit, 1), recipe("w4a8")[0], None)
    best = Candidate(graph, "mse", rounding=True, clip=clip, biases=True)
    maker.make(best)
    maker.best = best
    for widths in (Widths(eights=frozenset({"y"})), Widths(taps=frozenset({"x"}), layers=frozenset({"h"}))):
        made = verify(maker.make(replace(best, widths=widths)))
        (layer,) = (x for x in weighted_layers(graph, made) if x.source == "w1")
        assert layer.bias is not None and layer.input_scale is not None
        grid = made.constants[layer.bias.inputs[1].name].data  # type: ignore[union-attr]
        assert grid == pytest.approx(made.constants[layer.input_scale.name].data * made.constants["w1:int4:scale"].data, rel=1e-6)


def test_the_guard_says_when_it_is_off_and_why() -> None:
    graph = outlier_network()
    data = samples(graph)
    record = calibrate(graph, data)
    said = {
        "guard=False": quantize(graph, data, guard=False),
        "no recipe comes after your rules": quantize(graph, data, rules=[CalibratedQuantRule(".*")]),
        "a record is given, and no data to measure with": quantize(graph, record),
        "it does not look after recipe int16": quantize(graph, data, recipe="int16"),
    }
    for why, made in said.items():
        assert made.notes["guard"] == f"off ({why}): what the layers lose was not measured; lowbit compare tells"
    assert "guard" not in quantize(graph, recipe="int8-dynamic").notes  # no range was learned


# -- data that is wrong, and memory -------------------------------------------------------------------------------------


def test_samples_beyond_the_room_are_kept_on_disk_and_come_back_as_they_were() -> None:
    data = [{"x": np.full((4, 5), i, np.float32), "mask:0": np.array([i], np.int64)} for i in range(6)]
    held = StoredSamples(iter(data), 2 * sum(x.nbytes for x in data[0].values()))
    assert len(held) == 6 and held[0]["x"] is data[0]["x"] and held[5]["x"] is not data[5]["x"]
    for want, got in zip(data, held, strict=True):
        assert list(want) == list(got)
        assert all(np.array_equal(want[k], got[k]) and want[k].dtype == got[k].dtype for k in want)
    parts = split(held)
    assert [int(s["mask:0"][0]) for s in parts.fit] == [0, 1, 3, 4] and [int(s["mask:0"][0]) for s in parts.report] == [5]


def test_a_smoothed_network_that_does_not_help_is_let_go() -> None:
    graph = outlier_network()
    maker = CandidateMaker(graph, Joined(split(samples(graph)).fit, 1), RULES[0], None)
    found = seams(graph)
    other = smoothed(graph, channel_peaks(graph, list(maker.fit), found), found, 0.5)
    maker.make(Candidate(other, "minmax"))
    alive = weakref.ref(other)
    maker.forget(other)
    del other
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_held_back_sample_that_is_not_finite_is_refused_like_any_other(bad: float) -> None:
    b = Builder()
    x = b.input("x", TensorType((1, 8), "float32"))
    w = b.constant(f32(rng().normal(size=(4, 8))), name="w")
    graph = b.finish({"y": b.add("linear", x, w, name="fc")})
    for i in range(8):
        data = [{"x": f32(rng(s).normal(size=(1, 8)))} for s in range(8)]
        data[i]["x"][0, 3] = bad
        with pytest.raises(CalibrationError, match=r"NaN|infinit"):
            quantize(graph, data)


@pytest.mark.parametrize(("float_ms", "wide_ms"), [(10.0, 1.2), (1.2, 10.0)])
def test_16_bits_are_taken_where_they_are_faster_than_float(float_ms: float, wide_ms: float, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = depthwise_network()

    def layers(self: Stopwatch, made: Quantized | None = None) -> dict[str, float]:
        wide = made is not None and any(o.type.dtype.name == "int16" for n in made.integer.nodes for o in n.outputs)
        return dict.fromkeys((n.output.name for n in graph.nodes), float_ms if made is None else wide_ms if wide else 1.0)

    def times(self: Stopwatch, integer: Graph) -> Times:
        wide = sum(o.type.dtype.name == "int16" for n in integer.nodes for o in n.outputs)
        floats = sum(n.op in ("conv", "sigmoid", "tanh", "add") for n in integer.nodes)
        return Times(0.4 + (wide * (wide_ms - 1) + floats * (float_ms - 1)) / 20, 1.0)

    monkeypatch.setattr(Stopwatch, "layers", layers)
    monkeypatch.setattr(Stopwatch, "times", times)
    found = decided(graph, samples(graph), goal=Goal(worst=32.0, answers=32.0, wanted=32.0, enough=45.0))
    assert found.quality.worst_db > found.plain.worst_db + 3
    assert bool(found.widths.taps | found.widths.layers) == (wide_ms < float_ms) and bool(found.widths.floats) == (float_ms < wide_ms)


def test_everything_gets_16_bits_where_single_repairs_do_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = depthwise_network()
    monkeypatch.setattr(Engine, "costly_repairs", lambda self: None)
    monkeypatch.setattr(Engine, "free_repairs", lambda self, everywhere: iter(()))
    monkeypatch.setattr(Stopwatch, "times", lambda self, integer: Times(0.5, 1.0))
    costs = {n.output.name: 0.01 for n in graph.nodes}
    monkeypatch.setattr(Engine, "costs", LayerCosts(costs, costs, costs, costs))
    found = decided(graph, samples(graph), goal=Goal(worst=34.0, answers=34.0, wanted=34.0, enough=45.0))
    assert (
        any(s.what == "16 bits" and s.kept for s in found.steps) and {"depth", "point", "last"} <= found.widths.layers | found.widths.floats
    )
