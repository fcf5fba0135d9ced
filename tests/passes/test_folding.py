"""Scales, shifts, batch norms, biases and pads become part of the layer next to them."""

from __future__ import annotations

import numpy as np
import pytest
from passes_laws import Net, check, f32, net_of, ops

from lowbit.dims import symbol
from lowbit.passes.fold_affine import fold_affine
from lowbit.passes.fold_batchnorm import fold_batchnorm
from lowbit.passes.fold_pads import fold_pads
from lowbit.passes.fuse_linear import fuse_linear


def conv(n, x, w, b=None, *, pads=(0, 0, 0, 0), groups=1, name="", stride=(1, 1)):
    return n("conv", x, w, b, name=name, stride=stride, pads=pads, dilation=(1, 1), groups=groups)


def conv_transpose(n, x, w, b=None, *, groups=1):
    options = dict(stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1), groups=groups, output_padding=(0, 0))
    return n("conv_transpose", x, w, b, **options)


def batch_norm(n, x, channels, name=""):
    return n("batch_norm", x, f32(channels), f32(channels), f32(channels), f32(channels, low=0.5, high=2), name=name, eps=1e-5)


LAYERS = {
    "conv": ((2, 4, 5, 5), 6, lambda n, x: conv(n, x, f32(6, 4, 3, 3), f32(6), pads=(1, 0, 1, 2))),
    "conv without bias": ((2, 4, 5, 5), 6, lambda n, x: conv(n, x, f32(6, 4, 3, 3))),
    "depthwise conv": ((2, 4, 5, 5), 4, lambda n, x: conv(n, x, f32(4, 1, 3, 3), f32(4), groups=4)),
    "conv of one dimension": (
        (2, 4, 9),
        6,
        lambda n, x: n("conv", x, f32(6, 2, 3), f32(6), stride=(1,), pads=(1, 1), dilation=(1,), groups=2),
    ),
    "conv_transpose": ((2, 4, 3, 3), 6, lambda n, x: conv_transpose(n, x, f32(4, 6, 2, 2), f32(6))),
    "conv_transpose in groups": ((2, 4, 3, 3), 6, lambda n, x: conv_transpose(n, x, f32(4, 3, 2, 2), groups=2)),
    "linear": ((3, 4), 6, lambda n, x: n("linear", x, f32(6, 4), f32(6))),
}


@pytest.mark.parametrize(("shape", "channels", "build"), LAYERS.values(), ids=LAYERS.keys())
def test_batch_norm_goes_into_the_layer_before_it(shape, channels, build):
    g = net_of(lambda n, x: batch_norm(n, build(n, x), channels), shape)
    after = check(g, fold_batchnorm)
    assert len(after) == 1 and after.nodes[0].op in ("conv", "conv_transpose", "linear")
    assert len(after.constants) == 2


@pytest.mark.parametrize(("shape", "channels", "build"), LAYERS.values(), ids=LAYERS.keys())
def test_scales_and_shifts_go_into_the_layer_before_them(shape, channels, build):
    def model(n, x):
        y = build(n, x)
        per_channel = (channels, *[1] * (len(shape) - 2))
        y = n("div", n("mul", f32(1, *per_channel), n("add", y, f32(*per_channel))), f32(*per_channel, low=1))
        return n("sub", 1.5, n("sub", n("mul", y, 2.0), f32(*per_channel)))

    assert len(check(net_of(model, shape))) == 1


def test_the_layer_keeps_its_name_and_the_weight_too():
    net = Net()
    x = net.x(1, 3, 4, 4)
    w = net.constant(f32(2, 3, 3, 3), name="layer1.conv.weight")
    g = net.graph(batch_norm(net, conv(net, x, w, name="layer1.conv"), 2, name="layer1.bn"))
    after = check(g)
    assert after.nodes[0].name == "layer1.conv"
    assert sorted(after.constants) == ["layer1.conv.bias", "layer1.conv.weight"]


def test_batch_norm_behind_a_conv_that_others_read_is_a_scale_and_a_shift():
    def model(n, x):
        y = conv(n, x, f32(6, 4, 3, 3))
        return n("add", n("relu", batch_norm(n, y, 6)), n("exp", y))

    assert ops(check(net_of(model, (2, 4, 5, 5)), fold_batchnorm)) == ["conv", "mul", "add", "relu", "exp", "add"]


def test_batch_norm_behind_linear_of_three_dimensions_is_over_another_axis():
    g = net_of(lambda n, x: batch_norm(n, n("linear", x, f32(6, 4)), 5), (2, 5, 4))
    assert ops(check(g, fold_batchnorm)) == ["linear", "mul", "add"]


def test_a_weight_that_is_shared_stays_shared():
    def model(n, x):
        w = n.constant(f32(4, 4, 1, 1), name="w")
        return batch_norm(n, conv(n, n("relu", batch_norm(n, conv(n, x, w), 4)), w), 4)

    after = check(net_of(model, (2, 4, 5, 5)))
    assert ops(after).count("conv") == 2 and "w" in after.constants


def test_an_affine_step_goes_into_the_conv_behind_it_if_that_does_not_pad():
    def model(n, x, pads):
        return conv(n, batch_norm(n, x, 4), f32(6, 2, 3, 3), pads=pads, groups=2)

    assert ops(check(net_of(lambda n, x: model(n, x, (0, 0, 0, 0)), (2, 4, 5, 5)))) == ["conv"]
    assert ops(check(net_of(lambda n, x: model(n, x, (1, 1, 1, 1)), (2, 4, 5, 5)))) == ["mul", "add", "conv"]
    scale_only = net_of(lambda n, x: conv(n, n("mul", x, f32(4, 1, 1)), f32(6, 4, 3, 3), pads=(1, 1, 1, 1)), (2, 4, 5, 5))
    assert ops(check(scale_only)) == ["conv"]


def test_input_normalization_goes_into_the_first_linear():
    g = net_of(lambda n, x: n("linear", n("div", n("sub", x, f32(4)), f32(4, low=1)), f32(6, 4)), (symbol("batch"), 4))
    assert ops(check(g)) == ["linear"]


NOT_AFFINE = {
    "a shift that varies over pixels": lambda n, x: n("add", conv(n, x, f32(6, 4, 1, 1)), f32(5, 5)),
    "a shift per image": lambda n, x: n("add", conv(n, x, f32(6, 4, 1, 1)), f32(2, 1, 1, 1)),
    "a shift that makes it larger": lambda n, x: n("add", conv(n, x, f32(6, 4, 1, 1)), f32(2, 1, 6, 1, 1)),
    "a number divided by it": lambda n, x: n("div", 1.0, conv(n, x, f32(6, 4, 1, 1))),
    "division by zero": lambda n, x: n("div", conv(n, x, f32(6, 4, 1, 1), f32(6)), 0.0),
    "a shift of a value that is an output": lambda n, x: (lambda y: (y, n("add", y, 1.0)))(conv(n, x, f32(6, 4, 1, 1))),
}


@pytest.mark.parametrize("build", NOT_AFFINE.values(), ids=NOT_AFFINE.keys())
def test_what_is_not_per_channel_stays(build):
    g = net_of(build, (2, 4, 5, 5))
    assert check(g, fold_affine, exact=True) is g


def test_matmul_by_a_constant_is_linear_and_takes_the_bias():
    for bias in (f32(6), f32(1, 6), f32(1, 1, 6), f32(1)):
        g = net_of(lambda n, x, b=bias: n("add", b, n("matmul", x, f32(4, 6))), (2, symbol("seq"), 4))
        after = check(g)
        assert ops(after) == ["linear"] and len(after.nodes[0].inputs) == 3


def test_a_weight_that_is_also_read_otherwise_is_not_doubled():
    w = f32(4, 4)

    def both_sides(n, x):
        c = n.constant(w)
        return n("matmul", c, n("matmul", x, c))

    def both_ways(n, x):
        c = n.constant(w)
        return n("einsum", n("matmul", x, c), c, equation="bk,nk->bn")

    def as_an_output(n, x):
        c = n.constant(w)
        return n("matmul", x, c), c

    for build in (both_sides, both_ways, as_an_output):
        assert check(net_of(build, (4, 4))).parameter_count == w.size
    twice = check(net_of(lambda n, x: (lambda c: n("matmul", n("relu", n("matmul", x, c)), c))(n.constant(w)), (4, 4)))
    assert ops(twice) == ["linear", "relu", "linear"] and twice.parameter_count == w.size


def test_matmul_of_a_weight_with_leading_ones_is_linear():
    assert ops(check(net_of(lambda n, x: n("matmul", x, f32(1, 4, 6)), (2, 5, 4)))) == ["linear"]
    g = net_of(lambda n, x: n("matmul", x, f32(1, 4, 6)), (5, 4))  # the 1 makes the result rank 3
    assert check(g, fuse_linear, exact=True) is g


def test_einsum_that_is_a_matmul_is_linear():
    assert ops(check(net_of(lambda n, x: n("einsum", x, f32(4, 6), equation="bsk,kn->bsn"), (2, 5, 4)))) == ["linear"]
    assert ops(check(net_of(lambda n, x: n("einsum", x, f32(6, 4), equation="bsk, nk -> bsn"), (2, 5, 4)))) == ["linear"]
    assert ops(check(net_of(lambda n, x: n("einsum", x, f32(5, 6), equation="bsk,sn->bkn"), (2, 5, 4)))) == ["einsum"]
    assert ops(check(net_of(lambda n, x: n("einsum", x, f32(5, 4), equation="bsk,sk->bs"), (2, 5, 4)))) == ["einsum"]


def test_matmul_of_computed_or_batched_operands_stays():
    assert ops(check(net_of(lambda n, x, y: n("matmul", x, y), (5, 4), (4, 6)))) == ["matmul"]
    assert ops(check(net_of(lambda n, x: n("matmul", x, f32(2, 4, 6)), (2, 5, 4)))) == ["matmul"]
    assert ops(check(net_of(lambda n, x: n("matmul", f32(6, 4), x), (4, 5)))) == ["matmul"]


def test_a_weight_tied_to_an_embedding_stays_one():
    def model(n, x):
        table = n.constant(f32(50, 8), name="table")
        ids = n.constant(np.array([1, 2, 3]))
        return n("matmul", n("add", x, n("gather", table, ids, axis=0)), n("transpose", table, perm=(1, 0)))

    after = check(net_of(model, (3, 8)))
    assert "linear" in ops(after) and "transpose" not in ops(after)
    assert [c for c in after.constants.values() if c.data.size == 400] == [after.constants["table"]]


def test_reshapes_around_a_linear_go():
    def model(n, x, out=(2, 5, 6)):
        return n("reshape", n("linear", n("reshape", x, shape=(10, 4)), f32(6, 4), f32(6)), shape=out)

    assert ops(check(net_of(model, (2, 5, 4)))) == ["linear"]
    assert ops(check(net_of(lambda n, x: model(n, x, (5, 2, 6)), (2, 5, 4)))) == ["reshape", "linear"]
    assert ops(check(net_of(lambda n, x: model(n, x, (10, 2, 3)), (2, 5, 4)))) == ["reshape", "linear", "reshape"]


def pad(n, x, *spatial, value=0.0, mode="constant"):
    half = len(spatial) // 2
    return n("pad", x, pads=(0, 0, *spatial[:half], 0, 0, *spatial[half:]), mode=mode, value=value)


POOL = dict(kernel=(3, 3), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1), ceil_mode=False)
LOWEST = float(np.finfo(np.float32).min)
FOLDED_PADS = {
    "zeros into conv": lambda n, x: conv(n, pad(n, x, 1, 2, 0, 1), f32(2, 4, 3, 3), pads=(1, 1, 0, 0)),
    "zeros into avg_pool": lambda n, x: n("avg_pool", pad(n, x, 1, 1, 1, 1), **POOL, count_include_pad=False),
    "zeros into avg_pool that counts": lambda n, x: n(
        "avg_pool", pad(n, x, 1, 1, 1, 1), **{**POOL, "pads": (1, 0, 0, 0)}, count_include_pad=True
    ),
    "-inf into max_pool": lambda n, x: n("max_pool", pad(n, x, 1, 1, 1, 1, value=float("-inf")), **POOL),
    "the lowest float into max_pool": lambda n, x: n("max_pool", pad(n, x, 1, 1, 1, 1, value=LOWEST), **POOL),
}


@pytest.mark.parametrize("build", FOLDED_PADS.values(), ids=FOLDED_PADS.keys())
def test_pads_go_into_the_layer_behind_them(build):
    assert len(check(net_of(build, (2, 4, 6, 7)), fold_pads)) == 1


def test_zeros_around_what_is_never_negative_go_into_max_pool():
    g = net_of(lambda n, x: n("max_pool", pad(n, n("relu", x), 1, 1, 1, 1), **POOL), (2, 4, 6, 7))
    assert ops(check(g, exact=True)) == ["relu", "max_pool"]


KEPT_PADS = {
    "ones before conv": lambda n, x: conv(n, pad(n, x, 1, 1, 1, 1, value=1.0), f32(2, 4, 3, 3)),
    "a reflection": lambda n, x: conv(n, pad(n, x, 1, 1, 1, 1, mode="reflect"), f32(2, 4, 3, 3)),
    "a crop": lambda n, x: conv(n, pad(n, x, 1, -1, 1, 1), f32(2, 4, 3, 3)),
    "more channels": lambda n, x: conv(n, n("pad", x, pads=(0, 1, 0, 0, 0, 1, 0, 0), mode="constant"), f32(2, 6, 3, 3)),
    "zeros before max_pool": lambda n, x: n("max_pool", pad(n, x, 1, 1, 1, 1), **POOL),
    "zeros as wide as the window": lambda n, x: n("max_pool", pad(n, n("relu", x), 3, 3, 3, 3), **POOL),
    "zeros before an avg_pool that pads without counting": lambda n, x: n(
        "avg_pool", pad(n, x, 1, 1, 1, 1), **{**POOL, "pads": (1, 1, 1, 1)}, count_include_pad=False
    ),
}


@pytest.mark.parametrize("build", KEPT_PADS.values(), ids=KEPT_PADS.keys())
def test_pads_that_mean_something_else_stay(build):
    g = net_of(build, (2, 4, 6, 7))
    assert check(g, fold_pads, exact=True) is g


def test_two_pads_of_one_value_are_one():
    g = net_of(lambda n, x: pad(n, pad(n, x, 1, 0, 0, 2), 0, 3, 1, 0), (2, 4, 6, 7))
    assert ops(check(g, exact=True)) == ["pad"]
    g = net_of(lambda n, x: pad(n, pad(n, x, 1, 0, 0, 2), 0, 3, 1, 0, value=1.0), (2, 4, 6, 7))
    assert ops(check(g, exact=True)) == ["pad", "pad"]
