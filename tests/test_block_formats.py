"""GGUF's block formats: exact against the gguf package, and products that have the same bits natively as in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from block_tools import FLOATS, INTEGERS, linear_graph, random_rows
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize

from lowbit.block_formats import FORMATS, block_format, dequantize
from lowbit.errors import FormatError, LowbitError
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.runtime.token_plan import TokenPlan
from lowbit.types import TensorType


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_means_what_the_gguf_package_says(name: str) -> None:
    w = random_rows(name, 5, 512)
    assert GGMLQuantizationType[name] == block_format(name).number
    want = w.view(np.float32) if name == "F32" else gguf_dequantize(w, GGMLQuantizationType[name])
    assert np.array_equal(dequantize(name, w), want)


@pytest.mark.parametrize("name", FORMATS)
def test_gather_gives_the_rows_of_the_file(name: str) -> None:
    w = random_rows(name, 7, 256)
    b = Builder()
    ids = b.input("ids", TensorType((5,), "int32"))
    plan = TokenPlan(b.finish({"y": b.add("block_gather", b.constant(w, "w"), ids, format=name)}), {}, {})
    plan.inputs["ids"][:] = [3, 0, 6, -1, 7]
    got = plan.run()["y"]
    assert np.array_equal(got[:3], dequantize(name, w)[[3, 0, 6]])
    assert not got[3:].any()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("rows", "n", "k"), [(1, 16, 256), (2, 1, 256), (5, 33, 768), (17, 50, 512), (1, 200, 1024)])
def test_a_product_has_the_bits_of_the_interpreter(name: str, rows: int, n: int, k: int) -> None:
    graph = linear_graph(name, rows, n, k, bias=n % 2 == 0, residual=rows % 2 == 1, seed=rows)
    rng = np.random.default_rng(n)
    inputs = {v.name: rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs}
    want = run(graph, inputs)["y"]
    for threads in (1, 2):
        plan = TokenPlan(graph, {}, {}, threads=threads)
        for v in graph.inputs:
            plan.inputs[v.name][...] = inputs[v.name]
        assert np.array_equal(plan.run()["y"].view(np.int32), want.view(np.int32))


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_has_the_same_bits_among_any_number_of_rows(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((40, 512)).astype(np.float32)
    got = []
    for rows in (1, 2, 3, 7, 8, 13, 40):
        plan = TokenPlan(linear_graph(name, rows, 48, 512), {}, {})
        plan.inputs["x"][...] = x[:rows]
        got.append(plan.run()["y"][0].copy())
    assert all(np.array_equal(g, got[0]) for g in got)


@pytest.mark.parametrize("name", INTEGERS)
def test_a_product_is_near_that_of_the_floats(name: str) -> None:
    graph, x = linear_graph(name, 4, 64, 1024), np.random.default_rng(2).standard_normal((4, 1024)).astype(np.float32)
    want = x @ dequantize(name, random_rows(name, 64, 1024)).T
    assert np.square(run(graph, {"x": x})["y"] - want).mean() < 3e-4 * np.square(want).mean()


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_activations_that_are_no_numbers_make_their_row_nan_and_no_other(name: str) -> None:
    plan = TokenPlan(linear_graph(name, 3, 16, 256), {}, {})
    plan.inputs["x"][...] = 1.0
    plan.inputs["x"][1, 40] = np.nan
    y = plan.run()["y"]
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()


def test_activations_of_zero_and_near_it_give_zero() -> None:
    plan = TokenPlan(linear_graph("Q4_0", 2, 16, 64), {}, {})
    plan.inputs["x"][1] = 1e-38
    assert not plan.run()["y"].any()


def test_unknown_formats_and_torn_rows_are_refused() -> None:
    with pytest.raises(FormatError, match="'Q4_9' is not a block format that is computed with"):
        block_format("Q4_9")
    with pytest.raises(FormatError, match="Q4_K: a row of 100 bytes is no multiple of 144"):
        block_format("Q4_K").row_size(100)
    b = Builder()
    x = b.input("x", TensorType((1, 32), "float32"))
    with pytest.raises(LowbitError, match="weights of 64 inputs"):
        b.add("block_linear", x, b.constant(random_rows("Q4_0", 3, 64), "w"), format="Q4_0")
