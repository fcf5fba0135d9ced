"""Laws of linear layers scaled in float32: weights by blocks, activations by rows at run time, and binary weights."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from q_ops_laws import Road, graph_of, inner, road

from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.ir.file import load
from lowbit.ir.interp import run
from lowbit.metrics import sqnr_db
from lowbit.ops.op import get_op
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, QuantRule, RuleMatcher, WeightOnlyRule
from lowbit.types import Array, TensorType

RNG = np.random.default_rng(11)
f = np.float32


@pytest.fixture(autouse=True)
def _numbers_of_its_own(request: pytest.FixtureRequest) -> None:
    """Each test draws the same numbers in whatever order and process it runs."""
    global RNG
    RNG = np.random.default_rng(zlib.crc32(request.node.name.encode()))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def layer(rules: list[QuantRule], op: str = "linear", size: int = 70, bias: bool = True, behind: bool = False, lead: Any = (4,)) -> Road:
    """One layer of 70 → 6 (blocks of 32 leave a shorter one at the end); `behind`: a relu and another layer that wants integers."""
    w = normal(6, size) if op == "linear" else normal(size, 6)

    def make(b: Any, x: Any) -> Any:
        args = [b.constant(w, name="w")] + ([b.constant(normal(6), name="bias")] if bias and op == "linear" else [])
        y = b.add(op, x, *args, name="layer")
        if behind:
            y = b.add("linear", b.add("relu", y, name="act"), b.constant(np.eye(6, dtype=np.float32), name="eye"), name="next")
        return y

    numbers = [2 if not isinstance(d, int) else d for d in lead]
    return road(graph_of(make, (*lead, size)), [[normal(*numbers, size)] for _ in range(4)], rules)


# -- rows at run time ---------------------------------------------------------------------------------------------------------


def test_rows_have_their_largest_value_at_127() -> None:
    x = np.stack([normal(9) * 1e-30, normal(9) * 1e30, np.zeros(9, np.float32)])
    q, s = get_op("quantize_rows").run([x], {})
    assert np.abs(q).max(axis=1).tolist() == [127, 127, 0] and s[2, 0] == 1
    assert np.all(np.abs(q * s.astype(float) - x) <= s * 0.5001)


def test_rows_of_the_unspeakable_have_scale_one() -> None:
    x = np.float32([[np.inf, -np.inf, 3.4], [np.nan, 0, 0], [1e-45, 0, -1e-45], [np.nan, 254, -127]])
    q, s = get_op("quantize_rows").run([x], {})
    assert s.reshape(-1).tolist() == [1.0, 1.0, 1.0, 2.0]
    assert q.tolist() == [[127, -127, 3], [0, 0, 0], [0, 0, 0], [0, 127, -64]]


@pytest.mark.parametrize("op", ["linear", "matmul"])
@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("granularity", ["tensor", "channel", 32])
def test_a_dynamic_layer_is_one_integer_op(op: str, weights: str, granularity: Any) -> None:
    r = layer([DynamicQuantRule(".*", "int8", weights, granularity)], op)
    assert r.ops == ["quantize_rows", "q_linear_rows"] and not r.lowered.islands and not r.lowered.weights_only
    x = normal(4, 70)
    (true,), (bracketed,), (got,) = r.answers(x)
    assert sqnr_db(bracketed, got) >= 110  # the same numbers, other float roundings
    assert sqnr_db(true, got) >= (34 if weights == "int8" else 12)
    assert r.node("q_linear_rows").inputs[2].type.dtype.name == weights


def test_the_formula_of_dynamic_rows_again_step_by_step() -> None:
    r = layer([DynamicQuantRule(".*", "int8", "int4", 32)])
    (q, s, w, ws, bias), (y,) = inner(r, "q_linear_rows", normal(4, 70))
    assert q is not None and s is not None and w is not None and ws is not None and bias is not None
    for i in range(4):
        for c in range(6):
            t = f(0)
            for b, start in enumerate(range(0, 70, 32)):
                acc = sum(int(q[i, k]) * int(w[c, k]) for k in range(start, min(start + 32, 70)))
                t = t + f(acc) * ws[c, b]
            assert y[i, c] == t * s[i, 0] + bias[c]


def test_the_only_block_of_dynamic_rows_takes_both_scales_at_once() -> None:
    r = layer([DynamicQuantRule(".*", "int8", "int4", 128)])
    (q, s, w, ws, bias), (y,) = inner(r, "q_linear_rows", normal(4, 70))
    assert q is not None and s is not None and w is not None and ws is not None and bias is not None and ws.shape == (6, 1)
    acc = (q.astype(np.int64) @ w.astype(np.int64).T).astype(np.float32)
    assert y.tobytes() == (acc * (s * ws[:, 0]) + bias).tobytes()


def test_rows_of_dynamic_layers_without_a_bias_are_never_minus_zero() -> None:
    b = Builder()
    x, s = b.input("x", TensorType((1, 4), "int8")), b.input("s", TensorType((1, 1), "float32"))
    w, ws = b.constant(np.ones((1, 4), np.int8), "w"), b.constant(np.full((1, 2), 1e-30, np.float32), "ws")
    g = b.finish({"y": b.add("q_linear_rows", x, s, w, ws, block=2, bound=512)})
    y = run(g, {"x": np.full((1, 4), -1, np.int8), "s": np.full((1, 1), 1e-30, np.float32)})["y"]
    assert y.tobytes() == np.zeros((1, 1), np.float32).tobytes()


def test_layers_that_read_the_same_rows_quantize_them_once() -> None:
    def make(b: Any, x: Any) -> Any:
        return tuple(b.add("linear", x, b.constant(normal(5, 8), name=f"w{i}"), name=f"l{i}") for i in range(3))

    r = road(graph_of(make, (2, 8)), (), recipe("int8-dynamic"))
    assert sorted(r.ops) == ["q_linear_rows"] * 3 + ["quantize_rows"]


def test_dynamic_layers_take_symbolic_and_empty_batches() -> None:
    n = symbol("batch")
    r = layer(recipe("int8-dynamic"), lead=(n, 3))
    assert r.integers.outputs["y0"].shape == (n, 3, 6)
    for batch in (0, 1, 5):
        x = normal(batch, 3, 70)
        _, _, (got,) = r.answers(x)
        alone = [run(r.integers, {"x0": x[i : i + 1]})["y0"][0] for i in range(batch)]
        assert got.shape == (batch, 3, 6) and all(np.array_equal(a, g) for a, g in zip(alone, got, strict=True))


def test_a_dynamic_layer_between_static_ones_gives_and_takes_reals() -> None:
    def make(b: Any, x: Any) -> Any:
        for name in ("a", "b", "c"):
            x = b.add("relu", b.add("linear", x, b.constant(normal(8, 8), name=f"w{name}"), name=name), name=f"r{name}")
        return x

    x = normal(4, 8)
    r = road(graph_of(make, (4, 8)), [[x]], [DynamicQuantRule("^b"), CalibratedQuantRule(".*")])
    assert [n for n in r.ops if n.startswith("q")] == [
        "quantize_linear",
        "q_linear",
        "quantize_rows",
        "q_linear_rows",
        "quantize_linear",
        "q_linear",
    ]
    (true,), (bracketed,), (got,) = r.answers(x)
    assert sqnr_db(bracketed, got) >= 40 and sqnr_db(true, got) >= 30


def test_a_dynamic_rule_on_a_convolution_keeps_its_weights_only_and_says_so() -> None:
    def make(b: Any, x: Any) -> Any:
        return b.add("conv", x, b.constant(normal(4, 3, 3), name="w"), name="c", stride=(1,), pads=(1, 1), dilation=(1,), groups=1)

    graph = graph_of(make, (1, 3, 9))
    rules = [DynamicQuantRule(".*", because="I said so")]
    r = road(graph, (), rules)
    assert r.ops == ["dequantize_linear", "conv"]
    assert [(i.layer, i.because) for i in r.lowered.weights_only] == [("c", "weights only: stored as int8, multiplied as floats")]
    why = "I said so; conv has no form for activations quantized at run time, so only its weights are integers"
    assert RuleMatcher(rules).explain(graph.nodes[0]) == f"conv 'c': weights, weights int8, because {why} (rule 0: DynamicQuantRule '.*')"


# -- blocks -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["linear", "matmul"])
@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("block", [32, 64, 128])
def test_block_weights_with_static_activations_are_integers(op: str, weights: str, block: int) -> None:
    r = layer([CalibratedQuantRule(".*", "int8", weights, block)], op, behind=True)
    assert r.ops == ["quantize_linear", "q_linear_blocks", "q_linear_blocks"] and not r.lowered.islands
    x = normal(4, 70) * f(0.5)
    (_, (y,)), (true, bracketed, got) = inner(r, "q_linear_blocks", x), r.answers(x)
    assert y.dtype == np.int8 and y.min() >= r.node("q_linear_blocks").attrs["y_zero"]  # the relu is the clamp
    step = r.integers.nodes[-1].attrs
    assert sqnr_db(true[0], got[0]) >= (28 if weights == "int8" else 12)
    scale = abs(bracketed[0]).max() / 100  # the result's step is about that: no code is off by more than one
    assert np.abs(bracketed[0] - got[0]).max() <= 1.5 * scale and step["to"] == "float32"


def test_the_formula_of_blocks_again_step_by_step() -> None:
    r = layer([CalibratedQuantRule(".*", "int8", "int4", 32)], behind=True)
    (q, w, m, bias), (y,) = inner(r, "q_linear_blocks", normal(4, 70))
    a: Any = r.node("q_linear_blocks").attrs
    assert q is not None and w is not None and m is not None and bias is not None
    largest = 0
    for i in range(4):
        for c in range(6):
            t = f(0)
            for b, start in enumerate(range(0, 70, 32)):
                acc = sum((int(q[i, k]) - a["x_zero"]) * int(w[c, k]) for k in range(start, min(start + 32, 70)))
                largest = max(largest, abs(acc))
                t = t + f(acc) * m[c, b]
            t = (t + bias[c]) / f(a["y_scale"])
            assert y[i, c] == np.clip(np.rint(t) + a["y_zero"], a["lo"], a["hi"])
    assert largest <= a["bound"] < 2**31


def test_the_bound_of_blocks_is_reached_by_the_worst_input() -> None:
    r = layer([CalibratedQuantRule(".*", "int8", "int4", 32)], bias=False, behind=True)
    node = r.node("q_linear_blocks")
    a: Any = node.attrs
    w = r.integers.constants[node.inputs[1].name].data.astype(np.int64)
    far = -128 if a["x_zero"] >= 0 else 127
    worst = max(np.abs((far - a["x_zero"]) * np.where(w[:, s : s + 32] > 0, w[:, s : s + 32], 0)).sum(1).max() for s in (0, 32, 64))
    every = max(np.abs(w[:, s : s + 32]).sum(1).max() for s in (0, 32, 64)) * max(127 - a["x_zero"], a["x_zero"] + 128)
    assert worst <= a["bound"] == every


def test_one_block_says_what_per_channel_says_up_to_rounding() -> None:
    x, w, bias = RNG.integers(-128, 128, (5, 40)).astype(np.int8), RNG.integers(-8, 8, (3, 40)).astype(np.int8), normal(3)
    scale = np.float32([[0.01], [0.02], [0.5]])
    common = dict(x_zero=3, y_zero=0, lo=-128, hi=127, to="float32", bound=40 * 131 * 8)
    (a,) = get_op("q_linear_blocks").run([x, w, scale, bias], {**common, "block": 0, "y_scale": 1.0})
    (b,) = get_op("q_linear").run([x, w, scale[:, 0], None], common)
    assert np.array_equal(a, b + bias)


# -- weights only -------------------------------------------------------------------------------------------------------------


def test_weights_only_layers_are_listed_as_such_and_are_no_islands() -> None:
    r = layer(recipe("int4-weights"))
    assert r.ops == ["dequantize_linear", "linear"] and not r.lowered.islands
    assert [(i.layer, i.op, i.because) for i in r.lowered.weights_only] == [
        ("layer", "linear", "weights only: stored as int4, multiplied as floats")
    ]
    (_,), (bracketed,), (got,) = r.answers(normal(4, 70))
    assert np.array_equal(bracketed, got)


def test_a_rule_about_weights_leaves_ops_without_them_alone() -> None:
    graph = graph_of(lambda b, x: b.add("relu", x, name="act"), (2, 3))
    assert RuleMatcher([WeightOnlyRule(".*")]).decide(graph.nodes[0]).because == "relu has no weights"


# -- binary -------------------------------------------------------------------------------------------------------------------


def conv_graph(groups: int = 1) -> Any:
    def make(b: Any, x: Any) -> Any:
        w = b.constant(normal(8, 4 // groups, 3, 3), name="w")
        y = b.add("conv", x, w, b.constant(normal(8), name="b"), name="c", stride=(1, 1), pads=(1,) * 4, dilation=(1, 1), groups=groups)
        flat = b.add("reshape", b.add("relu", y, name="act"), shape=(2, 8 * 36), name="flat")
        return b.add("linear", flat, b.constant(normal(5, 8 * 36), name="lw"), b.constant(normal(5), name="lb"), name="l")

    return graph_of(make, (2, 4, 6, 6))


@pytest.mark.parametrize("groups", [1, 4])
def test_binary_weights_run_through_the_integer_layers(groups: int) -> None:
    r = road(conv_graph(groups), [[normal(2, 4, 6, 6)] for _ in range(4)], recipe("w1a8"))
    assert r.ops == ["quantize_linear", "q_conv", "reshape", "q_linear"] and not r.lowered.islands
    for op in ("q_conv", "q_linear"):
        w = r.node(op).inputs[1]
        assert w is not None and w.type.dtype.name == "binary"
        assert set(np.unique(r.integers.constants[w.name].data)) == {-1, 1}
    x = normal(2, 4, 6, 6)
    _, (bracketed,), (got,) = r.answers(x)
    assert sqnr_db(bracketed, got) >= 35


def test_a_binary_layer_is_sign_times_mean_magnitude() -> None:
    w = normal(6, 70)
    graph = graph_of(lambda b, x: b.add("linear", x, b.constant(w, name="w"), name="l"), (4, 70))
    x = normal(4, 70)
    (got,) = road(graph, (), recipe("binary-weights")).answers(x)[2]
    want = x.astype(float) @ (np.where(w < 0, -1, 1) * np.abs(w).mean(axis=1, dtype=float)[:, None]).T
    assert sqnr_db(want, got) >= 100


@pytest.mark.parametrize("name", ["w1a8", "w4a8", "binary-weights", "w4a8-block"])
def test_few_bits_are_packed_in_the_file(name: str, tmp_path: Path) -> None:
    w = normal(64, 512)
    graph = graph_of(lambda b, x: b.add("linear", x, b.constant(w, name="w"), name="l"), (4, 512))
    r = road(graph, [[normal(4, 512)]], recipe(name))
    for i, g in enumerate((r.brackets, r.integers)):
        path = tmp_path / f"{i}.lowbit"
        g.save(path)
        assert load(path) == g
        bits = 4 if "4" in name else 1
        assert path.stat().st_size < w.size * bits // 8 + 64 * 16 * 4 + 4000
