"""Batches in slices: the same bits as all at once, in the memory of a slice; only where no row knows of another."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_networks import inputs, network

import lowbit
from lowbit import _native
from lowbit.dims import Dim, symbol
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.plan import batch as batches
from lowbit.plan.batch import LEAST, WASTE, batch_symbol, rows_at_once
from lowbit.runtime.program import Native
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

BATCH = symbol("batch")


def floats(batch: Dim) -> Graph:
    """Convolutions and a head, in floats."""
    b, rng = Builder("floats"), np.random.default_rng(3)

    def weights(*shape: int) -> Value:
        return b.constant(rng.normal(0, 0.2, shape).astype(np.float32))

    window = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
    x = b.input("x", TensorType((batch, 3, 9, 7), "float32"))
    y = b.add("relu", b.add("conv", x, weights(10, 3, 3, 3), weights(10), **window, groups=1))
    y = b.add("add", y, b.add("conv", y, weights(10, 1, 3, 3), **window, groups=10))
    y = b.add("reduce_mean", y, axes=(2, 3), keepdims=False)
    return b.finish({"y": b.add("softmax", b.add("linear", y, weights(5, 10)), axis=1)})


def slices(session: Session) -> list[int]:
    return [part.slices for p in session._programs.values() for part in p.parts if isinstance(part, Native)]


@pytest.mark.parametrize("make", [network, floats])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [16, 17, 33, 64])
def test_slices_give_the_bits_of_the_whole_batch_and_need_less_memory(
    make: Any, threads: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(BATCH)
    x = inputs(bind(graph, {"batch": rows}))
    whole = Session(graph, threads=threads)
    want, arena = whole.run(x), whole.arena_bytes(*x.values())
    assert slices(whole) == [1]
    monkeypatch.setattr("lowbit.runtime.session.rows_at_once", lambda rows, *_: rows // 5)
    session = Session(graph, threads=threads)
    out = {k: np.full_like(v, 7) for k, v in want.items()}
    for got in (session.run(x), session.run(x, out=out), dict(zip(want, several(session(*x.values())), strict=True))):
        assert all(np.array_equal(want[k], got[k]) for k in want)
    assert slices(session) == [-(-rows // (rows // 5))] and session.arena_bytes(*x.values()) < arena / 2
    turned = {k: np.asfortranarray(v) for k, v in x.items()}
    assert all(np.array_equal(want[k], v) for k, v in session.run(turned).items())


def several(found: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_a_profile_counts_every_slice() -> None:
    graph = floats(BATCH)
    small, large = (Session(graph, threads=1) for _ in range(2))
    counted = []
    for session, rows in ((small, 4), (large, 4000)):
        x = inputs(bind(graph, {"batch": rows}))
        profile = session.profile(*x.values(), repeats=1)
        counted.append([r.macs / rows for r in profile.rows])
        assert all(r.ms > 0 for r in profile.rows)
    assert slices(large)[0] > 1
    assert counted[0] == pytest.approx(counted[1], rel=1 / WASTE) and sum(counted[0]) > 0


def one(op: str, given: tuple[Dim, ...] = (BATCH, 4, 6), rest: tuple[Array, ...] = (), **attrs: Any) -> Graph:
    b = Builder()
    x = b.input("x", TensorType(given, "float32"))
    return b.finish({"y": b.add(op, x, *(b.constant(r) for r in rest), **attrs)})


def made(*build: Any) -> Graph:
    """A graph of x, in steps that take the builder and the value before."""
    b = Builder()
    y = b.input("x", TensorType((BATCH, 4, 6), "float32"))
    for step in build:
        y = step(b, y)
    return b.finish({"y": y})


CONSTANT = np.linspace(-1, 1, 24, dtype=np.float32)
APART = {
    "relu": one("relu"),
    "softmax": one("softmax", axis=-1),
    "argmax": one("argmax", axis=1, keepdims=False),
    "reduce": one("reduce_mean", axes=(1, -1), keepdims=False),
    "transpose": one("transpose", perm=(0, 2, 1)),
    "reshape": one("reshape", shape=(BATCH, 24)),
    "slice": one("slice", axes=(1,), starts=(1,), ends=(3,), steps=(1,)),
    "pad": one("pad", pads=(0, 1, 2, 0, 1, 0), mode="constant", value=2.0),
    "linear": one("linear", rest=(CONSTANT.reshape(4, 6),)),
    "add a row": one("add", rest=(CONSTANT.reshape(1, 4, 6),)),
    "multiply by a vector": one("mul", rest=(CONSTANT[:6],)),
    "layer norm": one("layer_norm", rest=(CONSTANT[:6], CONSTANT[:6]), axis=-1, eps=1e-5),
    "concat with itself": made(lambda b, x: b.add("concat", x, b.add("relu", x), axis=1)),
    "add itself": made(lambda b, x: b.add("add", x, b.add("neg", x))),
    "split": made(lambda b, x: b.add("split", x, axis=1, sizes=(1, 3))),
}
TOGETHER = {
    "softmax over rows": one("softmax", axis=0),
    "mean of rows, spread again": made(
        lambda b, x: b.add("reduce_mean", x, axes=(0,), keepdims=True), lambda b, m: b.add("add", m, b._inputs[0])
    ),
    "flip": one("flip", axes=(0,)),
    "roll": one("roll", shifts=(1,), axes=(0,)),
    "cumsum": one("cumsum", axis=0),
    "transpose there and back": made(
        lambda b, x: b.add("transpose", x, perm=(1, 0, 2)),
        lambda b, x: b.add("softmax", x, axis=1),
        lambda b, x: b.add("transpose", x, perm=(1, 0, 2)),
    ),
    "reshape across rows": made(
        lambda b, x: b.add("reshape", x, shape=(4, BATCH, 6)), lambda b, x: b.add("reshape", x, shape=(BATCH, 4, 6))
    ),
    "times the number of rows": made(
        lambda b, x: b.add("mul", x, b.add("cast", b.add("dims", values=(BATCH,), shape=()), to="float32")),
    ),
    "reduce": one("reduce_sum", axes=(0,), keepdims=False),
    "rows are the last axis": one("relu", (4, BATCH)),
    "a number of rows": one("relu", (8, 4)),
    "twice the rows": one("relu", (BATCH * 2, 4)),
    "dynamic range of all": made(
        lambda b, x: b.add("mul", x, b.add("reduce_max", x, axes=(0, 1, 2), keepdims=True)),
    ),
}


@pytest.mark.parametrize("name", APART)
def test_rows_of_such_graphs_are_computed_apart(name: str) -> None:
    graph = APART[name]
    assert batch_symbol(graph) == "batch"
    x = inputs(bind(graph, {"batch": 5}))["x"]
    whole = run(bind(graph, {"batch": 5}), {"x": x})
    part = run(bind(graph, {"batch": 2}), {"x": x[3:]})
    assert all(np.array_equal(whole[k][3:], part[k]) for k in whole)


@pytest.mark.parametrize("name", TOGETHER)
def test_graphs_whose_rows_may_know_of_each_other_are_run_whole(name: str) -> None:
    assert batch_symbol(TOGETHER[name]) is None


def test_quantized_networks_have_rows_apart() -> None:
    assert batch_symbol(network(BATCH)) == batch_symbol(floats(BATCH)) == "batch"


@given(st.integers(1, 500), st.integers(0, 1 << 28), st.integers(0, 1 << 24), st.integers(1, 8))
def test_a_slice_fits_twice_its_share_at_most_and_hardly_any_row_is_done_twice(rows: int, arena: int, constants: int, threads: int) -> None:
    found = rows_at_once(rows, arena, constants, threads)
    limit = max(batches.SLICE * threads, constants)
    assert 1 <= found <= rows
    if found < rows:
        assert arena > limit and found >= LEAST
        assert found <= 2 * LEAST or arena * found <= 2 * rows * limit
        assert (-(-rows // found) * found - rows) * WASTE <= rows


@pytest.mark.parametrize("rows", [-1, 5])
def test_slices_larger_than_the_arrays_are_refused(rows: int) -> None:
    spec = ("f", 4, (4, 2))
    with pytest.raises(ValueError, match=f"slices of {rows} rows"):
        _native.Plan((), (spec,), (spec,), 0, 0, 1, rows, np.ndarray, None)


def test_arrays_with_different_numbers_of_rows_have_no_slices() -> None:
    with pytest.raises(ValueError, match="slices of 2 rows"):
        _native.Plan((), (("f", 4, (4, 2)),), (("f", 4, (6, 2)),), 0, 0, 1, 2, np.ndarray, None)


def test_compiled_networks_run_large_batches_in_slices() -> None:
    session = lowbit.compile(floats(BATCH), threads=1)
    session(np.zeros((4000, 3, 9, 7), np.float32))
    assert slices(session)[0] > 1 and session.backend == "native"


LONG = """
import signal, time
import numpy as np
from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.runtime import session as sessions
from lowbit.types import TensorType

b = Builder()
x = b.input("x", TensorType((symbol("batch"), 256), "int8"))
w = b.constant(np.ones((256, 256), np.int8))
m = b.constant(np.full(256, 1e-2, np.float32))
g = b.finish({"y": b.add("q_linear", x, w, m, x_zero=0, y_zero=0, lo=-128, hi=127, to="int8", bound=1 << 24)})
sessions.rows_at_once = lambda batch, *_: min(batch, 64)
session = sessions.Session(g, threads=1, isa="ref")
x, out = np.ones((1 << 16, 256), np.int8), np.zeros((1 << 16, 256), np.int8)

def enough(*_):
    raise KeyboardInterrupt

session(x[:128], out=out[:128])
assert out[127].all()
session.run({"x": x[:256]})
signal.signal(signal.SIGALRM, enough)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    session(x, out=out)
except KeyboardInterrupt:
    assert out[255].all() and not out[-1].any()
    print("interrupted")
"""


def test_a_long_batch_ends_between_slices_when_it_is_interrupted() -> None:
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
