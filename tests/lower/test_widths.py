"""Widths: the same network in 8 and 16 bits, signed and not, with narrow weights, and with both widths in one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from q_laws import ACTIVATIONS, Side, both, bracketed, inputs, lowered, off_by, ops_of, params, rounded, side, the_node, weight

from lowbit.calibration.run import calibrate
from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.errors import ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.file import load, save
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.text import print_graph
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.ops import get_op
from lowbit.quant_params import quantize
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule, QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.ranges import params_from_data
from lowbit.types import Array, TensorType

F32 = np.float32
RNG = np.random.default_rng(11)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(F32)


def network() -> Graph:
    """Every kind of op once: conv, add, mul, pools, concat, tables, transposed conv, resize, norm, softmax, matmul, movement, linear."""
    b = Builder()
    geometry: dict[str, Any] = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
    x = b.input("x", TensorType((symbol("n"), 4, 8, 8), "float32"))

    def conv(v: Any, out: int, groups: int, name: str) -> Any:
        w = floats(out, v.type.shape[1] // groups, 3, 3) / F32(4)
        return b.add("conv", v, b.constant(w), b.constant(floats(out)), name=name, groups=groups, **geometry)

    first = b.add("relu", conv(x, 6, 1, "first"))
    second = b.add("add", first, conv(first, 6, 6, "depthwise"))
    gate = b.add("sigmoid", b.add("reduce_mean", second, axes=(2, 3), keepdims=True), name="gate")
    gated = b.add("mul", second, gate)
    pool: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "pads": (0,) * 4, "dilation": (1, 1), "ceil_mode": False}
    small = b.add("concat", b.add("max_pool", gated, **pool), b.add("avg_pool", gated, **pool, count_include_pad=True), axis=1)
    up: dict[str, Any] = {"stride": (2, 2), "pads": (0,) * 4, "dilation": (1, 1), "groups": 2, "output_padding": (0, 0)}
    large = b.add("conv_transpose", small, b.constant(floats(12, 3, 2, 2) / F32(3)), b.constant(floats(6)), name="up", **up)
    sized: dict[str, Any] = {"sizes": (symbol("n"), 6, 4, 4), "scales": (None,) * 4, "mode": "linear", "coordinate_mode": "half_pixel"}
    mixed = b.add("hardswish", b.add("resize", large, **sized))
    tokens = b.add("transpose", b.add("reshape", mixed, shape=(symbol("n"), 6, 16)), perm=(0, 2, 1))  # (n, 16, 6)
    normal = b.add("layer_norm", tokens, b.constant(floats(6)), b.constant(floats(6)), axis=2, eps=1e-5)
    scores = b.add("softmax", b.add("matmul", normal, b.add("transpose", normal, perm=(0, 2, 1))), axis=2)
    mean = b.add("reduce_mean", b.add("matmul", scores, normal), axes=(1,), keepdims=False)
    y = b.add("linear", mean, b.constant(floats(5, 6)), b.constant(floats(5)), name="head")
    return verify(b.finish({"y": y}))


NETWORK = network()
DATA = [{"x": floats(2, 4, 8, 8)} for _ in range(3)]


def quantized(graph: Graph, rules: list[QuantRule], data: list[dict[str, Array]]) -> Graph:
    transform = QuantizationTransform(rules)
    return verify(transform.apply(graph, calibrate(graph, data, transform.taps(graph).observed)))


def sqnr(want: Array, got: Array) -> float:
    noise = float(np.square(want.astype(np.float64) - got).sum())
    return 10 * np.log10(float(np.square(want.astype(np.float64)).sum()) / max(noise, 1e-300))


# 8-bit weights limit 16-bit activations; w16a16 is limited by activations alone.
@pytest.mark.parametrize(("name", "floor"), [("int8", 35), ("uint8", 35), ("int16", 45), ("int16-w16", 80), ("w4a8", 12)])
def test_a_network_runs_on_integers_from_the_first_layer_to_the_last(name: str, floor: float) -> None:
    brackets = quantized(NETWORK, recipe(name), DATA)
    done = lower(brackets)
    assert done.islands == ()
    assert [n.op for n in verify(done.graph).nodes if any(o.type.dtype.is_float for o in n.outputs)] == ["q_linear"]  # the result alone
    feed = DATA[0]
    real, fake, exact = (run(g, feed)["y"] for g in (NETWORK, brackets, done.graph))
    assert min(sqnr(real, exact), sqnr(fake, exact)) > floor
    assert run(done.graph, {"x": feed["x"][:0]})["y"].shape == (0, 5)


@pytest.mark.parametrize("name", ["int8", "int16-w16", "w4a8"])
def test_an_integer_graph_is_the_same_after_it_was_saved(name: str, tmp_path: Path) -> None:
    graph = lower(quantized(NETWORK, recipe(name), DATA)).graph
    save(graph, tmp_path / "network.lowbit")
    again = load(tmp_path / "network.lowbit")
    assert print_graph(again) == print_graph(graph)
    np.testing.assert_array_equal(run(again, DATA[0])["y"], run(graph, DATA[0])["y"])


def test_four_bit_weights_stay_four_bit_constants() -> None:
    graph = lower(quantized(NETWORK, recipe("w4a8"), DATA)).graph
    weights = {
        n.op: {str(v.type.dtype) for v in n.inputs[1:2] if v} for n in graph.nodes if n.op in ("q_conv", "q_conv_transpose", "q_linear")
    }
    assert weights == {"q_conv": {"int4"}, "q_conv_transpose": {"int4"}, "q_linear": {"int4"}}


def test_between_widths_stands_one_requantize_and_nothing_float() -> None:
    rules: list[QuantRule] = [CalibratedQuantRule("^depthwise$", "int16"), CalibratedQuantRule(".*", "uint8")]
    done = lower(quantized(NETWORK, rules, DATA))
    assert done.islands == ()
    graph = verify(done.graph)
    node = next(n for n in graph.nodes if n.op == "q_conv" and n.name == "depthwise")
    (before,) = [n for n in graph.nodes if n.output == node.inputs[0]]
    (after,) = graph.users[node.output.name]
    assert (before.op, before.output.type.dtype.name) == ("requantize", "int16")
    assert (after.op, after.output.type.dtype.name, node.output.type.dtype.name) == ("requantize", "int8", "int16")  # uint8 runs as int8
    assert sqnr(run(NETWORK, DATA[0])["y"], run(graph, DATA[0])["y"]) > 35


@pytest.mark.parametrize("d", ACTIVATIONS)
@pytest.mark.parametrize("to", ACTIVATIONS)
def test_ops_take_one_width_and_give_another(d: str, to: str) -> None:
    rng = np.random.default_rng(3)
    unit = 256 / 2 ** dtype(to).bits
    x, y = side(rng, (2, 6, 5, 5), d, 0.02 * 256 / 2 ** dtype(d).bits), side(rng, (2, 1, 5, 1), d, 0.01)
    result = params(to, 0.03 * unit)
    conv: dict[str, Any] = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 2}
    cases: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("conv", [x, weight(rng, (4, 3, 3, 3), 0)], conv),
        ("linear", [x, weight(rng, (4, 5), 0)], {}),
        ("matmul", [x, weight(rng, (5, 3), 1)], {}),
        ("matmul", [x, Side(x.ints.swapaxes(2, 3).copy(), x.params)], {}),
        ("add", [x, y], {}),
        ("mul", [x, y], {}),
        ("concat", [x, x], {"axis": 1}),
        ("sigmoid", [x], {}),
        ("reduce_mean", [x], {"axes": (2, 3), "keepdims": True}),
        ("softmax", [x], {"axis": 1}),
        ("layer_norm", [x], {"axis": 3, "eps": 1e-5}),
        ("reshape", [x], {"shape": (2, 150)}),
        ("resize", [x], {"sizes": (2, 6, 9, 9), "scales": (None,) * 4, "mode": "linear", "coordinate_mode": "half_pixel"}),
    ]
    for op, sides, attrs in cases:
        assert off_by(op, sides, result, **attrs) <= 1, op


@pytest.mark.parametrize("d", ["int16", "uint16"])
def test_a_16_bit_table_holds_every_input(d: str) -> None:
    p, to = params(d, 3e-4), params("int16", 2e-4)
    every = np.arange(int(dtype(d).min or 0), int(dtype(d).max or 0) + 1).astype(d)
    x = Side(every, p)
    assert the_node(lowered(bracketed("tanh", [x], [to])), "q_table").inputs[1].type.shape == (65536,)  # type: ignore[union-attr]
    np.testing.assert_array_equal(both("tanh", [x], to)[1], rounded(np.tanh(x.reals) / float(to.scale), to))


def extreme(shape: tuple[int, ...], code: int, d: str = "int16") -> Array:
    return np.full(shape, code, d)


@pytest.mark.parametrize(("x_code", "w_code"), [(32767, 32767), (-32768, 32767), (-32768, -32767)])
def test_16_bit_products_are_exact_beyond_32_bits(x_code: int, w_code: int) -> None:
    k = 3000
    x = Side(extreme((2, k), x_code), params("int16", 1e-4))
    w = Side(extreme((3, k), w_code), params("int16", 1e-5), True)
    bias = np.array([1e6, -1e6, 0.0], F32)  # 1e15 on the grid of 1e-9
    graph = lowered(bracketed("linear", [x, w, bias], [None]))
    node = the_node(graph, "q_linear")
    assert node.inputs[3] is not None and node.inputs[3].type.dtype.name == "int64"
    grid = x.params.scale * w.params.scale
    acc = [k * x_code * w_code + int(np.rint(b / grid)) for b in bias]
    assert max(map(abs, acc)) <= node.attrs["bound"] < 2**53  # type: ignore[operator]
    want = np.array([F32(a) * grid for a in acc], F32)
    np.testing.assert_array_equal(run(graph, inputs([x]))["y0"], np.stack([want, want]))


def test_a_bias_is_as_wide_as_its_accumulator() -> None:
    x, bias = side(RNG, (2, 8), "int16", 1e-3), floats(4)
    for d, width in (("int8", "int32"), ("int16", "int64")):
        w = weight(np.random.default_rng(0), (4, 8), 0, d)
        node = the_node(lowered(bracketed("linear", [x, w, bias], [params("int16", 0.1)])), "q_linear")
        assert node.inputs[3] is not None and node.inputs[3].type.dtype.name == width
        assert (node.attrs["bound"] < 2**31) == (width == "int32")  # type: ignore[operator]


def test_inference_refuses_a_bias_that_is_not_as_wide_as_the_accumulator() -> None:
    attrs = {"x_zero": 0, "y_zero": 0, "lo": 0, "hi": 1, "to": "int16", "bound": 1 << 40}
    types = [TensorType((2, 8), "int16"), TensorType((4, 8), "int16"), TensorType((4,), "float32"), TensorType((4,), "int32")]
    with pytest.raises(ShapeError, match=r"bias int32\[4\] given, int64\[4\] needed: the accumulator is bounded by 1099511627776"):
        get_op("q_linear").infer(*types, **attrs)


def test_a_bias_beyond_52_bits_keeps_its_layer_float() -> None:
    x, w = side(RNG, (2, 8), "int16", 1e-15), weight(np.random.default_rng(0), (4, 8), 0, "int16")
    (island,) = lower(bracketed("linear", [x, w, np.full(4, 1e3, F32)], [params("int16", 0.1)])).islands
    assert island.because == "its bias does not fit 52 bits on the accumulator's grid"


def test_rows_of_an_embedding_that_calibration_did_not_see_are_not_clipped() -> None:
    b = Builder()
    table = floats(10, 4)
    table[7] *= 20
    ids = b.input("ids", TensorType((symbol("n"),), "int64"))
    rows = b.add("gather", b.constant(table), ids, axis=0, name="embedding")
    graph = b.finish({"y": b.add("linear", rows, b.constant(floats(3, 4)), name="head")})
    done = lower(quantized(graph, recipe("int8"), [{"ids": np.arange(6)}]))
    assert done.islands == () and [n.op for n in done.graph.nodes] == ["gather", "q_linear"]
    stored = next(c.data for c in done.graph.constants.values() if c.data.shape == (10, 4))
    assert int(stored.max()) - int(stored.min()) == 255  # the whole range of the table …
    p = params_from_data(table, "int8", "asymmetric")
    np.testing.assert_array_equal(stored, quantize(table, p))  # … rounded once


def test_indices_may_come_from_a_node_without_inputs() -> None:
    b = Builder()
    table = Side(np.arange(12, dtype=np.int8).reshape(4, 3), params("int8"), True)
    x = b.input("x", TensorType((symbol("n"), 3), "int8"))
    scale = b.constant(np.asarray(table.params.scale))
    rows = b.add("dequantize_linear", b.constant(table.ints), scale, None, axis=0, block_size=0)
    places = b.add("range", start=0, limit=symbol("n"), step=1, dtype="int64")
    both_sides = b.add("add", b.add("gather", rows, places, axis=0), b.add("dequantize_linear", x, scale, None, axis=0, block_size=0))
    zero = b.constant(np.int8(0).reshape(()))
    done = lower(b.finish({"y": b.add("quantize_linear", both_sides, scale, zero, axis=0, block_size=0, to="int8")}))
    ints = np.ones((2, 3), np.int8)
    assert done.islands == () and "gather" in [n.op for n in done.graph.nodes]
    np.testing.assert_array_equal(run(done.graph, {"x": ints})["y"], table.ints[:2] + ints)


def test_groups_of_a_transposed_convolution_have_their_bias_on_the_repeated_grid() -> None:
    brackets = quantized(NETWORK, recipe("int8"), DATA)
    node = next(n for n in brackets.nodes if n.name == "up")
    bias = brackets.producers[node.inputs[2].name]  # type: ignore[union-attr]
    scale = brackets.constant(bias.inputs[1])
    assert bias.op == "dequantize_linear" and scale is not None
    np.testing.assert_array_equal(scale[:3], scale[3:])


@pytest.mark.parametrize("name", ["int8", "int16", "int16-w16"])
def test_a_dead_channel_beside_its_bias_stays_an_integer_layer(name: str) -> None:
    b = Builder()
    w, bias = floats(4, 8), floats(4)
    w[1] *= F32(1e-30)  # trained networks have such rows; on their own grid the bias would need 100 bits
    w[2] = 1e-42
    bias[2] = 0
    x = b.input("x", TensorType((2, 8), "float32"))
    graph = b.finish({"y": b.add("linear", x, b.constant(w), b.constant(bias), name="layer")})
    data = [{"x": floats(2, 8)}]
    done = lower(quantized(graph, recipe(name), data))
    assert done.islands == ()
    node = the_node(done.graph, "q_linear")
    assert node.inputs[3] is not None and node.inputs[3].type.dtype.name == ("int64" if name == "int16-w16" else "int32")
    assert sqnr(run(graph, data[0])["y"], run(done.graph, data[0])["y"]) > 35


@pytest.mark.parametrize("d", ["int8", "uint8"])
def test_a_float_result_of_a_function_is_a_float_table(d: str) -> None:
    every = np.arange(int(dtype(d).min or 0), int(dtype(d).max or 0) + 1).astype(d)
    x = Side(every, params(d, 0.05))
    graph = lowered(bracketed("sigmoid", [x], [None]))
    assert ops_of(graph) == ["q_table"]
    np.testing.assert_array_equal(run(graph, inputs([x]))["y0"], get_op("sigmoid").run([x.reals], {})[0].astype(F32))


@pytest.mark.parametrize("d", ["int16", "uint16"])
def test_a_float_table_of_65536_entries_is_not_made(d: str) -> None:
    (island,) = lower(bracketed("sigmoid", [side(RNG, (3,), d)], [None])).islands
    assert island.because == "its result stays float, and a float table for int16 would have 2^16 entries"  # uint16 is int16 by then


@pytest.mark.parametrize("d", ACTIVATIONS)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_sums_and_products_with_a_float_result_are_those_of_the_reals(op: str, d: str) -> None:
    x, y = side(RNG, (3, 4), d, 0.05), side(RNG, (4,), d, 0.02)
    fake, exact = both(op, [x, y], None)
    assert np.abs(fake - exact).max() <= 4 * np.spacing(np.abs(fake).max())


@pytest.mark.parametrize("d", ACTIVATIONS)
def test_a_product_over_a_length_that_is_not_known_yet_has_a_64_bit_accumulator(d: str) -> None:
    b = Builder()
    scale, zero = b.constant(np.asarray(F32(0.05))), b.constant(np.asarray(3).astype(d))
    sides = []
    for name, shape in (("a", (2, symbol("k"))), ("b", (symbol("k"), 3))):
        sides.append(b.add("dequantize_linear", b.input(name, TensorType(shape, d)), scale, zero, axis=0, block_size=0))
    graph = b.finish({"y": b.add("quantize_linear", b.add("matmul", *sides), scale, zero, axis=0, block_size=0, to=d)})
    done = lower(graph)
    assert done.islands == () and 2**31 <= the_node(done.graph, "q_matmul").attrs["bound"] < 2**63  # type: ignore[operator]
    for k in (0, 1, 70):
        feed = {"a": RNG.integers(0, 99, (2, k)).astype(d), "b": RNG.integers(0, 99, (k, 3)).astype(d)}
        fake, exact = (run(g, feed)["y"].astype(int) for g in (graph, verify(done.graph)))
        assert np.abs(fake - exact).max() <= 1


@pytest.mark.parametrize("d", ACTIVATIONS)
def test_a_stack_of_constant_matrices_has_a_scale_for_each_column(d: str) -> None:
    rng = np.random.default_rng(5)
    x, w = side(rng, (4, 2, 8), d, 0.01 * 256 / 2 ** dtype(d).bits), weight(rng, (4, 8, 3), 2)
    assert off_by("matmul", [x, w], params(d, 0.1 * 256 / 2 ** dtype(d).bits)) <= 1
