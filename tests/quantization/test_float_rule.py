"""A layer that a FloatRule matches is computed in float, whatever its op and whatever stands beside it; the report says the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule
from lowbit.report.coverage import coverage
from lowbit.types import Array, TensorType

Made = Callable[[Builder, Value], Value]

# What stands between two convolutions, and reads what a third reads too: so that integers are on all its sides.
POOL = {"kernel": (2, 2), "stride": (2, 2), "pads": (0, 0, 0, 0), "dilation": (1, 1), "ceil_mode": False}
LAYERS: dict[str, Made] = {
    "relu": lambda b, h: b.add("relu", h, name="it"),
    "clip": lambda b, h: b.add("clip", h, name="it", min=0.0, max=6.0),
    "sigmoid": lambda b, h: b.add("sigmoid", h, name="it"),
    "slice": lambda b, h: b.add("slice", h, name="it", starts=(1,), ends=(5,), axes=(2,), steps=(1,)),
    "concat": lambda b, h: b.add("concat", h, b.add("transpose", h, name="turn", perm=(0, 1, 3, 2)), name="it", axis=2),
    "transpose": lambda b, h: b.add("transpose", h, name="it", perm=(0, 1, 3, 2)),
    "reshape": lambda b, h: b.add("reshape", h, name="it", shape=(1, 4, 3, 12)),
    "max_pool": lambda b, h: b.add("max_pool", h, name="it", **POOL),
    "add": lambda b, h: b.add("add", h, h, name="it"),
}
CONV = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
DATA = [np.random.default_rng(i).standard_normal((1, 2, 6, 6)).astype(np.float32) for i in range(4)]


def network(made: Made, shared: bool) -> Graph:
    rng = np.random.default_rng(7)

    def weights(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(np.float32)

    b = Builder("floats")
    x = b.input("x", TensorType((1, 2, 6, 6), "float32"))
    h = b.add("conv", x, b.constant(weights(4, 2, 3, 3)), b.constant(weights(4)), name="before", **CONV)
    outputs = {"y": b.add("conv", made(b, h), b.constant(weights(3, 4, 3, 3)), name="behind", **CONV)}
    if shared:
        outputs["z"] = b.add("conv", h, b.constant(weights(3, 4, 3, 3)), name="beside", **CONV)
    return b.finish(outputs)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", LAYERS)
def test_a_layer_with_a_float_rule_reads_and_gives_floats(op: str, dtype: str, shared: bool) -> None:
    g = network(LAYERS[op], shared)
    q = lowbit.quantize(g, DATA, rules=[FloatRule("^it$", because="mine"), CalibratedQuantRule(".*", dtype)])
    low = lower(q).graph
    assert q.node("it").op == op, "what keeps it float has no name of a layer"
    it = low.node("it")
    assert (it.op, it.output.type.dtype.name) == (op, "float32")
    assert all(v.type.dtype.name == "float32" for v in it.inputs if v is not None)
    assert not [n for n in low.nodes if n.op == "cast"], "what keeps it float is no step of its own"
    assert [n.op for n in low.nodes if n.name in ("before", "behind", "beside") and n.op.startswith("q_conv")] == ["q_conv"] * (2 + shared)
    (state,) = (s for s in coverage(g, q).layers if s.layer == "it")
    assert (state.kind, state.because) == ("float", "mine")
    assert q.notes[g.node("it").output.name] == "stays float: mine"


@pytest.mark.parametrize("op", LAYERS)
def test_it_runs_natively_with_the_interpreters_numbers(op: str) -> None:
    g = network(LAYERS[op], True)
    q = lowbit.quantize(g, DATA, rules=[FloatRule("^it$"), CalibratedQuantRule(".*")])
    want, got = run(lower(q).graph, {"x": DATA[0]}), lowbit.compile(q).run({"x": DATA[0]})
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-6, atol=1e-6)


def test_files_keep_it_float(tmp_path: Path) -> None:
    g = network(LAYERS["relu"], False)
    q = lowbit.quantize(g, DATA, rules=[FloatRule("^it$"), CalibratedQuantRule(".*")])
    q.save(tmp_path / "m.lowbit")
    lowbit.export_onnx(q, tmp_path / "m.onnx")
    for name in ("m.lowbit", "m.onnx"):
        assert lower(lowbit.load(tmp_path / name)).graph == lower(q).graph, name


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("op", LAYERS)
def test_an_onnx_file_keeps_it_float_without_its_metadata_too(op: str, shared: bool, tmp_path: Path) -> None:
    """Tools drop what they do not know; the file is then simplified as any other, and that must not take the mark for a useless cast."""
    q = lowbit.quantize(network(LAYERS[op], shared), DATA, rules=[FloatRule("^it$"), CalibratedQuantRule(".*")])
    lowbit.export_onnx(q, tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
    again, want = lower(lowbit.load(model)).graph, lower(q).graph
    assert all(n.output.type.dtype.name == "float32" for n in again.nodes if n.name == "it")
    assert sorted(n.op for n in again.nodes) == sorted(n.op for n in want.nodes)
    for name, y in run(want, {"x": DATA[0]}).items():
        np.testing.assert_array_equal(run(again, {"x": DATA[0]})[name], y)


def test_a_relu_that_no_rule_speaks_of_is_still_part_of_its_convolution() -> None:
    g = network(LAYERS["relu"], False)
    q = lowbit.quantize(g, DATA, rules=[CalibratedQuantRule("before|behind")])
    (state,) = (s for s in coverage(g, q).layers if s.layer == "it")
    assert (state.kind, state.because) == ("inside", "part of before")


def test_a_tied_table_with_a_float_rule_keeps_its_floats() -> None:
    rng = np.random.default_rng(1)
    b = Builder("tied")
    ids, x = b.input("ids", TensorType((4,), "int64")), b.input("x", TensorType((4, 16), "float32"))
    w = b.constant(rng.standard_normal((9, 16)).astype(np.float32), name="w")
    rows = b.add("gather", w, ids, axis=0, name="embed", out="rows")
    g = b.finish({"rows": rows, "y": b.add("linear", x, w, name="head", out="y")})
    q = lowbit.quantize(g, rules=[FloatRule("^embed$"), lowbit.WeightOnlyRule(".*", "int8", granularity="channel")])
    sample = {"ids": np.arange(4), "x": np.zeros((4, 16), np.float32)}
    assert np.array_equal(run(lower(q).graph, sample)["rows"], run(g, sample)["rows"])


def test_the_guard_leaves_it_float_too() -> None:
    g = network(LAYERS["relu"], False)
    q = lowbit.quantize(g, DATA, rules=[FloatRule("^it$")], recipe="int8")
    assert lower(q).graph.node("it").output.type.dtype.name == "float32"
