"""Activation functions that exporters write out become one op; what only looks like one stays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from passes_laws import Net, check, f32, net_of, ops

from lowbit.ir.interp import run
from lowbit.passes import simplify

SHAPE = (2, 3, 5, 4)
ROOT2 = math.sqrt(2.0)
TANH = math.sqrt(2 / math.pi)


def hard_gate(n, x):
    return n("clip", n("add", x, 3.0), min=0.0, max=6.0)


def one_plus_erf(n, x):
    return n("add", n("erf", n("div", x, ROOT2)), 1.0)


def cube(n, x):
    return n("mul", n("mul", x, x), x)


def one_plus_tanh(n, x, third=None):
    inner = n("add", x, n("mul", 0.044715, (third or cube)(n, x)))
    return n("add", 1.0, n("tanh", n("mul", inner, TANH)))


# name, op, attributes to look at, spelling
SPELLINGS = {
    "hardswish: x * relu6(x + 3) / 6": ("hardswish", {}, lambda n, x: n("div", n("mul", x, n("relu6", n("add", x, 3.0))), 6.0)),
    "hardswish: x * (clip / 6)": ("hardswish", {}, lambda n, x: n("mul", x, n("div", hard_gate(n, x), 6.0))),
    "hardswish: (x / 6) * clip": ("hardswish", {}, lambda n, x: n("mul", n("div", x, 6.0), hard_gate(n, x))),
    "hardswish: clip * x * (1 / 6)": ("hardswish", {}, lambda n, x: n("mul", n("mul", hard_gate(n, x), x), 1 / 6)),
    "hardswish: 3 + x, min and max": (
        "hardswish",
        {},
        lambda n, x: n("mul", x, n("div", n("minimum", 6.0, n("maximum", n("add", 3.0, x), 0.0)), np.array([6.0], np.float32))),
    ),
    "hardswish: x * hardsigmoid": ("hardswish", {}, lambda n, x: n("mul", x, n("hardsigmoid", x, alpha=0.1666667, beta=0.5))),
    "hardsigmoid: clip / 6": ("hardsigmoid", {"beta": 0.5}, lambda n, x: n("div", hard_gate(n, x), 6.0)),
    "clip: relu6": ("clip", {"min": 0.0, "max": 6.0}, lambda n, x: n("relu6", x)),
    "clip: min(relu)": ("clip", {"min": 0.0, "max": 6.0}, lambda n, x: n("minimum", n("relu", x), 6.0)),
    "clip: max(min)": ("clip", {"min": -1.0, "max": 1.0}, lambda n, x: n("maximum", -1.0, n("minimum", x, 1.0))),
    "clip: clip of clip": ("clip", {"min": -1.0, "max": 1.0}, lambda n, x: n("clip", n("clip", x, min=-1.0, max=3.0), min=-2.0, max=1.0)),
    "relu: max with 0": ("relu", {}, lambda n, x: n("maximum", x, 0.0)),
    "relu: clip from 0": ("relu", {}, lambda n, x: n("clip", x, min=0.0, max=None)),
    "relu: where": ("relu", {}, lambda n, x: n("where", n("greater", x, 0.0), x, 0.0)),
    "gelu: 0.5 x (1 + erf)": ("gelu", {"approximate": "none"}, lambda n, x: n("mul", n("mul", 0.5, x), one_plus_erf(n, x))),
    "gelu: x (1 + erf) 0.5": ("gelu", {"approximate": "none"}, lambda n, x: n("mul", n("mul", x, one_plus_erf(n, x)), 0.5)),
    "gelu: x (0.5 (1 + erf))": ("gelu", {"approximate": "none"}, lambda n, x: n("mul", x, n("mul", 0.5, one_plus_erf(n, x)))),
    "gelu: x (1 + erf) / 2": ("gelu", {"approximate": "none"}, lambda n, x: n("div", n("mul", one_plus_erf(n, x), x), 2.0)),
    "gelu: erf of x * √½": (
        "gelu",
        {"approximate": "none"},
        lambda n, x: n("mul", n("mul", x, 0.5), n("add", 1.0, n("erf", n("mul", x, 0.70710677)))),
    ),
    "gelu tanh: x * x * x": ("gelu", {"approximate": "tanh"}, lambda n, x: n("mul", n("mul", 0.5, x), one_plus_tanh(n, x))),
    "gelu tanh: pow 3": (
        "gelu",
        {"approximate": "tanh"},
        lambda n, x: n("mul", 0.5, n("mul", x, one_plus_tanh(n, x, lambda n, x: n("pow", x, 3.0)))),
    ),
    "gelu tanh: x (1 + c x x)": (
        "gelu",
        {"approximate": "tanh"},
        lambda n, x: n(
            "mul",
            n("mul", x, 0.5),
            n("add", n("tanh", n("mul", n("mul", x, TANH), n("add", 1.0, n("mul", n("mul", x, 0.044715), x)))), 1.0),
        ),
    ),
    "silu: x * sigmoid": ("silu", {}, lambda n, x: n("mul", n("sigmoid", x), x)),
    "silu: x / (1 + exp(-x))": ("silu", {}, lambda n, x: n("div", x, n("add", n("exp", n("neg", x)), 1.0))),
    "sigmoid: 1 / (1 + exp(-x))": ("sigmoid", {}, lambda n, x: n("div", 1.0, n("add", 1.0, n("exp", n("neg", x))))),
    "mish: x * tanh(softplus)": ("mish", {}, lambda n, x: n("mul", x, n("tanh", n("softplus", x)))),
    "mish: x * tanh(log(1 + exp))": ("mish", {}, lambda n, x: n("mul", n("tanh", n("log", n("add", 1.0, n("exp", x)))), x)),
    "softplus: log1p(exp)": ("softplus", {}, lambda n, x: n("log1p", n("exp", x))),
    "softplus: where(x > 20)": ("softplus", {}, lambda n, x: n("where", n("greater", x, 20.0), x, n("log1p", n("exp", x)))),
    "softsign": ("softsign", {}, lambda n, x: n("div", x, n("add", 1.0, n("abs", x)))),
    "leaky_relu: where": ("leaky_relu", {}, lambda n, x: n("where", n("greater", x, 0.0), x, n("mul", x, 0.1))),
    "leaky_relu: where(x < 0)": ("leaky_relu", {}, lambda n, x: n("where", n("less", x, 0.0), n("mul", x, 0.1), x)),
    "leaky_relu: max": ("leaky_relu", {}, lambda n, x: n("maximum", n("mul", 0.1, x), x)),
    "leaky_relu: relu(x) - a relu(-x)": (
        "leaky_relu",
        {},
        lambda n, x: n("sub", n("relu", x), n("mul", n("relu", n("neg", x)), 0.1)),
    ),
    "leaky_relu: relu(x) + -a relu(-x)": (
        "leaky_relu",
        {},
        lambda n, x: n("add", n("relu", x), n("mul", n("relu", n("neg", x)), -0.1)),
    ),
    "leaky_relu: prelu of one slope": ("leaky_relu", {}, lambda n, x: n("prelu", x, np.array([0.25], np.float32))),
    "elu: where": ("elu", {}, lambda n, x: n("where", n("greater", x, 0.0), x, n("mul", 0.5, n("sub", n("exp", x), 1.0)))),
    "log_softmax": ("log_softmax", {"axis": 1}, lambda n, x: n("log", n("softmax", x, axis=1))),
    "softmax": (
        "softmax",
        {"axis": 3},
        lambda n, x: (lambda e: n("div", e, n("reduce_sum", e, axes=(3,), keepdims=True)))(
            n("exp", n("sub", x, n("reduce_max", x, axes=(3,), keepdims=True)))
        ),
    ),
}


@pytest.mark.parametrize(("made", "attrs", "build"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_spelled_out_activation_is_one_op(made, attrs, build):
    after = check(net_of(build, SHAPE))
    assert ops(after) == [made]
    assert attrs.items() <= dict(after.nodes[0].attrs).items()


@pytest.mark.parametrize(("made", "attrs", "build"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_it_is_found_between_other_layers(made, attrs, build):
    def model(n, x):
        y = n("conv", x, f32(3, 3, 1, 1), f32(3), stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1)
        return n("conv", build(n, y), f32(3, 3, 1, 1), stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1)

    assert ops(check(net_of(model, SHAPE), tolerance=2e-5)) == ["conv", made, "conv"]


NEAR_MISSES = {
    "hardswish with another shift": lambda n, x: n("div", n("mul", x, n("clip", n("add", x, 2.0), min=0.0, max=6.0)), 6.0),
    "hardswish with another divisor": lambda n, x: n("div", n("mul", x, hard_gate(n, x)), 5.0),
    "hardsigmoid of another slope times x": lambda n, x: n("mul", x, n("hardsigmoid", x, alpha=0.2, beta=0.5)),
    "gelu without the half": lambda n, x: n("mul", x, one_plus_erf(n, x)),
    "gelu with another root": lambda n, x: n("mul", n("mul", x, 0.5), n("add", n("erf", n("div", x, 1.5)), 1.0)),
    "sigmoid of 1.702 x": lambda n, x: n("mul", x, n("sigmoid", n("mul", x, 1.702))),
    "softplus that switches early": lambda n, x: n("where", n("greater", x, 2.0), x, n("softplus", x)),
    "a slope above 1 in max": lambda n, x: n("maximum", x, n("mul", x, 1.5)),
    "limits that cross": lambda n, x: n("maximum", n("minimum", x, -1.0), 1.0),
    "the gate of another tensor": lambda n, x: n("mul", n("exp", x), n("sigmoid", x)),
    "prelu with a slope per channel": lambda n, x: n("prelu", x, np.array([[[0.1]], [[0.2]], [[0.3]]], np.float32)),
    "softmax with sums over another axis": lambda n, x: (lambda e: n("div", e, n("reduce_sum", e, axes=(2,), keepdims=True)))(
        n("exp", n("sub", x, n("reduce_max", x, axes=(3,), keepdims=True)))
    ),
    "softmax with a shift in one half": lambda n, x: n(
        "div",
        n("exp", n("sub", x, n("reduce_max", x, axes=(3,), keepdims=True))),
        n("reduce_sum", n("exp", x), axes=(3,), keepdims=True),
    ),
    "softmax with a shift in the other half": lambda n, x: n(
        "div",
        n("exp", x),
        n("reduce_sum", n("exp", n("sub", x, n("reduce_max", x, axes=(3,), keepdims=True))), axes=(3,), keepdims=True),
    ),
    "a one that widens": lambda n, x: n("mul", n("sigmoid", x), n("mul", x, np.ones((2, *SHAPE), np.float32))),
}
FUSED = {"hardswish", "gelu", "silu", "mish", "leaky_relu", "softmax"}


@pytest.mark.parametrize("build", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_what_only_looks_like_it_stays(build):
    assert not FUSED & set(ops(check(net_of(build, SHAPE))))


def test_one_op_gives_numbers_where_its_formula_overflows_and_keeps_nan():
    """The differences that the passes' docstrings tell of: all others are rounding."""

    def softmax(n, x):
        e = n("exp", x)
        return n("div", e, n("reduce_sum", e, axes=(0,), keepdims=True))

    x = np.array([np.nan, 200, -200], np.float32)
    for build, formula, fused in (
        (lambda n, x: n("where", n("greater", x, 0.0), x, 0.0), [0, 200, 0], [np.nan, 200, 0]),
        (lambda n, x: n("log", n("add", 1.0, n("exp", x))), [np.nan, np.inf, 0], [np.nan, 200, 0]),
        (lambda n, x: softmax(n, n("abs", x)), [np.nan] * 3, [np.nan] * 3),
        (lambda n, x: softmax(n, n("where", n("isnan", x), 0.0, x)), [0, np.nan, 0], [0, 1, 0]),
        (lambda n, x: n("log", n("softmax", n("where", n("isnan", x), 0.0, x), axis=0)), [-np.inf, 0, -np.inf], [-200, 0, -400]),
    ):
        graph = net_of(build, (3,))
        np.testing.assert_array_equal(run(graph, {"x0": x})["y0"], np.array(formula, np.float32))
        np.testing.assert_array_equal(run(simplify(graph), {"x0": x})["y0"], np.array(fused, np.float32))


def test_a_shared_step_is_not_computed_twice():
    def silu_with_gate_out(n, x):
        gate = n("sigmoid", x)
        return n("mul", x, gate), gate

    assert ops(check(net_of(silu_with_gate_out, SHAPE))) == ["sigmoid", "mul"]

    def clip_after_shared_relu(n, x):
        r = n("relu", x)
        return n("add", n("minimum", r, 6.0), r)

    assert ops(check(net_of(clip_after_shared_relu, SHAPE))) == ["relu", "clip", "add"]


def test_limits_of_integers_stay_integers():
    net = Net()
    g = net.graph(net("minimum", net.x(2, 3, dtype="int32"), np.array(3, np.int32)))
    after = check(g, exact=True)
    assert ops(after) == ["clip"] and after.nodes[0].attrs["max"] == 3 and isinstance(after.nodes[0].attrs["max"], int)


@pytest.mark.parametrize("bound", [2**63 - 1, 2**53 + 1, -(2**63)])
def test_limits_beyond_the_integers_of_a_float_are_kept_exactly(bound):
    for op in ("minimum", "maximum"):
        net = Net()
        x = net.x(4, dtype="int64")
        feed = {"x": np.array([2**53, 2**53 + 2, 2**63 - 1, -(2**63)])}
        check(net.graph(net(op, net("relu", x), np.array(bound, np.int64))), exact=True, feed=feed)
        check(net.graph(net(op, x, np.full(4, bound, np.int64))), exact=True, feed=feed)


def test_the_fused_node_has_the_name_of_the_module():
    net = Net()
    x = net.x(2, 3)
    y = net(
        "mul", net("mul", x, 0.5, name="mlp.act.half"), net("add", net("erf", net("div", x, ROOT2, name="mlp.act"), name="mlp.act"), 1.0)
    )
    assert check(net.graph(y)).nodes[0].name == "mlp.act"


def test_half_precision_constants_are_recognized():
    net = Net()
    x = net.x(64, dtype="float16")

    def c(v):
        return np.array(v, np.float16)

    y = net("mul", net("mul", x, c(0.5)), net("add", net("erf", net("mul", x, c(math.sqrt(0.5)))), c(1.0)))
    assert ops(check(net.graph(y), tolerance=2e-3)) == ["gelu"]
