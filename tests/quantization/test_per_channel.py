"""A scale for each channel wherever weights are constant: also left of a matrix product, and for each row of a table."""

from __future__ import annotations

import numpy as np
import pytest

import lowbit
from lowbit.dims import symbol
from lowbit.export.onnx import onnx_bytes
from lowbit.export.onnx.check import run_onnx
from lowbit.export.onnx.proof import spelled
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.build import Builder, prune
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.pipeline import quantize
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, QuantRule, WeightOnlyRule
from lowbit.types import Array, TensorType

Sample = dict[str, Array]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def outlier_rows(*shape: int, factor: float = 300.0) -> Array:
    """A matrix (or several) one of whose rows is far larger than the others."""
    w = rng(1).standard_normal(shape).astype(np.float32)
    w[..., 2, :] *= np.float32(factor)
    return w


def left_product(weight: Array, shape: tuple[object, ...] = (12, symbol("n")), behind: bool = False) -> Graph:
    b = Builder("left")
    x = b.input("x", TensorType(shape, "float32"))
    y = b.add("matmul", b.constant(weight, name="a"), x, name="mix", out="y")
    return b.finish({"y": b.add("tanh", y, name="act", out="z") if behind else y})


def embedding(factor: float = 300.0, behind: bool = True) -> Graph:
    b = Builder("embedding")
    ids = b.input("ids", TensorType((symbol("n"), 5), "int64"))
    e = b.add("gather", b.constant(outlier_rows(9, 16, factor=factor), name="table"), ids, axis=0, name="embed", out="e")
    if behind:
        e = b.add("linear", e, b.constant(rng(2).standard_normal((4, 16)).astype(np.float32), name="w"), name="head", out="y")
    return b.finish({"y": e})


def vectors(count: int, rows: int = 12, columns: int = 7) -> list[Sample]:
    return [{"x": rng(10 + i).standard_normal((rows, columns)).astype(np.float32)} for i in range(count)]


def words(count: int) -> list[Sample]:
    return [{"ids": rng(20 + i).integers(0, 9, (3, 5))} for i in range(count)]


def stored(graph: Graph, name: str) -> tuple[Node, Array]:
    """The dequantize node of a constant, and its scales."""
    node = next(
        n for n in graph.nodes if n.op == "dequantize_linear" and n.inputs[0] is not None and n.inputs[0].name.startswith(f"{name}:")
    )
    scale = graph.constant(node.inputs[1])
    assert scale is not None
    return node, scale


def stored_rows(graph: Graph) -> Array:
    return stored(graph, "table")[1]


def row_sqnr(want: Array, got: Array, rows: list[int]) -> float:
    return min(sqnr_db(want[..., r, :], got[..., r, :]) for r in rows)


def same_bits(graph: Graph, samples: list[Sample]) -> None:
    session, integer = lowbit.compile(graph), lower(graph).graph
    for s in samples:
        want, got = run(integer, s), session.run(s)
        for name in want:
            np.testing.assert_array_equal(want[name], got[name])


def comes_back(graph: Graph) -> None:
    assert load_onnx(onnx_bytes(graph), proof=spelled) == graph


# -- a constant left of a matrix product --------------------------------------------------------------------------------


def test_a_constant_left_operand_has_a_scale_for_each_row() -> None:
    weight = outlier_rows(6, 12)
    q = quantize(left_product(weight), vectors(4), guard=False)
    node, scale = stored(q, "a")
    assert node.attrs["axis"] == 0
    np.testing.assert_allclose(scale, np.abs(weight).max(axis=1) / 127, rtol=1e-6)


def test_an_outlier_row_of_a_left_operand_costs_the_other_rows_nothing() -> None:
    weight = outlier_rows(6, 12)
    graph = left_product(weight)
    rules = [CalibratedQuantRule(".*", "int16", "int8")]  # wide results: what is lost is lost by the weights
    q = quantize(graph, vectors(4), rules=rules)
    coarse = quantize(graph, vectors(4), rules=[CalibratedQuantRule(".*", "int16", "int8", granularity="tensor")])
    x = vectors(5)[4]
    want, got, worse = (run(g, x)["y"] for g in (graph, q, coarse))
    others = [0, 1, 3, 4, 5]
    assert row_sqnr(want, got, others) > 35 > 10 > row_sqnr(want, worse, others)


def test_a_left_operand_is_the_weight_of_a_linear_layer_between_two_transposes() -> None:
    q = quantize(left_product(outlier_rows(6, 12)), vectors(4), guard=False)
    done = lower(q)
    assert done.islands == ()
    assert [n.op for n in done.graph.nodes if n.op not in ("quantize_linear", "dequantize_linear")] == [
        "transpose",
        "q_linear",
        "transpose",
    ]
    session = lowbit.compile(q)
    session.run(vectors(1)[0])
    assert session.backend == "native"
    same_bits(q, vectors(3))


@pytest.mark.parametrize(
    ("weight", "shape"), [((6, 12), (2, 3, 12, 5)), ((3, 6, 12), (3, 12, 5)), ((3, 6, 12), (12, 5))], ids=["shared", "batched", "broadcast"]
)
def test_left_operands_of_every_rank_are_exact_integers(weight: tuple[int, ...], shape: tuple[int, ...]) -> None:
    graph = left_product(outlier_rows(*weight), shape, behind=True)
    data = [{"x": rng(i).standard_normal(shape).astype(np.float32)} for i in range(4)]
    q = quantize(graph, data, guard=False)
    _, scale = stored(q, "a")
    assert scale.shape == (6,) and lower(q).islands == ()
    same_bits(q, data)
    comes_back(q)
    codes = prune(Graph(q.inputs, {"codes": q.values["y:int8"]}, q.nodes, q.constants, "codes"))
    off = run(lower(codes).graph, data[0])["codes"].astype(np.int32) - run(codes, data[0])["codes"]
    assert np.abs(off).max() <= 1 and np.count_nonzero(off) <= 0.01 * off.size
    theirs = run_onnx(onnx_bytes(codes), data[0], optimize=True)["codes"].astype(np.int32)
    assert np.abs(theirs - run(lower(codes).graph, data[0])["codes"]).max() <= 1


def test_a_vector_left_or_right_is_one_channel() -> None:
    for left in (True, False):
        b = Builder()
        x = b.input("x", TensorType((12, 7) if left else (7, 12), "float32"))
        v = b.constant(rng(3).standard_normal(12).astype(np.float32), name="a")
        graph = b.finish({"y": b.add("matmul", *((v, x) if left else (x, v)), name="mix", out="y")})
        data = [{"x": s["x"] if left else s["x"].T.copy()} for s in vectors(4)]
        q = quantize(graph, data, guard=False)
        assert stored(q, "a")[1].shape == () and lower(q).islands == ()
        same_bits(q, data)


@pytest.mark.parametrize("recipe", ["int8", "uint8", "int16", "w4a8", "w4a8-block"])
@pytest.mark.parametrize(
    ("weight", "shape", "left"),
    [
        ((6, 32), (32,), True),
        ((3, 6, 32), (32,), True),
        ((32,), (32, 7), True),
        ((32,), (2, 32, 7), True),
        ((32,), (32,), True),
        ((32, 6), (32,), False),
        ((3, 32, 6), (32,), False),
        ((32,), (7, 32), False),
        ((32,), (2, 7, 32), False),
        ((32,), (32,), False),
    ],
    ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else "left" if v else "right",
)
def test_vectors_on_either_side_of_a_constant_are_integers(
    weight: tuple[int, ...], shape: tuple[int, ...], left: bool, recipe: str
) -> None:
    b = Builder("vectors")
    x = b.input("x", TensorType(shape, "float32"))
    w = b.constant(rng(3).standard_normal(weight).astype(np.float32), name="a")
    y = b.add("matmul", *((w, x) if left else (x, w)), name="mix", out="y")
    graph = b.finish({"z": b.add("add", y, y, name="twice", out="z")})
    data = [{"x": rng(i).standard_normal(shape).astype(np.float32)} for i in range(4)]
    q = quantize(graph, data, recipe=recipe, guard=False)
    islands = [i.because for i in lower(q).islands if i.layer == "mix"]
    if recipe == "w4a8-block" and len(weight) == 3:  # integer products of several matrices have a scale for each channel
        assert len(islands) == 1
        return
    assert islands == []
    same_bits(q, data)
    if recipe == "int8":
        codes = prune(Graph(q.inputs, {"codes": q.values["y:int8"]}, q.nodes, q.constants))
        off = run(lower(codes).graph, data[0])["codes"].astype(np.int32) - run(codes, data[0])["codes"]
        assert np.abs(off).max(initial=0) <= 1


def test_a_scale_for_each_row_of_a_matrix_holds_before_a_vector() -> None:
    weight = outlier_rows(6, 12)
    graph = left_product(weight, (12,))
    data = [{"x": rng(i).standard_normal(12).astype(np.float32)} for i in range(4)]
    q = quantize(graph, data, guard=False)
    assert stored(q, "a")[1].shape == (6,) and lower(q).islands == ()
    same_bits(q, data)
    comes_back(q)


def test_blocks_of_a_left_operand_lie_along_its_rows() -> None:
    graph = left_product(outlier_rows(6, 64), (64, 7))
    data = vectors(4, 64)
    q = quantize(graph, data, rules=[CalibratedQuantRule(".*", "int8", "int4", 32)])
    node, scale = stored(q, "a")
    assert (node.attrs["axis"], node.attrs["block_size"], scale.shape) == (1, 32, (6, 2))
    assert lower(q).islands == () and "q_linear_blocks" in {n.op for n in lower(q).graph.nodes}
    same_bits(q, data)


def test_what_is_read_at_run_time_is_never_quantized_across_the_contraction() -> None:
    graph = left_product(outlier_rows(6, 12))
    q = quantize(graph, rules=[DynamicQuantRule(".*")])
    assert "quantize_rows" not in {n.op for n in q.nodes} and stored(q, "a")[1].shape == (6,)
    want, got = run(graph, vectors(1)[0])["y"], run(q, vectors(1)[0])["y"]
    assert row_sqnr(want, got, list(range(6))) > 35


# -- rows of a table ----------------------------------------------------------------------------------------------------


def test_every_row_of_a_table_has_its_scale() -> None:
    q = quantize(embedding(), words(4), guard=False)
    node, scale = stored(q, "table")
    assert node.attrs["axis"] == 0
    np.testing.assert_allclose(scale, np.abs(outlier_rows(9, 16)).max(axis=1) / 127, rtol=1e-6)
    assert lower(q).islands == ()
    same_bits(q, words(3))


def test_an_outlier_row_of_a_table_costs_the_other_rows_nothing() -> None:
    graph, ids = embedding(), {"ids": np.array([[0, 1, 3, 4, 5]])}
    rules: list[QuantRule] = [CalibratedQuantRule("embed", "int16", "int8"), CalibratedQuantRule(".*", "int8")]
    q = quantize(graph, words(4), rules=rules)
    want, got = run(graph, ids, keep=["e"])["e"], run(q, ids, keep=["e:real"])["e:real"]
    assert sqnr_db(want, got) > 40


def test_rows_whose_result_stays_float_are_scaled_behind_the_gather() -> None:
    graph = embedding(behind=False)
    q = quantize(graph, words(4), rules=[CalibratedQuantRule("embed", "int16", "int8")])
    integer = lower(q).graph
    assert [n.op for n in integer.nodes] in (["gather", "dequantize_linear"], ["gather", "dequantize_linear", "gather", "mul"])
    same_bits(q, words(3))
    want, got = (run(g, words(1)[0])["y"] for g in (graph, integer))
    assert sqnr_db(want, got) > 40


def test_rows_of_a_table_along_another_axis_are_scaled_along_it() -> None:
    b = Builder()
    ids = b.input("ids", TensorType((4,), "int64"))
    table = np.ascontiguousarray(outlier_rows(9, 16).T)
    e = b.add("gather", b.constant(table, name="table"), ids, axis=1, name="embed", out="e")
    graph = b.finish(
        {"y": b.add("matmul", e, b.constant(rng(4).standard_normal((4, 3)).astype(np.float32), name="w"), name="mix", out="y")}
    )
    data = [{"ids": rng(i).integers(0, 9, 4)} for i in range(4)]
    q = quantize(graph, data, guard=False)
    node, scale = stored(q, "table")
    assert node.attrs["axis"] == 1 and scale.shape == (9,) and lower(q).islands == ()
    same_bits(q, data)
    comes_back(q)


def test_a_row_with_finer_steps_than_the_result_is_rounded_once() -> None:
    graph = embedding(2.0)
    q = quantize(graph, words(8), guard=False)
    done = lower(q).graph
    node = next(n for n in done.nodes if n.op == "gather")
    stored = done.constant(node.inputs[0])
    bracket = next(n for n in q.nodes if n.output.name == "e:int8")
    scale, zero = (q.constant(v) for v in bracket.inputs[1:])
    table = graph.constants["table"].data
    assert scale is not None and zero is not None
    finer = stored_rows(q) <= scale
    assert stored is not None and finer.sum() >= 7
    np.testing.assert_array_equal(stored[finer], np.clip(np.rint(table / scale) + zero, -128, 127)[finer])


def test_tables_keep_8_bits_where_weights_have_4() -> None:
    q = quantize(embedding(), words(4), recipe="w4a8", guard=False)
    node, _ = stored(q, "table")
    assert node.inputs[0] is not None and node.inputs[0].type.dtype.name == "int8"


def test_weight_only_rules_leave_tables_alone() -> None:
    q = quantize(embedding(), rules=[WeightOnlyRule(".*", "int8", granularity="channel")])
    assert "table" in q.constants and stored(q, "w")[1].shape == (4,)


# -- both, in ONNX Runtime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["int8", "uint8"])
@pytest.mark.parametrize("value", ["y", "e"])
def test_onnx_runtime_agrees_and_the_file_comes_back(recipe: str, value: str) -> None:
    left = value == "y"
    graph = left_product(outlier_rows(6, 12, factor=3.0), behind=True) if left else embedding(3.0)
    data = vectors(4, columns=2000) if left else [{"ids": rng(i).integers(0, 9, (500, 5))} for i in range(4)]
    q = quantize(graph, data, recipe=recipe, guard=False)
    comes_back(q)
    codes = prune(Graph(q.inputs, {"codes": q.values[f"{value}:{recipe}"]}, q.nodes, q.constants, "codes"))
    ours, theirs = run(lower(codes).graph, data[0])["codes"], run_onnx(onnx_bytes(codes), data[0], optimize=True)["codes"]
    off = np.abs(ours.astype(np.int32) - theirs.astype(np.int32))
    assert off.max() <= 1 and np.count_nonzero(off) <= 1e-4 * off.size
