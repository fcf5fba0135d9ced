"""Rules at their edges: reasons that reach the report, blocks and scales as asked for, widths that meet, arguments that are none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.errors import DTypeError, LowbitError, QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.lower.integer import bracket_params
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams
from lowbit.quantization.params import in_width
from lowbit.quantization.rules import (
    CalibratedQuantRule,
    DynamicQuantRule,
    FloatRule,
    QuantRule,
    StaticQuantRule,
    WeightOnlyRule,
)
from lowbit.quantization.rules_file import parse_rules
from lowbit.report.coverage import coverage
from lowbit.types import Array, TensorType

GEOMETRY = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def weights(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network() -> Graph:
    """x (1, 8, 4, 4) → conv, relu → conv → mean → linear."""
    b = Builder("edges")
    x = b.input("x", TensorType((1, 8, 4, 4), "float32"))
    one = b.add("relu", b.add("conv", x, b.constant(weights(6, 8, 3, 3)), name="one", **GEOMETRY), name="one.act")
    two = b.add("conv", one, b.constant(weights(5, 6, 3, 3)), name="two", **GEOMETRY)
    mean = b.add("reduce_mean", two, name="mean", axes=(2, 3), keepdims=False)
    return b.finish({"y": b.add("linear", mean, b.constant(weights(3, 5)), name="head")})


DATA = [weights(1, 8, 4, 4, seed=i) for i in range(3)]


def reasons(rules: list[QuantRule]) -> dict[str, str]:
    g = network()
    return {s.layer: s.because for s in coverage(g, lowbit.quantize(g, DATA, rules=rules)).layers}


def weight_of(graph: Graph, layer: str) -> tuple[QuantParams, Array]:
    """Parameters and integers of a layer's weight."""
    from lowbit.ir.rewrite import Editor

    editor = Editor(graph)
    before = editor.producer(graph.node(layer).inputs[1])
    assert before is not None
    params, ints = bracket_params(editor, before), editor.constant_data(before.inputs[0])
    assert params is not None and ints is not None
    return params, ints


def test_the_reason_of_a_rule_on_weights_alone_is_in_the_report() -> None:
    told = reasons([WeightOnlyRule(".*", granularity="channel", because="the flash is small")])
    assert told["one"] == told["head"] == "the flash is small; weights only: stored as int4, multiplied as floats"
    told = reasons([DynamicQuantRule(".*", because="no data")])
    assert told["head"] == "no data"
    assert told["one"].startswith("no data; conv has no form for activations quantized at run time, so only its weights are integers")
    report = lowbit.compare(network(), lowbit.quantize(network(), None, rules=[WeightOnlyRule(".*", because="the flash is small")]), DATA)
    assert "the flash is small" in str(report)


def test_blocks_of_a_convolutions_weights_are_along_its_inputs_where_they_are_long_enough() -> None:
    q = lowbit.quantize(network(), None, rules=[WeightOnlyRule(".*", granularity=4)])
    params, ints = weight_of(q, "one")
    assert params.granularity == PerBlock(1, 4) and params.scale.shape == (6, 2, 3, 3) and ints.shape == (6, 8, 3, 3)
    data = weights(6, 8, 3, 3)
    off = np.abs(params.scale[:, :, None] * ints.reshape(6, 2, 4, 3, 3) - data.reshape(6, 2, 4, 3, 3))
    assert np.all(off <= params.scale[:, :, None] * 0.5001)


def test_where_blocks_are_not_to_be_had_the_channels_have_scales_and_the_reason_says_so() -> None:
    told = reasons([WeightOnlyRule(".*", granularity=7, because="small")])
    assert told["two"].startswith("small; a scale for each channel, not for blocks of 7: it has 6 inputs at each place")
    assert told["one"] == "small; weights only: stored as int4, multiplied as floats"
    told = reasons([CalibratedQuantRule(".*", granularity=4, because="blocks")])
    assert told["one"] == "blocks; a scale for each channel, not for blocks of 4: integer conv has none"
    assert told["head"] == "blocks"
    q = lowbit.quantize(network(), DATA, rules=[CalibratedQuantRule(".*", granularity=4)])
    assert weight_of(q, "one")[0].granularity == PerAxis(0) and weight_of(q, "head")[0].granularity == PerBlock(1, 4)
    assert not lower(q).islands


@pytest.mark.parametrize("stored", ["int4", "int8", "uint8", "int16", "binary"])
def test_weights_alone_are_stored_in_the_rules_dtype(stored: str) -> None:
    q = lowbit.quantize(network(), None, rules=[WeightOnlyRule(".*", stored, granularity="channel")])
    assert {weight_of(q, layer)[0].dtype.name for layer in ("one", "two", "head")} == {stored}


@pytest.mark.parametrize("data", [None, DATA])
def test_a_layer_with_the_users_scale_can_be_read_in_another_width(data: list[Array] | None) -> None:
    narrow = "^one|^mean"
    rules = [StaticQuantRule(narrow, scale=0.125, offset=5), StaticQuantRule(".*", "int16", scale=0.01)]
    q = lowbit.quantize(network(), data, rules=rules)
    assert not lower(q).islands
    back = lowbit.quantize(network(), data, rules=[StaticQuantRule(narrow, "int16", scale=0.001), StaticQuantRule(".*", scale=0.1)])
    assert not lower(back).islands


def test_more_bits_keep_every_number_what_it_is() -> None:
    for zero in (-128, 0, 3, 127):
        narrow = QuantParams("int8", 0.3, zero)
        wide = in_width(narrow, lowbit.TensorType((1,), "int16").dtype, "symmetric")
        codes = np.arange(-128, 128)
        reals = narrow.scale * (codes - zero).astype(np.float32)
        ints = lowbit.quantize_array(reals, params=wide).ints
        assert np.array_equal(ints * wide.scale, reals)


def test_the_users_scale_holds_behind_a_clamp_that_only_a_float_layer_reads() -> None:
    q = lowbit.quantize(network(), DATA, rules=[StaticQuantRule("^one$", scale=0.25), FloatRule("^two$"), CalibratedQuantRule(".*")])
    made = [
        n for n in q.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == q.node("one.act").output.name
    ]
    assert [float(q.constant(n.inputs[1])) for n in made] == [0.25]  # type: ignore[arg-type]


# -- the user's own scales of weights ----------------------------------------------------------------------------------------------


def test_the_users_scales_of_weights_are_taken_one_for_each_channel_or_one_for_all() -> None:
    own = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    q = lowbit.quantize(network(), DATA, rules=[StaticQuantRule("^one$", scale=0.1, weight_scale=own), CalibratedQuantRule(".*")])
    params, ints = weight_of(q, "one")
    assert params.granularity == PerAxis(0) and np.array_equal(params.scale, np.float32(own))
    want = np.clip(np.rint(weights(6, 8, 3, 3) / np.float32(own).reshape(6, 1, 1, 1)), -127, 127)
    assert np.array_equal(ints, want)
    one = lowbit.quantize(network(), DATA, rules=[StaticQuantRule("^one$", scale=0.1, weight_scale=0.01), CalibratedQuantRule(".*")])
    assert weight_of(one, "one")[0].granularity == PerTensor()
    toml = '[[rule]]\nkind = "static"\npattern = "^one$"\nscale = 0.1\nweight_scale = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]'
    assert parse_rules(toml) == [StaticQuantRule("^one$", scale=0.1, weight_scale=own)]


def test_scales_of_weights_in_another_number_than_channels_name_the_layer() -> None:
    place = re.escape("conv 'one': StaticQuantRule('^one$'): ")
    with pytest.raises(QuantError, match=place + "weight_scale has 2 numbers, the weights have 6 channels.\n  Try: one for each channel"):
        lowbit.quantize(network(), DATA, rules=[StaticQuantRule("^one$", weight_scale=[0.1, 0.2]), CalibratedQuantRule(".*")])


def biased(bias: list[float]) -> Graph:
    b = Builder("biased")
    x = b.input("x", TensorType((4, 8), "float32"))
    y = b.add("linear", x, b.constant(weights(3, 8), name="w"), b.constant(np.float32(bias), name="b"), name="fc", out="y")
    return b.finish({"y": y})


@pytest.mark.parametrize("own", [1e-9, [1e-2, 1e-9, 1e-2]], ids=["one", "channels"])
def test_a_scale_of_weights_that_the_bias_does_not_fit_is_refused_and_never_replaced(own: object) -> None:
    """On the grid input scale × weight scale a bias of 50 would need 42 bits."""
    rule = StaticQuantRule("^fc$", scale=0.5, weight_scale=own)
    data = [weights(4, 8, seed=i) for i in range(3)]
    text = re.escape("linear 'fc': StaticQuantRule('^fc$'): ") + "weight_scale 1e-09.* its bias 50 .* more than 30 bits.*"
    with pytest.raises(QuantError, match=text + "\n  Try: weight_scale=.* or larger"):
        lowbit.quantize(biased([0.1, 50.0, 0.2]), data, rules=[rule])
    q = lowbit.quantize(biased([0.1, 0.001, 0.2] if isinstance(own, list) else [0.0, 0.0, 0.0]), data, rules=[rule])
    assert np.array_equal(weight_of(q, "fc")[0].scale, np.float32(own)) and lower(q).islands == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"scale": [0.1, 0.2]}, "scale has 2 numbers, the output of a layer has one.\n  Try: .*weight_scale= takes one"),
        ({"offset": [1, 2]}, "offset has 2 numbers, the output of a layer has one"),
        ({"scale": []}, "scale has 0 numbers"),
        ({"scale": "a"}, "scale='a' is not a number.\n  Try: scale=0.1"),
        ({"scale": None}, "scale=None is not a number"),
        ({"scale": [[1.0], [1.0, 2.0]]}, "scale cannot become a NumPy array"),
        ({"offset": "3"}, "offset='3' is not a number"),
        ({"offset": 0.5}, "zero point is float64, integers are needed"),
        ({"weight_scale": [0.1, -1.0]}, "is not a finite positive number"),
        ({"weight_scale": []}, "is not a finite positive number"),
        ({"weight_scale": [0.1, 0.2], "per_channel": False}, "one, for per_channel=False"),
        ({"weight_scale": "x"}, "weight_scale='x' is not a number"),
    ],
)
def test_own_scales_that_cannot_be_meant_are_refused_when_the_rule_is_made(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(LowbitError, match=r"StaticQuantRule\('x'\): .*" + said):
        StaticQuantRule("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": None}, 'CalibratedQuantRule: pattern None is not a text.\n  Try: ".\\*" matches every layer'),
        ({"pattern": 3}, "pattern 3 is not a text"),
        ({"pattern": b"x"}, "is not a text"),
        ({"dtype": None}, "None"),
        ({"dtype": 8}, "8"),
        ({"weights": "int7"}, "int7"),
        ({"granularity": None}, "granularity None is none"),
        ({"granularity": [32]}, r"granularity \[32\] is none"),
        ({"scheme": None}, "scheme None is not one"),
        ({"scheme": ["symmetric"]}, "scheme .* is not one"),
        ({"ops": "conv"}, r"ops='conv' are not names of ops.\n  Try: ops=\(\"conv\""),
        ({"ops": None}, "ops=None are not names"),
        ({"ops": (1,)}, r"ops=\(1,\) are not names"),
        ({"because": 3}, "because=3 is not a text"),
    ],
)
def test_arguments_of_a_rule_that_are_none_say_what_is_needed(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(LowbitError, match=said):
        CalibratedQuantRule(**{"pattern": "x", **arguments})


def test_activations_made_at_run_time_are_int8() -> None:
    with pytest.raises(DTypeError, match="activations are quantized at run time to int8, not int16"):
        DynamicQuantRule(".*", "int16")
