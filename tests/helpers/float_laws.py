"""Graphs of one float op, and the native session compared with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

ISAS = [isa for isa in native.isas() if all(k.available for k in native.kernels() if k.isa == isa)]


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
