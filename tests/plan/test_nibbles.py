"""Four-bit activations in the kernels of int8: the integers of the interpreter, whatever op they go through."""

from __future__ import annotations

import numpy as np
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate
from lowbit.lower import lower
from lowbit.plan.nibbles import in_bytes
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.types import TensorType

GEOMETRY = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def network() -> Graph:
    rng = np.random.default_rng(0)
    b = Builder("nibbles")
    x = b.input("x", TensorType((2, 3, 8, 8), "float32"))
    w1, w2 = (b.constant(rng.standard_normal(s).astype(np.float32) / 4, name=n) for s, n in (((8, 3, 3, 3), "w1"), ((8, 8, 3, 3), "w2")))
    y = b.add("relu", b.add("conv", x, w1, **GEOMETRY))
    z = b.add("max_pool", y, kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1), ceil_mode=False)
    u = b.add("add", z, b.add("conv", z, w2, **GEOMETRY))
    t = b.add("mul", b.add("sigmoid", u), z)  # a table of 16 entries
    side = b.constant(rng.standard_normal((2, 2, 4, 4)).astype(np.float32), name="side")
    c = b.add("concat", u, t, side, axis=1)
    flat = b.add("reshape", b.add("transpose", c, perm=(0, 2, 3, 1)), shape=(2, 16 * 18))
    w3 = b.constant(rng.standard_normal((5, 16 * 18)).astype(np.float32) / 16, name="w3")
    return b.finish({"y": b.add("linear", flat, w3), "mean": b.add("reduce_mean", c, axes=(2, 3), keepdims=False)})


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_native_and_interpreter_agree_on_four_bit_activations(kind: str) -> None:
    graph, rng = network(), np.random.default_rng(1)
    data = [{"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)} for _ in range(3)]
    rules = [CalibratedQuantRule(".*", kind, "int4")]
    lowered = lower(lowbit.quantize(graph, data, rules=rules))
    assert not lowered.islands
    physical = in_bytes(lowered.graph)
    session = lowbit.compile(lowbit.quantize(graph, data, rules=rules))
    assert "native" in session.backend
    for sample in ({"x": 30 * rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}, *data):
        want = evaluate(lowered.graph, sample)
        for got in (evaluate(physical, sample), session.run(sample)):
            assert all(got[k].tobytes() == want[k].tobytes() for k in want)


def test_nothing_between_ops_stays_narrow_but_around_tables() -> None:
    graph, rng = network(), np.random.default_rng(1)
    data = [{"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}]
    physical = in_bytes(lower(lowbit.quantize(graph, data, rules=[CalibratedQuantRule(".*", "int4", "int4")])).graph)
    narrow = [n for n in physical.nodes if n.output.type.dtype.name == "int4"]
    assert {n.op for n in narrow} == {"cast", "q_table"}
    assert [c.value.type.dtype.name for name, c in physical.constants.items() if name.endswith(":weight")] == ["int4"] * 3


def test_a_graph_without_four_bits_is_left_alone() -> None:
    graph = lower(lowbit.quantize(network(), [{"x": np.ones((2, 3, 8, 8), np.float32)}], guard=False)).graph
    assert in_bytes(graph) is graph
