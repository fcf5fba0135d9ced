"""Images of one column: planned as the row that their bytes are, with the interpreter's bits. Rows are shared by threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_tools import Compiled
from float_laws import assert_native, feeds, one
from hypothesis import given, settings
from hypothesis import strategies as st
from native_laws import ISAS, same

import lowbit
from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.plan import Target, build, physical
from lowbit.runtime.session import Session
from lowbit.types import TensorType

CLAMP = {"to": "int8", "y_zero": -3, "lo": -128, "hi": 127}


def layer(shape: tuple[Any, ...], out: int, kernel: tuple[int, ...], groups: int = 1, **window: Any) -> Graph:
    """An integer convolution of random weights."""
    b, rng, axes = Builder(), np.random.default_rng(out), len(kernel)
    x = b.input("x", TensorType(shape, "int8"))
    w = b.constant(rng.integers(-128, 128, (out, shape[1] // groups, *kernel)).astype(np.int8), name="w")
    m = b.constant(rng.uniform(1e-4, 1e-3, out).astype(np.float32), name="m")
    bias = b.constant(rng.integers(-1000, 1000, out).astype(np.int32), name="b")
    full = {"stride": (1,) * axes, "pads": (0,) * (2 * axes), "dilation": (1,) * axes, "x_zero": 5, **CLAMP, **window}
    return b.finish({"y": b.add("q_conv", x, w, m, bias, name="conv", groups=groups, bound=1 << 24, **full)})


def integers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).integers(-128, 128, shape).astype(np.int8)


@st.composite
def columns(draw: Any) -> tuple[Graph, tuple[int, ...]]:
    """A layer on an image of one column, along which it pads, strides and dilates; it may see the padding beside the column only."""
    kernel, dilation = draw(st.integers(1, 40)), draw(st.sampled_from([1, 1, 1, 2, 3]))
    pads = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    reach = (kernel - 1) * dilation + 1
    length = draw(st.integers(max(1, reach - sum(pads)), reach + 60))
    channels = draw(st.integers(1, 20))
    groups = draw(st.sampled_from([1, 1, 1, channels]))
    out = groups if groups > 1 else draw(st.integers(1, 70))
    beside = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1)]))
    stride = draw(st.integers(1, 10)), draw(st.integers(2, 3)) if any(beside) else draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 3)), channels, length, 1)
    to = {"to": "float32", "lo": 0, "hi": 0, "y_zero": 0} if draw(st.booleans()) else {}
    window = {
        "stride": stride,
        "dilation": (dilation, 1),
        "pads": (pads[0], beside[0], pads[1], beside[1]),
        "x_zero": draw(st.integers(-128, 127)),
    }
    return layer(shape, out, (kernel, 1), groups, **window, **to), shape


@settings(deadline=None, max_examples=150)
@given(columns(), st.integers(1, 3))
def test_columns_have_the_bits_of_the_interpreter(case: tuple[Graph, tuple[int, ...]], threads: int) -> None:
    graph, shape = case
    assert int(graph.outputs["y"].shape[3]) == 1
    feed = {"x": integers(*shape)}
    want = run(graph, feed)
    for isa in ISAS:
        assert same(want, Session(graph, threads=threads, isa=isa).run(feed))


PAIRS: dict[str, Any] = {
    "few channels": lambda *end: layer((2, 1, 300, *end), 40, (128, *end), stride=(4, *end)),
    "many channels": lambda *end: layer((1, 64, 40, *end), 24, (7, *end)),
    "depthwise": lambda *end: layer((1, 48, 90, *end), 48, (31, *end), 48, dilation=(2, *end)),
    "int8 pool": lambda *end: pool((1, 20, 60, *end), "int8", (3, *end)),
    "float pool": lambda *end: pool((2, 20, 60, *end), "float32", (4, *end)),
    "float": lambda *end: one("conv", (1, 3, 90, *end), constants=(np.ones((33, 3, 16, *end), np.float32),), **plain(len(end) + 1)),
}  # fmt: skip


def plain(axes: int) -> dict[str, Any]:
    return {"stride": (1,) * axes, "pads": (0,) * (2 * axes), "dilation": (1,) * axes, "groups": 1}


def pool(shape: tuple[int, ...], dtype: str, kernel: tuple[int, ...]) -> Graph:
    window = {**plain(len(kernel)), "stride": kernel, "kernel": kernel, "ceil_mode": False}
    del window["groups"]
    return one("max_pool", shape, dtype=dtype, **window)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", PAIRS)
def test_a_column_is_computed_as_a_signal_of_one_axis(name: str, threads: int, isa: str) -> None:
    column, row = (build(physical(PAIRS[name](*end)), Target(isa, threads)) for end in ((1,), ()))
    found = [[(s.kernel, s.params, s.items, s.parts, s.macs) for s in p.steps if s.contract.find("copy")] for p in (column, row)]
    assert found[0] == found[1] and len(found[0]) == 1


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("groups", [1, 12])
def test_a_width_that_is_open_may_be_one_and_others_in_the_same_session(groups: int, isa: str) -> None:
    graph = layer((1, 12, 30, symbol("width")), 12, (9, 1), groups)
    session = Session(graph, threads=1, isa=isa)
    for width in (1, 5, 1, 2):
        feed = {"x": integers(1, 12, 30, width)}
        assert same(run(layer((1, 12, 30, width), 12, (9, 1), groups), feed), session.run(feed))


@pytest.mark.parametrize("kind", ["avg_pool", "q_avg_pool"])
@pytest.mark.parametrize("count", [True, False])
def test_means_along_a_column_count_the_padding_of_the_right_side(kind: str, count: bool) -> None:
    window = {"kernel": (5, 1), "stride": (3, 1), "pads": (2, 0, 1, 0), "dilation": (1, 1), "ceil_mode": False, "count_include_pad": count}
    if kind == "avg_pool":
        g = one(kind, (2, 9, 31, 1), **window)
        assert_native(g, feeds(g), 1e-6)
        return
    g = one(kind, (2, 9, 31, 1), dtype="int8", **window, multiplier=0.9, x_zero=7, **CLAMP)
    feed = {"x0": integers(2, 9, 31, 1)}
    assert all(same(run(g, feed), Session(g, threads=2, isa=isa).run(feed)) for isa in ISAS)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (7, 0, 3, 0)])
@pytest.mark.parametrize("size", [(1, 1, 200, 64, 40), (1, 3, 131, 33, 9), (2, 70, 60, 20, 5), (1, 24, 50, 24, 7)])
def test_float_columns_are_within_rounding_and_threads_change_no_bit(size: tuple[int, ...], pads: tuple[int, ...]) -> None:
    batch, channels, length, out, kernel = size
    w = np.random.default_rng(0).standard_normal((out, channels, kernel, 1)).astype(np.float32)
    g = one("conv", (batch, channels, length, 1), constants=(w,), stride=(3, 1), pads=pads, dilation=(1, 1), groups=1)
    assert_native(g, feeds(g), 1e-5)
    turned = np.random.default_rng(0).standard_normal((channels, out, kernel, 1)).astype(np.float32)
    window = {"stride": (3, 1), "pads": pads, "dilation": (1, 1), "groups": 1, "output_padding": (1, 0)}
    g = one("conv_transpose", (batch, channels, length // 4, 1), constants=(turned,), **window)
    assert_native(g, feeds(g), 1e-5)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_threads_share_a_signal_of_one_channel(dtype: str) -> None:
    """One row of the output has work for all of them."""
    if dtype == "int8":
        g = layer((1, 1, 16000), 64, (80,), stride=(4,))
    else:
        g = one("conv", (1, 1, 16000), constants=(np.ones((64, 1, 80), np.float32),), **plain(1))
    (step,) = (s for s in build(physical(g), Target(None, 4)).steps if s.macs)
    assert min(step.items, step.parts) >= 4


@pytest.mark.parametrize("target", ["portable", "host"])
def test_generated_c_has_the_same_bits(target: str, tmp_path: Path) -> None:
    g = layer((1, 1, 150, 1), 20, (64, 1), stride=(4, 1), pads=(10, 0, 5, 0))
    feed = {"x": integers(1, 1, 150, 1)}
    emitted = lowbit.emit_c(g, tmp_path / "c", target=target, vectors=1, measure=False)
    want = run(g, feed)["y"]
    (got,) = Compiled(tmp_path / "c", emitted).run([feed["x"]], [(want.shape, want.dtype)])
    assert got.tobytes() == want.tobytes()
