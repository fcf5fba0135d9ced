"""Float graphs run natively: within rounding of the interpreter on every instruction set, with the same bits for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.plan import physical
from lowbit.runtime import native
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType
from zoo import entry

ISAS = [isa for isa in native.isas() if all(k.available for k in native.kernels() if k.isa == isa)]
INF = float("inf")


def one(op: str, *shapes: tuple[int, ...], constants: tuple[Any, ...] = (), dtype: str = "float32", **attrs: Any) -> Graph:
    """A graph of one node: inputs of these shapes, then constants."""
    b = Builder()
    values: list[Value | None] = [b.input(f"x{i}", TensorType(s, dtype)) for i, s in enumerate(shapes)]
    values += [None if c is None else b.constant(np.asarray(c), name=f"c{i}") for i, c in enumerate(constants)]
    outputs = b.add_node(op, *values, **attrs)
    return b.finish({f"y{i}": o for i, o in enumerate(outputs)})


def feeds(graph: Graph, seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {v.name: (rng.standard_normal(v.shape) * scale).astype(v.type.dtype.numpy) for v in graph.inputs}


def close(want: Array, got: Array, error: float) -> bool:
    """Equal where an element is not finite, and within `error` of the range elsewhere."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return False
    if want.dtype.kind != "f":
        return bool(np.array_equal(want, got))
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True):
        return False
    size = np.abs(want[finite]).max(initial=0)
    return bool((np.abs(want[finite].astype(np.float64) - got[finite]) <= error * size).all())


def assert_native(graph: Graph, x: dict[str, Array], error: float, isas: list[str] = ISAS) -> None:
    """Every node has a kernel, the answer is the interpreter's within `error` of its range, and threads do not change a bit."""
    with np.errstate(all="ignore"):
        want = run(graph, x)
    for isa in isas:
        found = [Session(graph, threads=threads, isa=isa) for threads in (1, 2, 3)]
        assert {s.backend for s in found} == {"native"}
        first, *others = [s.run(x) for s in found]
        for name, w in want.items():
            assert close(w, first[name], error), (isa, name, np.abs(w.astype(np.float64) - first[name]).max())
        for other in others:
            assert all(first[name].tobytes() == other[name].tobytes() for name in first)


@pytest.mark.parametrize("name", ["mlp", "resnet9", "resnet18", "resnet50", "mobilenetv2", "dscnn"])
def test_float_networks_run_natively(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = {v.name: t.numpy() for v, t in zip(g.inputs, e.example().values(), strict=True)}
    assert_native(g, x, 1e-5, ISAS[-1:])


CONVS = [
    ((1, 3, 11, 12), (5, 3, 7, 7), {"stride": (2, 2), "pads": (3, 3, 3, 3)}),
    ((2, 16, 6, 7), (16, 16, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((1, 32, 7, 8), (33, 32, 3, 3), {"stride": (2, 2), "pads": (1, 0, 2, 1)}),
    ((1, 12, 5, 6), (8, 3, 3, 3), {"groups": 4}),
    ((1, 34, 5, 6), (36, 17, 1, 3), {"groups": 2, "dilation": (1, 2)}),
    ((2, 17, 8, 9), (17, 1, 3, 3), {"groups": 17, "pads": (1, 1, 1, 1)}),
    ((1, 32, 9, 10), (32, 1, 5, 5), {"groups": 32, "stride": (2, 2), "pads": (2, 2, 2, 2)}),
    ((1, 48, 5, 5), (16, 48, 1, 1), {}),
    ((1, 48, 5, 5), (16, 48, 1, 1), {"stride": (2, 2)}),
    ((1, 6, 5, 6), (12, 1, 3, 3), {"groups": 6}),
    ((2, 5, 30), (7, 5, 4), {"stride": (3,), "pads": (1, 2)}),
    ((0, 5, 8, 8), (7, 5, 3, 3), {}),
]


def conv_graph(shape: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any], bias: bool = True) -> Graph:
    spatial, rng = len(shape) - 2, np.random.default_rng(1)
    attrs = {"stride": (1,) * spatial, "pads": (0,) * 2 * spatial, "dilation": (1,) * spatial, "groups": 1, **options}
    w = rng.standard_normal(weight).astype(np.float32)
    b = rng.standard_normal(weight[0]).astype(np.float32) if bias else None
    return one("conv", shape, constants=(w, b), **attrs)


@pytest.mark.parametrize("layer", CONVS)
def test_convolutions_of_every_kind(layer: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> None:
    for bias in (True, False):
        g = conv_graph(*layer, bias=bias)
        assert_native(g, feeds(g), 2e-6)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 50])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 17), (64, 48), (512, 33), (130, 16)])
def test_linear_layers_of_every_size(rows: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    g = one("linear", (rows, k), constants=(rng.standard_normal((n, k)).astype(np.float32), rng.standard_normal(n).astype(np.float32)))
    assert_native(g, feeds(g), 2e-6)


def activated(op: str, twice: bool = False, **attrs: Any) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((5, 9), "float32"))
    w = b.constant(np.random.default_rng(0).standard_normal((20, 9)).astype(np.float32), name="w")
    y = b.add("linear", x, w)
    z = b.add(op, y, **attrs)
    return b.finish({"z": z, "y": y} if twice else {"z": z})


@pytest.mark.parametrize(
    ("op", "attrs"), [("relu", {}), ("relu6", {}), ("clip", {"min": -1.0, "max": None}), ("clip", {"min": 2.0, "max": 1.0})]
)
def test_an_activation_is_done_with_the_layer_before_it(op: str, attrs: dict[str, Any]) -> None:
    g = activated(op, **attrs)
    assert [n.op for n in physical(g).nodes] == ["linear_clip"]
    assert_native(g, feeds(g), 1e-6)


def test_a_layer_that_others_read_keeps_its_result() -> None:
    g = activated("relu", twice=True)
    assert [n.op for n in physical(g).nodes] == ["linear", "relu"]
    assert_native(g, feeds(g), 1e-6)


SHAPES = [((3, 4), (3, 4)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((7,), ()), ((2, 1, 5), (2, 4, 1)), ((0, 3), (3,)), ((1, 33), (9, 33))]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 3e38, 1e-40], np.float32)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic_is_exact_and_keeps_nan_and_infinities(op: str) -> None:
    for shapes in SHAPES:
        g = one(op, *shapes)
        assert_native(g, feeds(g), 0.0)
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL])
    assert_native(one(op, (81,), (81,)), {"x0": pairs[:, 0].copy(), "x1": pairs[:, 1].copy()}, 0.0)


@pytest.mark.parametrize(
    ("op", "attrs"), [("relu", {}), ("relu6", {}), ("clip", {"min": None, "max": 1.0}), ("clip", {"min": -1.0, "max": None})]
)
def test_clips_keep_nan(op: str, attrs: dict[str, Any]) -> None:
    assert_native(one(op, (9,), **attrs), {"x0": SPECIAL}, 0.0)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 40), (1,)), ((2, 3, 7, 9), (2, 3)), ((2, 33, 17), (1,)), ((5, 6), (0, 1)), ((4, 1, 5), (0, 2)), ((3,), ())]
)
def test_reductions(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for keepdims in (True, False):
        g = one(f"reduce_{op}", shape, axes=axes, keepdims=keepdims)
        assert_native(g, feeds(g), 1e-6)


@pytest.mark.parametrize("op", ["max", "min", "sum"])
def test_a_reduction_of_nan_is_nan(op: str) -> None:
    x = np.ones((2, 20), np.float32)
    x[0, 13] = np.nan
    assert_native(one(f"reduce_{op}", (2, 20), axes=(1,), keepdims=False), {"x0": x}, 0.0)


WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1), "dilation": (1, 2), "ceil_mode": True}


def test_pools() -> None:
    for shape in ((1, 3, 9, 8), (2, 17, 5, 6)):
        g = one("max_pool", shape, **WINDOW)
        assert_native(g, feeds(g), 0.0)
        for count in (True, False):
            g = one("avg_pool", shape, **WINDOW, count_include_pad=count)
            assert_native(g, feeds(g), 1e-6)
