"""Activations quantized at run time run natively with the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest
from float_laws import close
from int4_laws import check, quantized
from native_laws import same

from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.runtime.session import Session
from lowbit.types import TensorType


@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (2, 5, 64), (7, 100), (0, 4), (3, 0)])
def test_rows_are_quantized_each_by_its_own_scale(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    q, scale = b.add_node("quantize_rows", b.input("x", TensorType(shape, "float32")))
    g = b.finish({"q": q, "scale": scale})
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, 1.0], shape)
    feeds = [rng.normal(size=shape), np.zeros(shape), odd, rng.normal(size=shape) * 1e-40, rng.integers(-254, 255, shape) / 16]
    check(g, [{"x": v.astype(np.float32)} for v in feeds], "quantize_rows_f32_s8")


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("size", [(1, 32, 16), (1, 100, 33), (5, 65, 16), (50, 130, 20), (2, 1, 1), (13, 2100, 18)])
def test_int8_layers_scale_rows_and_channels(size: tuple[int, int, int], biased: bool) -> None:
    rows, k, n = size
    rng = np.random.default_rng(rows * k)
    b = Builder()
    x = b.input("x", TensorType((rows, k), "float32"))
    q, x_scale = b.add_node("quantize_rows", x)
    w = b.constant(rng.integers(-128, 128, (n, k)).astype(np.int8), name="w")
    scale = b.constant(rng.uniform(1e-4, 1e-2, (n, 1)).astype(np.float32), name="scale")
    bias = b.constant(rng.normal(size=n).astype(np.float32), name="bias") if biased else None
    g = b.finish({"y": b.add("q_linear_rows", q, x_scale, w, scale, bias, block=0, bound=127 * 128 * k)})
    feeds = [rng.normal(size=(rows, k)), np.zeros((rows, k)), np.full((rows, k), -3.0), rng.choice([-1.0, 1.0], (rows, k))]
    check(g, [{"x": v.astype(np.float32)} for v in feeds], "scale_rows_f32", "linear_s8_rows_f32")


@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-6])
def test_rows_near_ties_are_rounded_as_quotients_are(scale: float) -> None:
    ties = (np.arange(-126, 127, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
    x = np.concatenate([np.float32([[127 * scale]] * 3), [np.nextafter(ties, np.float32(to)) for to in (-np.inf, 0, np.inf)]], axis=1)
    b = Builder()
    q, s = b.add_node("quantize_rows", b.input("x", TensorType(x.shape, "float32")))
    check(b.finish({"q": q, "s": s}), [{"x": v} for v in (x, np.flip(x, 1), np.concatenate([x[:, :1], ties[None] + 0 * x[:, 1:]], 1))],
          "quantize_rows_f32_s8")  # fmt: skip


@pytest.mark.parametrize("how", ["int8-dynamic", "w4a8-dynamic"])
@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_dynamic_networks_give_the_interpreters_bits_and_its_floats_within_rounding(name: str, how: str) -> None:
    graph, x = quantized(name, how)
    assert any(n.op == "q_linear_rows" for n in graph.nodes)
    session = Session(graph, threads=2)
    want, got = run(graph, x), session.run(x)
    if name == "mlp":
        assert same(want, got)
    else:  # its norms and attention are floats, which agree within rounding, and the scales of rows are made of them
        assert all(close(want[k], got[k], 1e-6) for k in want)
    steps = {s.contract for program in session._programs.values() for p in program.parts if p.native for s in p.plan.steps}
    scaled = {"scale_rows_f32", "linear_s8_rows_f32"} if how == "int8-dynamic" else {"linear_w4_rows_f32"}
    assert "quantize_rows_f32_s8" in steps and steps & scaled


def test_multiplications_of_a_layer_in_two_calls_are_counted_once() -> None:
    graph, x = quantized("mlp", "int8-dynamic")
    rows = Session(graph, threads=1, isa="ref").profile(*x.values(), repeats=1).rows
    assert {bool(r.macs) for r in rows if r.kernel.startswith("scale_rows")} == {False}
    assert sum(r.macs for r in rows) == 4 * (64 * 128 + 128 * 128 + 128 * 10)
