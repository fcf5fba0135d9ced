"""Float graphs run natively: within rounding of the interpreter on every instruction set, with the same bits for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from float_laws import ISAS, assert_native, feeds, one

import lowbit
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.plan import physical
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType
from zoo import entry

INF = float("inf")


@pytest.mark.parametrize("name", ["mlp", "resnet9", "resnet18", "resnet50", "mobilenetv2", "dscnn"])
def test_float_networks_run_natively(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = {v.name: t.numpy() for v, t in zip(g.inputs, e.example().values(), strict=True)}
    assert_native(g, x, 1e-5, ISAS[-1:])


CONVS = [
    ((1, 3, 11, 12), (5, 3, 7, 7), {"stride": (2, 2), "pads": (3, 3, 3, 3)}),
    ((2, 16, 6, 7), (16, 16, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((1, 32, 7, 8), (33, 32, 3, 3), {"stride": (2, 2), "pads": (1, 0, 2, 1)}),
    ((1, 12, 5, 6), (8, 3, 3, 3), {"groups": 4}),
    ((1, 34, 5, 6), (36, 17, 1, 3), {"groups": 2, "dilation": (1, 2)}),
    ((2, 17, 8, 9), (17, 1, 3, 3), {"groups": 17, "pads": (1, 1, 1, 1)}),
    ((1, 32, 9, 10), (32, 1, 5, 5), {"groups": 32, "stride": (2, 2), "pads": (2, 2, 2, 2)}),
    ((1, 48, 5, 5), (16, 48, 1, 1), {}),
    ((1, 48, 5, 5), (16, 48, 1, 1), {"stride": (2, 2)}),
    ((1, 6, 5, 6), (12, 1, 3, 3), {"groups": 6}),
    ((2, 5, 30), (7, 5, 4), {"stride": (3,), "pads": (1, 2)}),
    ((0, 5, 8, 8), (7, 5, 3, 3), {}),
    ((2, 1, 13, 15), (8, 1, 5, 5), {"pads": (2, 2, 2, 2)}),
    ((1, 3, 17, 19), (24, 3, 3, 3), {"stride": (2, 2), "pads": (1, 1, 1, 1)}),
    ((1, 8, 15, 14), (12, 8, 3, 3), {"pads": (3, 0, 0, 3), "dilation": (2, 1)}),
    ((1, 66, 6, 7), (10, 66, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((1, 20, 6, 21), (20, 1, 3, 3), {"groups": 20, "stride": (1, 2), "pads": (1, 1, 1, 1)}),
]


def conv_graph(shape: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any], bias: bool = True) -> Graph:
    spatial, rng = len(shape) - 2, np.random.default_rng(1)
    attrs = {"stride": (1,) * spatial, "pads": (0,) * 2 * spatial, "dilation": (1,) * spatial, "groups": 1, **options}
    w = rng.standard_normal(weight).astype(np.float32)
    b = rng.standard_normal(weight[0]).astype(np.float32) if bias else None
    return one("conv", shape, constants=(w, b), **attrs)


@pytest.mark.parametrize("layer", CONVS)
def test_convolutions_of_every_kind(layer: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> None:
    for bias in (True, False):
        g = conv_graph(*layer, bias=bias)
        assert_native(g, feeds(g), 2e-6)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 50])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 17), (64, 48), (512, 33), (130, 16)])
def test_linear_layers_of_every_size(rows: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    g = one("linear", (rows, k), constants=(rng.standard_normal((n, k)).astype(np.float32), rng.standard_normal(n).astype(np.float32)))
    assert_native(g, feeds(g), 2e-6)


def activated(op: str, twice: bool = False, **attrs: Any) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((5, 9), "float32"))
    w = b.constant(np.random.default_rng(0).standard_normal((20, 9)).astype(np.float32), name="w")
    y = b.add("linear", x, w)
    z = b.add(op, y, **attrs)
    return b.finish({"z": z, "y": y} if twice else {"z": z})


@pytest.mark.parametrize(
    ("op", "attrs"), [("relu", {}), ("relu6", {}), ("clip", {"min": -1.0, "max": None}), ("clip", {"min": 2.0, "max": 1.0})]
)
def test_an_activation_is_done_with_the_layer_before_it(op: str, attrs: dict[str, Any]) -> None:
    g = activated(op, **attrs)
    assert [n.op for n in physical(g).nodes] == ["linear_clip"]
    assert_native(g, feeds(g), 1e-6)


def test_a_layer_that_others_read_keeps_its_result() -> None:
    g = activated("relu", twice=True)
    assert [n.op for n in physical(g).nodes] == ["linear", "relu"]
    assert_native(g, feeds(g), 1e-6)


SHAPES = [((3, 4), (3, 4)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((7,), ()), ((2, 1, 5), (2, 4, 1)), ((0, 3), (3,)), ((1, 33), (9, 33))]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 3e38, 1e-40], np.float32)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic_is_exact_and_keeps_nan_and_infinities(op: str) -> None:
    for shapes in SHAPES:
        g = one(op, *shapes)
        assert_native(g, feeds(g), 0.0)
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL])
    assert_native(one(op, (81,), (81,)), {"x0": pairs[:, 0].copy(), "x1": pairs[:, 1].copy()}, 0.0)


@pytest.mark.parametrize(
    ("op", "attrs"), [("relu", {}), ("relu6", {}), ("clip", {"min": None, "max": 1.0}), ("clip", {"min": -1.0, "max": None})]
)
def test_clips_keep_nan(op: str, attrs: dict[str, Any]) -> None:
    assert_native(one(op, (9,), **attrs), {"x0": SPECIAL}, 0.0)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 40), (1,)), ((2, 3, 7, 9), (2, 3)), ((2, 33, 17), (1,)), ((5, 6), (0, 1)), ((4, 1, 5), (0, 2)), ((3,), ())]
)
def test_reductions(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for keepdims in (True, False):
        g = one(f"reduce_{op}", shape, axes=axes, keepdims=keepdims)
        assert_native(g, feeds(g), 1e-6)


@pytest.mark.parametrize("op", ["max", "min", "sum"])
def test_a_reduction_of_nan_is_nan(op: str) -> None:
    x = np.ones((2, 20), np.float32)
    x[0, 13] = np.nan
    assert_native(one(f"reduce_{op}", (2, 20), axes=(1,), keepdims=False), {"x0": x}, 0.0)


WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1), "dilation": (1, 2), "ceil_mode": True}


def test_pools() -> None:
    for shape in ((1, 3, 9, 8), (2, 17, 5, 6)):
        g = one("max_pool", shape, **WINDOW)
        assert_native(g, feeds(g), 0.0)
        for count in (True, False):
            g = one("avg_pool", shape, **WINDOW, count_include_pad=count)
            assert_native(g, feeds(g), 1e-6)


@pytest.mark.parametrize("name", ["transformer", "gpt", "vit"])
def test_float_transformers_run_natively(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = {v.name: t.numpy() for v, t in zip(g.inputs, e.example().values(), strict=True)}
    assert_native(g, x, 1e-5, ISAS[-1:])


PLAIN = "exp log sqrt erf tanh sigmoid silu hardswish softplus mish abs neg reciprocal floor ceil round"
FUNCTIONS: dict[str, dict[str, Any]] = {
    **{name: {} for name in PLAIN.split()},
    "gelu": {"approximate": "none"},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "elu": {"alpha": 1.3},
    "leaky_relu": {"alpha": 0.1},
}
EXACT = {"sqrt", "abs", "neg", "reciprocal", "floor", "ceil", "round", "hardswish", "hardsigmoid", "leaky_relu"}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_those_of_the_interpreter_to_a_few_units_in_the_last_place(op: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(500) * 4, rng.standard_normal(300) * 40, np.linspace(-3, 3, 201), [1e-40, 5e-3, 1e30]])
    x = x.astype(np.float32)
    g = one(op, x.shape, **FUNCTIONS[op])
    with np.errstate(all="ignore"):
        want = run(g, {"x0": x})["y0"]
    for isa in ISAS:
        got = Session(g, threads=1, isa=isa).run({"x0": x})["y0"]
        finite = np.isfinite(want)
        assert np.array_equal(want[~finite], got[~finite], equal_nan=True)
        allowed = 0.0 if op in EXACT else 6 * 2.0**-24 * (np.abs(want) + np.minimum(np.abs(x), 1))  # gelu and mish cancel below 0
        assert (np.abs(want[finite] - got[finite]) <= (allowed if op in EXACT else allowed[finite])).all()


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_of_nan_and_infinities_are_those_of_the_interpreter(op: str) -> None:
    assert_native(one(op, (9,), **FUNCTIONS[op]), {"x0": SPECIAL}, 1e-6)


def test_gelu_by_tanh_and_prelu_and_powers() -> None:
    for g in (
        one("gelu", (37,), approximate="tanh"),
        one("prelu", (2, 5, 3, 4), constants=(np.linspace(-1, 1, 5, dtype=np.float32).reshape(5, 1, 1),)),
        *(one("pow", (3, 7), constants=(np.float32(p),)) for p in (2, 3, -1)),
    ):
        assert_native(g, feeds(g), 1e-6)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 40), -1), ((2, 7, 9), 1), ((2, 33, 17), 0), ((5, 1), 1), ((0, 3), 1)])
def test_softmax_along_any_axis(op: str, shape: tuple[int, ...], axis: int) -> None:
    g = one(op, shape, axis=axis)
    assert_native(g, feeds(g, scale=5.0), 1e-6)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_of_infinities(op: str) -> None:
    x = np.array([[0, -np.inf, 1], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]], np.float32)
    assert_native(one(op, (4, 3), axis=1), {"x0": x}, 1e-6)


def vector(n: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def test_norms() -> None:
    for g in (
        one("layer_norm", (5, 33), constants=(vector(33), vector(33, 4)), axis=-1, eps=1e-5),
        one("layer_norm", (2, 3, 4, 5), constants=(None, vector(5)), axis=2, eps=1e-5),
        one("rms_norm", (4, 40), constants=(vector(40),), axis=-1, eps=1e-6),
        one("group_norm", (2, 12, 5, 3), constants=(vector(12), vector(12, 4)), groups=4, eps=1e-5),
        one("instance_norm", (2, 6, 11), constants=(vector(6), vector(6, 4)), eps=1e-5),
        one("batch_norm", (2, 6, 5, 4), constants=(vector(6), vector(6, 4), vector(6, 5), np.abs(vector(6, 6))), eps=1e-5),
    ):
        assert_native(g, feeds(g), 3e-6)


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((2, 1, 7, 20), (3, 20, 33)), ((20,), (2, 20, 3)), ((2, 5, 6), (6,)), ((8, 1, 16), (8, 16, 40))]
)
def test_products_of_activations(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    g = one("matmul", a, b)
    assert_native(g, feeds(g), 2e-6)
    if len(b) == 2:
        g = one("matmul", a, constants=(vector(b[0] * b[1]).reshape(b),))
        assert_native(g, feeds(g), 2e-6)


HEADS = [((2, 3, 17, 8), (2, 3, 17, 8), (2, 3, 17, 20)), ((1, 4, 5, 32), (1, 4, 40, 32), (1, 4, 40, 32)), ((130, 16), (21, 16), (21, 5))]


@pytest.mark.parametrize("shapes", HEADS)
@pytest.mark.parametrize("mask", [None, "float", "bool", "row"])
def test_attention(shapes: tuple[tuple[int, ...], ...], mask: str | None) -> None:
    rng = np.random.default_rng(0)
    scores = (*shapes[0][:-2], shapes[0][-2], shapes[1][-2])
    given: tuple[Any, ...] = ()
    if mask == "float":
        given = (rng.standard_normal(scores[-2:]).astype(np.float32),)
    if mask == "bool":
        given = (rng.random(scores) < 0.7,)
    if mask == "row":
        given = (rng.random((1,) * (len(scores) - 1) + scores[-1:]) < 0.7,)
    for causal in (False, True):
        g = one("attention", *shapes, constants=given, scale=0.3, causal=causal)
        assert_native(g, feeds(g), 3e-6)


def test_a_row_that_sees_nothing_is_zero() -> None:
    hidden = np.zeros((4, 6), bool)
    hidden[1:] = True
    g = one("attention", (4, 8), (6, 8), (6, 8), constants=(hidden,), scale=1.0, causal=False)
    x = feeds(g)
    assert_native(g, x, 3e-6)
    assert not Session(g, threads=1).run(x)["y0"][0].any()


def embedding(dtype: str = "int64") -> Graph:
    b = Builder()
    ids = b.input("ids", TensorType((2, 3), dtype))
    flat = b.add("reshape", ids, shape=(6,))
    return b.finish({"y": b.add("gather", b.constant(vector(40).reshape(10, 4), name="table"), flat, axis=0)})


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_tokens_are_looked_up_and_refused_where_there_is_no_such_row(dtype: str) -> None:
    g = embedding(dtype)
    ids = np.array([[0, 9, -1], [-10, 3, 3]], dtype)
    assert_native(g, {"ids": ids}, 0.0)
    for wrong in (10, -11):
        bad = ids.copy()
        bad[1, 1] = wrong
        for call in (lambda s, x: s.run({"ids": x}), lambda s, x: s(x)):
            with pytest.raises(InputError, match=f"index {wrong} is outside an axis of 10 elements"):
                call(Session(g, threads=1), bad)


def test_gather_moves_elements_of_every_size() -> None:
    for dtype in ("int8", "int16", "int64", "float32"):
        b = Builder()
        x = b.input("x", TensorType((3, 5, 2), dtype))
        g = b.finish({"y": b.add("gather", x, b.constant(np.array([[4, 0], [-1, 2]]), name="i"), axis=1)})
        assert_native(g, {"x": np.arange(30).reshape(3, 5, 2).astype(dtype)}, 0.0)


def test_masks_and_indices_need_no_interpreter() -> None:
    b = Builder()
    ids, mask = (b.input(n, TensorType((2, 5), "int64")) for n in ("ids", "mask"))
    hidden = b.add("equal", mask, b.constant(np.int64(0), name="zero"))
    seen = b.add("logical_not", hidden)
    later = b.add("add", ids, b.add("mul", mask, b.constant(np.int64(3), name="three")))
    both = b.add("logical_and", seen, b.add("greater", later, ids))
    low = b.add("where", hidden, b.constant(np.float32(-1e9), name="low"), b.add("cast", mask, to="float32"))
    turned = b.add("transpose", later, perm=(1, 0))
    short = b.add("cast", b.add("concat", turned, turned, axis=1), to="int32")
    g = b.finish(
        {"low": low, "both": both, "short": short, "later": b.add("where", both, later, ids), "f": b.add("cast", both, to="float32")}
    )
    x = {"ids": np.array([[5, -3, 2**40, 0, 1], [1, 2, 3, 4, 5]]), "mask": np.array([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1]])}
    assert_native(g, x, 0.0)


def test_padding_and_constants_of_floats() -> None:
    g = one("pad", (2, 3, 4), pads=(1, 0, 2, 0, 3, 1), mode="constant", value=-2.5)
    assert_native(g, feeds(g), 0.0)
    b = Builder()
    x = b.input("x", TensorType((4,), "float32"))
    made = [b.add("fill", shape=(4,), value=1.5, dtype="float32"), b.add("range", start=0, limit=4, step=1, dtype="float32")]
    g = b.finish({"y": b.add("add", b.add("mul", x, made[0]), made[1])})
    assert_native(g, feeds(g), 0.0)


@pytest.mark.parametrize("name", ["unet", "lstm_lm", "gru_lm"])
def test_other_float_networks_run_natively(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = {v.name: t.numpy() for v, t in zip(g.inputs, e.example().values(), strict=True)}
    assert_native(g, x, 1e-5, ISAS[-1:])


TRANSPOSED = [
    ((1, 16, 5, 6), (16, 8, 2, 2), {"stride": (2, 2)}),
    ((2, 6, 4, 5), (6, 5, 3, 3), {"stride": (2, 1), "pads": (1, 1, 0, 1), "output_padding": (1, 0)}),
    ((1, 12, 3, 7), (12, 17, 4, 3), {"groups": 3, "stride": (3, 2), "dilation": (2, 1)}),
    ((1, 4, 9), (4, 3, 4), {"stride": (2,), "pads": (-1, -2)}),
    ((1, 8, 4, 4), (8, 8, 1, 1), {"stride": (2, 3)}),
]


@pytest.mark.parametrize("layer", TRANSPOSED)
def test_transposed_convolutions(layer: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> None:
    shape, weight, options = layer
    n = len(shape) - 2
    attrs = {"stride": (1,) * n, "pads": (0,) * 2 * n, "dilation": (1,) * n, "groups": 1, "output_padding": (0,) * n, **options}
    w = vector(int(np.prod(weight))).reshape(weight)
    for bias in (None, vector(weight[1] * attrs["groups"])):
        g = one("conv_transpose", shape, constants=(w, bias), **attrs)
        assert_native(g, feeds(g), 3e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinate_mode", ["half_pixel", "align_corners", "asymmetric"])
def test_resize(mode: str, coordinate_mode: str) -> None:
    for shape, sizes in (((1, 3, 4, 5), (1, 3, 8, 10)), ((2, 9, 7, 6), (2, 9, 5, 13)), ((1, 2, 6), (1, 2, 15))):
        g = one("resize", shape, sizes=sizes, scales=(None,) * len(shape), mode=mode, coordinate_mode=coordinate_mode)
        assert_native(g, feeds(g), 3e-6)


RNN = [("forward", 0, 1), ("reverse", 0, 2), ("bidirectional", 0, 7), ("bidirectional", 1, 3), ("forward", 1, 13)]


@pytest.mark.parametrize("op", ["lstm", "gru", "gru before"])
@pytest.mark.parametrize(("direction", "layout", "batch"), RNN)
def test_recurrent_layers(op: str, direction: str, layout: int, batch: int) -> None:
    time, inputs, hidden, d = 9, 5, 11, 2 if direction == "bidirectional" else 1
    gates, rng = 4 if op == "lstm" else 3, np.random.default_rng(0)
    w, r, b = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((d, gates * hidden, inputs), (d, gates * hidden, hidden), (d, 2 * gates * hidden))
    )
    state = (batch, d, hidden) if layout else (d, batch, hidden)
    first = rng.standard_normal(state).astype(np.float32)
    functions = ("sigmoid", "tanh", "tanh") if op == "lstm" else ("sigmoid", "tanh")
    attrs: dict[str, Any] = {"hidden": hidden, "direction": direction, "activations": functions * d, "layout": layout}
    if op != "lstm":
        attrs["linear_before_reset"] = op == "gru"
    for constants in ((w, r), (w, r, b, first), (w, r, b, first, first) if op == "lstm" else (w, r, b)):
        g = one(op.split()[0], (batch, time, inputs) if layout else (time, batch, inputs), constants=constants, **attrs)
        assert_native(g, feeds(g), 1e-5)
