"""Integer ops that are said in the kernels of others give the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest
from passes_laws import Net

import lowbit
from lowbit.ir.interp import run

rng = np.random.default_rng(3)
SHAPES = [(1,), (7,), (3, 5), (2, 3, 4, 5), (1, 64, 33), (2, 3, 1, 65)]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    x.reshape(-1)[:2] = (info.min, info.max)[: x.size]
    return x


def same(net: Net, y, feed: dict[str, np.ndarray]) -> None:
    graph = net.graph(y)
    session = lowbit.compile(graph)
    got = session.run(feed)["y0"]
    assert session.backend == "native"
    np.testing.assert_array_equal(got, run(graph, feed)["y0"])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sides", ["xn", "nx", "xy", "xc", "constant mask"])
def test_where(shape, dtype, sides):
    net = Net()
    feed = {"x": numbers(shape, dtype), "y": numbers(shape, dtype), "m": numbers(shape, "bool")}
    x, n, c = net.x(*shape, name="x", dtype=dtype), np.array(-7, dtype), numbers(shape, dtype)
    m = numbers(shape, "bool") if sides == "constant mask" else net.x(*shape, name="m", dtype="bool")
    y = net.x(*shape, name="y", dtype=dtype) if sides == "xy" else None
    a, b = {"xn": (x, n), "nx": (n, x), "xy": (x, y), "xc": (x, c), "constant mask": (n, x)}[sides]
    out = net("where", m, a, b)
    same(net, out, {v.name: feed[v.name] for v in net._inputs})


def test_where_with_a_mask_that_repeats():
    for mask in ((5,), (1, 1, 1, 5), (2, 1, 1, 5), (4, 5), (2, 3, 4, 1)):
        net = Net()
        x, m = net.x(2, 3, 4, 5, name="x", dtype="int8"), net.x(*mask, name="m", dtype="bool")
        same(net, net("where", m, np.array(-128, np.int8), x), {"x": numbers((2, 3, 4, 5), "int8"), "m": numbers(mask, "bool")})


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_larger_and_the_smaller_of_two(op, dtype, shape):
    for other in (shape, (), shape[-1:]):
        net = Net()
        x, y = net.x(*shape, name="x", dtype=dtype), net.x(*other, name="y", dtype=dtype)
        same(net, net(op, x, y), {"x": numbers(shape, dtype), "y": numbers((*other, 2), dtype)[..., 0]})
    net = Net()
    same(net, net(op, np.array(-5, dtype), net.x(*shape, name="x", dtype=dtype)), {"x": numbers(shape, dtype)})


@pytest.mark.parametrize("op", ["reduce_min", "reduce_max"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("axes", "keepdims"), [((1, 2), False), ((2,), True), ((1,), False), ((0, 1, 2), True)])
def test_the_least_and_the_largest_of_many(op, dtype, axes, keepdims):
    net = Net()
    x = net.x(2, 17, 33, name="x", dtype=dtype)
    same(net, net(op, x, axes=axes, keepdims=keepdims), {"x": numbers((2, 17, 33), dtype)})


@pytest.mark.parametrize("shape", [(1, 8, 5, 7), (2, 3, 4), (2, 33)])
def test_prelu_with_a_slope_for_each_channel(shape):
    for x_zero, y_zero, slope_zero, ms in ((0, 0, 0, 0.01), (-128, 5, -3, 0.02), (127, -128, 7, 0.004), (11, 127, -128, 0.0005)):
        net = Net()
        slope = numbers((shape[1], *[1] * (len(shape) - 2)), "int8")
        zeros = {"x_zero": x_zero, "y_zero": y_zero, "slope_zero": slope_zero}
        y = net("q_prelu", net.x(*shape, name="x", dtype="int8"), slope, **zeros, mx=0.7, ms=ms, lo=-100, hi=120, to="int8")
        same(net, y, {"x": numbers(shape, "int8")})


@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("depth", [1, 7, 64, 300, 1500])
def test_products_of_two_activations(depth, dtype, to):
    zero = 3 if dtype == "int8" else 0
    largest = 131 if dtype == "int8" else 100  # sums of 16 bits must stay below 2^24 as a whole
    bound = depth * largest * largest

    def few(shape):
        return numbers(shape, dtype).clip(-128 if dtype == "int8" else -99, 127 if dtype == "int8" else 99)

    for left, right in (((5, depth), (depth, 9)), ((2, 3, 4, depth), (2, 3, depth, 33)), ((2, 1, depth), (depth, 3))):
        net = Net()
        a, b = net.x(*left, name="a", dtype=dtype), net.x(*right, name="b", dtype=dtype)
        columns = rng.uniform(0.5, 1, right[-1]).astype(np.float32) * np.float32(200 / (bound**0.5 * largest))
        for m in (columns[:1].reshape(()), columns):
            limits = {"lo": -100, "hi": 90} if to != "float32" else {"lo": 0, "hi": 0}
            zeros = {"a_zero": zero, "b_zero": -zero, "y_zero": 5 if to != "float32" else 0}
            y = net("q_matmul", a, b, m, **zeros, **limits, to=to, bound=bound)
            same(net, y, {"a": few(left), "b": few(right)})
            net = Net()
            a, b = net.x(*left, name="a", dtype=dtype), net.x(*right, name="b", dtype=dtype)


def test_products_with_a_constant_of_many_matrices():
    net = Net()
    w = numbers((3, 8, 5), "int8")
    y = net(
        "q_matmul",
        net.x(2, 3, 4, 8, name="a", dtype="int8"),
        w,
        np.array(0.002, np.float32),
        a_zero=-7,
        b_zero=0,
        y_zero=2,
        lo=-128,
        hi=127,
        to="int8",
        bound=8 * 135 * 128,
    )
    same(net, y, {"a": numbers((2, 3, 4, 8), "int8")})


def test_generated_c_has_them_too(tmp_path):
    """PReLU, a choice, the larger of two, a product of two activations: compiled under the sanitizers, with the session's bits."""
    from codegen_tools import has, selftest

    if not has("gcc"):
        pytest.skip("NOT TESTED: gcc is not installed")
    net = Net()
    x = net.x(1, 4, 6, 6)
    a = net("prelu", net("conv", x, w(4, 4, 1, 1), stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1), w(4, 1, 1))
    b = net("maximum", a, net("tanh", x))
    p = net("matmul", b, net("transpose", a, perm=(0, 1, 3, 2)))
    low = net("where", np.tri(6, dtype=bool), p, float("-inf"))
    graph = net.graph(net("reduce_min", net("softmax", low, axis=3), axes=(1,), keepdims=False))
    feed = {"x": w(1, 4, 6, 6)}
    made = lowbit.quantize(graph, [feed], guard=False)
    assert lowbit.compile(made).backend == "native"
    emitted = lowbit.emit_c(made, tmp_path / "c", float_io=True, samples=[feed], vectors=1, measure=False)
    said = selftest(tmp_path / "c", tmp_path / "selftest")
    assert said.startswith("model: 0 of 2 outputs differ"), said
    assert emitted.exact


def w(*shape: int) -> np.ndarray:
    return rng.normal(0, 1, shape).astype(np.float32)
