"""Slices read no element outside their axis and give what ONNX Runtime gives: any bounds, steps and sizes, open dimensions too."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from codegen_tools import Compiled
from onnx import TensorProto, helper, numpy_helper

import lowbit
from lowbit.dims import symbol
from lowbit.errors import GraphError
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.plan.bounds import check_bounds
from lowbit.plan.build import build
from lowbit.plan.plan import Target
from lowbit.types import Array, TensorType

BOUNDS = (-(2**63) + 1, -9, -4, -3, -1, 0, 1, 3, 4, 9, 2**31 - 1, 2**63 - 1)
STEPS = (1, 2, 3, -1, -2, -3)


def model(cuts: list[tuple[int, int, int]], size: int | str) -> bytes:
    """An input x of [2, size] cut along its last axis in all these ways, an output for each."""
    nodes, constants = [], []
    for i, cut in enumerate(cuts):
        for name, v in zip("sep", cut, strict=True):
            constants.append(numpy_helper.from_array(np.array([v]), f"{name}{i}"))
        nodes.append(helper.make_node("Slice", ["x", f"s{i}", f"e{i}", "axis", f"p{i}"], [f"y{i}"]))
    constants.append(numpy_helper.from_array(np.array([1]), "axis"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, size])],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(cuts))],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def in_ort(file: bytes, x: Array) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    found: list[Array] = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return found


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("open_axis", [False, True], ids=["fixed", "open"])
def test_any_bounds_give_what_onnx_runtime_gives_natively_and_interpreted(step: int, open_axis: bool) -> None:
    cuts = [(s, e, step) for s, e in itertools.product(BOUNDS, BOUNDS)]
    for size in (1, 2, 3, 4, 7) if open_axis else (0, 1, 2, 3, 4, 7):  # an open axis of none is refused
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        file = model(cuts, "n" if open_axis else size)
        theirs = in_ort(file, x)
        graph = lowbit.load(file)
        ours = [run(graph, {"x": x}), lowbit.compile(graph).run({"x": x})]
        for i, (cut, want) in enumerate(zip(cuts, theirs, strict=True)):
            for got in ours:
                assert got[f"y{i}"].shape == want.shape, (size, cut)
                np.testing.assert_array_equal(got[f"y{i}"], want, err_msg=f"{size} {cut}")


@pytest.mark.parametrize("outer", [(0, 9, 1), (1, 4, 1), (0, 2, 2)])
def test_a_slice_of_a_slice_ends_where_the_first_does(outer: tuple[int, int, int]) -> None:
    for inner in ((2, 5, 1), (0, 3, 1), (-4, 9, 1)):
        nodes, constants, x = [], [], "x"
        for i, cut in enumerate((inner, outer)):
            constants += [numpy_helper.from_array(np.array([v]), f"{n}{i}") for n, v in zip("sep", cut, strict=True)]
            nodes.append(helper.make_node("Slice", [x, f"s{i}", f"e{i}", "axis", f"p{i}"], [f"y{i}"]))
            x = f"y{i}"
        constants.append(numpy_helper.from_array(np.array([0]), "axis"))
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
        graph = helper.make_graph(nodes, "g", [info], [helper.make_empty_tensor_value_info("y1")], constants)
        file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        for n in (3, 6, 20):
            data = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(lowbit.compile(lowbit.load(file))(data), in_ort(file, data)[0], err_msg=f"{inner} {n}")


@pytest.mark.parametrize("n", [1, 5, 6, 9, 10, 11])
def test_the_last_ten_of_an_open_axis_are_all_there_are(n: int, tmp_path: Path) -> None:
    b = Builder("last ten")
    x = b.input("x", TensorType([symbol("n")], "float32"))
    (n_,) = x.shape
    graph = b.finish({"y": b.add("slice", x, axes=(0,), starts=(n_ - 10,), ends=(n_,), steps=(1,))})
    data = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(lowbit.compile(graph)(data), data[-10:])
    again = lowbit.load(lowbit.export_onnx(graph, tmp_path / "g.onnx") and (tmp_path / "g.onnx"))
    np.testing.assert_array_equal(lowbit.compile(again)(data), data[-10:])
    np.testing.assert_array_equal(in_ort((tmp_path / "g.onnx").read_bytes(), data)[0], data[-10:])
    emitted = lowbit.emit_c(lowbit.load(tmp_path / "g.onnx", shapes={"n": n}), tmp_path / "c", measure=False)
    (made,) = Compiled(tmp_path / "c", emitted).run([data], [((min(n, 10),), np.float32)])
    np.testing.assert_array_equal(made, data[-10:])


def test_a_torch_slice_from_the_end_of_an_open_axis_is_cut_to_it() -> None:
    torch = pytest.importorskip("torch")

    class Last(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x[:, -10:] * 2

    try:
        graph = lowbit.load(Last(), inputs=(torch.zeros(2, 20),), dynamic={"x": {1: "n"}})
    except lowbit.LowbitError:
        return  # torch.export fixed the size: it says so instead of giving a network for all sizes
    for n in (3, 7, 10, 12):
        x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
        try:
            got = lowbit.compile(graph)(x)
        except lowbit.LowbitError:
            continue  # refused, by an assumption of torch.export's own
        np.testing.assert_array_equal(got, x[:, -10:] * 2)


def plan_of(start: int) -> Any:
    b = Builder("g")
    x = b.input("x", TensorType([4, 8], "float32"))
    return build(b.finish({"y": b.add("slice", x, axes=(1,), starts=(start,), ends=(8,), steps=(1,))}), Target())


def test_a_plan_that_reads_outside_its_argument_is_refused() -> None:
    from dataclasses import replace

    plan = plan_of(2)
    (step,) = plan.steps
    check_bounds(plan)
    for change in ({"x_offset": 3}, {"x_offset": -1}, {"out_offset": 1}, {"out_offset": -1}):
        with pytest.raises(GraphError, match=r"copy_b32__.* would touch memory outside its argument"):
            check_bounds(replace(plan, steps=(replace(step, params={**step.params, **change}),)))
    far = replace(step.args[0], offset=4)
    with pytest.raises(GraphError, match=r"bytes 4 to 132 of 128 \(input\)"):
        check_bounds(replace(plan, steps=(replace(step, args=(far, *step.args[1:])),)))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum"])
@pytest.mark.parametrize("rank", [1, 4, 5])
def test_a_number_of_more_axes_than_the_image_keeps_its_order(op: str, rank: int) -> None:
    rng = np.random.default_rng(0)
    b = Builder("g")
    x = b.input("x", TensorType([2, 3, 5, 4], "float32"))
    w = b.constant(rng.standard_normal((6, 3, 3, 3)).astype(np.float32))
    y = b.add("conv", x, w, stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    c = b.constant(np.full((1,) * rank, 0.25, np.float32))
    graph = b.finish({"y": b.add(op, y, c)})
    data = rng.standard_normal((2, 3, 5, 4)).astype(np.float32)
    want = run(graph, {"x": data})["y"]
    got = lowbit.compile(graph)(data)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
