"""The guard finds planted problems, says what it did, never makes the outputs worse, and gives the same bytes every time."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from lowbit.accuracy.brackets import Pair, decibels, measure, noise_of, noise_shares, outputs
from lowbit.accuracy.guard import HELD_BACK, Goal, Guarded, GuardStep, guard, split
from lowbit.accuracy.rounding import better_weights, compensated
from lowbit.accuracy.smooth import channel_peaks, seams, smoothed
from lowbit.calibration.run import calibrate
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.pipeline import guarded, quantize
from lowbit.quantization.recipes import recipe
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array, TensorType

RULES = recipe("int8")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def f32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def conv(b: Builder, x: object, w: Array, bias: Array | None, name: str, **options: object) -> object:
    attrs = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, **options}
    parts = [b.constant(f32(w), name=f"{name}.weight")]
    parts += [b.constant(f32(bias), name=f"{name}.bias")] if bias is not None else []
    return b.add("conv", x, *parts, name=name, out=name, **attrs)


def outlier_network() -> Graph:
    """Two linear layers; one hidden channel is 200 times as large as the others, and its weights in the second as much smaller."""
    b = Builder("outlier")
    x = b.input("x", TensorType((8, 16), "float32"))
    scale = np.ones((24, 1))
    scale[5] = 200
    w1, w2 = rng(1).standard_normal((24, 16)) * scale / 4, rng(2).standard_normal((10, 24)) / scale.T / 5
    h = b.add("linear", x, b.constant(f32(w1), name="w1"), b.constant(f32(scale[:, 0] / 10), name="b1"), name="first", out="h")
    a = b.add("relu", h, name="act", out="a")
    y = b.add("linear", a, b.constant(f32(w2), name="w2"), b.constant(np.zeros(10, np.float32), name="b2"), name="second", out="y")
    return b.finish({"y": y})


def depthwise_network() -> Graph:
    """A depthwise layer whose channels span three orders of magnitude, and a sum behind it that cannot be scaled away."""
    b = Builder("depthwise")
    x = b.input("x", TensorType((2, 8, 6, 6), "float32"))
    spread = np.logspace(0, -3, 8).reshape(8, 1, 1, 1)
    d = conv(b, x, rng(3).standard_normal((8, 1, 3, 3)) * spread, None, "depth", groups=8)
    s = b.add("sigmoid", conv(b, d, rng(4).standard_normal((8, 8, 1, 1)) / spread.reshape(1, 8, 1, 1) / 8, np.zeros(8), "point"), out="s")
    t = b.add("tanh", d, out="t")
    y = conv(b, b.add("add", s, t, out="sum"), rng(5).standard_normal((4, 8, 1, 1)), np.zeros(4), "last")
    return b.finish({"y": y})


def shifted_network() -> Graph:
    """Weights that all round the same way, fed with inputs that are all positive: the mean of the output is off."""
    b = Builder("shifted")
    x = b.input("x", TensorType((8, 64), "float32"))
    w = np.full((6, 64), 0.4 / 127) * np.sign(rng(6).standard_normal((6, 1)))
    w[:, 0] = 1.0
    y = b.add("linear", x, b.constant(f32(w), name="w"), b.constant(np.ones(6, np.float32), name="b"), name="only", out="y")
    return b.finish({"y": y})


def samples(graph: Graph, count: int = 12, positive: bool = False) -> list[dict[str, Array]]:
    shape = tuple(int(d) for d in graph.inputs[0].shape)  # type: ignore[call-overload]
    found = (rng(100 + i).standard_normal(shape).astype(np.float32) for i in range(count))
    return [{"x": np.abs(x) + 1 if positive else x} for x in found]


NETWORKS = {"outlier": outlier_network, "depthwise": depthwise_network, "shifted": shifted_network}


def guard_of(name: str, **options: float) -> tuple[Graph, list[dict[str, Array]], Guarded]:
    graph = NETWORKS[name]()
    data = samples(graph, positive=name == "shifted")
    return graph, data, guard(graph, data, RULES, goal=Goal(**options))


def kept(found: Guarded) -> list[GuardStep]:
    return [s for s in found.steps if s.kept]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_outputs_are_never_worse_than_plain_and_the_goal_is_reached(name: str) -> None:
    graph, data, found = guard_of(name)
    assert found.reached >= found.plain
    assert found.reached >= Goal().db(found.plain)
    _, held = split(data)
    assert measure(verify(found.graph), held, [outputs(graph, s) for s in held]).db == pytest.approx(found.reached)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_tells_what_it_gained_and_is_kept_only_if_it_did(name: str) -> None:
    _, _, found = guard_of(name)
    assert found.steps
    reached = found.plain
    for step in found.steps:
        assert step.before == reached
        assert step.kept == (step.after >= step.before + 0.1)
        reached = step.after if step.kept else reached
    assert reached == found.reached
    assert str(found.steps[0]).endswith("kept") and " dB, " in str(found.steps[0])


def test_an_outlier_channel_is_smoothed_into_the_weights() -> None:
    _, _, found = guard_of("outlier", floor=35.0)
    assert any("channels" in s.what and s.after > s.before + 6 for s in kept(found))


def test_a_shift_of_the_mean_is_taken_up_by_the_bias() -> None:
    _, _, found = guard_of("shifted", floor=25.0)
    first = kept(found)[0]
    assert first.what.startswith("biases") and first.after > first.before + 6


def test_the_layer_that_needs_16_bits_is_named() -> None:
    _, _, found = guard_of("depthwise", floor=40.0)
    wide = [s for s in kept(found) if "16" in s.what]
    assert any("point" in s.where or "depth" in s.where for s in wide)


def test_nothing_is_tried_where_the_goal_is_reached_already() -> None:
    _, _, found = guard_of("outlier", floor=0.0, gain=0.0)
    assert found.steps == () and found.reached == found.plain


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_data_give_the_same_bytes(name: str) -> None:
    (_, _, a), (_, _, b) = guard_of(name), guard_of(name)
    assert a.graph == b.graph and a.steps == b.steps


def test_workers_measure_and_the_bytes_are_the_same() -> None:
    graph = outlier_network()
    data = samples(graph)
    alone: list[GuardStep] = []
    together: list[GuardStep] = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        many = quantize(graph, data, executor=executor, on_step=together.append)
    assert many == quantize(graph, data, on_step=alone.append)
    assert together == alone


def test_without_the_guard_the_rules_are_left_alone() -> None:
    graph = outlier_network()
    data = samples(graph)
    transform = QuantizationTransform(RULES)
    assert quantize(graph, data, guard=False) == transform.apply(graph, calibrate(graph, data, transform.taps(graph).observed))


def test_quantize_guards_by_itself_and_notes_what_it_did() -> None:
    graph = outlier_network()
    told: list[GuardStep] = []
    found = quantize(graph, samples(graph), on_step=told.append)
    assert found == guarded(graph, samples(graph)).graph
    assert told and found.notes["guard 1"] == str(told[0])


def test_calibration_never_sees_what_is_measured_with() -> None:
    data = samples(outlier_network(), 24)
    calibration, held = split(data)
    assert len(calibration) == 24 - 24 // HELD_BACK and held
    assert not {id(s) for s in calibration} & {id(s) for s in held}
    assert split(data[:1]) == ([data[0]], [data[0]])  # one sample has to be both
    assert [len(part) for part in split(data[:2])] == [1, 1]


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


def test_rounding_with_compensation_has_less_error_in_the_output() -> None:
    inputs = np.maximum(rng(7).standard_normal((512, 48)) + 0.5, 0)
    h = inputs.T @ inputs / 512 + 0.01 * np.eye(48)
    w, s = rng(8).standard_normal((16, 48)), np.full((16, 1), 0.4)
    errors = [np.sum((inputs @ (w - q * s).T) ** 2) for q in (np.clip(np.rint(w / s), -7, 7), compensated(w, s, h, -7, 7))]
    assert errors[1] < errors[0] / 2
    assert np.array_equal(compensated(w, s, np.eye(48), -7, 7), np.clip(np.rint(w / s), -7, 7))  # nothing to make good


def test_with_no_bracket_rounding_a_run_is_the_float_graphs() -> None:
    graph = depthwise_network()
    data = samples(graph, 4)
    q = quantize(graph, data, guard=False)
    pair = Pair.bound(graph, q, data[0])
    assert np.array_equal(pair.run(data[0], ())["y"], run(graph, data[0])["y"])
    assert np.array_equal(pair.run(data[0])["y"], run(q, data[0])["y"])


def test_the_noise_of_all_brackets_is_about_the_sum_of_their_shares() -> None:
    graph = shifted_network()
    data = samples(graph, 4)
    q = quantize(graph, data, guard=False)
    units = {real: (real,) for real in Pair.bound(graph, q, data[0]).brackets}
    shares = noise_shares(graph, q, data[:1], units)
    assert set(shares) == set(units)
    total = measure(q, data[:1], [outputs(graph, data[0])]).db
    assert total == pytest.approx(decibels(sum(shares.values())), abs=1.5)


def test_other_integers_keep_every_type() -> None:
    graph = outlier_network()
    data = samples(graph)
    q = quantize(graph, data, recipe="w4a8", guard=False)
    better = verify(better_weights(graph, q, data, clip=True))
    assert [n.output.type for n in better.nodes] == [n.output.type for n in q.nodes]
    codes = better.constants["w2:int4"].data
    assert codes.min() >= -7 and codes.max() <= 7


def test_a_network_without_float_outputs_is_measured_by_how_many_of_them_differ() -> None:
    same, other = {"index": np.array([1, 2, 3, 4])}, {"index": np.array([1, 2, 3, 5])}
    assert noise_of(same, same) == ({"index": 4.0}, {"index": 0.0})
    assert noise_of(same, other) == ({"index": 4.0}, {"index": 1.0})
