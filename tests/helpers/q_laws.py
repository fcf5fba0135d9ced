"""What the tests of integer ops share: one op between brackets, as a Q/DQ graph and lowered, on the same integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.lower.integer import Lowered
from lowbit.quant_params import PerAxis, PerTensor, QuantParams
from lowbit.types import Array, TensorType

ACTIVATIONS = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class Side:
    """A quantized operand: an input of the graph, or a constant."""

    ints: Array
    params: QuantParams
    constant: bool = False

    @property
    def reals(self) -> Array:
        """Its exact values in float64."""
        s, z = self.params.expand(self.ints.shape)
        return s.astype(np.float64) * (self.ints.astype(np.int64) - z)


def params(d: str, scale: float = 0.05, zero: int | None = None) -> QuantParams:
    return QuantParams(d, np.float32(scale), zero)


def side(rng: np.random.Generator, shape: Sequence[int], d: str = "int8", scale: float = 0.05, zero: int | None = None) -> Side:
    """Integers over the whole range of the dtype, its ends among them."""
    p = params(d, scale, zero)
    lo, hi = p.code_range
    ints = rng.integers(lo, hi, shape, endpoint=True).astype(dtype(d).numpy)
    if ints.size > 1:
        ints.reshape(-1)[[0, -1]] = lo, hi
    return Side(ints, p)


def weight(rng: np.random.Generator, shape: Sequence[int], axis: int | None, d: str = "int8") -> Side:
    n = 1 if axis is None else shape[axis]
    scales = rng.uniform(0.001, 0.02, n).astype(np.float32)
    top = int(dtype(d).max or 0)
    ints = rng.integers(-top, top, shape, endpoint=True).astype(dtype(d).numpy)
    return Side(
        ints, QuantParams(d, scales[0] if axis is None else scales, None, None, PerTensor() if axis is None else PerAxis(axis)), True
    )


def bracket(b: Builder, op: str, value: Value, p: QuantParams, **attrs: Any) -> Value:
    scale = b.constant(np.asarray(p.scale))
    zero = b.constant(p.zero_point.astype(p.dtype.numpy), dtype=p.dtype) if np.any(p.zero_point) or op == "quantize_linear" else None
    return b.add(op, value, scale, zero, axis=p.axis(value.type.rank) or 0, block_size=0, **attrs)


def bracketed(
    op: str,
    sides: Sequence[Side | Array | None],
    results: Sequence[QuantParams | None],
    *,
    clip: Any = None,
    batch: str | None = None,
    **attrs: Any,
) -> Graph:
    """dequantize → op (→ relu or clip) → quantize. Inputs x0, x1 … are integers (arrays: constants), outputs y0, y1 …

    `batch` makes the first dimension of each input a symbol.
    """
    b = Builder()
    values: list[Value | None] = []
    for i, s in enumerate(sides):
        if not isinstance(s, Side):
            values.append(None if s is None else b.constant(s))
            continue
        if s.constant:
            ints = b.constant(s.ints, dtype=s.params.dtype)
        else:
            shape = (symbol(batch), *s.ints.shape[1:]) if batch else s.ints.shape
            ints = b.input(f"x{i}", TensorType(shape, s.params.dtype))
        values.append(bracket(b, "dequantize_linear", ints, s.params))
    outs = list(b.add_node(op, *values, name="layer", **attrs))
    if clip is not None:
        outs[0] = b.add(clip[0], outs[0], **clip[1])
    ends = {
        f"y{i}": o if p is None else bracket(b, "quantize_linear", o, p, to=p.dtype.name)
        for i, (o, p) in enumerate(zip(outs, results, strict=True))
    }
    return verify(b.finish(ends))


def lowered(graph: Graph) -> Graph:
    """The integer graph, without islands and without brackets inside."""
    done: Lowered = lower(graph)
    assert done.islands == ()
    return verify(done.graph)


def ops_of(graph: Graph) -> list[str]:
    """Its ops in order, but for the shifts of integers that are given or taken unsigned."""
    unsigned = {"uint8", "uint16"}
    return [n.op for n in graph.nodes if not (n.op == "requantize" and unsigned & {v.type.dtype.name for v in (*n.inputs, n.output) if v})]


def inputs(sides: Sequence[Side | Array | None]) -> dict[str, Array]:
    return {f"x{i}": s.ints for i, s in enumerate(sides) if isinstance(s, Side) and not s.constant}


def both(op: str, sides: Sequence[Side | Array | None], result: QuantParams | None, **attrs: Any) -> tuple[Array, Array]:
    """The result by float arithmetic between brackets, and by integers, both as int64 (float where the result stays float)."""
    graph = bracketed(op, sides, [result], **attrs)
    fake, exact = (run(g, inputs(sides))["y0"] for g in (graph, lowered(graph)))
    assert fake.dtype == exact.dtype and fake.shape == exact.shape
    return (fake, exact) if result is None else (fake.astype(np.int64), exact.astype(np.int64))


def off_by(op: str, sides: Sequence[Side | Array | None], result: QuantParams | None, **attrs: Any) -> int:
    """The largest difference between the two."""
    fake, exact = both(op, sides, result, **attrs)
    return int(np.abs(fake - exact).max(initial=0))


def the_node(graph: Graph, op: str) -> Node:
    (node,) = [n for n in graph.nodes if n.op == op]
    return node


def rounded(t: Array, p: QuantParams) -> Array:
    """clamp(rne(t) + zero point) of float32 or float64, NaN giving the zero point."""
    z = int(p.zero_point)
    lo, hi = p.code_range
    return np.nan_to_num(np.clip(np.rint(t.astype(np.float64)), lo - z, hi - z), nan=0.0).astype(np.int64) + z
