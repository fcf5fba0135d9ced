"""If, Loop and Scan of ONNX files, and `constants=`: what ONNX Runtime gives, without control flow in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_answers import by_onnxruntime
from passes_laws import f32

import lowbit
from lowbit.errors import InputError, LowbitError, UnsupportedOp
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.passes import simplify

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info = helper.make_tensor_value_info


def op(kind: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def model(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[Any]]], outputs: list[str], **weights: Any) -> onnx.ModelProto:
    given = [info(n, t, s) for n, (t, s) in inputs.items()]
    arrays = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [info(o, FLOAT, None) for o in outputs], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def branch(*nodes: onnx.NodeProto, out: str = "out", **weights: Any) -> onnx.GraphProto:
    arrays = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    return helper.make_graph(list(nodes), "b", [], [info(out, FLOAT, None)], arrays)


def loaded(made: onnx.ModelProto, **options: Any) -> Graph:
    return simplify(load_onnx(made.SerializeToString(), **options))


def agrees(made: onnx.ModelProto, feed: dict[str, np.ndarray], graph: Graph) -> None:
    mine = {v.name: feed[v.name] for v in graph.inputs}
    want = by_onnxruntime(made, feed)
    np.testing.assert_allclose(next(iter(run(graph, mine).values())), want, rtol=1e-5, atol=1e-5)
    session = lowbit.compile(graph)
    np.testing.assert_allclose(next(iter(session.run(mine).values())), want, rtol=1e-5, atol=1e-5)
    assert session.backend == "native"


# -- If ----------------------------------------------------------------------------------------------------------------------


def two_rates() -> onnx.ModelProto:
    """A network for each of two sampling rates, chosen by an input."""
    wide, narrow = f32(4, 8), f32(4, 8)
    nodes = [
        op("Equal", "sr rate", "is16"),
        op(
            "If",
            "is16",
            "y",
            then_branch=branch(op("MatMul", "x w", "out"), w=wide),
            else_branch=branch(op("MatMul", "x w", "out"), w=narrow),
        ),
    ]
    return model(nodes, {"x": (FLOAT, [3, 4]), "sr": (INT, [])}, ["y"], rate=np.array(16000))


@pytest.mark.parametrize("rate", [16000, 8000])
def test_an_if_on_an_input_runs_both_ways(rate):
    made = two_rates()
    agrees(made, {"x": f32(3, 4), "sr": np.array(rate)}, loaded(made))


@pytest.mark.parametrize("rate", [16000, 8000])
def test_an_input_that_is_constant_takes_one_branch(rate):
    made = two_rates()
    graph = loaded(made, constants={"sr": rate})
    assert [v.name for v in graph.inputs] == ["x"] and [n.op for n in graph.nodes] == ["linear"]
    agrees(made, {"x": f32(3, 4), "sr": np.array(rate)}, graph)


def test_an_if_on_an_input_is_native_in_int8():
    graph = loaded(two_rates())
    feed = {"x": f32(3, 4), "sr": np.array(8000)}
    made = lowbit.compile(lowbit.quantize(graph, [feed], guard=False))
    want = run(graph, feed)["y"]
    assert np.abs(made.run(feed)["y"] - want).max() < 0.05 * np.abs(want).max()
    assert made.backend == "native"


def test_branches_of_different_shapes_say_how_to_choose_one():
    nodes = [
        op("Equal", "sr rate", "is16"),
        op(
            "If", "is16", "y",
            then_branch=branch(op("Identity", "x", "out")), else_branch=branch(op("Concat", "x x", "out", axis=0)),
        ),
    ]  # fmt: skip
    made = model(nodes, {"x": (FLOAT, [3, 4]), "sr": (INT, [])}, ["y"], rate=np.array(16000))
    with pytest.raises(LowbitError, match="its branches give float32\\[3, 4\\] and float32\\[6, 4\\]") as e:
        loaded(made)
    assert 'constants={"sr": …}' in str(e.value)
    agrees(made, {"x": f32(3, 4), "sr": np.array(8000)}, loaded(made, constants={"sr": 8000}))


def test_a_branch_that_cannot_run_says_how_to_choose_the_other():
    nodes = [
        op("Equal", "sr rate", "is16"),
        op("If", "is16", "y", then_branch=branch(op("Neg", "x", "out")), else_branch=branch(op("MatMul", "x w", "out"), w=f32(5, 4))),
    ]
    made = model(nodes, {"x": (FLOAT, [3, 4]), "sr": (INT, [])}, ["y"], rate=np.array(16000))
    with pytest.raises(LowbitError, match="one of its branches cannot run with these shapes") as e:
        loaded(made)
    assert 'constants={"sr": …}' in str(e.value)
    assert [n.op for n in loaded(made, constants={"sr": 16000}).nodes] == ["neg"]


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"rate": 1}, "constants= names 'rate', which is no input"),
        ({"sr": 1.5}, "constants= gives float64 of shape \\[\\], it is int64 of shape \\[\\]"),
        ({"sr": [1, 2]}, "constants= gives int64 of shape \\[2\\], it is int64 of shape \\[\\]"),
        ({"sr": "fast"}, "sr"),
        ([16000], "constants= is a list, a mapping is needed"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants, said):
    with pytest.raises(InputError, match=said):
        loaded(two_rates(), constants=constants)


def test_a_constant_may_be_a_float_or_have_one_element():
    made = model([op("Mul", "x k", "y")], {"x": (FLOAT, [3]), "k": (FLOAT, [1])}, ["y"])
    agrees(made, {"x": f32(3), "k": np.array([0.3], np.float32)}, loaded(made, constants={"k": 0.3}))


# -- Loop --------------------------------------------------------------------------------------------------------------------


def body(nodes: list[onnx.NodeProto], states: list[str], scans: list[str] = (), cond: str = "c", **weights: Any) -> onnx.GraphProto:
    """A loop's body: states go in as s0 …, and come out under these names."""
    arrays = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    inputs = [info("i", INT, []), info("c", BOOL, []), *(info(f"s{k}", FLOAT, None) for k in range(len(states)))]
    outputs = [info(cond, BOOL, []), *(info(o, FLOAT, None) for o in [*states, *scans])]
    if cond == "c":
        nodes = [*nodes, op("Identity", "c", "on")]
        outputs[0] = info("on", BOOL, [])
    return helper.make_graph(nodes, "body", inputs, outputs, arrays)


def test_a_loop_of_a_known_number_of_rounds_is_written_out():
    """s = tanh(s w); every state is stacked up."""
    inner = body([op("MatMul", "s0 w", "m"), op("Tanh", "m", "t"), op("Identity", "t", "row")], ["t"], ["row"], w=f32(4, 4))
    made = model([op("Loop", "n yes x", "last all", body=inner)], {"x": (FLOAT, [2, 4])}, ["all"], n=np.array(5), yes=np.array(True))
    graph = loaded(made)
    assert len([c for c in graph.constants.values() if c.data.shape == (4, 4)]) == 1
    assert graph.outputs["all"].shape == (5, 2, 4)
    agrees(made, {"x": f32(2, 4)}, graph)


def test_a_loop_knows_its_round_and_may_end_by_itself():
    """s = s + i, until i = 2."""
    inner = body(
        [op("Cast", "i", "f", to=FLOAT), op("Add", "s0 f", "t"), op("Less", "i two", "on")], ["t"], cond="on", two=np.array(2)
    )  # fmt: skip
    made = model([op("Loop", "n yes x", "y", body=inner)], {"x": (FLOAT, [3])}, ["y"], n=np.array(9), yes=np.array(True))
    agrees(made, {"x": f32(3)}, loaded(made))


def test_a_loop_of_no_rounds_gives_its_states():
    inner = body([op("Neg", "s0", "t")], ["t"])
    made = model(
        [op("Loop", "n yes x", "z", body=inner), op("Relu", "z", "y")], {"x": (FLOAT, [3])}, ["y"], n=np.array(0), yes=np.array(True)
    )
    agrees(made, {"x": f32(3)}, loaded(made))


def test_a_loop_whose_rounds_are_data_is_refused_and_runs_by_a_constant():
    inner = body([op("Add", "s0 one", "t")], ["t"], one=np.float32(1))
    made = model([op("Loop", "n yes x", "y", body=inner)], {"x": (FLOAT, [3]), "n": (INT, [])}, ["y"], yes=np.array(True))
    with pytest.raises(UnsupportedOp, match="number of rounds"):
        loaded(made)
    agrees(made, {"x": f32(3), "n": np.array(4)}, loaded(made, constants={"n": 4}))


def test_a_loop_that_ends_by_data_is_refused():
    inner = body(
        [op("Add", "s0 one", "t"), op("ReduceMax", "t", "top", keepdims=0), op("Less", "top lim", "on")],
        ["t"],
        cond="on",
        one=np.float32(1),
        lim=np.float32(3),
    )
    made = model([op("Loop", "n yes x", "y", body=inner)], {"x": (FLOAT, [3])}, ["y"], n=np.array(9), yes=np.array(True))
    with pytest.raises(UnsupportedOp, match="whether it goes on after round 1 is computed from data"):
        loaded(made)


def test_a_loop_of_endless_rounds_is_refused():
    inner = body([op("Neg", "s0", "t")], ["t"])
    made = model([op("Loop", "n yes x", "y", body=inner)], {"x": (FLOAT, [3])}, ["y"], n=np.array(10**12), yes=np.array(True))
    with pytest.raises(UnsupportedOp, match="more than 50,000 nodes"):
        loaded(made)


# -- Scan --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_is_written_out(back, axis):
    """A recurrence by hand: h = tanh(x_t + h w), all of them stacked up along an axis."""
    inner = helper.make_graph(
        [op("MatMul", "h w", "m"), op("Add", "m row", "a"), op("Tanh", "a", "t"), op("Identity", "t", "o")],
        "body",
        [info("h", FLOAT, None), info("row", FLOAT, None)],
        [info("t", FLOAT, None), info("o", FLOAT, None)],
        [numpy_helper.from_array(f32(4, 4), "w")],
    )
    shape = [5, 2, 4] if axis == 0 else [2, 5, 4]
    directions = dict(scan_input_directions=[back], scan_output_directions=[back], scan_input_axes=[axis], scan_output_axes=[axis])
    made = model(
        [op("Scan", "h0 x", "last all", body=inner, num_scan_inputs=1, **directions)], {"x": (FLOAT, shape)}, ["all"], h0=f32(2, 4)
    )
    graph = loaded(made)
    assert graph.outputs["all"].shape == tuple(shape)
    agrees(made, {"x": f32(*shape)}, graph)
