"""Adaptive pools with windows of one size are plain pools, which run natively and become C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from codegen_tools import selftest
from native_laws import ISAS, same
from passes_laws import check, net_of, ops

import lowbit
from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.passes.even_pools import even_pools
from lowbit.runtime.session import Session
from lowbit.types import TensorType


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    ("shape", "out"), [((2, 3, 8, 8), (4, 4)), ((2, 3, 6, 5), (2, 5)), ((symbol("n"), 3, 12), (3,)), ((1, 2, 4, 4, 6), (2, 4, 1))]
)
def test_adaptive_pools_with_windows_of_one_size_are_plain(shape, out, kind):
    g = net_of(lambda n, x: n(f"adaptive_{kind}_pool", x, output_size=out), shape)
    assert ops(check(g, even_pools, exact=kind == "max")) == [f"{kind}_pool"]


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    ("shape", "out"), [((2, 3, 8, 7), (4, 4)), ((2, 3, 2, 2), (4, 4)), ((2, 3, 8, symbol("w")), (4, 1)), ((2, 3, 8, 8), (0, 4))]
)
def test_others_stay(shape, out, kind):
    g = net_of(lambda n, x: n(f"adaptive_{kind}_pool", x, output_size=out), shape)
    assert even_pools(g) is g


@pytest.mark.parametrize("to", ["int8", "int16"])
def test_the_integer_pools_have_the_same_bits(to):
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 9, 8)).astype(np.int8)
    b, i = Builder(), np.iinfo(to)
    v = b.input("x", TensorType(x.shape, "int8"))
    ends = {"x_zero": -7, "y_zero": 3, "multiplier": 1.7, "lo": i.min, "hi": i.max, "to": to}
    window = {"kernel": (3, 2), "stride": (3, 2), "pads": (0,) * 4, "dilation": (1, 1), "ceil_mode": False, "count_include_pad": False}
    pools = {"adaptive": b.add("q_adaptive_avg_pool", v, output_size=(3, 4), **ends), "plain": b.add("q_avg_pool", v, **window, **ends)}
    y = run(b.finish(pools), {"x": x})
    assert len(np.unique(y["plain"])) > 50
    np.testing.assert_array_equal(y["plain"], y["adaptive"])


def test_a_torch_network_with_an_adaptive_pool_runs_natively_and_becomes_c(tmp_path: Path):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5)).eval()
    x = torch.randn(2, 3, 8, 8)
    g = lowbit.load(model, inputs=(x,))
    feed = {g.inputs[0].name: x.numpy()}
    graph = lower(lowbit.quantize(g, [feed], recipe="int8", guard=False)).graph
    want = run(graph, feed)
    for isa in ISAS:
        session = Session(graph, isa=isa)
        assert session.backend == "native" and same(want, session.run(feed)), isa
    emitted = lowbit.emit_c(graph, tmp_path / "c", target="portable", float_io=True, samples=[feed], vectors=1, measure=False)
    assert emitted.exact and selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of ")
