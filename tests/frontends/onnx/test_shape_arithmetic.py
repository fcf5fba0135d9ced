"""Laws of shape arithmetic: what exporters compute with Shape, Gather, Mul, Concat … is known at load time, for every size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowbit
from lowbit.dims import at_least, parse_dim, substitute, symbol
from lowbit.errors import LowbitError, ShapeError
from lowbit.frontends.onnx import NeedsConstant, load_onnx
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.text import parse_graph, print_graph
from lowbit.passes import simplify
from lowbit.types import Array, TensorType

Node = Any


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def load(
    nodes: list[Node], inputs: dict[str, list[int | str]], constants: dict[str, Array], outputs: list[str] | None = None, opset: int = 18
) -> Graph:
    """A graph of float32 inputs, from nodes of ONNX; the last node's outputs are the outputs."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = [helper.make_empty_tensor_value_info(o) for o in outputs or nodes[-1].output]
    graph = helper.make_graph(nodes, "g", given, out, [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())


def op(kind: str, inputs: str, output: str, **attrs: Any) -> Node:
    return helper.make_node(kind, inputs.split(), output.split(), **attrs)


def x_of(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_reshape_by_computed_sizes_has_dims_and_runs_for_any_batch() -> None:
    nodes = [
        op("Shape", "x", "s"),
        op("Gather", "s zero", "b"),
        op("Gather", "s one", "t"),
        op("Mul", "b t", "bt"),
        op("Unsqueeze", "bt axis0", "bt1"),
        op("Concat", "bt1 rest", "target", axis=0),
        op("Reshape", "x target", "y"),
    ]
    constants = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "axis0": ints(0), "rest": ints(2, -1)}
    g = load(nodes, {"x": ["batch", "seq", 6]}, constants)
    assert [n.op for n in g.nodes] == ["reshape"]
    assert g.nodes[0].attrs["shape"] == (parse_dim("batch*seq"), 2, 3)
    for batch, seq in ((2, 5), (7, 1)):
        x = x_of(batch, seq, 6)
        np.testing.assert_array_equal(run(g, {"x": x})["y"], x.reshape(batch * seq, 2, 3))


def test_division_of_dims_is_floor_division() -> None:
    nodes = [
        op("Shape", "x", "s", start=0, end=1),
        op("Div", "s two", "half"),
        op("Slice", "x half big axis0", "y"),
    ]
    g = load(nodes, {"x": ["n", 3]}, {"two": ints(2), "big": ints(2**63 - 1), "axis0": ints(0)})
    assert g.nodes[-1].attrs["starts"] == (parse_dim("n//2"),)
    for n in (1, 4, 7):
        np.testing.assert_array_equal(run(g, {"x": x_of(n, 3)})["y"], x_of(n, 3)[n // 2 :])


def test_expand_with_its_minus_one_guard_folds() -> None:
    """Exporters write Expand(x, Where(shape == -1, 1, shape)); a size is never -1."""
    nodes = [
        op("Shape", "x", "s", start=0, end=1),
        op("Concat", "s more", "target", axis=0),
        op("Equal", "target minus", "hidden"),
        op("ConstantOfShape", "rank", "ones", value=numpy_helper.from_array(ints(1))),
        op("Where", "hidden ones target", "shape"),
        op("Expand", "x shape", "y"),
    ]
    g = load(nodes, {"x": ["n", 1]}, {"more": ints(4), "minus": ints(-1), "rank": ints(2)})
    assert [n.op for n in g.nodes] == ["expand"]
    np.testing.assert_array_equal(run(g, {"x": x_of(3, 1)})["y"], np.broadcast_to(x_of(3, 1), (3, 4)))


def test_dims_pass_through_casts_splits_squeezes_and_products() -> None:
    nodes = [
        op("Shape", "x", "s"),
        op("Cast", "s", "s32", to=TensorProto.INT32),
        op("Split", "s32", "a b", axis=0, num_outputs=2),
        op("ReduceProd", "s32", "total", keepdims=1),
        op("Sub", "total a", "less"),
        op("Add", "less a", "again"),
        op("Cast", "again", "flat", to=TensorProto.INT64),
        op("Reshape", "x flat", "y"),
    ]
    g = load(nodes, {"x": ["n", "m"]}, {})
    assert [n.op for n in g.nodes] == ["reshape"]
    assert run(g, {"x": x_of(2, 3)})["y"].shape == (6,)


def test_sizes_as_data_are_computed_when_they_are_known() -> None:
    nodes = [op("Shape", "x", "s"), op("Cast", "s", "f", to=TensorProto.FLOAT), op("ReduceProd", "f", "y", keepdims=0)]
    g = load(nodes, {"x": ["n", 3]}, {})
    assert run(g, {"x": x_of(5, 3)})["y"] == np.float32(15)


def test_size_and_range_follow_symbols() -> None:
    g = load(
        [op("Size", "x", "n"), op("Range", "zero n one", "y")],
        {"x": ["b", 2]},
        {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)},
    )
    np.testing.assert_array_equal(run(g, {"x": x_of(3, 2)})["y"], np.arange(6))


def truth(nodes: list[Node], inputs: dict[str, list[int | str]], constants: dict[str, Array], feeds: dict[str, Array]) -> Array:
    """What ONNX Runtime computes."""
    ort = pytest.importorskip("onnxruntime")
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = [helper.make_empty_tensor_value_info(o) for o in nodes[-1].output]
    graph = helper.make_graph(nodes, "g", given, out, [numpy_helper.from_array(a, n) for n, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    result: Array = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    return result


def test_an_expand_has_the_size_it_expands_to() -> None:
    nodes = [op("Shape", "y", "s"), op("Expand", "x s", "e"), op("ReduceSum", "e", "z", keepdims=0)]
    inputs: dict[str, list[int | str]] = {"x": ["a", 2], "y": ["b", 2]}
    g = load(nodes, inputs, {})
    assert simplify(g).outputs["z"].shape == ()
    for a, b in ((1, 3), (3, 3), (1, 1)):
        feeds = {"x": np.ones((a, 2), np.float32), "y": np.ones((b, 2), np.float32)}
        for graph in (g, simplify(g)):
            assert run(graph, feeds)["z"] == truth(nodes, inputs, {}, feeds) == 2 * max(a, b)
    with pytest.raises(ShapeError, match="expand 'e': \\(3, 2\\) does not expand to \\(1, 2\\)"):
        run(g, {"x": x_of(3, 2), "y": x_of(1, 2)})


def test_a_size_taken_from_a_sum_of_two_symbols_is_checked_when_they_are_bound() -> None:
    """The sum itself is not needed, so nothing of it is left in the graph but the condition."""
    nodes = [op("Add", "x y", "t"), op("Shape", "t", "z")]
    g = simplify(load(nodes, {"x": ["a", 2], "y": ["b", 2]}, {}))
    assert [n.op for n in g.nodes] == ["dims"]
    assert parse_graph(print_graph(g), g.constants) == g
    for a, b in ((3, 3), (3, 1)):
        np.testing.assert_array_equal(run(g, {"x": x_of(a, 2), "y": x_of(b, 2)})["z"], [3, 2])
    with pytest.raises(ShapeError, match="b must be 1 or equal a, a=1, b=3 given") as e:
        run(g, {"x": x_of(1, 2), "y": x_of(3, 2)})
    assert "load the model with shapes=" in str(e.value)
    with pytest.raises(ShapeError, match="b must be 1 or equal a"):
        lowbit.compile(g).run({"x": x_of(1, 2), "y": x_of(3, 2)})


def test_what_a_pass_left_to_broadcasting_is_checked_too() -> None:
    b = Builder()
    x, y = (b.input(n, TensorType((s, 2), "float32")) for n, s in (("x", symbol("a")), ("y", symbol("b"))))
    g = replace(b.finish({"z": b.add("mul", b.add("add", x, y), x)}), assumed=())
    with pytest.raises(ShapeError, match="its shape was taken to be \\(a, 2\\), with a=1, b=3 it is \\(3, 2\\)"):
        run(g, {"x": x_of(1, 2), "y": x_of(3, 2)})


@pytest.mark.parametrize("start, end", [(0, 5), (1, 5), (-5, 2**31), (0, -2), (-3, -1), (2, 2**40), (7, 9)])
def test_the_size_of_a_slice_of_a_symbolic_axis_is_right_for_every_size(start: int, end: int) -> None:
    nodes = [op("Slice", "x s e a", "y"), op("Shape", "y", "z")]
    constants = {"s": ints(start), "e": ints(end), "a": ints(0)}
    g = load(nodes, {"x": ["n"]}, constants)
    whole = load(nodes[:1], {"x": ["n"]}, constants)
    for n in (1, 2, 3, 6, 9):
        expected = truth(nodes, {"x": ["n"]}, constants, {"x": x_of(n)})
        np.testing.assert_array_equal(run(g, {"x": x_of(n)})["z"], expected)
        np.testing.assert_array_equal(run(whole, {"x": x_of(n)})["y"], x_of(n)[start:end])


def test_a_bound_that_counts_from_the_other_end_for_some_sizes_is_refused_for_them() -> None:
    """x[: n - 4] with n = 3 is x[:-1]."""
    nodes = [op("Shape", "x", "s"), op("Sub", "s four", "e"), op("Slice", "x zero e zero", "y")]
    g = load(nodes, {"x": ["n"]}, {"four": ints(4), "zero": ints(0)})
    np.testing.assert_array_equal(run(g, {"x": x_of(6)})["y"], x_of(6)[:2])
    with pytest.raises(ShapeError, match="n must be at least 4, n=3 given"):
        run(g, {"x": x_of(3)})


def test_an_empty_axis_is_a_size_too() -> None:
    constants = {"zero": ints(0), "one": ints(1)}
    at_zero = {"x": x_of(0)}
    g = load([op("Shape", "x", "s"), op("Max", "s one", "z")], {"x": ["n"]}, constants)
    assert run(g, at_zero)["z"] == [1] and run(g, {"x": x_of(4)})["z"] == [4]
    g = load([op("Shape", "x", "s"), op("Equal", "s zero", "z")], {"x": ["n"]}, constants)
    assert run(g, at_zero)["z"] == [True] and run(g, {"x": x_of(4)})["z"] == [False]


@pytest.mark.parametrize("to, expected", [(TensorProto.BOOL, True), (TensorProto.UINT8, 300 % 256), (TensorProto.INT32, 300)])
def test_a_size_cast_to_a_type_is_what_the_type_holds(to: int, expected: int) -> None:
    nodes = [op("Shape", "x", "s"), op("Cast", "s", "c", to=to), op("Cast", "c", "z", to=TensorProto.INT64)]
    g = load(nodes, {"x": ["n"]}, {})
    assert run(g, {"x": x_of(300)})["z"] == [expected]


@pytest.mark.parametrize("divisor", [2, -2, 3])
def test_a_division_of_sizes_cuts_towards_zero(divisor: int) -> None:
    nodes = [op("Shape", "x", "s"), op("Sub", "s four", "d"), op("Div", "d by", "z")]
    constants = {"four": ints(4), "by": ints(divisor)}
    g = load(nodes, {"x": ["n"]}, constants)
    for n in (1, 3, 4, 9):
        np.testing.assert_array_equal(run(g, {"x": x_of(n)})["z"], truth(nodes, {"x": ["n"]}, constants, {"x": x_of(n)}))


def test_a_size_divided_by_an_empty_axis_is_refused_by_name() -> None:
    g = load([op("Size", "x", "s"), op("Shape", "y", "t"), op("Div", "s t", "z")], {"x": ["n"], "y": ["m"]}, {})
    assert run(g, {"x": x_of(7), "y": x_of(2)})["z"] == [3]
    with pytest.raises(ShapeError, match="divides by zero with m=0"):
        run(g, {"x": x_of(7), "y": x_of(0)})


@pytest.mark.parametrize("start, end", [(0, 2), (1, 2**31 - 1), (-2, 2**63 - 1), (0, -1), (-(2**31), 2)])
def test_slices_of_a_symbolic_axis_equal_numpy(start: int, end: int) -> None:
    g = load([op("Slice", "x s e a", "y")], {"x": ["n", 2]}, {"s": ints(start), "e": ints(end), "a": ints(0)})
    for n in (3, 8):
        np.testing.assert_array_equal(run(g, {"x": x_of(n, 2)})["y"], x_of(n, 2)[start:end])


def test_a_reversed_symbolic_axis_equals_numpy() -> None:
    constants = {"s": ints(-1), "e": ints(-(2**63)), "a": ints(0), "step": ints(-2)}
    g = load([op("Slice", "x s e a step", "y")], {"x": ["n", 2]}, constants)
    for n in (1, 4, 5):
        np.testing.assert_array_equal(run(g, {"x": x_of(n, 2)})["y"], x_of(n, 2)[::-2])


def test_a_number_on_a_symbolic_axis_is_cut_when_the_axis_turns_out_shorter() -> None:
    g = load([op("Slice", "x s e a", "y")], {"x": ["n"]}, {"s": ints(1), "e": ints(5), "a": ints(0)})
    np.testing.assert_array_equal(run(g, {"x": x_of(3)})["y"], x_of(3)[1:5])
    np.testing.assert_array_equal(run(g, {"x": x_of(9)})["y"], x_of(9)[1:5])


def test_a_shape_made_of_data_is_refused_by_name() -> None:
    nodes = [op("Cast", "x", "target", to=TensorProto.INT64), op("Reshape", "x target", "y")]
    with pytest.raises(NeedsConstant, match="its shape \\(input 'target'\\) is computed from data") as e:
        load(nodes, {"x": [2]}, {})
    assert e.value.input == "target" and "bind symbolic dimensions with shapes=" in str(e.value)


@pytest.mark.parametrize(
    "shape, text",
    [
        ((5,), "has 6 elements, (5) needs 5"),
        ((-1, 4), "6 elements do not fill shape (-1, 4)"),
        ((-1, -1), "do not fill"),
        ((1, 1, 0), "copies axis 2"),
    ],
)
def test_a_reshape_that_does_not_fit_says_so(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError) as e:
        load([op("Reshape", "x target", "y")], {"x": [2, 3]}, {"target": ints(*shape)})
    assert text in str(e.value) and "Reshape 'y' (model, node 0)" in str(e.value)


def test_two_branches_may_use_the_same_names() -> None:
    def branch(value: float) -> Any:
        w = numpy_helper.from_array(np.array([value], np.float32), "w")
        return helper.make_graph([op("Add", "x w", "out")], "b", [], [helper.make_empty_tensor_value_info("out")], [w])

    nodes = [
        op("If", "yes", "a", then_branch=branch(1), else_branch=branch(2)),
        op("If", "no", "b", then_branch=branch(10), else_branch=branch(20)),
        op("Add", "a b", "y"),
    ]
    g = load(nodes, {"x": [1]}, {"yes": np.array(True), "no": np.array(False)})
    np.testing.assert_array_equal(run(g, {"x": np.array([0], np.float32)})["y"], [21])


def test_an_if_on_data_whose_branches_differ_in_shape_is_refused() -> None:
    def inner(*nodes: Any) -> Any:
        return helper.make_graph(list(nodes), "b", [], [helper.make_empty_tensor_value_info("out")])

    then, other = inner(op("Neg", "x", "out")), inner(op("Concat", "x x", "out", axis=0))
    nodes = [op("Cast", "x", "c", to=TensorProto.BOOL), op("If", "c", "y", then_branch=then, else_branch=other)]
    with pytest.raises(LowbitError, match="its condition \\(input 'c'\\)"):
        load(nodes, {"x": [1]}, {})


def test_at_least_never_says_more_than_it_knows() -> None:
    b, s = symbol("b"), symbol("s")
    assert at_least(b * s, 0) and at_least(b + s + 2, 2) and not at_least(-b - 1, 0) and at_least(b, 0)
    for pair in ((b, 1), (b, s), (b - 2, 0)):
        with pytest.raises(ShapeError, match="depends on the sizes"):
            at_least(*pair)
    for d in ("b*s - 1", "2*b + s", "b - s", "3 - b", "-b*s"):
        for limit in (-1, 0, 1, 2, 3):
            truths = {bool(substitute(parse_dim(d), {"b": i, "s": j}) >= limit) for i in range(5) for j in range(5)}
            sure = {at_least(parse_dim(d), limit, unknown=u) for u in (True, False)}
            assert len(sure) == 2 or sure == truths


def test_unknown_dims_are_symbols_of_their_own() -> None:
    """Exporters write -1 or "?" for a size that is not known; two of them need not be equal."""
    g = load([op("Neg", "x", "y")], {"x": [-1, 3, "?", "?"]}, {})
    assert len(g.symbols) == 3
    assert run(g, {"x": x_of(2, 3, 4, 5)})["y"].shape == (2, 3, 4, 5)


def test_a_network_that_fits_some_sizes_only_loads_and_refuses_the_others() -> None:
    """x + the halves of x, twice over: a network for even sizes."""
    nodes = [op("Slice", "x zero big axis two", "h"), op("Concat", "h h", "hh", axis=0), op("Add", "x hh", "y")]
    g = load(nodes, {"x": ["n"]}, {"zero": ints(0), "big": ints(2**63 - 1), "axis": ints(0), "two": ints(2)})
    np.testing.assert_array_equal(run(g, {"x": x_of(4)})["y"], x_of(4) + [0, 2, 0, 2])
    with pytest.raises(ShapeError, match="shapes \\(5\\) and \\(6\\) do not broadcast"):
        run(g, {"x": x_of(5)})
