"""Wrong calls of what the documents name: each ends in a LowbitError that says what to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit import (
    CalibratedQuantRule,
    CalibrationEntry,
    EntropyObserver,
    FloatRule,
    LowbitError,
    Op,
    QuantizationSystem,
    QuantNode,
    QuantParams,
    QuantRule,
    RuleMatcher,
    Workload,
)
from lowbit.ir.build import Builder
from lowbit.ir.graph import Node
from lowbit.types import TensorType

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
lt = pytest.importorskip("lowbit.torch")
X = np.ones((2, 8), np.float32)
DATA = [{"x": X}]


def network() -> lowbit.Graph:
    b = Builder("net")
    weight = b.constant(np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32), name="w")
    y = b.add("linear", b.input("x", TensorType((2, 8), "float32")), weight, None, name="fc")
    return b.finish({"y": b.add("relu", y, name="act")})


def layer() -> Any:
    return lt.Linear.from_float(torch.nn.Linear(4, 3))


@dataclass(frozen=True)
class Wrong(QuantRule):
    def create_quant_node(self, node: Node) -> QuantNode:
        return "int8"  # type: ignore[return-value]


# What is called, and what the hint says to write.
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "insert_q_dq of a tap that is not there": (lambda: lowbit.insert_q_dq(network(), {"nothing": 0.1}), "fc"),
    "insert_q_dq with a list as record": (lambda: lowbit.insert_q_dq(network(), [0.1]), "calibrate"),  # type: ignore[arg-type]
    "insert_q_dq with a scale of 0": (lambda: lowbit.insert_q_dq(network(), {"x": 0.0}), "params_from_range"),
    "insert_q_dq to int7": (lambda: lowbit.insert_q_dq(network(), {"x": 0.1}, "int7"), "one of int8"),
    "insert_q_dq of a text": (lambda: lowbit.insert_q_dq("net", {"x": 0.1}), "lowbit.load"),  # type: ignore[arg-type]
    "quantize_int8 with a scale of 0": (lambda: lowbit.quantize_int8(X, 0.0, 0), "params_from_range"),
    "quantize_int8 with a zero point of 300": (lambda: lowbit.quantize_int8(X, 0.1, 300), "a zero point in -128..127"),
    "quantize_uint8 of a text": (lambda: lowbit.quantize_uint8(["a"], 0.1, 0), "np.asarray(x, np.float32)"),  # type: ignore[list-item]
    "astype of a dtype that is none": (lambda: lowbit.array(X).astype("int7"), "one of float32"),
    "zeros of float16": (lambda: lowbit.zeros((2,), "float16"), "one of int8"),
    "full with parameters of another dtype": (
        lambda: lowbit.full((2,), 1.0, "int8", QuantParams.uint8_asymmetric()), "dtype='uint8'",
    ),
    "empty of a negative size": (lambda: lowbit.empty((-1,), "int8"), "sizes from 0 on"),
    "int4_symmetric with a negative scale": (lambda: QuantParams.int4_symmetric(-1.0), "params_from_range"),
    "torch.quantize_int8 of complex numbers": (lambda: lt.quantize_int8(torch.ones(2, dtype=torch.complex64), 0.1, 0), "view_as_real"),
    "quantize_weights to int7": (lambda: layer().quantize_weights("int7"), "one of int8"),
    "quantize_weights of a graph": (lambda: lt.quantize_weights(network()), "torch.nn.Sequential"),
    "an op that is quantizable=3": (lambda: Op("mine", lambda a: a, lambda a: a, quantizable=3), "quantizable=True"),  # type: ignore[arg-type]
    "calibrate of a model with None": (lambda: lt.calibrate(torch.nn.Linear(4, 3), None), "a DataLoader"),
    "calibrate of a model with nothing": (lambda: lt.calibrate(torch.nn.Linear(4, 3), []), "an iterable of batches"),
    "quantize with a text as rules": (lambda: lowbit.quantize(network(), DATA, rules="int8"), "lowbit.CalibratedQuantRule"),  # type: ignore[arg-type]
    "get_quantizable_nodes of None": (lambda: RuleMatcher([FloatRule(".*")]).get_quantizable_nodes(None), "lowbit.load"),  # type: ignore[arg-type]
    "a rule that returns a text": (lambda: lowbit.quantize(network(), DATA, rules=[Wrong(".*")]), "lowbit.CustomQuantNode"),
    "a float rule with integer weights": (lambda: CalibratedQuantRule(".*", "float32", weights="int8"), "WeightOnlyRule"),
    "a rule whose pattern is none": (lambda: FloatRule("("), "a backslash before"),
    "load of a module without inputs": (lambda: lowbit.load(torch.nn.Linear(4, 3)), "inputs="),
    "binary with a zero point": (lambda: QuantParams("binary", 1.0, 1), "scheme='symmetric'"),
    "asymmetric weights in a rule": (lambda: CalibratedQuantRule(".*", weight_scheme="asymmetric"), 'weight_scheme="logarithmic"'),
    "logarithmic int8 weights": (lambda: CalibratedQuantRule(".*", weights="int8", weight_scheme="logarithmic"), 'weights="int4"'),
    "logarithmic activations": (lambda: CalibratedQuantRule(".*", scheme="logarithmic"), 'weight_scheme="logarithmic"'),
    "int32 activations": (lambda: lowbit.quantize(network(), DATA, rules=[CalibratedQuantRule(".*", "int32")]), "one of int8"),
    "a recipe that is none": (lambda: lowbit.quantize(network(), DATA, recipe="binnary"), "binary"),
    "calibrate by method 3": (lambda: lowbit.calibrate(network(), DATA, method=3), "one of minmax"),  # type: ignore[arg-type]
    "calibrate by a function that gives one number": (
        lambda: lowbit.calibrate(network(), DATA, method=lambda v: 1.0).params("x", "int8"), "return float(lo), float(hi)",
    ),
    "register_method of a text": (lambda: lowbit.register_method("x"), "a function of values"),  # type: ignore[arg-type]
    "entropy of three bins": (lambda: EntropyObserver(bins=3), "bins=2048"),
    "a system on a TPU": (lambda: QuantizationSystem("tpu"), 'QuantizationSystem("cpu")'),
    "a workload of an op that is none": (lambda: Workload("lineer", (4, 3)), "one of linear"),
    "a workload without its sizes": (lambda: Workload("linear", (4,)), "Workload('linear', (64, 32))"),
    "a workload of -1 ms": (lambda: Workload("linear", (4, 3), max_ms=-1), "max_ms=5.0"),
    "a workload for a chip that is none": (lambda: lowbit.auto_tune(Workload("linear", (4, 3), target="cortex-m99")), "cortex-m4"),
    "auto_tune of None": (lambda: lowbit.auto_tune(None), "lowbit.Workload("),  # type: ignore[arg-type]
    "qmatmul of shapes that do not fit": (lambda: QuantizationSystem().qmatmul(X, X), "a @ b.T"),
    "create_quantized_tensor of int7": (lambda: QuantizationSystem().create_quantized_tensor((2,), "int7"), "one of int8"),
    "calibrate_from_samples of nothing": (lambda: QuantizationSystem().calibrate_from_samples([]), "observe(x)"),
    "bench_ops of an op that is none": (lambda: lowbit.bench_ops(["multiply"]), "one of quantize"),
    "bench_ops of size 0": (lambda: lowbit.bench_ops(["linear"], sizes=[0]), "sizes=[64, 256]"),
    "a calibration entry per channel without scales": (lambda: CalibrationEntry.per_channel(0, []).params("int8"), "per_channel(0, "),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls_end_in_an_error_that_says_what_to_write(name: str) -> None:
    """Wrong calls end in a LowbitError that says what to write → `lowbit.LowbitError`"""
    call, hint = CALLS[name]
    with pytest.raises(LowbitError) as e:
        call()
    assert hint in (e.value.hint or ""), str(e.value)
    assert e.value.hint and e.value.message and "Traceback" not in str(e.value)


def test_there_are_thirty_at_least() -> None:
    assert len(CALLS) >= 30
