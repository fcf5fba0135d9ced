"""Layer, RMS, instance and group norm that exporters write out become one op each."""

from __future__ import annotations

import numpy as np
import pytest
from passes_laws import Net, check, f32, net_of, ops

from lowbit.dims import symbol

SHAPE = (2, 5, 8)
LAST = dict(axes=(2,), keepdims=True)


def mean(n, x, axes=(2,)):
    return n("reduce_mean", x, axes=axes, keepdims=True)


def square(n, x):
    return n("mul", x, x)


def layer_norm(n, x, square=square, axes=(2,), var_axes=None, mean=mean, eps=1e-5):
    d = n("sub", x, mean(n, x, axes))
    v = mean(n, square(n, d), var_axes or axes)
    return n("div", d, n("sqrt", n("add", v, eps)))


def reciprocal_norm(n, x):
    d = n("sub", x, mean(n, x))
    return n("mul", n("reciprocal", n("sqrt", n("add", 1e-5, mean(n, square(n, d))))), d)


def two_subtractions(n, x):
    """torch's exporter of opset 11 has one; others subtract the mean once for each use."""
    v = mean(n, n("pow", n("sub", x, mean(n, x)), 2.0))
    return n("div", n("sub", x, mean(n, x)), n("sqrt", n("add", v, 1e-5)))


def by_sums(n, x, axes=(2,)):
    return n("div", n("reduce_sum", x, axes=axes, keepdims=True), 8.0)


LAYER_NORMS = {
    "mul self": layer_norm,
    "pow 2": lambda n, x: layer_norm(n, x, lambda n, d: n("pow", d, 2.0)),
    "reciprocal": reciprocal_norm,
    "two subtractions": two_subtractions,
    "sums over the count": lambda n, x: layer_norm(n, x, mean=by_sums),
    "pow -0.5": lambda n, x: (lambda d: n("mul", d, n("pow", n("add", mean(n, square(n, d)), 1e-5), -0.5)))(n("sub", x, mean(n, x))),
    "axis counted from behind": lambda n, x: layer_norm(n, x, axes=(-1,)),
}


@pytest.mark.parametrize("build", LAYER_NORMS.values(), ids=LAYER_NORMS.keys())
def test_a_spelled_out_layer_norm_is_one_op(build):
    after = check(net_of(lambda n, x: n("add", n("mul", build(n, x), f32(8)), f32(8)), SHAPE))
    assert ops(after) == ["layer_norm"]
    node = after.nodes[0]
    assert node.attrs["axis"] == 2 and node.attrs["eps"] == pytest.approx(1e-5) and len(node.inputs) == 3


def test_scale_and_bias_may_be_missing_or_have_leading_ones():
    assert ops(check(net_of(layer_norm, SHAPE))) == ["layer_norm"]
    after = check(net_of(lambda n, x: n("add", layer_norm(n, x), f32(1, 1, 8)), SHAPE))
    assert ops(after) == ["layer_norm"] and after.nodes[0].inputs[1] is None
    after = check(net_of(lambda n, x: n("mul", f32(1, 8), layer_norm(n, x)), (symbol("batch"), 5, 8)))
    assert ops(after) == ["layer_norm"]


def test_layer_norm_over_several_last_axes():
    after = check(net_of(lambda n, x: n("mul", layer_norm(n, x, axes=(1, 2)), f32(5, 8)), SHAPE))
    assert ops(after) == ["layer_norm"] and after.nodes[0].attrs["axis"] == 1


RMS_NORMS = {
    "x * reciprocal(sqrt)": lambda n, x: n("mul", x, n("reciprocal", n("sqrt", n("add", mean(n, square(n, x)), 1e-6)))),
    "x / sqrt": lambda n, x: n("div", x, n("sqrt", n("add", mean(n, n("pow", x, 2.0)), 1e-6))),
    "x * (1 / sqrt)": lambda n, x: n("mul", n("div", 1.0, n("sqrt", n("add", mean(n, square(n, x)), 1e-6))), x),
}


@pytest.mark.parametrize("build", RMS_NORMS.values(), ids=RMS_NORMS.keys())
def test_a_spelled_out_rms_norm_is_one_op(build):
    after = check(net_of(lambda n, x: n("mul", f32(8), build(n, x)), SHAPE))
    assert ops(after) == ["rms_norm"] and len(after.nodes[0].inputs) == 2


def test_casts_around_the_core_stay_and_the_core_is_found():
    net = Net()
    x = net.x(*SHAPE, dtype="float16")
    y = net("cast", RMS_NORMS["x / sqrt"](net, net("cast", x, to="float32")), to="float16")
    assert ops(check(net.graph(net("mul", y, f32(8).astype(np.float16))), tolerance=2e-3)) == ["cast", "rms_norm", "cast", "mul"]


NEAR_MISSES = {
    "the sum of squares": lambda n, x: (lambda d: n("div", d, n("sqrt", n("add", n("reduce_sum", square(n, d), **LAST), 1e-5))))(
        n("sub", x, mean(n, x))
    ),
    "sums over another count": lambda n, x: layer_norm(n, x, mean=lambda n, v, a: n("div", n("reduce_sum", v, **LAST), 7.0)),
    "the cube": lambda n, x: layer_norm(n, x, lambda n, d: n("abs", n("pow", d, 3.0))),
    "the variance of another tensor": lambda n, x: n("div", x, n("sqrt", n("add", mean(n, square(n, n("exp", x))), 1e-5))),
    "a mean that others read": lambda n, x: (lambda m: (n("div", x, n("sqrt", n("add", m, 1e-5))), m))(mean(n, square(n, x))),
}


@pytest.mark.parametrize("build", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_what_only_looks_like_a_norm_stays(build):
    assert not {"layer_norm", "rms_norm"} & set(ops(check(net_of(build, SHAPE))))


def test_a_variance_over_other_axes_than_the_mean_is_no_layer_norm():
    after = check(net_of(lambda n, x: layer_norm(n, x, axes=(2,), var_axes=(1,)), SHAPE))
    assert "layer_norm" not in ops(after) and "rms_norm" in ops(after)  # of x - mean, over the other axis


def test_a_scale_that_is_not_over_the_normalized_axes_stays_outside():
    after = check(net_of(lambda n, x: n("mul", layer_norm(n, x), f32(2, 1, 8)), SHAPE))
    assert ops(after) == ["layer_norm", "mul"]


def test_a_norm_over_the_pixels_with_a_scale_per_channel_is_instance_norm():
    def model(n, x):
        return n("add", n("mul", layer_norm(n, x, axes=(2, 3)), f32(3, 1, 1)), f32(1, 3, 1, 1))

    assert ops(check(net_of(model, (2, 3, 4, 4)))) == ["instance_norm"]


@pytest.mark.parametrize(("axes", "shape"), [((1,), (2, 4, 5, 6)), ((1, 2), (2, 5, 6, 4)), ((1, 3), (2, 4, 5, 6))])
def test_a_norm_over_other_axes_stands_between_transposes(axes, shape):
    wide = tuple(d if i in axes else 1 for i, d in enumerate(shape))

    def model(n, x):
        return n("add", n("mul", layer_norm(n, x, axes=axes), f32(*wide)), f32(*wide))

    after = check(net_of(model, shape))
    assert ops(after) == ["transpose", "layer_norm", "transpose"] and len(after.nodes[1].inputs) == 3


def test_instance_norm_of_channels_last_images_is_one_op_between_transposes():
    def model(n, x):
        return n("add", n("mul", layer_norm(n, x, axes=(1, 2)), f32(4)), f32(4))

    assert ops(check(net_of(model, (2, 5, 6, 4)))) == ["transpose", "instance_norm", "transpose"]


def group_norm(n, x, groups, scale, rest):
    y = n("instance_norm", n("reshape", x, shape=(2, groups, rest)), scale, np.zeros(groups, np.float32), eps=1e-5)
    return n("add", n("mul", n("reshape", y, shape=(2, 6, 4, 4)), f32(6, 1, 1)), f32(6, 1, 1))


def test_instance_norm_between_reshapes_is_group_norm():
    after = check(net_of(lambda n, x: group_norm(n, x, 3, np.ones(3, np.float32), 32), (2, 6, 4, 4)))
    assert ops(after) == ["group_norm"] and after.nodes[0].attrs["groups"] == 3 and len(after.nodes[0].inputs) == 3


def test_instance_norm_with_a_scale_per_group_is_not_group_norm():
    after = check(net_of(lambda n, x: group_norm(n, x, 3, f32(3), 32), (2, 6, 4, 4)))
    assert "group_norm" not in ops(after)


def test_the_norm_has_the_name_of_its_module():
    net = Net()
    x = net.x(*SHAPE)

    def named(op, *inputs, **attrs):
        return net(op, *inputs, name="encoder.0.norm", **attrs)

    y = named("add", named("mul", layer_norm(named, x), f32(8)), f32(8))
    assert check(net.graph(y)).nodes[0].name == "encoder.0.norm"
