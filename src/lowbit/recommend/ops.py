"""bench_ops: single operations by dtype, scheme, granularity and size, beside NumPy, torch and ONNX Runtime where they are installed."""

from __future__ import annotations

import importlib.util
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from lowbit.arguments import shown
from lowbit.blas import one_thread
from lowbit.errors import InputError
from lowbit.lower import lower
from lowbit.pipeline import quantize as quantize_graph
from lowbit.qarray import quantize_array
from lowbit.quant_params import Granularity, PerAxis, PerBlock, PerTensor
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, QuantRule
from lowbit.recommend.peers import peers
from lowbit.recommend.workload import Workload
from lowbit.runtime.session import Session
from lowbit.runtime.timing import least_in_turns, pinned
from lowbit.types import Array

OPS = ("quantize", "dequantize", "matmul", "linear", "conv")
SIZES = {
    "quantize": (1 << 14, 1 << 20),
    "dequantize": (1 << 14, 1 << 20),
    "matmul": (64, 256, 512),
    "linear": (256, 1024),
    "conv": (32, 64),
}
ROWS = 16  # of linear: a small batch
ENGINES = ("numpy", "torch", "ort")


@dataclass(frozen=True)
class OpRow:
    """One measurement. `ms` is the least, `nbytes` the operands as stored, `peak` the memory beyond them while it runs."""

    op: str
    engine: str
    dtype: str
    scheme: str
    granularity: str
    size: int
    ms: float
    nbytes: int
    peak: int

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        return asdict(self)


@dataclass(frozen=True)
class Way:
    """A way to do an operation, before it is measured."""

    engine: str
    dtype: str
    scheme: str
    granularity: str
    nbytes: int
    run: Callable[[], object]
    peak: int | None = None  # known beforehand: a session's arena


def bench_ops(ops: Sequence[str] | None = None, *, sizes: Sequence[int] | None = None, against: Sequence[str] | None = None) -> list[OpRow]:
    """How long operations take here, by dtype, scheme, granularity and size; all ways of one size take turns, on one thread.

    ops      of quantize, dequantize, matmul, linear, conv (all)
    sizes    elements of quantize and dequantize; the side of a square matmul or linear layer; channels of a conv on a 32 × 32 image
    against  numpy, torch, ort: those that are installed

    >>> sorted({row.engine for row in bench_ops(["matmul"], sizes=[16], against=["numpy"])})
    ['lowbit', 'numpy']
    """
    named = OPS if ops is None else tuple(ops) if not isinstance(ops, str) else (ops,)
    for op in named:
        if op not in OPS:
            raise InputError(f"there is no operation {shown(op)}", hint="one of " + ", ".join(OPS))
    for n in sizes or ():
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= 1 << 26:
            raise InputError(f"size {shown(n)}, a whole number from 1 to {1 << 26:,} is needed", hint="sizes=[64, 256]")
    engines = tuple(e for e in ENGINES if installed(e)) if against is None else tuple(against)
    for e in engines:
        if e not in ENGINES or not installed(e):
            said = "is not installed" if e in ENGINES else "is not known"
            raise InputError(f"{e!r} {said}", where="against", hint="of " + ", ".join(x for x in ENGINES if installed(x)))
    rows = []
    for op in named:
        for n in map(int, sizes or SIZES[op]):
            ways = [*own(op, n), *peers(op, n, engines)]
            with pinned(1), one_thread():
                times = least_in_turns([w.run for w in ways])
            rows += [
                OpRow(op, w.engine, w.dtype, w.scheme, w.granularity, n, ms, w.nbytes, peak_of(w))
                for w, ms in zip(ways, times, strict=True)
            ]
    return rows


def installed(engine: str) -> bool:
    return importlib.util.find_spec({"ort": "onnxruntime"}.get(engine, engine)) is not None


def peak_of(way: Way) -> int:
    """Bytes that a run takes beyond its operands: a session's arena, else what NumPy's allocator saw."""
    if way.peak is not None:
        return way.peak
    tracemalloc.start()
    try:
        way.run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def own(op: str, n: int) -> Iterator[Way]:
    """lowbit's ways."""
    if op in ("quantize", "dequantize"):
        yield from arrays(op, n)
    elif op == "matmul":
        yield from products(n)
    else:
        yield from sessions(op, n)


ARRAYS: tuple[tuple[str, Any, Callable[[int], Granularity]], ...] = (
    ("int8", "symmetric", lambda n: PerTensor()),
    ("int8", "asymmetric", lambda n: PerTensor()),
    ("int8", "symmetric", lambda n: PerAxis(0)),
    ("int8", "symmetric", lambda n: PerBlock(1, 32)),
    ("uint8", "asymmetric", lambda n: PerTensor()),
    ("int4", "symmetric", lambda n: PerTensor()),
    ("int4", "symmetric", lambda n: PerBlock(1, 32)),
    ("int16", "symmetric", lambda n: PerTensor()),
)


def words(g: Granularity) -> str:
    return {PerTensor: "tensor", PerAxis: "axis", PerBlock: "block"}[type(g)]


def arrays(op: str, n: int) -> Iterator[Way]:
    columns = 64 if n % 64 == 0 else 1
    x = numbers(n // columns, columns)
    for dtype, scheme, granularity in ARRAYS:
        g = granularity(n)
        q = quantize_array(x, dtype, scheme=scheme, granularity=g)
        run = partial(quantize_array, x, params=q.quant_params) if op == "quantize" else q.dequantize
        yield Way("lowbit", dtype, scheme, words(g), x.nbytes if op == "quantize" else q.nbytes, run)


def products(n: int) -> Iterator[Way]:
    a, b = numbers(n, n), numbers(n, n) + 1
    for left, right, g in (
        ("int8", "int8", PerTensor()), ("uint8", "int8", PerTensor()), ("int16", "int16", PerTensor()), ("int8", "int8", PerAxis(1)),
        ("int8", "int4", PerTensor()), ("int8", "int4", PerBlock(0, 32)), ("binary", "binary", PerTensor()),
    ):  # fmt: skip
        qa, qb = quantize_array(a, left), quantize_array(b, right, granularity=g)
        yield Way("lowbit", f"{left} × {right}", qb.quant_params.scheme, words(g), qa.nbytes + qb.nbytes, partial(qa.matmul, qb))


def sessions(op: str, n: int) -> Iterator[Way]:
    shape = (n, n) if op == "linear" else (n, 32, 32, n, 3)
    graph = Workload(op, shape).graph()
    x = numbers(ROWS, n) if op == "linear" else numbers(1, n, 32, 32)
    rules: list[tuple[str, str, str, QuantRule | None]] = [
        ("float32", "none", "none", None),
        ("int8 × int8", "asymmetric", "channel", CalibratedQuantRule(".*")),
        ("int8 × int8", "asymmetric", "tensor", CalibratedQuantRule(".*", granularity="tensor")),
        ("int8 × int4", "asymmetric", "channel", CalibratedQuantRule(".*", "int8", "int4")),
        ("int16 × int8", "symmetric", "channel", CalibratedQuantRule(".*", "int16")),
    ]
    if op == "linear":
        rules += [
            ("int8 by rows × int8", "symmetric", "channel", DynamicQuantRule(".*")),
            ("int8 × int4", "asymmetric", "block", CalibratedQuantRule(".*", "int8", "int4", 32)),
        ]
    for dtype, scheme, granularity, rule in rules:
        made = graph if rule is None else lower(quantize_graph(graph, [{"x": x}], rules=[rule])).graph
        session = Session(made, threads=1)
        yield Way("lowbit", dtype, scheme, granularity, made.parameter_bytes, partial(session.run, {"x": x}), session.arena_bytes(x))
