"""How the engine measures: three sets of samples, noise by rows before the answers, shares of single roundings, layers, wrong values."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from decide_networks import RULES, conv, depthwise_network, f32, outlier_network, rng, samples
from recurrent_networks import frames, network

from lowbit.decide.batches import Joined
from lowbit.decide.brackets import Pair
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.goal import Goal
from lowbit.decide.points import find_points, noise_of_rows
from lowbit.decide.quality import Quality, Quantized, Ruler, decibels, layer_decibels
from lowbit.decide.samples import HELD_BACK, split
from lowbit.decide.sensitivity import noise_shares, shares_by_workers
from lowbit.decide.smooth import channel_peaks, seams, smoothed
from lowbit.decide.widths import Widths
from lowbit.dims import symbol
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate, run
from lowbit.pipeline import compile, decided, quantize
from lowbit.runtime.replay import Replay
from lowbit.types import Array, TensorType

pytestmark = pytest.mark.filterwarnings("ignore:the goal is not met")


# -- measuring ----------------------------------------------------------------------------------------------------------


def test_three_sets_of_samples_share_none() -> None:
    data = samples(outlier_network(), 24)
    parts = split(data)
    sets = [set(p.numbers) for p in (parts.fit, parts.decide, parts.report)]
    assert len(sets[0]) == 24 - 24 // HELD_BACK and all(sets)
    assert not sets[0] & sets[1] and not sets[1] & sets[2] and not sets[0] & sets[2]
    one = split(data[:1])
    assert one.fit.numbers == one.decide.numbers == one.report.numbers == (0,)
    assert [p.numbers for p in (split(data[:2]).fit, split(data[:2]).decide)] == [(0,), (1,)]


def test_the_worst_tenth_counts_and_not_the_sum() -> None:
    quality = Quality(tuple([1e-5] * 19 + [1e-1]), pooled=1e-4)
    assert quality.pooled_db == pytest.approx(40) and quality.worst_db == pytest.approx(decibels((1e-1 + 1e-5) / 2))


@pytest.mark.parametrize(
    ("ops", "value", "kind"),
    [((), "h", "scores"), (("softmax",), "h", "classes"), (("softmax", "log"), "h", "classes"), (("sigmoid",), "h", "yes or no"),
     (("relu",), "v0", "numbers"), (("tanh",), "v0", "numbers")],
)  # fmt: skip
def test_outputs_are_measured_before_the_function_that_makes_answers_of_them(ops: tuple[str, ...], value: str, kind: str) -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 8), "float32"))
    y = b.add("linear", x, b.constant(f32(rng().standard_normal((4, 8)))), out="h")
    for i, op in enumerate(ops):
        y = b.add(op, y, out=f"v{i}", **({"axis": 1} if op == "softmax" else {}))
    (point,) = find_points(b.finish({"y": y}))
    assert (point.value, point.kind) == (value, kind)


def test_the_noise_of_all_roundings_is_about_the_sum_of_their_shares() -> None:
    graph = depthwise_network()
    data = samples(graph, 6)
    maker = CandidateMaker(graph, Joined(split(data).fit, 1), RULES[0], None)
    candidate = Candidate(graph, "mse")
    q = maker.make(candidate)
    units = maker.units(candidate)
    assert {u.split(" ")[0] for u in units} == {"tap", "weights"}
    ruler = Ruler(graph, data[5:6])
    shares = noise_shares(Pair.bound(graph, q, data[5]), data[5], units, ruler.points)
    assert set(shares) == set(units) and all(v > 0 for v in shares.values())
    assert ruler.measure(q).pooled_db == pytest.approx(decibels(sum(shares.values())), abs=1.5)


def test_each_share_is_that_of_one_rounding_alone_in_the_interpreter() -> None:
    graph = depthwise_network()
    data = samples(graph, 3)
    maker = CandidateMaker(graph, Joined(split(data).fit, 1), RULES[0], None)
    q = maker.make(Candidate(graph, "mse"))
    pair = Pair.bound(graph, q, data[2])
    units = maker.units(Candidate(graph, "mse"))
    shares = noise_shares(pair, data[2], units, find_points(graph))
    want = run(graph, data[2])["y"]
    for unit, members in units.items():
        env = pair.start(data[2])
        for i in range(len(q.nodes)):
            pair.step(i, env, members)
        got = env[pair.quantized.outputs["y"].name]
        noise = float(((want - got).astype(np.float64) ** 2).sum() / (want.astype(np.float64) ** 2).sum())
        assert shares[unit] == pytest.approx(noise, rel=1e-3), unit


def test_layers_are_measured_as_the_integers_that_run() -> None:
    graph = depthwise_network()
    data = samples(graph, 3)
    q = quantize(graph, data, guard=False)
    found = layer_decibels(Quantized(q, graph), data[:1])
    want, got = (compile(g).run(data[0])["y"].astype(np.float64) for g in (graph, q))
    assert found["last"] == pytest.approx(decibels(float(((want - got) ** 2).sum() / (want**2).sum())), abs=0.01)
    assert {"depth", "s", "t", "sum", "last"} <= set(found)


@pytest.mark.parametrize("hidden", [-np.inf, -1e9])
def test_logits_that_a_mask_hides_are_neither_signal_nor_noise(hidden: float) -> None:
    b = Builder("masked")
    x = b.input("x", TensorType((8, 16), "float32"))
    y = b.add("linear", x, b.constant(f32(rng(3).standard_normal((10, 16))), name="w"), name="fc", out="logits")
    mask = b.constant(np.arange(10) % 3 == 0, name="mask")
    shown = b.add("where", mask, b.constant(f32([hidden])), y, name="mask", out="shown")
    graph = b.finish({"p": b.add("softmax", shown, axis=1, out="p")})
    data = samples(graph, 6)
    found = Ruler(graph, data).measure(quantize(graph, data, guard=False))
    assert 25 < found.db < 60 and found.answers.same == found.answers.count == 48


def test_outputs_of_other_sizes_do_not_hide_each_other() -> None:
    b = Builder("two")
    x = b.input("x", TensorType((8, 32), "float32"))
    coarse = b.add("mul", x, b.constant(f32(np.logspace(0, -4, 32))), name="bad", out="bad")
    mean = b.add("reduce_mean", x, axes=(0,), keepdims=True, name="m", out="m")
    data = samples(b.finish({"m": mean}), 6)
    for outputs in ({"bad": coarse, "m": mean}, {"m": mean, "bad": coarse}):
        graph = b.finish(outputs)
        found = Ruler(graph, data).measure(quantize(graph, data, recipe="int8", guard=False))
        assert len(found.noise) == 48
        alone = Ruler(b.finish({"bad": coarse}), data).measure(quantize(b.finish({"bad": coarse}), data, guard=False))
        assert found.worst_db <= alone.worst_db + 0.1


def test_a_value_that_is_not_finite_is_as_wrong_as_its_row() -> None:
    signal, noise = noise_of_rows(np.array([[0.0, 3.0]]), np.array([[np.nan, 3.0]]))
    assert noise[0] >= signal[0]


def test_samples_are_not_written_to_and_may_be_read_only() -> None:
    graph = depthwise_network()
    data = samples(graph)
    for s in data:
        s["x"].setflags(write=False)
    decided(graph, data, goal=Goal.of("accuracy"))


def test_an_iterator_may_give_the_same_memory_again() -> None:
    graph = outlier_network()
    fresh = samples(graph, 12)

    def reused():  # type: ignore[no-untyped-def]
        buffer = np.empty_like(fresh[0]["x"])
        for s in fresh:
            buffer[...] = s["x"]
            yield {"x": buffer}

    assert quantize(graph, reused(), prefer="accuracy") == quantize(graph, fresh, prefer="accuracy")


def test_a_metric_that_fails_later_is_told() -> None:
    calls = [0]

    def metric(_: object) -> float:
        calls[0] += 1
        if calls[0] > 2:
            raise KeyError("gone")
        return 0.5

    graph = depthwise_network()
    with pytest.raises(InputError, match="metric raised KeyError"):
        quantize(graph, samples(graph), metric=metric)


@pytest.mark.parametrize("bad", [{"max_drop": 0.1}, {"metric": len, "max_drop": -1}, {"metric": len, "guard": False}, {"on_decision": 3}])
def test_arguments_that_cannot_apply_are_refused_before_any_work(bad: dict[str, object]) -> None:
    graph = outlier_network()
    with pytest.raises(InputError, match=r"max_drop=|metric= decides|on_decision=3 cannot be called"):
        quantize(graph, samples(graph), **bad)  # type: ignore[arg-type]


def recurrent() -> tuple[Graph, list[dict[str, Array]]]:
    return network("lstm", "forward", 1, 35), [{"x": frames(35, seed)} for seed in range(6)]


def test_the_weights_of_a_state_are_part_of_the_noise_of_a_recurrence() -> None:
    graph, data = recurrent()
    maker = CandidateMaker(graph, Joined(split(data).fit, 1), RULES[0], None)
    candidate = Candidate(graph, "mse")
    (name,) = (n for n in maker.units(candidate) if n.startswith("weights "))
    both = maker.units(candidate)[name]
    assert both == ("w0:int8:real", "r0:int8:real")
    pair = Pair.bound(graph, maker.make(candidate), data[5])
    noise = [noise_shares(pair, data[5], {name: members}, find_points(graph))[name] for members in (both, both[:1], both[1:])]
    assert noise[2] > 0.05 * noise[0] and noise[0] != noise[1]


def test_workers_find_the_noise_of_single_roundings_that_one_process_finds() -> None:
    graph, data = recurrent()
    maker = CandidateMaker(graph, Joined(split(data).fit, 1), RULES[0], None)
    candidate, points = Candidate(graph, "mse"), find_points(graph)
    quantized, units = maker.make(candidate), maker.units(candidate)
    alone = noise_shares(Pair.bound(graph, quantized, data[5]), data[5], units, points)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        parts = list(shares_by_workers(executor, graph, quantized, data[5:6], units, points))
    assert len(parts) > 1 and {k: v for part in parts for k, v in part.items()} == alone


def test_layers_whose_channels_were_scaled_are_measured_at_their_own_scale() -> None:
    graph = outlier_network()
    data = samples(graph)
    found = seams(graph)
    graphs = [graph, smoothed(graph, channel_peaks(graph, data, found), found, 0.5)]
    maker = CandidateMaker(graph, Joined(split(data).fit, 1), RULES[0], None)
    plain, scaled = (layer_decibels(maker.made(Candidate(g, "mse")), data[:1]) for g in graphs)
    assert found and set(plain) == set(scaled) and min(scaled.values()) > 10


def test_the_peaks_of_channels_are_found_by_kernels_and_are_those_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder("seams")
    x = b.input("x", TensorType((1, 3, 8, 8), "float32"))
    h = b.add("relu", conv(b, x, rng(1).standard_normal((6, 3, 3, 3)), np.zeros(6), "a"), out="h")
    graph = b.finish({"y": conv(b, h, rng(2).standard_normal((4, 6, 1, 1)), np.zeros(4), "b")})
    data, found = samples(graph, 3), seams(graph)
    assert [s.value for s in found] == ["h"]
    want = np.max([np.abs(evaluate(graph, s, keep=["h"])["h"]).max(axis=(0, 2, 3)) for s in data], axis=0)
    monkeypatch.setattr("lowbit.ir.interp.run_node", None)  # no node is interpreted
    assert channel_peaks(graph, data, found)["h"] == pytest.approx(want, rel=1e-5)


def test_batches_of_several_lengths_share_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder("lengths")
    x = b.input("x", TensorType((1, symbol("n"), 16), "float32"))
    graph = b.finish({"y": b.add("linear", x, b.constant(f32(rng(1).standard_normal((32, 16))), name="w"), name="fc", out="y")})
    data = [{"x": f32(rng(i).standard_normal((1, 3 + i, 16)))} for i in range(6)]
    seen: list[object] = []
    init = Replay.__init__

    def noted(self: Replay, *args: object, **options: object) -> None:
        seen.append(options.get("packed"))
        init(self, *args, **options)  # type: ignore[arg-type]

    ruler, q = Ruler(graph, data), quantize(graph, data, guard=False)
    monkeypatch.setattr(Replay, "__init__", noted)
    ruler.measure(q)
    assert len(seen) == 6 and len(set(map(id, seen))) == 1 and seen[0] is not None


def test_weights_of_a_large_network_are_rounded_once_for_candidates_that_differ_in_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = outlier_network()
    monkeypatch.setattr("lowbit.decide.candidates.SMALL", 0)  # every network is large
    maker = CandidateMaker(graph, Joined(split(samples(graph)).fit, 1), RULES[0], None)
    best = Candidate(graph, "mse", rounding=True, biases=True)
    rounded = maker.make(best)
    maker.best = best
    monkeypatch.setattr("lowbit.decide.candidates.better_weights", None)
    other = maker.make(replace(best, widths=Widths(floats=frozenset({"h"}))))
    again = maker.make(replace(best, widths=Widths(floats=frozenset({"y"}))))
    for made, name in ((other, "w2:int8"), (again, "w1:int8")):
        assert np.array_equal(made.constants[name].data, rounded.constants[name].data)
