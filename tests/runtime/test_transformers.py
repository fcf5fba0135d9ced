"""What transformers are made of runs natively with the interpreter's bits: attention, norms, softmax, products, lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_laws import ISAS, integer_graph, same

import lowbit
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType
from zoo import entry

RANGE = {"int8": (-128, 127), "int16": (-32768, 32767), "float32": (0, 0)}


def clamp(to: str, y_zero: int = 0) -> dict[str, Any]:
    lo, hi = RANGE[to]
    return {"y_zero": y_zero if to != "float32" else 0, "lo": lo, "hi": hi, "to": to}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Random integers, now and then only the extremes."""
    lo, hi = RANGE[dtype]
    extremes = rng.integers(0, 4) == 0
    values = rng.choice([lo, hi], shape) if extremes else rng.integers(lo, hi + 1, shape)
    return values.astype(dtype)


def expect_native(graph: Graph, feed: dict[str, Array], threads: tuple[int, ...] = (1, 3)) -> None:
    want = run(graph, feed)
    for isa in ISAS:
        for n in threads:
            session = Session(graph, isa=isa, threads=n)
            assert session.backend == "native"
            got = session.run(feed)
            assert all(want[k].tobytes() == got[k].tobytes() for k in want), (isa, n)


# -- networks -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vit", "transformer", "gpt"])
def test_transformers_of_8_bits_run_natively_as_a_whole(name: str) -> None:
    graph, x = integer_graph(name)
    want = run(graph, x)
    for threads in (1, 2, 3, 4):
        session = Session(graph, threads=threads)
        assert session.backend == "native" and same(want, session.run(x))


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_transformers_of_16_bits_run_natively_as_a_whole(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))
    expect_native(lower(lowbit.quantize(g, [x], rules=[CalibratedQuantRule(".*", "int16")])).graph, x, (1, 2))


def test_head_splits_are_strides_of_attention_and_not_copies() -> None:
    graph, x = integer_graph("gpt")
    rows = Session(graph, threads=1).profile(*x.values(), repeats=1).rows
    assert any(r.kernel.startswith("attention_s8") for r in rows) and not any(r.kernel.startswith("copy") for r in rows)


# -- attention ----------------------------------------------------------------------------------------------------------------


def attention_graph(
    lead: tuple[int, ...],
    rows: int,
    keys: int,
    features: int,
    values: int,
    dtype: str,
    mask: tuple[str, tuple[int, ...]] | None,
    **more: Any,
) -> Graph:
    b = Builder()
    top = 32768 if dtype == "int16" else 128
    q, k, v = (
        b.input(n, TensorType((*lead, *s), dtype)) for n, s in (("q", (rows, features)), ("k", (keys, features)), ("v", (keys, values)))
    )
    m = None if mask is None else b.input("mask", TensorType(mask[1], mask[0]))
    zeros = {"q_zero": 3, "k_zero": -7, "v_zero": 11} if dtype == "int8" else {"q_zero": 0, "k_zero": 0, "v_zero": 0}
    attrs = {
        "causal": False, "score_scale": 6.0 / (features * top * top), "multiplier": 1.1, **zeros, **clamp(dtype, 5),
        "bound": features * (2 * top) ** 2, "bound_per_key": (1 << 20) * 2 * top,
    }  # fmt: skip
    return b.finish({"y": b.add("q_attention", q, k, v, m, **{**attrs, **more})})


def attention_feed(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    feed = {}
    for v in graph.inputs:
        shape, kind = tuple(int(d) for d in v.shape), v.type.dtype.name
        if kind == "bool":
            feed[v.name] = rng.random(shape) < 0.7
        elif kind == "float32":
            mask = (rng.random(shape) * -3).astype(np.float32)
            mask[rng.random(shape) < 0.2] = np.float32(-np.inf)
            mask[rng.random(shape) < 0.05] = np.finfo(np.float32).min
            mask[rng.random(shape) < 0.02] = np.nan
            feed[v.name] = mask
        else:
            feed[v.name] = numbers(rng, shape, kind)
    return feed


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("lead", "rows", "keys", "features", "values"),
    [((1, 2), 5, 7, 8, 8), ((), 1, 1, 1, 1), ((3,), 16, 17, 33, 15), ((2, 3), 37, 64, 32, 32), ((2, 1, 2), 4, 31, 17, 49)]
    + [((1, 1), 130, 129, 64, 64), ((1,), 3, 300, 16, 5)],
)
def test_attention_of_every_size(dtype: str, causal: bool, lead: tuple[int, ...], rows: int, keys: int, features: int, values: int) -> None:
    for seed, to in enumerate(("int8", "int16", "float32")):
        g = attention_graph(lead, rows, keys, features, values, dtype, None, causal=causal, **clamp(to, 9))
        expect_native(g, attention_feed(g, seed))


@pytest.mark.parametrize("kind", ["bool", "float32"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 21), (2, 1, 1, 21), (1, 3, 18, 1), (18, 21), (2, 3, 18, 21), (3, 1, 21), (1,)])
def test_masks_of_every_kind(kind: str, shape: tuple[int, ...]) -> None:
    for dtype in ("int8", "int16"):
        for causal in (False, True):
            g = attention_graph((2, 3), 18, 21, 10, 12, dtype, (kind, shape), causal=causal)
            for seed in range(3):
                expect_native(g, attention_feed(g, seed), (1,))


def test_a_row_that_may_attend_to_nothing_gives_the_zero_point() -> None:
    g = attention_graph((1, 1), 5, 19, 8, 8, "int8", ("bool", (5, 19)))
    feed = attention_feed(g, 0)
    feed["mask"][2] = False
    assert np.all(Session(g).run(feed)["y"][0, 0, 2] == 5)
    expect_native(g, feed)


def test_operands_that_repeat_over_batches_and_heads() -> None:
    b = Builder()
    q = b.input("q", TensorType((2, 4, 9, 16), "int8"))
    k, v = (b.input(n, TensorType((2, 1, 12, 16), "int8")) for n in "kv")
    zeros = {"q_zero": 0, "k_zero": 1, "v_zero": 2}
    limits = {"bound": 1 << 20, "bound_per_key": (256 << 20)}
    y = b.add("q_attention", q, k, v, None, causal=False, score_scale=1e-4, multiplier=1.0, **zeros, **clamp("int8"), **limits)
    g = b.finish({"y": y})
    expect_native(g, attention_feed(g, 1))


# -- norms and softmax --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
def test_norms_of_every_kind(dtype: str, to: str) -> None:
    rng = np.random.default_rng(0)
    top = RANGE[to][1] or 1
    for seed, shape in enumerate([(2, 6, 5), (1, 4, 33), (3, 8, 16), (2, 2, 1), (1, 6, 97), (1, 2, 1030)]):
        b = Builder()
        x = b.input("x", TensorType(shape, dtype))
        common = {"eps": 0.013 if seed % 2 else 0.0, "x_zero": 0 if dtype == "int16" else 4, **clamp(to, -3)}

        def vector(n: int, name: str, b: Builder = b) -> Any:
            return b.constant((rng.normal(size=n) * top / 2).astype(np.float32), name=name)

        width, channels = shape[-1], shape[1]
        out = {
            "layer": b.add("q_layer_norm", x, vector(width, "g0"), vector(width, "o0"), axis=-1, **common),
            "plain": b.add("q_layer_norm", x, b.constant(np.float32(top / 3), name="g1"), axis=-1, **common),
            "rms": b.add("q_rms_norm", x, vector(width, "g2"), axis=-1, **common),
            "instance": b.add("q_instance_norm", x, vector(channels, "g3"), vector(channels, "o3"), **common),
            "group": b.add("q_group_norm", x, vector(channels, "g4"), vector(channels, "o4"), groups=2, **common),
            "batch": b.add(
                "q_batch_norm", x, vector(channels, "g5"), vector(channels, "o5"), **{k: v for k, v in common.items() if k != "eps"}
            ),
        }
        g = b.finish(out)
        for again in range(3):
            expect_native(g, {"x": numbers(np.random.default_rng(again), shape, dtype)}, (2,))
        expect_native(g, {"x": np.full(shape, 7, dtype)}, (1,))  # no variance: 0 × inf is NaN, which gives the zero point


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
def test_softmax_and_its_logarithm_along_every_axis(dtype: str, to: str) -> None:
    bits = 8 if dtype == "int8" else 16
    table = np.rint(2.0**23 * np.exp(-np.arange(1 << bits) * (6.0 / (1 << bits)))).astype(np.int32)
    for seed, shape in enumerate([(3, 5, 7), (1, 1, 40), (2, 33, 4), (4, 1, 1), (2, 3, 1000)]):
        b = Builder()
        x = b.input("x", TensorType(shape, dtype))
        t = b.constant(table, name="t")
        out = {}
        for axis in range(3):
            out[f"soft{axis}"] = b.add("q_softmax", x, t, axis=axis, multiplier=256.0, **clamp(to, -128))
            out[f"log{axis}"] = b.add("q_log_softmax", x, t, axis=axis, multiplier=0.3, y_scale=0.07, **clamp(to, 90))
        g = b.finish(out)
        expect_native(g, {"x": numbers(np.random.default_rng(seed), shape, dtype)})


# -- elementwise, sums, tables, lookups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["q_mul", "q_div"])
def test_products_and_quotients_of_every_width_broadcast(op: str) -> None:
    rng = np.random.default_rng(1)
    shapes = [((2, 3, 4, 5), (5,)), ((2, 37), (2, 1)), ((1, 4, 1), (2, 1, 7)), ((), (4,)), ((70,), (70,))]
    for left in ("int8", "int16"):
        for right in ("int8", "int16"):
            for to in ("int8", "int16", "float32"):
                for a, c in shapes:
                    b = Builder()
                    x, y = b.input("x", TensorType(a, left)), b.input("y", TensorType(c, right))
                    attrs = {"x_zero": 5, "y_zero": -7, "z_zero": 3 if to != "float32" else 0, "multiplier": 0.01 if op == "q_mul" else 9.0}
                    lo, hi = RANGE[to]
                    g = b.finish({"z": b.add(op, x, y, **attrs, lo=lo, hi=hi, to=to)})
                    feed = {"x": numbers(rng, a, left), "y": numbers(rng, c, right)}
                    if op == "q_div" and c:
                        feed["y"].reshape(-1)[0] = -7  # by zero
                    expect_native(g, feed, (1,))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_sums_and_means_over_every_run_of_axes(dtype: str) -> None:
    for axes in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2), (-1,)]:
        for to in ("int8", "int16", "float32"):
            b = Builder()
            x = b.input("x", TensorType((3, 11, 18), dtype))
            attrs = {"axes": axes, "keepdims": False, "x_zero": 2, "multiplier": 0.4, **clamp(to, 1)}
            g = b.finish({"sum": b.add("q_reduce_sum", x, **attrs), "mean": b.add("q_reduce_mean", x, **attrs)})
            expect_native(g, {"x": numbers(np.random.default_rng(0), (3, 11, 18), dtype)})


@pytest.mark.parametrize("to", ["int8", "int16"])
def test_tables_of_65536_entries(to: str) -> None:
    b = Builder()
    x = b.input("x", TensorType((3, 401), "int16"))
    table = np.random.default_rng(0).integers(*RANGE[to], 1 << 16).astype(to)
    g = b.finish({"y": b.add("q_table", x, b.constant(table, name="t"))})
    expect_native(g, {"x": numbers(np.random.default_rng(1), (3, 401), "int16")})


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "int64"])
def test_rows_by_index_along_every_axis(dtype: str, index: str) -> None:
    rng = np.random.default_rng(0)
    for axis in (0, 1, 2):
        b = Builder()
        x, i = b.input("x", TensorType((4, 5, 6), dtype)), b.input("i", TensorType((3, 2), index))
        g = b.finish({"y": b.add("gather", x, i, axis=axis), "z": b.add("gather", x, b.add("reshape", i, shape=(6,)), axis=axis)})
        feed = {"x": rng.integers(-100, 100, (4, 5, 6)).astype(dtype), "i": rng.integers(-4, 4, (3, 2)).astype(index)}
        expect_native(g, feed)


def test_an_index_outside_its_axis_is_the_error_of_the_interpreter() -> None:
    b = Builder()
    x, i = b.constant(np.arange(12, dtype=np.int8).reshape(4, 3), name="x"), b.input("i", TensorType((2,), "int64"))
    g = b.finish({"y": b.add("gather", x, i, axis=0, name="embed")})
    session = Session(g)
    assert session.backend == "native"
    for bad in (4, -5):
        feed = {"i": np.array([0, bad])}
        with pytest.raises(InputError, match=f"index {bad} is outside an axis of 4 elements") as native:
            session.run(feed)
        with pytest.raises(InputError) as interpreted:
            run(g, feed)
        assert str(native.value) == str(interpreted.value)


def test_indices_that_are_computed_are_looked_up_by_the_interpreter() -> None:
    b = Builder()
    x, i = b.input("x", TensorType((4, 3), "int8")), b.input("i", TensorType((5,), "int64"))
    index = b.add("argmax", b.add("cast", i, to="float32", saturate=True), axis=0, keepdims=True, select_last=False)
    g = b.finish({"y": b.add("gather", x, index, axis=0)})
    feed = {"x": np.arange(12, dtype=np.int8).reshape(4, 3), "i": np.array([1, 5, 9, 2, 0])}
    session = Session(g)
    assert session.backend == "native and interpreter" and same(run(g, feed), session.run(feed))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64"])
def test_casts_to_float(dtype: str) -> None:
    b = Builder()
    g = b.finish({"y": b.add("cast", b.input("x", TensorType((5, 9), dtype)), to="float32", saturate=True)})
    top = 2 if dtype == "bool" else np.iinfo(dtype).max
    expect_native(g, {"x": np.random.default_rng(0).integers(-top if top > 2 else 0, top, (5, 9)).astype(dtype)})
