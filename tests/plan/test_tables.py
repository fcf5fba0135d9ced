"""Chains of functions of one byte are one table, with the bits of the chain; what somebody reads midway stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.plan import join_tables, physical
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

RANGE: dict[str, Any] = {"lo": -128, "hi": 127, "to": "int8"}
CODES = np.tile(np.arange(-128, 128, dtype=np.int8), 3).reshape(3, 16, 16)


def table(b: Builder, x: Value, seed: int) -> Value:
    return b.add("q_table", x, b.constant(np.random.default_rng(seed).integers(-128, 128, 256, dtype=np.int8)))


def scale(b: Builder, x: Value, by: Value, multiplier: float = 0.011) -> Value:
    return b.add("q_mul", x, by, x_zero=-3, y_zero=4, z_zero=7, multiplier=multiplier, **RANGE)


def shift(b: Builder, x: Value, by: Value) -> Value:
    return b.add("q_add", by, x, x_zero=-3, y_zero=9, z_zero=1, mx=0.71, my=-0.93, **RANGE)


def constant(b: Builder, v: int, *shape: int) -> Value:
    return b.constant(np.full(shape, v, np.int8))


def builder() -> tuple[Builder, Value]:
    b = Builder("chain")
    return b, b.input("x", TensorType((3, 16, 16), "int8"))


def checked(b: Builder, **outputs: Value) -> Graph:
    """The joined graph, which gives the bits of the graph, as does a session."""
    graph = b.finish(outputs)
    joined = join_tables(graph)
    want = run(graph, {"x": CODES})
    for got in (run(joined, {"x": CODES}), Session(graph).run({"x": CODES})):
        assert all(np.array_equal(want[k], got[k]) for k in want)
    return joined


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def test_a_scale_and_a_shift_behind_a_table_are_part_of_it() -> None:
    b, x = builder()
    y = shift(b, scale(b, table(b, x, 1), constant(b, 90, 1)), constant(b, -20, 1, 1, 1))
    assert ops(checked(b, y=y)) == ["q_table"]


def test_other_parameters_and_more_tables_join() -> None:
    b, x = builder()
    y = b.add("requantize", table(b, x, 1), x_zero=3, y_zero=-5, multiplier=0.6, **RANGE)
    assert ops(checked(b, y=table(b, y, 2))) == ["q_table"]


def test_a_byte_times_its_own_table_is_one_lookup() -> None:
    b, x = builder()
    assert ops(checked(b, y=scale(b, x, table(b, x, 3)))) == ["q_table"]


def test_one_node_alone_stays_what_it_is() -> None:
    b, x = builder()
    assert ops(checked(b, y=scale(b, x, constant(b, 50, 1)))) == ["q_mul"]


def test_what_is_read_midway_is_still_computed() -> None:
    b, x = builder()
    middle = table(b, x, 4)
    assert ops(checked(b, y=shift(b, middle, constant(b, 3, 1)), middle=middle)) == ["q_table", "q_add"]


def test_constants_of_many_elements_and_two_tensors_do_not_join() -> None:
    b, x = builder()
    other = b.input("z", TensorType((3, 16, 16), "int8"))
    rows = b.constant(np.arange(16, dtype=np.int8))
    graph = b.finish({"y": scale(b, table(b, x, 1), rows), "w": scale(b, table(b, x, 2), table(b, other, 3))})
    assert join_tables(graph) is graph


def test_a_result_of_more_axes_than_the_byte_does_not_join() -> None:
    b, x = builder()
    assert ops(checked(b, y=scale(b, table(b, x, 1), constant(b, 50, 1, 1, 1, 1)))) == ["q_table", "q_mul"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_learned_scale_behind_an_activation_costs_nothing(threads: int) -> None:
    b = Builder("hardswish with a scale and a shift")
    x = b.input("x", TensorType((1, 8, 12, 12), "float32"))
    y = b.add("hardswish", x)
    y = b.add("add", b.add("mul", y, b.constant(np.array([1.3], np.float32))), b.constant(np.array([-0.2], np.float32)))
    graph = b.finish({"y": b.add("sigmoid", y)})  # of which the result stays float: a table of reals
    data: list[dict[str, Array]] = [{"x": np.random.default_rng(0).normal(0, 3, (1, 8, 12, 12)).astype(np.float32)}]
    integer = lower(lowbit.quantize(graph, data, rules=[CalibratedQuantRule(".*", "int8")])).graph
    assert ops(integer) == ops(physical(integer)) == ["quantize_linear", "q_table"]
    assert np.array_equal(run(integer, data[0])["y"], Session(integer, threads=threads).run(data[0])["y"])
