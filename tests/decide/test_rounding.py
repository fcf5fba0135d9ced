"""Weights that are rounded by integer least squares are never worse than nearest ones, and make good what came before them."""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from lowbit.decide import rounding
from lowbit.decide.decision import Decision
from lowbit.decide.few_bits import depthwise
from lowbit.decide.integer_least_squares import CLIPS, F64, Moments, clipped, compensated, descended, nearest, solve
from lowbit.decide.rounding import better_weights
from lowbit.decide.verdict import verdict
from lowbit.decide.weights import spread, weighted_layers
from lowbit.decide.widths import Widths, rule_for
from lowbit.ir.build import Builder
from lowbit.ir.graph import Constant, Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.pipeline import quantize
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array, TensorType

LO, HI = -7, 7


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def problem(seed: int, groups: int = 1, inputs: int = 48, rows: int = 16, columns: int = 512) -> tuple[F64, F64, F64]:
    """Weights (groups, inputs, rows), scales (groups, rows), and second moments of inputs behind a ReLU, which go together."""
    r = rng(seed)
    x = np.maximum(r.standard_normal((groups, inputs, columns)) + r.standard_normal((groups, 1, columns)), 0)
    w = r.standard_normal((groups, inputs, rows))
    return w, np.abs(w).max(1) / HI, x @ x.transpose(0, 2, 1) / columns


SHAPES = [(1, 48, 16, 512), (1, 48, 16, 8), (1, 1, 3, 5), (12, 9, 1, 64), (3, 33, 5, 100), (1, 65, 2, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_no_row_has_a_larger_error_than_nearest_integers_give_it(shape: tuple[int, int, int, int], seed: int) -> None:
    w, s, h = problem(seed, *shape)
    moments = Moments.of(h)
    near = moments.error(w - nearest(w, s, LO, HI) * s[:, None])
    q = solve(w, s, moments, LO, HI)
    assert np.all(moments.error(w - q * s[:, None]) <= near * (1 + 1e-12))
    assert np.array_equal(q, np.rint(q)) and q.min() >= LO and q.max() <= HI


def test_correlated_inputs_lose_less_than_half_of_the_error_of_nearest_integers() -> None:
    w, s, h = problem(7)
    found = nearest(w, s, LO, HI), solve(w, s, Moments.of(h), LO, HI)
    errors = [np.sum(h @ off * off) for off in (w - q * s[:, None] for q in found)]
    assert errors[1] < errors[0] / 2


def test_uncorrelated_inputs_have_the_nearest_integers() -> None:
    w, s, _ = problem(8)
    moments = Moments.of(np.eye(48)[None])
    assert moments.upper is not None
    assert np.array_equal(compensated(w, s, moments.order, moments.upper, LO, HI), nearest(w, s, LO, HI))
    assert np.array_equal(solve(w, s, moments, LO, HI), nearest(w, s, LO, HI))


@pytest.mark.parametrize("shape", SHAPES)
def test_coordinate_descent_ends_where_no_single_step_is_better(shape: tuple[int, int, int, int]) -> None:
    w, s, h = problem(3, *shape)
    moments = Moments.of(h)
    q = descended(w, s, nearest(w, s, LO, HI), moments.h, LO, HI, sweeps=1000)
    least = moments.error(w - q * s[:, None])
    for j in range(shape[1]):
        for step in (-1, 1):
            other = q.copy()
            other[:, j] = np.clip(other[:, j] + step, LO, HI)
            assert np.all(moments.error(w - other * s[:, None]) >= least * (1 - 1e-9))


def test_each_sweep_of_coordinate_descent_lowers_the_error_or_keeps_it() -> None:
    w, s, h = problem(4, 2, 40, 6, 30)
    moments = Moments.of(h)
    errors = [moments.error(w - descended(w, s, nearest(w, s, LO, HI), moments.h, LO, HI, k) * s[:, None]) for k in range(6)]
    assert all(np.all(b <= a * (1 + 1e-12)) for a, b in itertools.pairwise(errors))


def test_a_clipped_scale_is_never_worse_than_the_given_one() -> None:
    w, s, h = problem(5, 2, 40, 30)
    s = s.astype(np.float32).astype(np.float64)
    importance = np.einsum("gii->gi", h)
    t = clipped(w, s, importance, LO, HI)
    errors = [np.einsum("gdr,gd->gr", (w - nearest(w, x, LO, HI) * x[:, None]) ** 2, importance) for x in (s, t)]
    assert np.all(errors[1] <= errors[0]) and np.any(errors[1] < errors[0])
    assert np.all(t <= s) and np.all(t >= s * CLIPS[-1] * (1 - 1e-6)) and np.array_equal(t, t.astype(np.float32))


def test_positions_are_spread_over_all_of_them_and_not_in_a_grid() -> None:
    assert np.array_equal(spread(5, 8), np.arange(5))
    for count, limit in ((1024, 128), (12544, 171), (1000, 999), (7, 1)):
        at = spread(count, limit)
        assert len(at) == limit and at[0] >= 0 and at[-1] < count and np.all(np.diff(at) > 0)
        assert np.all(at // (count / limit) <= np.arange(limit) + 1)
    assert len(set(spread(1024, 128) % 32)) == 32  # of 32 columns of pixels each is met


# -- layer by layer ------------------------------------------------------------------------------------------------------------


def network(hidden: int = 24) -> Graph:
    """Three linear layers with a ReLU between them; an input that is always zero, and a row of weights that is."""
    b = Builder("layers")
    y: object = b.input("x", TensorType((32, 16), "float32"))
    sizes = (16, hidden, hidden, 10)
    for i, (n, m) in enumerate(itertools.pairwise(sizes)):
        w = rng(i).standard_normal((m, n)).astype(np.float32) / n**0.5
        w[1] *= i != 1
        bias = rng(10 + i).standard_normal(m).astype(np.float32) / 4
        y = b.add("linear", y, b.constant(w, name=f"w{i}"), b.constant(bias, name=f"b{i}"), name=f"l{i}", out=f"y{i}")
        y = b.add("relu", y, name=f"r{i}", out=f"a{i}") if i < 2 else y
    return b.finish({"y": y})


def samples(count: int = 24, seed: int = 5) -> list[dict[str, Array]]:
    mix = rng(6).standard_normal((16, 16)) / 4
    mix[:, 3] = 0
    return [{"x": (rng(seed + i).standard_normal((32, 16)) @ mix).astype(np.float32)} for i in range(count)]


def noise(graph: Graph, quantized: Graph) -> float:
    """Noise ÷ signal on samples that nothing was fitted to."""
    pairs = [(run(graph, s)["y"], run(quantized, s)["y"]) for s in samples(8, 100)]
    return float(sum(np.sum((a - b) ** 2) for a, b in pairs) / sum(np.sum(a**2) for a, _ in pairs))


def test_a_layer_makes_good_the_errors_of_those_before_it() -> None:
    graph, data = network(), samples()
    plain = quantize(graph, data, recipe="w4a8", guard=False)
    ways = [better_weights(graph, plain, data, clip=True, undo=undo) for undo in (False, True)]
    assert noise(graph, verify(ways[1])) < 0.8 * noise(graph, verify(ways[0])) < 0.8 * noise(graph, plain)


def test_a_layer_whose_input_is_too_large_is_made_good_by_its_weights() -> None:
    """The layer before gives twice what it should: no bias and no scale of its own can tell, its weights can."""
    graph, data = network(), samples()
    plain = quantize(graph, data, recipe="int8", guard=False)
    scale = plain.constants["w0:int8:scale"]
    double = replace(plain, constants={**plain.constants, "w0:int8:scale": Constant(scale.value, scale.data * np.float32(2))})
    left = better_weights(graph, double, data, undo=True, leave=frozenset({"y0"}))
    assert noise(graph, left) < 0.1 * noise(graph, double)


@pytest.mark.parametrize("widest", [5, 16, 1152])
def test_inputs_in_blocks_make_good_what_earlier_blocks_left(widest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, data = network(), samples()
    plain = quantize(graph, data, recipe="w4a8", guard=False)
    monkeypatch.setattr(rounding, "WIDEST", widest)
    assert noise(graph, better_weights(graph, plain, data, clip=True, undo=True)) < 0.5 * noise(graph, plain)


def test_rows_are_rounded_alike_whatever_their_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, data = network(), samples()
    plain = quantize(graph, data, recipe="w4a8", guard=False)
    whole = better_weights(graph, plain, data, clip=True, undo=True)
    monkeypatch.setattr(rounding, "ROWS", 7)
    parts = better_weights(graph, plain, data, clip=True, undo=True)
    assert abs(noise(graph, whole) / noise(graph, parts) - 1) < 0.2


def test_weights_and_inputs_of_zero_do_no_harm() -> None:
    graph, data = network(), samples()
    better = better_weights(graph, quantize(graph, data, recipe="w4a8", guard=False), data, clip=True, undo=True)
    assert not np.any(better.constants["w1:int4"].data[1])
    quiet = [{"x": np.zeros_like(s["x"])} for s in data]
    better = better_weights(graph, quantize(graph, data, recipe="w4a8", guard=False), quiet, clip=True, undo=True)
    assert np.abs(run(better, quiet[0])["y"] - run(graph, quiet[0])["y"]).max() < 0.1


def test_a_clipped_scale_still_holds_the_bias() -> None:
    """Weights so small that 32 bits of bias decide their scale: a finer one would be better for them alone."""
    graph, data = network(), samples()
    plain = quantize(graph, data, recipe="w4a8", guard=False)
    (layer,) = (x for x in weighted_layers(graph, plain) if x.source == "w1")
    assert layer.input_scale is not None
    bias, w = graph.constants["b1"].data, graph.constants["w1"].data.copy()
    w[1] = rng(9).standard_normal(w.shape[1]) * abs(float(bias[1])) / 2**30 / plain.constants[layer.input_scale.name].data
    faint = replace(graph, constants={**graph.constants, "w1": Constant(graph.constants["w1"].value, w)})
    better = better_weights(faint, quantize(faint, data, recipe="w4a8", guard=False), data, biases=False, clip=True, undo=True)
    stored = better.constants["b1:int32"].data * better.constants["b1:int32:scale"].data.astype(np.float64)
    assert np.allclose(stored, bias, atol=1e-2)


def test_four_bits_have_the_same_bytes_in_every_run_and_for_every_executor() -> None:
    graph, data = network(), samples()
    one, two = (quantize(graph, data, recipe="w4a8", prefer="accuracy") for _ in range(2))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        many = quantize(graph, data, recipe="w4a8", prefer="accuracy", executor=executor)
    assert one == two == many and one.notes == two.notes == many.notes


def share_of_more_bits(graph: Graph, made: Graph) -> float:
    """Of the weights that have 8 bits, or are float."""
    wide = [made.constants[k].data.size for k in made.constants if k.endswith(":int8") and k.startswith("w")]
    floats = [c.data.size for k, c in made.constants.items() if k in ("w0", "w1", "w2")]
    return (sum(wide) + sum(floats)) / sum(graph.constants[f"w{i}"].data.size for i in range(3))


def test_where_small_is_preferred_at_most_a_fifth_of_the_weights_has_more_bits() -> None:
    graph, data = network(), samples()
    assert share_of_more_bits(graph, quantize(graph, data, recipe="w4a8", prefer="size")) <= 0.2


def test_the_answers_of_a_network_of_few_bits_count_more_than_its_size() -> None:
    graph, data = network(), samples()
    found: dict[str, Decision] = {}
    for prefer in ("size", "accuracy"):
        quantize(graph, data, recipe="w4a8", prefer=prefer, on_decision=lambda d, p=prefer: found.update({p: d}))
    small, accurate = found["size"], found["accuracy"]
    assert accurate.quality.worst_db > small.quality.worst_db + 5 and share_of_more_bits(graph, accurate.graph) > 0.2
    assert accurate.met and not small.met and "NOT MET" in verdict(graph, small)


def test_depthwise_layers_keep_eight_bits_beside_weights_of_few() -> None:
    b = Builder("separable")
    x = b.input("x", TensorType((1, 32, 12, 12), "float32"))
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 32, "pads": (1, 1, 1, 1)}
    deep = b.add("conv", x, b.constant(rng(0).standard_normal((32, 1, 3, 3)).astype(np.float32), name="dw"), **window)
    window |= {"groups": 1, "pads": (0, 0, 0, 0)}
    y = b.add("conv", b.add("relu", deep), b.constant(rng(1).standard_normal((64, 32, 1, 1)).astype(np.float32), name="pw"), **window)
    graph = b.finish({"y": y})
    assert depthwise(graph, [n.output.name for n in graph.nodes if n.op == "conv"]) == {deep.name}
    data = [{"x": rng(i).standard_normal((1, 32, 12, 12)).astype(np.float32)} for i in range(12)]
    made = quantize(graph, data, recipe="w4a8", prefer="size")
    assert "dw:int8" in made.constants and "pw:int4" in made.constants


def test_layers_that_quantize_rows_keep_the_eight_bits_of_their_weights() -> None:
    graph, recipe = network(), CalibratedQuantRule(".*", "int8", weights="int4")
    layer = next(n.output.name for n in graph.nodes if n.op == "linear")
    taps = QuantizationTransform([recipe]).taps(graph)
    found = [
        rule.create_quant_node(graph.producers[layer]).weight
        for widths in (Widths(rows=frozenset({layer})), Widths(rows=frozenset({layer}), eights=frozenset({layer})))
        if (rule := rule_for(graph, taps, widths, recipe)) is not None
    ]
    assert [w.name for w in found if w is not None] == ["int4", "int8"]
