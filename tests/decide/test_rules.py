"""The engine after rules of a user's own: it decides about the layers that they leave to a recipe, and leaves those that they decide."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from decide_networks import RULES, depthwise_network, f32, outlier_network, rng, samples

from lowbit.decide.batches import Joined
from lowbit.decide.brackets import Pair
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.cost import Times
from lowbit.decide.decision import Decision
from lowbit.decide.goal import Goal
from lowbit.decide.samples import split
from lowbit.decide.widths import Widths
from lowbit.errors import LowbitWarning, QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.rewrite import Editor
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.lower.integer import bracket_params
from lowbit.pipeline import calibrate, decided, quantize
from lowbit.quant_params import QuantParams
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, FloatRule, QuantRule, StaticQuantRule, WeightOnlyRule
from lowbit.report.coverage import coverage
from lowbit.runtime import network_times
from lowbit.types import TensorType

pytestmark = pytest.mark.filterwarnings("ignore:the goal is not met")


def params_of(graph: Graph, value: str) -> QuantParams:
    """The parameters with which a value is quantized first."""
    (node, *_) = (n for n in graph.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == value)
    found = bracket_params(Editor(graph), node)
    assert found is not None
    return found


def weight_dtype(graph: Graph, name: str) -> set[str]:
    return {c.value.type.dtype.name for k, c in graph.constants.items() if k.rsplit(":", 1)[0] == name}


@pytest.mark.parametrize("given", [{"rules": [FloatRule("^last"), *RULES]}, {"rules": [FloatRule("^last")], "recipe": "int8"}])
def test_rules_in_front_of_a_guarded_recipe_leave_the_guard_on(given: dict[str, object]) -> None:
    graph = depthwise_network()
    data = samples(graph)
    found = verify(quantize(graph, data, prefer="accuracy", **given))  # type: ignore[arg-type]
    assert " dB" in found.notes["decided"] and "decided 1" in found.notes
    assert found.notes["last"] == "stays float: FloatRule('^last')"
    assert "last.weight" in found.constants
    assert any("16" in text and text.endswith(", kept") for key, text in found.notes.items() if key.startswith("decided "))


def test_a_layer_that_a_rule_of_the_user_decides_is_never_widened_nor_made_float() -> None:
    """Without the rule, this layer has 16 bits, or stays float."""
    graph = depthwise_network()
    data = samples(graph)
    free = quantize(graph, data, prefer="accuracy")
    made = {
        n.output.type.dtype.name
        for n in free.nodes
        if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == "depth"
    }
    assert weight_dtype(free, "depth.weight") != {"int8"} or made != {"int8"}
    own = [CalibratedQuantRule("^depth$", "int8", because="mine"), CalibratedQuantRule("^point$", "int8", because="mine")]
    found = quantize(graph, data, rules=[*own, *RULES], prefer="accuracy")
    assert found.notes["depth"] == found.notes["point"] == "mine"
    assert weight_dtype(found, "depth.weight") == weight_dtype(found, "point.weight") == {"int8"}
    assert params_of(found, "depth").dtype.name == params_of(found, "point").dtype.name == "int8"
    plain = quantize(graph, data, rules=[*own, *RULES], guard=False)
    for name in ("depth.weight:int8", "point.weight:int8", "point.bias:int32"):  # no other rounding, no other biases
        assert name in plain.constants
    for name in ("depth.weight:int8", "point.weight:int8"):
        assert np.array_equal(found.constants[name].data, plain.constants[name].data)
    assert " dB" in found.notes["decided"]


def test_a_layer_whose_range_is_known_beforehand_may_stay_float_all_the_same() -> None:
    """A tanh on integers gives -1 … 1; one that is float gives a tap like any other, whose range calibration has to know."""
    graph = depthwise_network()
    maker = CandidateMaker(graph, Joined(split(samples(graph)).fit, 1), RULES[0], None)
    made = verify(maker.make(Candidate(graph, "mse", widths=Widths(floats=frozenset({"t", "s"})))))
    assert made.notes["t"] == "stays float: 8 bits lose too much here" and params_of(made, "t").dtype.name == "int8"


def test_the_users_scale_of_a_layer_holds_where_the_guard_would_smooth_it() -> None:
    graph = outlier_network()
    data = samples(graph)
    assert any(key.startswith("scaled") or "channels" in text for key, text in quantize(graph, data).notes.items())
    own = StaticQuantRule("^act$", "int8", scale=4.0, offset=-128)
    found = quantize(graph, data, rules=[own], recipe="int8")
    assert params_of(found, "a") == QuantParams("int8", 4.0, -128)
    weights = graph.constants["w1"].data
    stored = found.constants["w1:int8"].data * found.constants["w1:int8:scale"].data.reshape(-1, 1)
    assert np.abs(stored - weights).max() <= np.abs(weights).max() / 127  # not scaled: 200 of them would be 100 apart


def mixed_network() -> Graph:
    b = Builder("mixed")
    x = b.input("x", TensorType((8, 32), "float32"))
    h = x
    for i in range(4):
        w = rng(20 + i).standard_normal((32, 32)) / 6
        h = b.add("linear", h, b.constant(f32(w), name=f"w{i}"), name=f"l{i}", out=f"h{i}")
        h = b.add("tanh", h, name=f"t{i}", out=f"t{i}")
    return b.finish({"y": h})


OTHERS: list[QuantRule] = [DynamicQuantRule("^l1$"), WeightOnlyRule("^l2$", "int4")]


def test_rows_that_are_quantized_at_run_time_round_only_where_they_are_asked_to() -> None:
    graph = mixed_network()
    data = samples(graph, 4)
    q = quantize(graph, data, rules=[*OTHERS, *RULES], guard=False)
    pair = Pair.bound(graph, q, data[0])
    for active, meaning in (((), graph), (None, q)):
        env = pair.start(data[0])
        for i in range(len(pair.quantized.nodes)):
            pair.step(i, env, active)
        np.testing.assert_allclose(env[pair.quantized.outputs["y"].name], run(meaning, data[0])["y"], rtol=1e-5, atol=1e-6)


def test_layers_of_every_mode_stand_beside_guarded_ones() -> None:
    graph = mixed_network()
    found = verify(quantize(graph, samples(graph), rules=[*OTHERS, *RULES]))
    assert " dB" in found.notes["decided"]
    ops = {n.name: n.op for n in lower(found).graph.nodes if n.name.startswith("l")}
    assert ops["l0"] == ops["l3"] == "q_linear" and ops["l1"] == "q_linear_rows" and ops["l2"] == "linear"


def test_rules_that_decide_nothing_are_said_under_the_guard_by_their_own_numbers() -> None:
    graph = depthwise_network()
    data = samples(graph)
    rules = [FloatRule("^none"), FloatRule("^last$"), *RULES]
    with pytest.warns(LowbitWarning, match=r"rule 0: FloatRule '\^none' matches no layer") as said:
        found = quantize(graph, data, rules=rules)
    assert len([w for w in said if "rule" in str(w.message)]) == 1
    assert {k: v for k, v in found.notes.items() if k.startswith("rule ")} == {"rule 0": "FloatRule '^none' matches no layer"}
    steps: list[object] = []
    with pytest.raises(QuantError, match=r"rule 0: FloatRule '\^none' matches no layer"):
        quantize(graph, data, rules=rules, strict=True, on_step=steps.append)
    assert not steps  # said before any work
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the goal is not met")
        assert not [k for k in quantize(graph, data).notes if k.startswith("rule ")]


def test_rules_that_leave_nothing_to_the_recipe_leave_the_network_as_they_say() -> None:
    graph = outlier_network()
    with pytest.warns(LowbitWarning, match=r"rule 1: CalibratedQuantRule '\.\*' decides nothing"):
        found = quantize(graph, samples(graph), rules=[FloatRule(".*")], recipe="int8")
    assert [n.op for n in found.nodes] == [n.op for n in graph.nodes]


def test_few_bits_are_the_recipes_not_those_of_one_rule_before_it() -> None:
    """A weight-only layer in 4 bits does not keep the guard from widening the others."""
    graph = depthwise_network()
    found = quantize(graph, samples(graph), rules=[CalibratedQuantRule("^last$", "int8", "int4")], recipe="int8", prefer="accuracy")
    assert any("16" in text for key, text in found.notes.items() if key.startswith("decided "))


def test_records_are_calibrated_for_rules_in_front_of_a_recipe() -> None:
    graph = outlier_network()
    data = samples(graph)
    own = [FloatRule("^second")]
    record = calibrate(graph, data, rules=own, recipe="int8")
    assert record == calibrate(graph, data, rules=[*own, *recipe("int8")])
    assert quantize(graph, record, rules=own, recipe="int8") == quantize(graph, data, rules=[*own, *recipe("int8")], guard=False)


def test_without_wide_no_layer_has_16_bits() -> None:
    """Their tables fill the flash of a chip."""
    graph = depthwise_network()
    data = samples(graph)

    def widths(found: Graph) -> set[str]:
        return {str(n.output.type.dtype) for n in found.nodes if n.op == "quantize_linear"}

    assert "int16" in widths(quantize(graph, data, prefer="accuracy"))
    assert widths(quantize(graph, data, wide=False, prefer="accuracy")) <= {"int8"}


def test_tables_of_16_bits_are_told_with_their_bytes() -> None:
    b = Builder("sigmoid")
    x = b.input("x", TensorType((4, 8), "float32"))
    h = b.add("sigmoid", x, name="act")
    graph = b.finish({"y": b.add("linear", h, b.constant(f32(rng(1).standard_normal((4, 8)))), name="fc")})
    found = quantize(graph, samples(graph), rules=[CalibratedQuantRule(".*", "int16")])
    (told,) = [r for r in coverage(graph, found).remarks if r.startswith("tables: ")]
    assert told == "tables: act read 16 bits by tables, 131,072 bytes beside the weights; wide=False (--no-wide) does without them"


def test_data_of_any_size_is_calibrated_without_overflow() -> None:
    graph = depthwise_network()
    data = [{k: x * np.float32(1e30) for k, x in sample.items()} for sample in samples(graph)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the goal is not met")
        found = decided(graph, data, goal=Goal(bits16=False, worst=0.0, answers=0.0, wanted=0.0, enough=0.0)).graph
    assert any(n.op == "q_conv" for n in lower(found).graph.nodes)


def test_both_networks_are_timed_on_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = depthwise_network()
    (sample, *_) = samples(graph)
    for large in (network_times.LARGE, 0):  # together, and one at a time
        monkeypatch.setattr(network_times, "LARGE", large)
        found = network_times.time_networks((graph, lower(quantize(graph, [sample, sample], guard=False)).graph), sample)
        assert [r.backend for r in found] == ["native", "native"] and all(r.ms > 0 for r in found)


@pytest.mark.filterwarnings("ignore:the goal is not met")
def test_layers_beside_one_that_the_users_scale_breaks_are_not_made_float_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = outlier_network()
    monkeypatch.setattr("lowbit.decide.cost.Stopwatch.times", lambda *_: Times(0.5, 1.0))  # as if float cost no time
    own = StaticQuantRule("^act$", "int8", scale=4.0, offset=-128)
    told: list[Decision] = []
    found = quantize(graph, samples(graph), rules=[own], recipe="int8", on_decision=told.append)
    assert "w1:int8" in found.constants and "w2:int8" in found.constants
    assert any(s.what.startswith("taken back: what takes away little noise") for s in told[0].steps) and not told[0].met
