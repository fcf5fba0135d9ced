"""Blocks of four-bit weights with offsets: real = scale · q + offset, what `int4-weights` makes of linear layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import lowbit
import lowbit.torch as lt
from lowbit import WeightOnlyRule
from lowbit.errors import QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.quant_params import quantize
from lowbit.quantization.params import offset_params
from lowbit.quantization.rules_file import parse_rules
from lowbit.types import Array, TensorType

RNG = np.random.default_rng(3)
BLOCK = 32


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def network(weight: Array, bias: Array | None = None) -> Graph:
    """Two layers that read the same value, and their sum."""
    b = Builder("net")
    x = b.input("x", TensorType((3, weight.shape[1]), "float32"))
    given = None if bias is None else b.constant(bias, "bias")
    y = [
        b.add("linear", x, b.constant(w, f"{n}.weight"), given, name=n, out=n)
        for n, w in (("left", weight), ("right", weight[::-1].copy()))
    ]
    return b.finish({"y": b.add("add", *y)})


def stands_for(weight: Array) -> Array:
    params, offset = offset_params(weight, BLOCK)
    wide, scale = (np.repeat(a, BLOCK, axis=1) for a in (offset, params.scale))
    return quantize(weight - wide, params) * scale + wide


def test_the_least_and_the_largest_weight_of_a_block_are_met_and_no_weight_is_off_by_more_than_half_a_step() -> None:
    w = normal(8, 96) + 3
    real, (params, _) = stands_for(w), offset_params(w, BLOCK)
    error = np.abs(real - w).reshape(8, 3, BLOCK)
    assert np.all(error <= params.scale[:, :, None] * 0.5001)
    blocks = w.reshape(8, 3, BLOCK)
    for ends in (blocks.argmin(2), blocks.argmax(2)):
        assert np.all(np.take_along_axis(error, ends[:, :, None], 2) < 2e-6)


def test_numbers_that_were_rounded_to_sixteen_steps_with_an_offset_are_met_again() -> None:
    codes = RNG.integers(0, 16, (8, 96)).reshape(8, 3, BLOCK)
    codes[:, :, 0], codes[:, :, 1] = 0, 15
    w = (codes * (1 + RNG.random((8, 3, 1))) - RNG.random((8, 3, 1))).astype(np.float32).reshape(8, 96)
    np.testing.assert_allclose(stands_for(w), w, rtol=0, atol=4e-6)


def test_a_block_of_equal_weights_is_its_offset() -> None:
    w = np.full((2, BLOCK), 0.1, np.float32)
    assert np.array_equal(stands_for(w), w)


def test_a_layer_keeps_its_name_and_value_and_the_sums_are_made_once() -> None:
    w, bias = normal(16, 64), normal(16)
    graph = network(w, bias)
    small = lowbit.quantize(graph, recipe="int4-weights")
    assert [n.op for n in small.nodes].count("reduce_sum") == 1 and {"left", "right"} <= set(small.values)
    x = normal(3, 64)
    want = x @ (stands_for(w) + stands_for(w[::-1])).T + 2 * bias
    (got,) = run(small, {"x": x}).values()
    np.testing.assert_allclose(got, want, atol=2e-4)
    np.testing.assert_allclose(np.asarray(lowbit.compile(small)(x)), got, atol=1e-4)
    rows = {layer.layer: layer for layer in lowbit.compare(graph, small, [{"x": x}]).layers}
    assert rows["left"].weights.startswith("int4 per block")


def test_offsets_lose_less_than_one_scale_for_both_signs() -> None:
    w = normal(16, 64)
    x = normal(3, 64)
    exact = run(network(w), {"x": x})["y"]
    lost = []
    for offsets in (True, False):
        y = run(lowbit.quantize(network(w), rules=[WeightOnlyRule(".*", offsets=offsets)]), {"x": x})["y"]
        lost.append(float(np.square(y - exact).sum()))
    assert lost[0] < 0.75 * lost[1]


def test_blocks_that_are_not_whole_have_one_scale_for_both_signs() -> None:
    small = lowbit.quantize(network(normal(16, 80)), recipe="int4-weights")
    assert "reduce_sum" not in {n.op for n in small.nodes}


def test_a_rules_file_says_it() -> None:
    (rule,) = parse_rules('[[rule]]\nkind = "weights"\npattern = ".*"\noffsets = false\n')
    assert rule == WeightOnlyRule(".*", offsets=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "int8"}, "offsets are for int4 in blocks, not int8 with granularity 32"),
        ({"granularity": "channel"}, "offsets are for int4 in blocks, not int4 with granularity 'channel'"),
        ({"offsets": 1}, "offsets=1 is neither true nor false"),
    ],
)
def test_what_has_no_offsets_is_said(options: dict[str, object], said: str) -> None:
    with pytest.raises(QuantError, match=said):
        WeightOnlyRule(".*", **{"offsets": True, **options})  # type: ignore[arg-type]


# -- in PyTorch ------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 96), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


def test_a_module_has_the_graphs_integers_and_offsets_in_every_way_it_runs() -> None:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 5, 64)
    graph = lowbit.quantize(lowbit.load(net, inputs=(x,)), recipe="int4-weights")
    want = torch.from_numpy(np.asarray(lowbit.compile(graph)(x.numpy())))
    lt.quantize_(net, "int4-weights")
    assert isinstance(net.a.weight, lt.QTensor) and net.a.weight_offset.shape == (96, 2)
    with torch.no_grad():
        y = net(x)  # the session of each layer
    torch.testing.assert_close(y, want, atol=1e-5, rtol=0)
    x.requires_grad_()
    there = net(x)  # torch's own product of dequantized weights
    torch.testing.assert_close(there, y, atol=1e-5, rtol=0)
    there.sum().backward()
    assert x.grad is not None and float(x.grad.abs().sum()) > 0
    back = lt.restore_(Net(), net.state_dict())
    with torch.no_grad():
        assert back(x).equal(y)
    plain = lt.dequantize_(net)
    assert type(plain.a) is nn.Linear and set(plain.state_dict()) == set(Net().state_dict())
    with torch.no_grad():
        torch.testing.assert_close(plain(x), y, atol=1e-5, rtol=0)


def test_weights_with_offsets_refuse_to_be_static() -> None:
    layer = lt.quantize_(nn.Linear(64, 8), "int4-weights")
    with pytest.raises(QuantError, match="weights with offsets are multiplied as floats"):
        layer.to_mode("static")
