"""The guard finds planted problems, says what it did, never makes the outputs worse, and gives the same bytes every time."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from lowbit.accuracy.brackets import Pair, decibels, measure, noise_of, noise_shares
from lowbit.accuracy.goal import Goal, Guarded, GuardStep
from lowbit.accuracy.guard import guard
from lowbit.accuracy.held import HELD_BACK, Kept, split
from lowbit.accuracy.making import State, Workshop
from lowbit.accuracy.narrow import order, tries
from lowbit.accuracy.rounding import better_weights, compensated, factored
from lowbit.accuracy.smooth import channel_peaks, seams, smoothed
from lowbit.accuracy.widths import Widths
from lowbit.calibration.run import calibrate
from lowbit.errors import CalibrationError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.pipeline import guarded, quantize
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule
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
    assert measure(graph, verify(found.graph), held).db == pytest.approx(found.reached)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_tells_what_it_gained_and_is_kept_only_if_it_did(name: str) -> None:
    _, _, found = guard_of(name)
    assert found.steps
    reached = found.plain
    for step in found.steps:
        assert step.before == reached
        if not step.narrows:
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
    assert [[s is data[0] for s in part] for part in split(data[:1])] == [[True], [True]]  # one sample has to be both
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
    errors = [np.sum((inputs @ (w - q * s).T) ** 2) for q in (np.clip(np.rint(w / s), -7, 7), compensated(w, s, *factored(h), -7, 7))]
    assert errors[1] < errors[0] / 2
    assert np.array_equal(compensated(w, s, *factored(np.eye(48)), -7, 7), np.clip(np.rint(w / s), -7, 7))  # nothing to make good


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
    total = measure(graph, q, data[:1]).db
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


# -- what it tells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_measured_before_and_after(name: str) -> None:
    graph, _, found = guard_of(name)
    layers = {n.name or n.output.name for n in graph.nodes}
    assert set(found.layers) == set(found.plain_layers) == layers
    worst = {n.name or n.output.name for n in graph.nodes if n.output.name in {v.name for v in graph.outputs.values()}}
    assert min(found.layers[k] for k in worst) == pytest.approx(found.reached)  # an output is some layer's result
    assert all(s.layer in layers and s.layer_db <= s.after + 1e-9 for s in found.steps)


def test_the_report_tells_every_step_the_result_and_the_weakest_layers() -> None:
    graph = outlier_network()
    found = guarded(graph, samples(graph))
    notes = found.graph.notes
    assert [notes[f"guard {i + 1}"] for i in range(len(found.steps))] == [str(s) for s in found.steps]
    weakest = min(found.layers, key=lambda k: found.layers[k])
    assert notes["guard"].startswith(f"outputs {found.plain:.1f} → {found.reached:.1f} dB on batches held back from calibration")
    assert f"weakest layers: {weakest} {found.layers[weakest]:.1f} dB" in notes["guard"]


def test_the_guard_says_when_it_is_off_and_why() -> None:
    graph = outlier_network()
    data = samples(graph)
    record = calibrate(graph, data)
    said = {
        "guard=False": quantize(graph, data, guard=False),
        "no recipe stands behind your rules": quantize(graph, data, rules=[CalibratedQuantRule(".*")]),
        "a record is given, and no data to measure with": quantize(graph, record),
        "it does not look after recipe int16": quantize(graph, data, recipe="int16"),
    }
    for why, made in said.items():
        assert made.notes["guard"] == f"off ({why}): what the layers lose was not measured; lowbit compare tells"
    assert "guard" not in quantize(graph, recipe="int8-dynamic").notes  # no range was learned


# -- 8 bits again -------------------------------------------------------------------------------------------------------


def chain(spread: float = 1e-3) -> Graph:
    """Four layers; the inputs of the first have small channels beside large ones, which matter as much, and 8 bits ruin them."""
    b = Builder("chain")
    x = b.input("x", TensorType((16, 32), "float32"))
    scale = np.logspace(0, np.log10(spread), 32)
    h = b.add("mul", x, b.constant(f32(scale), name="scale"), name="scaled", out="h")
    for i in range(4):
        w = rng(20 + i).standard_normal((32, 32)) / 6 / (scale if i == 0 else np.ones(32))
        h = b.add(
            "linear", h, b.constant(f32(w), name=f"w{i}"), b.constant(np.zeros(32, np.float32), name=f"b{i}"), name=f"l{i}", out=f"h{i}"
        )
        h = b.add("relu", h, name=f"r{i}", out=f"a{i}")
    return b.finish({"y": h})


def test_only_layers_that_need_them_keep_16_bits() -> None:
    graph = chain()
    found = guard(graph, samples(graph, 16), RULES, goal=Goal(wide=0.0, least=30.0))
    assert found.reached >= 30.0 > found.plain
    assert 0 < found.wide <= 0.25 + 1e-9  # one of the four layers
    assert found.graph.values["h:int16"].type.dtype.name == "int16"


def test_narrowing_is_kept_only_while_the_goal_holds() -> None:
    graph = chain()
    found = guard(graph, samples(graph, 16), RULES, goal=Goal(floor=45.0, least=45.0))
    back = [s for s in found.steps if s.narrows]
    assert back and all(s.what == "8 bits again" and s.kept == (s.after >= Goal(floor=45.0).db(found.plain)) for s in back)


def test_halving_finds_the_narrowest_state_that_holds() -> None:
    graph = chain()
    shop = Workshop(graph, samples(graph, 16), RULES[0], None, None)
    layers = frozenset(f"h{i}" for i in range(4))
    wide = State(graph, "minmax", widths=Widths(taps=frozenset({"h", "a0", "a1", "a2"}), layers=layers))
    price = {k: i for i, (_, k) in enumerate(order(shop, wide))}
    assert price["h0"] == 3  # the most noise, so the last to go back
    for held in range(5):  # suppose that so many layers may go back
        searching = tries(shop, wide, 30.0, 30.0, 0.0)
        best, tried = 0, next(searching, None)
        while tried is not None:
            best = max(best, tried.count if tried.count <= held else 0)
            try:
                tried = searching.send(31.0 if tried.count <= held else 29.0)
            except StopIteration:
                break
        assert best == held


# -- memory -------------------------------------------------------------------------------------------------------------


def test_samples_beyond_the_room_are_kept_on_disk_and_come_back_as_they_were() -> None:
    data = [{"x": np.full((4, 5), i, np.float32), "mask:0": np.array([i], np.int64)} for i in range(6)]
    held = Kept(iter(data), 2 * sum(x.nbytes for x in data[0].values()))
    assert len(held) == 6 and held[0]["x"] is data[0]["x"] and held[5]["x"] is not data[5]["x"]
    for want, got in zip(data, held, strict=True):
        assert list(want) == list(got)
        assert all(np.array_equal(want[k], got[k]) and want[k].dtype == got[k].dtype for k in want)
    rest, measured = split(held)
    assert [int(s["mask:0"][0]) for s in rest] == [0, 1, 2, 4, 5] and [int(s["mask:0"][0]) for s in measured] == [3]


def test_a_smoothed_network_that_does_not_help_is_let_go() -> None:
    graph = outlier_network()
    shop = Workshop(graph, samples(graph), RULES[0], None, None)
    found = seams(graph)
    other = smoothed(graph, channel_peaks(graph, shop.calibration, found), found, 0.5)
    shop.measure(State(other, "minmax"))
    alive = weakref.ref(other)
    shop.forget(other)
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
        samples = [{"x": f32(rng(s).normal(size=(1, 8)))} for s in range(8)]
        samples[i]["x"][0, 3] = bad
        with pytest.raises(CalibrationError, match=r"NaN|infinit"):
            quantize(graph, samples)
