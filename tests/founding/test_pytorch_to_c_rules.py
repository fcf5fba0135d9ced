"""From PyTorch to C by rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import codegen_tools
import numpy as np
import pytest

import lowbit
from lowbit import CalibratedQuantRule, CustomQuantNode, FloatRule, LowbitError, Node, QuantNode, QuantRule, RuleMatcher
from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.numerics import round_clamp
from lowbit.ops.op import OPS
from lowbit.ops.quant import QUANTIZABLE, FloatOperand, Operand, Operands, Result
from lowbit.plan.kernels import KERNELS
from lowbit.types import Array, TensorType

X = np.random.default_rng(1).standard_normal((8, 4, 5, 5)).astype(np.float32)


class QuantBatchNormNode(CustomQuantNode):
    """A batch norm as one multiplication and addition for each channel, from outside the package."""

    arrays: ClassVar = {"multiplier": "float", "offset": "float"}
    fields: ClassVar = {"channels": "int32_t", "inner": "int32_t"}

    @staticmethod
    def lower(operands: Operands, result: Result, **attrs: Any) -> dict[str, Any]:
        x, *statistics = operands
        assert isinstance(x, Operand) and all(isinstance(s, FloatOperand) for s in statistics)
        gain, bias, mean, variance = (s.data for s in statistics)  # type: ignore[union-attr]
        (sx, zx), (sy, _) = x.per_tensor("input"), result.per_tensor()
        factor = gain / np.sqrt(variance + attrs["eps"])
        multiplier = (factor * sx / sy).astype(np.float32)
        shape = x.type.shape
        inner = int(np.prod([int(d) for d in shape[2:]]))
        return {
            "multiplier": multiplier, "offset": ((bias - mean * factor) / sy - zx * multiplier).astype(np.float32),
            "channels": int(shape[1]), "inner": inner,
        }  # fmt: skip

    @staticmethod
    def exact(x: Array, multiplier: Array, offset: Array, **p: Any) -> Array:
        at = (1, -1) + (1,) * (x.ndim - 2)
        y = x.astype(np.float32) * multiplier.reshape(at) + offset.reshape(at)
        return round_clamp(y, np.asarray(p["y_zero"]), dtype("int8"), qmin=p["lo"], qmax=p["hi"])

    @staticmethod
    def generate_c() -> str:
        return """    for (int32_t i = begin; i < end; i++) {
        const int32_t c = i / p->inner % p->channels;
        const float y = (float)x[i] * multiplier[c] + offset[c];
        out[i] = (int8_t)lb_round_clamp(y, p->y_zero, p->lo, p->hi);
    }"""


@dataclass(frozen=True)
class BatchNormRule(QuantRule):
    ops: tuple[str, ...] = ("batch_norm",)

    def create_quant_node(self, node: Node) -> QuantNode:
        return QuantBatchNormNode.of(super().create_quant_node(node), because="a batch norm of my own")


@dataclass(frozen=True)
class MixedPrecisionRule(QuantRule):
    """Widths by layer: the first pattern that is found in a layer's name decides."""

    widths: tuple[tuple[str, str], ...] = ()

    def create_quant_node(self, node: Node) -> QuantNode:
        for pattern, width in self.widths:
            if pattern in node.name:
                return replace(self, dtype=width, widths=()).create_quant_node(node)
        return super().create_quant_node(node)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test made known is forgotten again: other tests count the ops."""
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        for table in (OPS, QUANTIZABLE, KERNELS):
            table.pop(name, None)  # type: ignore[attr-defined]


def network() -> lowbit.Graph:
    """A batch norm that no convolution can take in, a convolution, a relu, a head."""
    rng, b = np.random.default_rng(0), Builder("net")
    x = b.input("x", TensorType((symbol("n"), 4, 5, 5), "float32"))
    gain, variance = (rng.uniform(0.5, 2, 4) for _ in range(2))
    bias, mean = (rng.standard_normal(4) for _ in range(2))
    statistics = [b.constant(v.astype(np.float32)) for v in (gain, bias, mean, variance)]
    y = b.add("batch_norm", b.add("relu", x, name="act"), *statistics, name="bn", eps=1e-5)
    weight = b.constant((rng.standard_normal((6, 4, 3, 3)) / 6).astype(np.float32), "w")
    geometry: dict[str, Any] = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    y = b.add("relu", b.add("conv", y, weight, None, name="conv", **geometry), name="conv.act")
    head = b.constant((rng.standard_normal((3, 54)) / 7).astype(np.float32))
    return b.finish({"y": b.add("linear", b.add("reshape", y, shape=(symbol("n"), 54)), head, None, name="head")})


def quantized(*rules: QuantRule) -> tuple[lowbit.Graph, lowbit.Graph]:
    g = network()
    return g, verify(lowbit.quantize(g, [{"x": X}], rules=[*rules, CalibratedQuantRule(".*")]))


def test_a_rule_may_return_a_node_with_its_own_generate_c(tmp_path: Path) -> None:
    """`create_quant_node` returns a node with its own `generate_c` (QuantBatchNormNode) → `lowbit.CustomQuantNode`"""
    g, q = quantized(BatchNormRule(".*"))
    integer = lower(q).graph
    assert "q_batch_norm_quantbatchnormnode" in [n.op for n in integer.nodes] and "q_batch_norm" not in [n.op for n in integer.nodes]
    want = run(integer, {"x": X})["y"]
    session = lowbit.compile(bind(q, {"n": 8}))
    assert session.backend == "native" and np.array_equal(session(X), want)
    emitted = lowbit.emit_c(bind(q, {"n": 8}), tmp_path / "c", float_io=True, measure=False)
    (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([X], [((8, 3), np.float32)])
    assert np.array_equal(from_c, want)
    assert any("const int32_t c = i / p->inner % p->channels;" in f.read_text() for f in (tmp_path / "c").rglob("*.c"))
    report = lowbit.compare(g, q, [{"x": X}])
    assert {r.layer: r.because for r in report.layers}["bn"] == "a batch norm of my own"
    assert lowbit.sqnr_db(run(g, {"x": X})["y"], want) > 25


def test_an_own_node_is_near_the_package_s_own() -> None:
    """A node of the user's own beside lowbit's → `lowbit.CustomQuantNode`"""
    (_, own), (_, plain) = quantized(BatchNormRule(".*")), quantized()
    a, b = (run(lower(q).graph, {"x": X})["y"] for q in (own, plain))
    assert lowbit.sqnr_db(b, a) > 30


def test_mixed_precision_rule_from_outside() -> None:
    """`MixedPrecisionRule` → `lowbit.QuantRule`"""
    rule = MixedPrecisionRule(".*", widths=(("head", "int16"), ("act", "float32")), because="mixed")
    g = network()
    decided = {n.name: RuleMatcher([rule]).decide(n) for n in g.nodes if n.name}
    assert decided["head"].activation == dtype("int16") and decided["conv"].activation == dtype("int8") and decided["act"].mode == "float"
    q = lowbit.quantize(g, [{"x": X}], rules=[rule])
    told = {r.layer: r.types for r in lowbit.compare(g, q, [{"x": X}]).layers}
    assert told["head"].startswith("int16 × int8") and told["act"] == "float32 → float32"


@pytest.mark.parametrize("rule", ["QuantRule", "CalibratedQuantRule", "StaticQuantRule", "DynamicQuantRule", "WeightOnlyRule"])
def test_dtype_float32_in_a_rule_is_the_float_rule(rule: str) -> None:
    """`dtype="float32"` in a rule → `lowbit.FloatRule`"""
    g = network()
    q = lowbit.quantize(g, [{"x": X}], rules=[getattr(lowbit, rule)("^conv", "float32"), CalibratedQuantRule(".*")])
    same = lowbit.quantize(g, [{"x": X}], rules=[FloatRule("^conv"), CalibratedQuantRule(".*")])
    assert q == same and "conv" in [n.op for n in lower(q).graph.nodes]


def test_rule_matcher_get_quantizable_nodes() -> None:
    """`RuleMatcher.get_quantizable_nodes` → `lowbit.RuleMatcher.get_quantizable_nodes`"""
    matcher = RuleMatcher([FloatRule("^head"), CalibratedQuantRule(".*", ops=("conv", "linear", "batch_norm"))])
    assert [n.name for n in matcher.get_quantizable_nodes(network())] == ["bn", "conv"]


class NoC(QuantBatchNormNode):
    @staticmethod
    def generate_c() -> Any:
        return None


class BadC(QuantBatchNormNode):
    @staticmethod
    def generate_c() -> str:
        return "    out[begin] = nothing;"


class BadType(QuantBatchNormNode):
    fields: ClassVar = {"channels": "long"}


class NoExact(CustomQuantNode):
    @staticmethod
    def lower(operands: Operands, result: Result, **attrs: Any) -> dict[str, Any]:
        return {}


class WrongLower(QuantBatchNormNode):
    @staticmethod
    def lower(operands: Operands, result: Result, **attrs: Any) -> dict[str, Any]:
        return {"multiplier": 1.0}


@dataclass(frozen=True)
class Returns(QuantRule):
    made: Any = None

    def create_quant_node(self, node: Node) -> Any:
        return self.made.of(super().create_quant_node(node)) if isinstance(self.made, type) else self.made


@pytest.mark.parametrize(
    ("rule", "text", "hint"),
    [
        (
            Returns("bn"),
            "Returns('bn') on batch_norm 'bn': create_quant_node gave None, a QuantNode is needed",
            "super().create_quant_node",
        ),
        (Returns("bn", made="int8"), "create_quant_node gave 'int8', a QuantNode is needed", "lowbit.CustomQuantNode"),
        (Returns("bn", made=NoC), "NoC: generate_c gave None, C as text is needed", "for (int32_t i = begin"),
        (Returns("bn", made=BadC), "the C compiler refuses it", ""),
        (Returns("bn", made=BadType), "BadType: 'long' is no type of its arrays and fields", "int32_t"),
        (Returns("bn", made=NoExact), "NoExact: it has no exact", "a static method exact"),
    ],
)
def test_wrong_nodes_name_the_rule_or_the_class(rule: QuantRule, text: str, hint: str) -> None:
    with pytest.raises(LowbitError) as e:
        quantized(rule)
    assert text in str(e.value) and hint in str(e.value)


def test_other_wrong_rules_say_what_to_write() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: lower(quantized(Returns("bn", made=WrongLower))[1]), "WrongLower: its lower gave multiplier, channels, inner, multip"),
        (lambda: QuantBatchNormNode.of(3), "QuantBatchNormNode.of: 3 given, a QuantNode is needed"),  # type: ignore[arg-type]
        (lambda: QuantRule("x", "float32", weights="int8"), "which keeps the layer float"),
        (lambda: QuantRule("x", "float16"), "float16 is not a quantized dtype"),
        (lambda: RuleMatcher([]).get_quantizable_nodes(3), "int given, a Graph is needed"),  # type: ignore[arg-type]
    ]  # fmt: skip
    for call, text in wrong:
        with pytest.raises(LowbitError) as e:
            call()
        assert (text in str(e.value) and "Try: " in str(e.value)) or "lower gave" in text
