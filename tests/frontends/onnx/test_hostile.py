"""Small files that ask for much: each ends quickly, in an error that names the limit or in a graph that was not computed."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowbit

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return helper.make_function("f", name, ["a"], ["b"], nodes, OPSETS)


def call(name: str, x: str, y: str) -> onnx.NodeProto:
    return helper.make_node(name, [x], [y], domain="f")


def model(
    nodes: Sequence[onnx.NodeProto],
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    constants: dict[str, np.ndarray] | None = None,
    inputs: dict[str, list[int | str]] | None = None,
) -> onnx.ModelProto:
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (inputs or {"x": [4]}).items()]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    tensors = [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    return helper.make_model(helper.make_graph(nodes, "g", ins, outs, tensors), functions=functions, opset_imports=OPSETS)


def test_a_function_that_calls_itself_is_refused_by_name() -> None:
    itself = model([call("R", "x", "y")], functions=[function("R", call("R", "a", "b"))])
    with pytest.raises(lowbit.FormatError, match="function 'R' calls itself"):
        lowbit.load(itself)
    each_other = model([call("R", "x", "y")], functions=[function("R", call("S", "a", "b")), function("S", call("R", "a", "b"))])
    with pytest.raises(lowbit.FormatError, match="calls itself"):
        lowbit.load(each_other)


def test_a_function_may_be_called_twice_by_another() -> None:
    twice = function("T", call("N", "a", "t"), call("N", "t", "b"))
    g = lowbit.load(model([call("T", "x", "y")], functions=[twice, function("N", helper.make_node("Neg", ["a"], ["b"]))]), simplify=False)
    assert [n.op for n in g.nodes] == ["neg", "neg"]


def test_functions_that_double_forty_times_are_refused_before_they_are_written_out() -> None:
    doubling = [function("F0", helper.make_node("Relu", ["a"], ["b"]))]
    doubling += [function(f"F{i}", call(f"F{i - 1}", "a", "t"), call(f"F{i - 1}", "t", "b")) for i in range(1, 40)]
    with pytest.raises(lowbit.FormatError, match="nodes, after functions are written out: 549,755,813,888, the limit is 500,000") as e:
        lowbit.load(model([call("F39", "x", "y")], functions=doubling))
    assert "lowbit.Limits(nodes=" in str(e.value)


def test_limits_can_be_raised_and_lowered() -> None:
    doubling = [function("F0", helper.make_node("Relu", ["a"], ["b"])), function("F1", call("F0", "a", "t"), call("F0", "t", "b"))]
    network = model([call("F1", "x", "y")], functions=doubling)
    with pytest.raises(lowbit.FormatError, match="the limit is 1"):
        lowbit.load(network, limits=lowbit.Limits(nodes=1))
    assert lowbit.load(network, limits=lowbit.Limits(nodes=2)).outputs
    with pytest.raises(lowbit.InputError, match="limit nodes=0: a whole number of at least 1"):
        lowbit.Limits(nodes=0)
    with pytest.raises(lowbit.InputError, match=r"dict given, lowbit.Limits needed"):
        lowbit.load(network, limits={"nodes": 2})  # type: ignore[arg-type]


def squared(rounds: int) -> list[onnx.NodeProto]:
    nodes = [helper.make_node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(rounds)]
    return [helper.make_node("Shape", ["x"], ["s0"]), *nodes, helper.make_node("Expand", ["z", f"s{rounds}"], ["y"])]


def grown(rounds: int) -> list[onnx.NodeProto]:
    nodes = [helper.make_node("Shape", ["x"], ["q0"])]
    for i in range(rounds):
        nodes += [helper.make_node("Add", [f"q{i}", "one"], [f"p{i}"]), helper.make_node("Mul", [f"p{i}", f"p{i}"], [f"q{i + 1}"])]
    return [*nodes, helper.make_node("Expand", ["z", f"q{rounds}"], ["y"])]


@pytest.mark.parametrize("nodes", [squared(40), grown(24)], ids=["squared", "grown"])
def test_sizes_that_multiply_themselves_are_refused_in_seconds(nodes: list[onnx.NodeProto]) -> None:
    begin = time.process_time()
    with pytest.raises(lowbit.LowbitError, match="dimensions that are not bound"):
        lowbit.load(model(nodes, inputs={"x": ["n"], "z": [1]}, constants={"one": np.array([1])}))
    assert time.process_time() - begin < 10


def test_a_dimension_of_many_parts_is_refused_wherever_it_comes_from() -> None:
    from lowbit.dims import parse_dim, symbol

    with pytest.raises(lowbit.ShapeError, match="a symbolic dimension of 1,024 parts, the limit is 1,000"):
        d = symbol("n")
        for _ in range(10):
            d = d * d
    with pytest.raises(lowbit.ShapeError, match="parts, the limit is 1,000"):
        parse_dim("*".join(["(a + b + c + d)"] * 12))


Nodes = Callable[[], onnx.ModelProto]


def pooled(kernel: int, pads: list[int]) -> onnx.ModelProto:
    pool = helper.make_node("AveragePool", ["c"], ["t"], kernel_shape=[kernel, kernel], pads=pads, count_include_pad=1)
    return reduced([pool], {"c": np.ones((1, 1, 4, 4), np.float32)})


def reduced(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    last = [helper.make_node("ReduceMax", ["t"], ["m"], keepdims=0), helper.make_node("Add", ["x", "m"], ["y"])]
    return model([*nodes, *last], constants=constants)


@pytest.mark.parametrize(
    "network",
    [
        lambda: pooled(1, [0, 0, 20_000, 20_000]),
        lambda: pooled(1, [0, 0, 4_000, 4_000]),
        lambda: pooled(20_000, [10_000] * 4),
        lambda: reduced([helper.make_node("Pad", ["c", "p"], ["t"])], {"c": np.ones(4, np.float32), "p": np.array([0, 500_000_000])}),
        lambda: reduced(
            [helper.make_node("Conv", ["c", "w"], ["t"], pads=[0, 0, 9_000, 9_000])],
            {"c": np.ones((1, 1, 4, 4), np.float32), "w": np.ones((1, 1, 1, 1), np.float32)},
        ),
        lambda: reduced([helper.make_node("Tile", ["c", "r"], ["t"])], {"c": np.ones(4, np.float32), "r": np.array([100_000_000])}),
    ],
    ids=["pool-pads", "pool-pads-64MB", "pool-window", "pad", "conv", "tile"],
)
def test_folding_constants_stays_within_its_memory(network: Nodes) -> None:
    source = network()
    tracemalloc.start()
    try:
        assert lowbit.load(source).outputs
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20


def test_a_sparse_tensor_is_not_made_dense_beyond_the_limit() -> None:
    network = model([helper.make_node("Add", ["x", "s"], ["y"])])
    s = network.graph.sparse_initializer.add()
    s.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "s"))
    s.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([1])))
    s.dims.append(2**28)
    with pytest.raises(lowbit.FormatError, match=r"sparse tensor of shape \(268435456,\) that is made dense: 1,073,741,824, the limit is"):
        lowbit.load(network)
    s.dims[:] = [-4]
    with pytest.raises(lowbit.FormatError, match="negative dimension"):
        lowbit.load(network)


def test_a_node_without_outputs_is_refused() -> None:
    network = model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Constant", [], [], value_int=1)])
    with pytest.raises(lowbit.FormatError, match=r"Constant '' \(model, node 1\): it has no outputs"):
        lowbit.load(network)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_indices_that_reach_beyond_the_input_along_another_axis_are_refused(op: str) -> None:
    more = ["i", "x"] if op == "ScatterElements" else ["i"]
    network = model([helper.make_node(op, ["x", *more], ["y"], axis=1)], inputs={"x": [2, 3]}, constants={"i": np.zeros((3, 3), np.int64)})
    with pytest.raises(lowbit.ShapeError, match=r"indices \(3, 3\) reach outside the input \(2, 3\) along other axes than 1"):
        lowbit.load(network)


def test_a_header_with_too_many_tensors_is_refused(tmp_path: Path) -> None:
    g = lowbit.load(model([helper.make_node("Relu", ["x"], ["y"])]))
    g.save(tmp_path / "g.lowbit")
    with pytest.raises(lowbit.FormatError, match=r"bytes of its header: .*, the limit is 10"):
        lowbit.load(tmp_path / "g.lowbit", limits=lowbit.Limits(header_bytes=10))
