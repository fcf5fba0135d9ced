"""Networks in halves quantize as those in float32 do, and keep the types of their inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import lowbit
from lowbit.dtypes import dtype
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.passes.widen_halves import widen_halves
from lowbit.types import Array, TensorType


def network(kind: str) -> Graph:
    """A linear layer, a relu and another layer; the input is an output, too."""
    r, b = np.random.default_rng(0), Builder("halves")
    weights = [r.standard_normal(shape).astype(np.float32).astype(dtype(kind).numpy) for shape in ((32, 16), (8, 32))]
    x = b.input("x", TensorType((8, 16), kind))
    h = b.add("relu", b.add("linear", x, b.constant(weights[0], name="w0", dtype=kind), out="h"))
    return b.finish({"y": b.add("linear", h, b.constant(weights[1], name="w1", dtype=kind), out="z"), "again": x})


def samples(kind: str) -> list[dict[str, Array]]:
    r = np.random.default_rng(1)
    return [{"x": np.clip(r.standard_normal((8, 16)), -2.5, 2.5).astype(np.float32).astype(dtype(kind).numpy)} for _ in range(12)]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_a_network_in_halves_is_quantized_and_keeps_the_types_of_its_ends(kind: str) -> None:
    graph, data = network(kind), samples(kind)
    made = lowbit.quantize(graph, data, guard=False)
    assert {"w0:int8", "w1:int8"} <= set(made.constants)
    outputs, want = lowbit.compile(made).run(data[0]), run(graph, data[0])
    assert [made.outputs[k].type.dtype.name for k in ("y", "again")] == [kind, kind]
    off = outputs["y"].astype(np.float32) - want["y"].astype(np.float32)
    assert np.abs(off).max() < 0.05 * np.abs(want["y"].astype(np.float32)).max()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_widening_gives_what_float32_gives_for_the_same_numbers(kind: str) -> None:
    graph, (first, *_) = network(kind), samples(kind)
    wide = widen_halves(graph)
    assert {v.type.dtype.name for n in wide.nodes for v in n.inputs if v is not None and n.op == "linear"} == {"float32"}
    whole = {"x": first["x"].astype(np.float32)}
    floats = [graph.constants[k].data.astype(np.float32) for k in ("w0", "w1")]
    want = (np.maximum(whole["x"] @ floats[0].T, 0) @ floats[1].T).astype(np.float32).astype(dtype(kind).numpy)
    assert np.allclose(run(wide, first)["y"].astype(np.float32), want.astype(np.float32), rtol=0.02)
    assert widen_halves(network("float32")).nodes == network("float32").nodes


def test_a_record_of_a_network_in_halves_fits_it() -> None:
    graph, data = network("float16"), samples("float16")
    made = lowbit.quantize(graph, lowbit.calibrate(graph, data))
    assert "w0:int8" in made.constants and lowbit.compile(made).run(data[0])["y"].dtype == np.float16


def test_layers_of_float64_stay_float_and_say_why() -> None:
    graph, data = network("float64"), samples("float64")
    with pytest.warns(lowbit.LowbitWarning, match="nothing is quantized"):
        made = lowbit.quantize(graph, data)
    assert made.notes["h"] == "stays float: its numbers are float64, float32 is needed"
    assert np.array_equal(lowbit.compile(made).run(data[0])["y"], run(graph, data[0])["y"])


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_an_output_that_is_an_input_comes_back_as_it_was(kind: str) -> None:
    graph, data = network(kind), samples(kind)
    for guard in (True, False):
        made = lowbit.quantize(graph, data, guard=guard)
        assert np.array_equal(lowbit.compile(made).run(data[0])["again"], data[0]["x"])
