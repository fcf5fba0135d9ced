"""Functions of one 8-bit value: one table for several in a row, and ranges that end where a function is flat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import lowbit
from lowbit.decide.quality import Ruler
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower import lower
from lowbit.pipeline import compile, emit_c, quantize
from lowbit.quantization.reach import EVERYTHING, reach_of
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule
from lowbit.types import Array, TensorType

ATTRS: dict[str, dict[str, Any]] = {
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5}, "gelu": {"approximate": "none"}, "clip": {"min": -1.0, "max": 2.0}, "swish": {"alpha": 0.5},
}  # fmt: skip


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def number(b: Builder, value: float, shape: tuple[int, ...] = ()) -> Value:
    return b.constant(np.full(shape, value, np.float32))


def block(links: str = "hardswish mul add", shape: tuple[int, ...] = (), twice: bool = False) -> Graph:
    """A convolution, functions of its result in a row, and another convolution."""
    b = Builder("block")
    x = b.input("x", TensorType((1, 3, 8, 8), "float32"))
    w1, w2 = (
        b.constant((rng(k).standard_normal(s) * 2).astype(np.float32), name=f"w{k}") for k, s in enumerate(((4, 3, 3, 3), (5, 4, 1, 1)))
    )
    attrs = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    y = first = b.add("conv", x, w1, name="first", out="c", **attrs)
    for k, op in enumerate(links.split()):
        others = [number(b, 0.7 + k, shape)] if op in ("add", "mul", "sub", "div") else []
        y = b.add(op, y, *others, name=f"f{k}", out=f"v{k}", **ATTRS.get(op, {}))
    if twice:
        y = b.add("add", y, first, name="sum", out="sum")
    return b.finish({"y": b.add("conv", y, w2, name="second", out="y", **attrs)})


def data(count: int = 6) -> list[dict[str, Array]]:
    return [{"x": rng(10 + i).standard_normal((1, 3, 8, 8)).astype(np.float32)} for i in range(count)]


def ops(graph: Graph) -> list[str]:
    return [n.op for n in lower(graph).graph.nodes]


@pytest.mark.parametrize("links", ["hardswish mul add", "mul silu", "sigmoid sub", "gelu div mul", "tanh exp neg", "add hardsigmoid mul"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
def test_functions_in_a_row_are_one_table(links: str, shape: tuple[int, ...]) -> None:
    graph = block(links, shape)
    q = quantize(graph, data(), guard=False)
    made = ops(q)
    assert made.count("q_table") == 1 and not {"q_mul", "q_add", "mul", "add", "sub", "div", *links.split()} & set(made)
    sample = data(9)[8]
    session, exact = compile(q), compile(q, isa="ref")
    assert np.array_equal(session.run(sample)["y"], exact.run(sample)["y"])
    assert session.backend == "native"


def test_the_table_rounds_once() -> None:
    """Its entries are the reals of the whole chain, rounded to the result's grid."""
    q = quantize(block(), data(), guard=False)
    graph = lower(q).graph
    node = next(n for n in graph.nodes if n.op == "q_table")
    table = graph.constant(node.inputs[1])
    assert table is not None
    before, after = (
        next(n for n in q.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == v) for v in ("c", "v2")
    )
    (sx, zx), (sy, zy) = ([np.asarray(q.constant(n.inputs[i])).astype(np.float64) for i in (1, 2)] for n in (before, after))
    codes = np.arange(-128, 128) - (zx - 128 if before.output.type.dtype.name == "uint8" else zx)
    x = codes * sx
    real = x * np.clip(x + 3, 0, 6) / 6 * np.float64(np.float32(1.7)) + np.float64(np.float32(2.7))
    zero = zy - 128 if after.output.type.dtype.name == "uint8" else zy
    assert np.array_equal(table.astype(np.int64), np.clip(np.rint(real / sy) + zero, -128, 127).astype(np.int64))


def test_a_value_that_others_read_too_ends_the_row() -> None:
    assert ops(quantize(block("hardswish mul", twice=True), data(), guard=False)).count("q_table") == 1
    graph = block("hardswish mul")
    b = ops(quantize(graph, data(), rules=[FloatRule("f1", because="mine"), CalibratedQuantRule(".*", "int8")]))
    assert "mul" in b  # a layer that a rule keeps float is no part of a table


def test_more_than_a_number_is_no_function_of_one_value() -> None:
    graph = block("hardswish mul", shape=(1, 4, 1, 1))
    made = ops(quantize(graph, data(), guard=False))
    assert made.count("q_table") == 1 and "q_mul" in made


def test_a_row_of_functions_is_the_same_everywhere(tmp_path: Path) -> None:
    """The interpreter, sessions, the report, ONNX Runtime up to a step, and the emitted C."""
    graph, samples = block(), data()
    q = quantize(graph, samples, guard=False)
    assert Ruler(graph, samples).measure(q).db > 30
    assert lowbit.verify_backends(q, samples[:2]).ok
    said = str(lowbit.compare(graph, q, samples))
    assert "stays float" not in said
    lowbit.export_onnx(q, tmp_path / "q.onnx")
    theirs = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"]).run(None, samples[0])[0]
    ours = compile(q).run(samples[0])["y"]
    assert np.abs(ours - theirs).max() <= 0.03 * np.abs(ours).max()
    made = emit_c(q, tmp_path / "c", target="host")
    assert "table" in "".join(made.files)


def test_ranges_end_where_their_readers_are_flat() -> None:
    b = Builder("flat")
    x = b.input("x", TensorType((1, 4), "float32"))
    w = b.constant(np.eye(4, dtype=np.float32), name="w")
    h = b.add("linear", x, w, name="fc", out="h")
    y = b.add("linear", b.add("hardswish", h, name="act", out="a"), w, name="fc2", out="y")
    graph = b.finish({"y": y})
    assert reach_of(graph, ["h"]) == (-3.0, float("inf")) and reach_of(graph, ["a"]) == reach_of(graph, ["y"]) == EVERYTHING
    wide = [{"x": np.array([[-40.0, 5.0, -1.0, 2.0]], np.float32)} for _ in range(4)]
    q = quantize(graph, wide, guard=False)
    (scale,) = (
        q.constant(n.inputs[1]) for n in q.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == "h"
    )
    assert scale is not None and float(scale) == pytest.approx(8 / 255, rel=0.02)
    session = compile(q)
    assert np.abs(session.run(wide[0])["y"] - compile(graph).run(wide[0])["y"]).max() < 0.2


@pytest.mark.parametrize(("op", "reach"), [("sigmoid", EVERYTHING), ("hardswish", EVERYTHING)])
def test_what_makes_the_answers_cuts_nothing_off(op: str, reach: tuple[float, float]) -> None:
    b = Builder("end")
    x = b.input("x", TensorType((1, 4), "float32"))
    h = b.add("linear", x, b.constant(np.eye(4, dtype=np.float32), name="w"), name="fc", out="h")
    graph = b.finish({"y": b.add("reshape", b.add(op, h, out="s"), shape=(4,), out="y")})
    assert reach_of(graph, ["h"]) == reach


def test_the_flat_part_is_flat_to_less_than_a_step() -> None:
    from lowbit.ops.op import get_op
    from lowbit.ops.quant import QUANTIZABLE

    seen = 0
    for op, entry in QUANTIZABLE.items():
        if entry.flat is None:
            continue
        lo, hi = entry.flat(**ATTRS.get(op, {}))
        for end, far in ((lo, -1e3), (hi, 1e3)):
            if end is not None:
                near, *away = get_op(op).run([np.array([end, end + far / 50, far])], ATTRS.get(op, {}))[0]
                assert np.abs(near - np.array(away)).max() < 1e-3, op
                seen += 1
    assert seen >= 12
