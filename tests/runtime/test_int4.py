"""Layers with 4-bit weights run natively with the interpreter's bits, and their weights stay packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from int4_laws import check, quantized
from native_laws import same

from lowbit.ir.build import Builder
from lowbit.ir.graph import Value
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.plan import Target, build
from lowbit.plan.kernels.int4 import chunk_of
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

SIZES = [(1, 32, 16), (1, 100, 33), (3, 31, 5), (4, 64, 17), (5, 65, 16), (7, 257, 40), (50, 130, 20), (2, 1, 1), (13, 2100, 18)]


@pytest.fixture(autouse=True)
def _nibbles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers as those of a network whose weights no cache holds, and whose rows are never many."""
    monkeypatch.setattr("lowbit.plan.kernels.int4.IN_CACHE", -1)
    monkeypatch.setattr("lowbit.plan.kernels.int4.COLD_ROWS", 1 << 20)


def weights(rng: np.random.Generator, n: int, k: int, style: str) -> Array:
    return {
        "any": lambda: rng.integers(-8, 8, (n, k)),
        "small": lambda: rng.integers(-1, 2, (n, k)),
        "lowest": lambda: np.full((n, k), -8),
        "ends": lambda: rng.choice([-8, 7], (n, k)),
    }[style]().astype(np.int8)  # type: ignore[no-any-return]


def activations(rng: np.random.Generator, shape: tuple[int, ...], least: int) -> list[Array]:
    some = [rng.integers(least, 128, shape), np.full(shape, least), np.full(shape, 127), rng.choice([least, 127], shape)]
    return [x.astype(np.int8) for x in some]


def constants(b: Builder, rng: np.random.Generator, n: int, k: int, block: int, style: str) -> tuple[Any, Any, Any]:
    """Weights, scales (n, blocks) and a float bias."""
    w = b.constant(weights(rng, n, k, style), name="w", dtype="int4")
    scale = rng.uniform(1e-4, 1e-2, (n, max(1, -(-k // (block or max(k, 1)))))).astype(np.float32)
    return w, b.constant(scale, name="scale"), b.constant(rng.normal(size=n).astype(np.float32), name="bias")


def begun(size: tuple[int, int, int]) -> tuple[np.random.Generator, Builder, Value]:
    """Numbers of its own for a size (rows, k, n), and a graph whose input are the rows."""
    rows, k, _ = size
    b = Builder()
    return np.random.default_rng(rows * k), b, b.input("x", TensorType((rows, k), "int8"))


@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
@pytest.mark.parametrize("style", ["any", "small", "lowest", "ends"])
@pytest.mark.parametrize("size", SIZES)
def test_layers_with_a_scale_for_each_channel(size: tuple[int, int, int], style: str, to: str) -> None:
    (rows, k, n), (rng, b, x) = size, begun(size)
    w = b.constant(weights(rng, n, k, style), name="w", dtype="int4")
    m = b.constant(rng.uniform(1e-5, 1e-3, n).astype(np.float32), name="m")
    bias = b.constant(rng.integers(-5000, 5000, n).astype(np.int32), name="bias")
    lo, hi = {"int8": (-128, 127), "int16": (-32768, 32767), "float32": (0, 0)}[to]
    y = b.add("q_linear", x, w, m, bias, x_zero=int(rng.integers(-128, 128)), y_zero=0, lo=lo, hi=hi, to=to, bound=255 * 8 * k + 5000)
    suffix = {"int8": "", "int16": "_s16", "float32": "_f32"}[to]
    check(b.finish({"y": y}), [{"x": v} for v in activations(rng, (rows, k), -128)], f"linear_w4_s8{suffix}")


def test_weights_that_caches_hold_give_the_same_bits_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", TensorType((9, 70), "int8"))
    w = b.constant(weights(rng, 33, 70, "any"), name="w", dtype="int4")
    y = b.add(
        "q_linear", x, w, b.constant(np.full(33, 1e-3, np.float32), "m"), x_zero=5, y_zero=0, lo=-128, hi=127, to="int8", bound=255 * 8 * 70
    )
    g, feed = b.finish({"y": y}), {"x": rng.integers(-128, 128, (9, 70)).astype(np.int8)}
    packed = Session(g).run(feed)
    monkeypatch.setattr("lowbit.plan.kernels.int4.IN_CACHE", 1 << 20)
    session = Session(g)
    kernels = {r.kernel for r in session.profile(*feed.values(), repeats=1).rows}
    assert ("linear_s8__avx512vnni" in kernels) == (native.best("linear_s8", None).isa == "avx512vnni")
    assert same(packed, session.run(feed))


@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
@pytest.mark.parametrize("block", [32, 64, 128, 48, 7])
@pytest.mark.parametrize("size", SIZES)
def test_layers_with_a_scale_for_each_block(size: tuple[int, int, int], block: int, to: str) -> None:
    (rows, k, n), (rng, b, x) = size, begun(size)
    w, scale, bias = constants(b, rng, n, k, block, ["any", "small", "lowest", "ends"][rows % 4])
    lo, hi = {"int8": (-128, 127), "int16": (-32768, 32767), "float32": (0, 0)}[to]
    zero = [0, -128, 17][k % 3]
    attrs = {"y_zero": 0, "lo": lo, "hi": hi, "to": to, "bound": 255 * 8 * block, "y_scale": 0.25}
    y = b.add("q_linear_blocks", x, w, scale, bias, block=block, x_zero=zero, **attrs)
    suffix = {"int8": "", "int16": "_s16", "float32": "_f32"}[to]
    check(b.finish({"y": y}), [{"x": v} for v in activations(rng, (rows, k), -128)], f"linear_w4_blocks_s8{suffix}")


@pytest.mark.parametrize("block", [0, 32, 64, 128, 48])
@pytest.mark.parametrize("size", SIZES)
def test_rows_that_have_a_scale_each(size: tuple[int, int, int], block: int) -> None:
    rows, k, n = size
    rng = np.random.default_rng(rows * k)
    b = Builder()
    x, x_scale = b.input("x", TensorType((rows, k), "int8")), b.input("s", TensorType((rows, 1), "float32"))
    w, scale, bias = constants(b, rng, n, k, block, ["any", "small", "lowest", "ends"][rows % 4])
    g = b.finish({"y": b.add("q_linear_rows", x, x_scale, w, scale, bias if k % 2 else None, block=block, bound=127 * 8 * k)})
    scales = rng.uniform(1e-4, 1e-2, (rows, 1)).astype(np.float32)
    check(g, [{"x": v, "s": scales} for v in activations(rng, (rows, k), -127)], "linear_w4_rows_f32")


@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "pads", "name"),
    [(16, 3, 2, 1, "conv_w4_s8"), (33, 1, 2, 0, "conv_w4_s8"), (16, 5, 1, 2, "conv_w4_s8"), (40, 1, 1, 0, "linear_w4_s8")],
)
def test_convolutions(channels: int, kernel: int, stride: int, pads: int, name: str, to: str) -> None:
    rng = np.random.default_rng(channels)
    b = Builder()
    shape = (2, channels, 7, 6)
    x = b.input("x", TensorType(shape, "int8"))
    w = b.constant(rng.integers(-8, 8, (19, channels, kernel, kernel)).astype(np.int8), name="w", dtype="int4")
    m = b.constant(rng.uniform(1e-5, 1e-3, 19).astype(np.float32), name="m")
    bias = b.constant(rng.integers(-5000, 5000, 19).astype(np.int32), name="bias")
    lo, hi = {"int8": (-128, 127), "int16": (-32768, 32767), "float32": (0, 0)}[to]
    window = {"stride": (stride,) * 2, "pads": (pads,) * 4, "dilation": (1, 1), "groups": 1}
    y = b.add("q_conv", x, w, m, bias, **window, x_zero=-77, y_zero=0, lo=lo, hi=hi, to=to, bound=1 << 24)
    suffix = {"int8": "", "int16": "_s16", "float32": "_f32"}[to]
    check(b.finish({"y": y}), [{"x": v} for v in activations(rng, shape, -128)], name + suffix)


def test_chunks_are_as_long_as_16_bits_allow_and_no_longer() -> None:
    lowest = np.full((1, 4096), -8, np.int8)
    assert chunk_of(lowest, 4096, -128, 0) == 32  # 128 · 8 · 32 = 2¹⁵
    assert chunk_of(lowest, 4096, -127, 0) == 64
    assert chunk_of(np.zeros((3, 4096), np.int8), 4096, -128, 0) == 1024
    assert chunk_of(np.full((1, 4096), 5, np.int8), 4096, -128, 0) == 96  # 128 · 5 · 48 < 2¹⁵
    assert chunk_of(np.full((1, 128), 5, np.int8), 128, -128, 0) == 64  # two chunks either way
    w = np.zeros((2, 256), np.int8)
    w[1, 130:190:4] = 7
    w[1, 131:190:4] = 7  # 30 sevens in the second halves of two neighbouring groups: 30 · 7 · 128 < 2¹⁵
    assert chunk_of(w, 256, -128, 0) == 1024
    w[1, 2:64:4] = 4  # and 16 fours in the first two: 274 · 128 > 2¹⁵
    assert chunk_of(w, 256, -128, 0) == 128 and chunk_of(w, 128, -128, 0) == 1024
    assert chunk_of(-w, 256, -128, -128) == 32 and chunk_of(w, 256, -128, 127) == 32  # all on one side: 30 · 7 · 255 > 2¹⁵


def test_a_convolution_network_runs_natively_in_4_bits() -> None:
    graph, x = quantized("resnet9", "w4a8")
    session = Session(graph, threads=2)
    kernels = {r.kernel.rpartition("__")[0] for r in session.profile(*x.values(), repeats=1).rows}
    assert session.backend == "native" and "conv_w4_s8" in kernels and same(run(graph, x), session.run(x))


@pytest.mark.parametrize("how", ["w4a8", "w4a8-block"])
def test_networks_run_natively_and_keep_their_weights_packed(how: str) -> None:
    graph, x = quantized("mlp", how)
    session = Session(graph, threads=2)
    assert session.backend == "native" and same(run(graph, x), session.run(x))
    weights = sum(c.data.size for c in graph.constants.values() if c.value.type.dtype.name == "int4")
    packed = {id(c): c.nbytes for c in build(graph, Target(threads=2)).constants if c.dtype == np.uint8}
    assert weights / 2 <= sum(packed.values()) <= weights / 2 + 16 * 128  # the last layer's ten channels stand in a panel of 16


def test_layers_that_share_their_weights_have_each_its_own_zero_point_and_bias() -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", TensorType((5, 64), "int8"))
    w = b.constant(weights(rng, 64, 64, "any"), name="w", dtype="int4")
    m = b.constant(rng.uniform(1e-3, 1e-2, 64).astype(np.float32), name="m")
    scale, float_bias = b.constant(rng.uniform(1e-3, 1e-2, (64, 2)).astype(np.float32)), b.constant(np.zeros(64, np.float32))
    outputs = {}
    for zero in (0, 77, -128):
        bias = b.constant(rng.integers(-5000, 5000, 64).astype(np.int32), name=f"bias{zero}")
        attrs = {"x_zero": zero, "y_zero": 0, "lo": -128, "hi": 127, "to": "int8", "bound": 255 * 8 * 64 + 5000}
        outputs[f"y{zero}"] = b.add("q_linear", x, w, m, bias, **attrs)
        outputs[f"z{zero}"] = b.add("q_linear_blocks", x, w, scale, float_bias, block=32, y_scale=0.25, **attrs)
        outputs[f"v{zero}"] = b.add(
            "q_linear_blocks", x, w, b.constant(np.ones((64, 4), np.float32)), float_bias, block=16, y_scale=9.0, **attrs
        )
    check(b.finish(outputs), [{"x": v} for v in activations(rng, (5, 64), -128)], "linear_w4_s8")
