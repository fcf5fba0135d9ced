"""Rules: the first match decides and says why; what cannot be meant is an error or said aloud."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

import lowbit
from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.errors import CalibrationError, DTypeError, FormatError, LowbitError, LowbitWarning, QuantError, UnsupportedOp
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quantization.insert import insert_q_dq
from lowbit.quantization.recipes import RECIPES, recipe
from lowbit.quantization.rules import (
    CalibratedQuantRule,
    DynamicQuantRule,
    FloatRule,
    QuantNode,
    QuantRule,
    RuleMatcher,
    StaticQuantRule,
    WeightOnlyRule,
)
from lowbit.quantization.rules_file import KINDS, load_rules, parse_rules, save_rules
from lowbit.types import Array, TensorType

EXAMPLE = ROOT / "examples" / "rules.toml"


def network() -> Graph:
    """x (batch, 2, 4, 4) → conv, relu | conv → concat → reshape → linear, softmax."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    b = Builder("two")
    x = b.input("x", TensorType((symbol("batch"), 2, 4, 4), "float32"))
    geometry = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    left = b.add("relu", b.add("conv", x, b.constant(weights(3, 2, 3, 3)), name="left", **geometry), name="left.act")
    right = b.add("conv", x, b.constant(weights(3, 2, 3, 3)), b.constant(weights(3)), name="right", **geometry)
    both = b.add("concat", left, right, name="both", axis=1)
    flat = b.add("reshape", both, name="flat", shape=(symbol("batch"), 96))
    head = b.add("linear", flat, b.constant(weights(5, 96)), name="head")
    return verify(b.finish({"p": b.add("softmax", head, name="p", axis=-1)}))


DATA = [np.random.default_rng(i).standard_normal((2, 2, 4, 4)).astype(np.float32) for i in range(2)]


def test_the_first_match_decides_and_explain_says_which_and_why() -> None:
    m = RuleMatcher([FloatRule("^head", because="it is delicate"), CalibratedQuantRule(".*", "int16", "int4", because="all the rest")])
    g = network()
    assert m.explain(g.node("head")) == "linear 'head': float, because it is delicate (rule 0: FloatRule '^head')"
    assert m.explain(g.node("left")) == (
        "conv 'left': static, weights int4, activations int16, because all the rest (rule 1: CalibratedQuantRule '.*')"
    )
    only = RuleMatcher([DynamicQuantRule("^head|^p$"), WeightOnlyRule("^left$")])
    assert only.explain(g.node("right")) == "conv 'right': float, because no rule matches"
    assert only.explain(g.node("p")).startswith("softmax 'p': float, because softmax has no weights")
    assert only.explain(g.node("head")).startswith("linear 'head': dynamic, weights int8, because DynamicQuantRule('^head|^p$')")
    assert only.explain(g.node("left")).startswith("conv 'left': weights, weights int4, because")


def test_every_decision_is_noted_in_the_graph_with_its_reason(tmp_path: Path) -> None:
    rules = [FloatRule("^head", because="it is delicate"), CalibratedQuantRule(".*", because="the rest")]
    g = network()
    q = lowbit.quantize(g, DATA, rules=rules)
    q.save(tmp_path / "q.lowbit")
    for graph in (q, lowbit.load(tmp_path / "q.lowbit")):
        assert graph.notes[g.node("head").output.name] == "stays float: it is delicate"
        assert graph.notes[g.node("left").output.name] == "the rest"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([FloatRule("^hed"), CalibratedQuantRule(".*")], "rule 0: FloatRule '^hed' matches no layer"),
        (
            [CalibratedQuantRule(".*"), FloatRule("^head")],
            "rule 1: FloatRule '^head' decides nothing: rules before it match all of its layers",
        ),
        ([CalibratedQuantRule(".*"), CalibratedQuantRule(".*")], "rule 1: CalibratedQuantRule '.*' decides nothing"),
    ],
)
def test_rules_that_decide_nothing_are_warned_of_and_noted_and_with_strict_refused(rules: list[QuantRule], said: str) -> None:
    with pytest.warns(LowbitWarning) as caught:
        q = lowbit.quantize(network(), DATA, rules=rules)
    assert str(caught[0].message).startswith(said)
    name, text = said.split(": ", 1)
    assert q.notes[name].startswith(text)
    with pytest.raises(QuantError) as e:
        lowbit.quantize(network(), DATA, rules=rules, strict=True)
    assert str(e.value).startswith(said)


def test_rules_that_all_decide_something_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LowbitWarning)
        lowbit.quantize(network(), DATA, rules=[FloatRule("^head"), CalibratedQuantRule(".*")], strict=True)


def test_static_rules_that_differ_on_values_which_share_parameters_are_an_error_that_names_both() -> None:
    left, right = StaticQuantRule(r"^left", scale=0.1, because="mine"), StaticQuantRule("^right", scale=0.2, because="yours")
    with pytest.raises(QuantError, match="must share their parameters") as e:
        lowbit.quantize(network(), DATA, rules=[left, right, CalibratedQuantRule(".*")])
    assert "by mine" in str(e.value) and "by yours" in str(e.value)
    agreed = [left, StaticQuantRule("^right", scale=0.1), CalibratedQuantRule(".*")]
    q = lowbit.quantize(network(), DATA, rules=agreed)
    scales = {float(q.constant(n.inputs[1])) for n in q.nodes if n.op == "quantize_linear" and n.inputs[0].name.startswith("both")}  # type: ignore[arg-type,union-attr]
    assert scales == {float(np.float32(0.1))}


def test_fixed_entries_that_differ_on_values_which_share_parameters_are_an_error_that_names_both() -> None:
    g = network()
    seen = lowbit.calibrate(g, DATA)
    left, right = g.node("left.act").output.name, g.node("right").output.name
    entries = {left: CalibrationEntry.per_tensor(0.1), right: CalibrationEntry.per_tensor(0.2)}
    with pytest.raises(CalibrationError, match="must share their parameters, but the record fixes different ones") as e:
        lowbit.quantize(g, CalibrationRecord({**seen.taps, **entries}))
    assert left in str(e.value) and right in str(e.value)
    agreed = CalibrationRecord({**seen.taps, left: entries[left]})
    q = lowbit.quantize(g, agreed)
    scale = q.constant(q.producers[f"{right}:int8"].inputs[1])
    assert scale is not None and float(scale) == float(np.float32(0.1))


def test_static_rules_need_no_data() -> None:
    q = lowbit.quantize(network(), None, rules=[StaticQuantRule(".*", scale=0.05, offset=3)])
    assert [i.op for i in lower(q).islands] == []


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, [0.1, 0.2]])
def test_scales_that_are_not_positive_or_not_one_are_refused_when_the_rule_is_made(scale: object) -> None:
    with pytest.raises(QuantError, match=r"StaticQuantRule\('x'\)"):
        StaticQuantRule("x", scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (CalibratedQuantRule(".*", "int32"), "conv 'left': activations cannot be int32"),
        (CalibratedQuantRule("right", "int8", "int32"), "conv 'right': weights cannot be int32"),
    ],
)
def test_a_dtype_that_an_op_cannot_have_names_the_layer(rule: QuantRule, text: str) -> None:
    with pytest.raises(DTypeError) as e:
        lowbit.quantize(network(), DATA, rules=[rule])
    assert str(e.value).startswith(text)


def test_a_rule_that_is_no_rule_is_refused_when_it_is_made() -> None:
    with pytest.raises(QuantError, match="is not a regular expression"):
        FloatRule("(")
    with pytest.raises(DTypeError, match="float16 is not a quantized dtype"):
        CalibratedQuantRule(".*", "float16")
    with pytest.raises(QuantError, match="there is no recipe 'int7'") as e:
        recipe("int7")
    assert "int8" in str(e.value.hint)


def test_logarithmic_weights_are_int4_and_nothing_else() -> None:
    with pytest.raises(QuantError, match="logarithmic weights are int4, not int8") as e:
        CalibratedQuantRule(".*", weights="int8", weight_scheme="logarithmic")
    assert e.value.hint == 'weights="int4", or no weights='
    with pytest.raises(QuantError, match="weight_scheme 'asymmetric' is not one that a rule gives"):
        CalibratedQuantRule(".*", weight_scheme="asymmetric")
    with pytest.raises(QuantError, match="scheme 'logarithmic' is not one that layers compute with") as e:
        CalibratedQuantRule(".*", scheme="logarithmic")  # type: ignore[arg-type]
    assert 'weight_scheme="logarithmic" is for weights' in str(e.value.hint)


def test_binary_rules_leave_sums_and_pools_in_int8() -> None:
    g = network()
    q = lowbit.quantize(g, DATA, rules=[CalibratedQuantRule(".*", "binary")])
    read = {
        n.op: n.inputs[0].type.dtype.name for n in lower(q).graph.nodes if n.inputs and n.inputs[0] is not None and n.op.startswith("q_")
    }
    assert {op: d for op, d in read.items() if op in ("q_conv", "q_linear")} == {"q_conv": "binary", "q_linear": "binary"}
    assert {d for op, d in read.items() if op not in ("q_conv", "q_linear")} <= {"int8"}
    assert any("binary activations are for conv and linear" in because for because in q.notes.values())


def test_binary_activations_are_not_exported_to_onnx_and_the_error_says_so(tmp_path: Path) -> None:
    q = lowbit.quantize(network(), DATA, rules=[CalibratedQuantRule(".*", "binary")])
    with pytest.raises(UnsupportedOp, match="ONNX has no activations of one bit") as e:
        lowbit.export_onnx(q, tmp_path / "net.onnx")
    assert 'recipe="w1a8"' in str(e.value.hint)


def test_a_rule_s_output_may_be_binary_and_is_the_sign_of_the_sum() -> None:
    rng, b = np.random.default_rng(0), Builder("net")
    x = rng.standard_normal((5, 16)).astype(np.float32)
    x[0] = 0  # a sum of 0 is +1
    h = b.add(
        "linear", b.input("x", TensorType((5, 16), "float32")), b.constant(rng.standard_normal((8, 16)).astype(np.float32)), None, name="a"
    )
    y = b.add("linear", h, b.constant(rng.standard_normal((4, 8)).astype(np.float32)), None, name="b")
    g = b.finish({"y": y})
    rules = [CalibratedQuantRule("^a$", output="binary"), CalibratedQuantRule("^b$", "binary", "binary")]
    integer = lower(lowbit.quantize(g, [{"x": x}], rules=rules)).graph
    assert [n.op for n in integer.nodes] == ["quantize_linear", "q_linear", "q_linear"]
    seen = run(replace(integer, outputs={**integer.outputs, "h": integer.nodes[1].output}), {"x": x})
    assert seen["h"].tolist()[0] == [1] * 8 and set(np.unique(seen["h"])) == {-1, 1}
    session = lowbit.compile(integer)
    assert session.backend == "native" and np.array_equal(session(x), seen["y"])


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_quantizes_and_decides_by_its_name(name: str) -> None:
    g = network()
    q = lowbit.quantize(g, DATA, recipe=name, guard=False)
    verify(lower(q).graph)
    assert any(because == f"recipe {name}" for because in q.notes.values())
    assert q.parameter_bytes < g.parameter_bytes


def test_a_subclass_decides_by_itself() -> None:
    @dataclass(frozen=True)
    class Wide(QuantRule):
        """Layers with many inputs get 16-bit activations."""

        def matches(self, node: Node) -> bool:
            return node.op == "linear"

        def create_quant_node(self, node: Node) -> QuantNode:
            return CalibratedQuantRule(".*", "int16", because="many inputs").create_quant_node(node)

    g = network()
    q = lowbit.quantize(g, DATA, rules=[Wide(""), CalibratedQuantRule(".*")])
    assert q.notes[g.node("head").output.name] == "many inputs"
    assert any(n.op == "quantize_linear" and n.output.type.dtype.name == "int16" for n in q.nodes)


def test_a_record_of_other_taps_says_what_is_missing() -> None:
    record = lowbit.calibrate(network(), DATA, rules=[CalibratedQuantRule("^left")])
    with pytest.raises(CalibrationError, match="no calibration for"):
        lowbit.quantize(network(), record)


# -- the rules file -------------------------------------------------------------------------------------------------------------


def test_a_rules_file_gives_the_rules_it_spells() -> None:
    assert parse_rules(
        '[[rule]]\nkind = "float"\npattern = "a"\n[[rule]]\nkind = "calibrated"\npattern = "b"\nops = ["conv"]\ndtype = "int16"'
    ) == [
        FloatRule("a"),
        CalibratedQuantRule("b", "int16", ops=("conv",)),
    ]
    assert {type(r) for r in load_rules(EXAMPLE)} == set(KINDS.values())


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "there are no rules in it", "[[rule]]"),
        ("rule = 3", "there are no rules in it", "[[rule]]"),
        ("x = ", "not TOML", "examples/rules.toml"),
        ('[[rules]]\nkind = "float"', "'rules' is not known here", "[[rule]]"),
        ('[[rule]]\npattern = "a"', "rule 0, line 1: kind is missing", "static, calibrated, dynamic, weights, float"),
        ('\n\n[[rule]]\nkind = "flaot"\npattern = "a"', "rule 0, line 3: kind 'flaot' is not known", "static, calibrated"),
        (
            '[[rule]]\nkind = "float"\npattern = "a"\n[[rule]]\nkind = "float"\npatern = "a"',
            "rule 1, line 4: 'patern' is not known in a rule of kind 'float'",
            "kind, pattern, dtype",
        ),
        ('[[rule]]\nkind = "float"', "rule 0, line 1: pattern is missing", ".*"),
        ('[[rule]]\nkind = "float"\npattern = "("', "is not a regular expression", None),
        ('[[rule]]\nkind = "calibrated"\npattern = ".*"\ndtype = "int7"', "int7", None),
        ('[[rule]]\nkind = "static"\npattern = ".*"\nscale = 0', "rule 0, line 1: StaticQuantRule('.*')", None),
        ('[[rule]]\nkind = "static"\npattern = ".*"\nscale = "big"', "scale = 'big', a number is needed", None),
        ('[[rule]]\nkind = "calibrated"\npattern = ".*"\ngranularity = "row"', "granularity = 'row'", None),
        ('[[rule]]\nkind = "calibrated"\npattern = ".*"\nops = "conv"', "ops = 'conv', a list of op names is needed", None),
        ('[[rule]]\nkind = "calibrated"\npattern = 3', "pattern = 3, a text is needed", None),
        ('[[rule]]\nkind = "calibrated"\npattern = ".*"\nvalues = "x"', "values = 'x', a list of the names of values is needed", None),
        ('[[rule]]\nkind = "float"\npattern = "a"\noutput = "int8"', "FloatRule('a'): output='int8' is for static integers", None),
        ('[[rule]]\nkind = "static"\npattern = "a"\noutput = "int8"', "output= is not for a rule that brings its own scale", None),
        ('[[rule]]\nkind = "calibrated"\npattern = "a"\noutput = "int7"', "int7", None),
    ],
)
def test_a_rules_file_that_is_wrong_says_where_and_what_is_legal(text: str, said: str, hint: str | None) -> None:
    with pytest.raises(LowbitError) as e:
        parse_rules(text)
    assert said in str(e.value)
    assert hint is None or hint in (e.value.hint or "")


def test_rules_that_are_saved_are_read_back(tmp_path: Path) -> None:
    rules = [
        *load_rules(EXAMPLE),
        FloatRule('^a"b\\\\.\\n$', ops=("relu",), values=("relu_1", "größe"), because="tab\there\x7f, 😀"),
        CalibratedQuantRule(".*", "int8", "int4", 32, output="int16", scheme="symmetric"),
        StaticQuantRule("x", scale=np.float32(0.25), offset=3, per_channel=True, weight_scale=[0.5, 0.25]),
        WeightOnlyRule("w", granularity="channel", offsets=False),
    ]
    save_rules(rules, tmp_path / "rules.toml")
    again = load_rules(tmp_path / "rules.toml")
    assert again == rules
    save_rules(again, tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == (tmp_path / "rules.toml").read_bytes()


def test_a_rule_of_ones_own_class_has_no_place_in_a_file(tmp_path: Path) -> None:
    class Mine(FloatRule):
        pass

    with pytest.raises(FormatError, match="rule 1: Mine has no kind in a rules file"):
        save_rules([FloatRule("a"), Mine("b")], tmp_path / "rules.toml")
    assert not (tmp_path / "rules.toml").exists()


def test_a_rule_may_name_values_and_the_width_of_its_results() -> None:
    graph = network()
    node = next(n for n in graph.nodes if n.op in QUANTIZABLE)
    other = next(n for n in graph.nodes if n is not node)
    rule = CalibratedQuantRule(".*", "int8", values=(node.output.name,), output="int16")
    assert rule.matches(node) and not rule.matches(other)
    decided = rule.create_quant_node(node)
    assert (decided.activation, decided.result) == (dtype("int8"), dtype("int16"))
    with pytest.raises(QuantError, match="values='x' are not names of values"):
        CalibratedQuantRule(".*", values="x")  # type: ignore[arg-type]


def test_a_rules_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.toml: not a readable rules file"):
        load_rules(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="not a readable rules file"):
        load_rules(tmp_path / "binary.toml")


# -- insert_q_dq ----------------------------------------------------------------------------------------------------------------


def test_brackets_stand_behind_every_tap_and_every_reader_and_output_reads_them() -> None:
    g = network()
    tap, end = g.node("both").output.name, g.node("p").output.name
    record = CalibrationRecord({tap: CalibrationEntry.per_channel(1, np.full(6, 0.25)), end: CalibrationEntry.per_tensor(1 / 256, -128)})
    q = verify(insert_q_dq(g, record))
    assert [n.op for n in q.users[tap]] == [n.op for n in q.users[end]] == ["quantize_linear"]
    assert {k: q.producers[v.name].op for k, v in q.outputs.items()} == {"p": "dequantize_linear"}
    x = DATA[0]
    held = run(g, {"x": x}, keep=[tap])[tap]
    rounded = run(q, {"x": x}, keep=[f"{tap}:real"])[f"{tap}:real"]
    assert np.array_equal(rounded, np.clip(np.rint(held / np.float32(0.25)), -128, 127).astype(np.float32) * np.float32(0.25))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (CalibrationEntry.per_channel(1, np.full(5, 0.25)), "5"),
        (CalibrationEntry.per_tensor(0.0), "scale"),
        (CalibrationEntry.per_tensor(-1.0), "scale"),
        (CalibrationEntry.per_tensor(1.0, 200), "200"),
    ],
)
def test_entries_that_do_not_fit_are_refused_by_the_name_of_their_tap(entry: CalibrationEntry, text: str) -> None:
    g = network()
    tap = g.node("both").output.name
    with pytest.raises(LowbitError) as e:
        insert_q_dq(g, CalibrationRecord({tap: entry}))
    assert text in str(e.value) and tap in str(e.value)


def test_a_tap_that_the_graph_does_not_have_is_an_error() -> None:
    with pytest.raises(CalibrationError, match="the record has a tap 'nothing', the graph has no such value"):
        insert_q_dq(network(), CalibrationRecord({"nothing": CalibrationEntry.per_tensor(1.0)}))


# -- a rule's own parameters -------------------------------------------------------------------------------------------------------


def three_layers() -> Graph:
    rng = np.random.default_rng(0)
    b = Builder("three")
    x = b.input("x", TensorType((2, 8), "float32"))
    for name in "abc":
        x = b.add("linear", x, b.constant(rng.standard_normal((8, 8)).astype(np.float32)), name=name)
    return b.finish({"y": x})


def scales_of_outputs(graph: Graph) -> dict[str, float]:
    """The scale in which the result of each layer (or an input, by its name) is kept."""
    found = {}
    for node in graph.nodes:
        if node.op == "quantize_linear":
            value, scale = node.inputs[0], graph.constant(node.inputs[1])
            assert value is not None and scale is not None
            made = graph.producers.get(value.name)
            found[made.name if made is not None else value.name] = round(float(scale.reshape(-1)[0]), 6)
    return found


def test_the_users_scale_is_that_of_the_layers_output_and_of_no_other() -> None:
    data = [np.random.default_rng(i).standard_normal((2, 8)).astype(np.float32) for i in range(3)]
    alone = lowbit.quantize(three_layers(), data, rules=[StaticQuantRule("^b$", scale=0.5), FloatRule(".*")])
    kept = scales_of_outputs(alone)
    assert kept["b"] == 0.5 and kept["a"] != 0.5
    first = scales_of_outputs(lowbit.quantize(three_layers(), data, rules=[StaticQuantRule("^a$", scale=0.5), CalibratedQuantRule(".*")]))
    assert first["a"] == 0.5 and 0.5 not in (first["x"], first["b"])


def test_a_layer_that_takes_in_a_clamp_has_its_scale_behind_it() -> None:
    """What stands between the two is never kept, so the layer's output is the clamp's."""
    rules = [StaticQuantRule("^left$", scale=0.5), CalibratedQuantRule(".*")]
    kept = scales_of_outputs(lowbit.quantize(network(), DATA, rules=rules))
    assert kept["left.act"] == 0.5 and "left" not in kept


def test_without_data_what_a_layer_reads_takes_its_rules_parameters() -> None:
    assert scales_of_outputs(lowbit.quantize(three_layers(), rules=[StaticQuantRule(".*", scale=0.25)]))["x"] == 0.25


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"scheme": "logarithmic"}, "scheme 'logarithmic' is not one that layers compute with"),
        ({"granularity": "foo"}, "granularity 'foo' is none"),
        ({"granularity": 0}, "granularity 0 is none"),
    ],
)
def test_schemes_and_granularities_that_layers_do_not_have_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(QuantError, match=text):
        CalibratedQuantRule(".*", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scales", "zeros", "text"),
    [([], [], "0 scales and 0 zero points"), ([0.1, 0.2], [0, 0], "2 scales and 2 zero points.*no axis"), ([0.1], [], "1 scales and 0")],
)
def test_a_record_with_scales_of_the_wrong_length_is_refused(scales: list[float], zeros: list[int], text: str) -> None:
    rows = {"axis": None, "scales": scales, "zero_points": zeros}
    record = CalibrationRecord.from_dict({"version": 1, "taps": {n: rows for n in ("x", "linear", "linear_1", "linear_2", "y")}})
    with pytest.raises(QuantError, match=text):
        lowbit.quantize(three_layers(), record)


def test_a_record_whose_scales_are_not_numbers_is_none() -> None:
    with pytest.raises(FormatError, match="not a calibration record"):
        CalibrationRecord.from_dict({"version": 1, "taps": {"x": {"axis": None, "scales": ["a"], "zero_points": [0]}}})
