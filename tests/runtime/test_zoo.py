"""Every network of the zoo runs natively from end to end in int8, with the bits of the interpreter; and the ops that this took."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_laws import agrees, integer_graph, same

from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.runtime.session import Session
from lowbit.types import TensorType
from zoo import ZOO


@pytest.mark.parametrize("name", ZOO)
def test_a_network_runs_natively_from_end_to_end(name: str) -> None:
    graph, x = integer_graph(name)
    session = Session(graph, threads=2)
    left = {n.op for p in session._programs.values() for part in p.parts if not part.native for n in part.graph.nodes}  # type: ignore[union-attr]
    assert left == set() and session.backend == "native"
    assert same(run(graph, x), session.run(x))


@pytest.mark.parametrize(
    "window",
    [
        # kernel, stride, pads, dilation, groups, output padding
        ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
        ((3, 2), (3, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1, (1, 1)),
        ((4, 3), (2, 1), (1, 0, 0, 1), (1, 1), 2, (0, 0)),
        ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 2, (1, 0)),
        ((3, 2), (1, 3), (0, 0, 0, 0), (2, 2), 1, (0, 0)),
    ],
)
def test_transposed_convolutions(window: tuple[Any, ...]) -> None:
    kernel, stride, pads, dilation, groups, extra = window
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (2, 6, 5, 4)).astype(np.int8)
    b = Builder()
    v = b.input("x", TensorType(x.shape, "int8"))
    w = b.constant(rng.integers(-127, 128, (6, 10 // groups, *kernel)).astype(np.int8), name="w")
    m, bias = b.constant(rng.uniform(1e-3, 3e-3, 10).astype(np.float32)), b.constant(rng.integers(-500, 500, 10).astype(np.int32))
    attrs = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups, "output_padding": extra}
    ends = {"x_zero": 7, "y_zero": -3, "lo": -128, "hi": 127, "to": "int8", "bound": 2**24}
    assert agrees(b, b.add("q_conv_transpose", v, w, m, bias, **attrs, **ends), {"x": x})


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("size", [(10, 12), (5, 8), (7, 9), (3, 2)])
def test_nearest_resizes(mode: str, size: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 3, 5, 4)).astype(np.int8)
    b = Builder()
    v = b.input("x", TensorType(x.shape, "int8"))
    attrs = {"sizes": (2, 3, *size), "scales": (None,) * 4, "mode": "nearest", "coordinate_mode": mode, "nearest_mode": "floor"}
    assert agrees(b, b.add("resize", v, **attrs), {"x": x})


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_padding_that_repeats_elements(mode: str, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 4, 6)).astype(dtype)
    b = Builder()
    v = b.input("x", TensorType(x.shape, dtype))
    assert agrees(b, b.add("pad", v, pads=(0, 2, 3, 0, 1, 4), mode=mode), {"x": x})


def test_tables_of_floats_and_fills_of_16_bits() -> None:
    x = np.arange(-128, 128).astype(np.int8).reshape(16, 16)
    b = Builder()
    v = b.input("x", TensorType(x.shape, "int8"))
    assert agrees(b, b.add("q_table", v, b.constant(np.linspace(-3, 9, 256).astype(np.float32), name="t")), {"x": x})
    b = Builder()
    zero = b.add("fill", shape=(3, 70), value=-1234.0, dtype="int16")
    assert agrees(b, b.add("concat", zero, b.input("x", TensorType((1, 70), "int16")), axis=0), {"x": np.ones((1, 70), np.int16)})
