"""One layer as a graph of its own: quantize → dequantize → layer → quantize → dequantize, on integers once it is compiled.

A module's integer function is that graph, lowered and run as any other: it has the bits that the layer has inside a network.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lowbit.dims import Dim, parse_dim
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower import lower
from lowbit.quant_params import PerBlock, QuantParams
from lowbit.runtime.session import Session
from lowbit.torch.params import version
from lowbit.torch.qtensor import QTensor
from lowbit.types import Array, TensorType

Given = QTensor | Tensor | None
F = TypeVar("F", bound=Callable[..., Any])


def opaque(f: F) -> F:
    """The function, which torch.compile calls and does not look into: sessions are compiled by lowbit, and run in its own code."""
    reason = "a quantized layer is compiled by lowbit, outside of torch's compiled code"
    hidden: F = torch.compiler.disable(f, reason=reason)  # type: ignore[no-untyped-call]
    return hidden


def dims(*names: str | int) -> tuple[Dim, ...]:
    """Sizes, and names for those that are open."""
    return tuple(n if isinstance(n, int) else parse_dim(n) for n in names)


def array(x: Tensor) -> Array:
    """The tensor's memory as a NumPy array."""
    return x.detach().cpu().numpy()


def constant(b: Builder, x: Given, name: str) -> Value | None:
    """A constant: integers behind a dequantize, or reals."""
    if x is None:
        return None
    if not isinstance(x, QTensor):
        return b.constant(np.array(array(x), np.float32), name)
    p = x.quant_params
    block = p.granularity.size if isinstance(p.granularity, PerBlock) else 0
    ints = b.constant(np.array(array(x.ints)), f"{name}:{p.dtype}", p.dtype)
    scale = b.constant(np.array(p.scale), f"{name}:scale")
    zero = b.constant(p.zero_point.astype(p.dtype.numpy), f"{name}:zero", p.dtype) if np.any(p.zero_point) else None
    return b.add("dequantize_linear", ints, scale, zero, axis=p.axis(x.dim()) or 0, block_size=block)


def bracket(b: Builder, value: Value, p: QuantParams | None) -> Value:
    """quantize → dequantize behind a value; the value itself where there are no parameters."""
    if p is None:
        return value
    scale, zero = np.array(p.scale), p.zero_point.astype(p.dtype.numpy)
    q = b.add("quantize_linear", value, b.constant(scale), b.constant(zero, "", p.dtype), axis=0, block_size=0, to=p.dtype.name)
    return b.add("dequantize_linear", q, b.constant(scale), b.constant(zero, "", p.dtype), axis=0, block_size=0)


def rows(b: Builder, value: Value) -> Value:
    """Quantized at run time, row by row."""
    ints, scale = b.add_node("quantize_rows", value)
    return b.add("dequantize_rows", ints, scale)


@dataclass(frozen=True)
class Layer:
    """An op with weights, what its input is (parameters, or "rows": quantized at run time), and what its result is (None: reals).

    ints   the input is given as integers of these parameters already
    """

    op: str
    shape: tuple[Dim, ...]
    weight: QTensor
    bias: Given = None
    input: QuantParams | str | None = None
    output: QuantParams | None = None
    ints: bool = False
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def graph(self, name: str = "layer") -> Graph:
        b = Builder(name)
        given = self.input
        if self.ints and isinstance(given, QuantParams):
            q = b.input("x", TensorType(self.shape, given.dtype))
            scale, zero = b.constant(np.array(given.scale)), b.constant(given.zero_point.astype(given.dtype.numpy), "", given.dtype)
            x = b.add("dequantize_linear", q, scale, zero, axis=0, block_size=0)
        else:
            x = b.input("x", TensorType(self.shape, "float32"))
            x = rows(b, x) if given == "rows" else bracket(b, x, given if isinstance(given, QuantParams) else None)
        y = b.add(self.op, x, constant(b, self.weight, "weight"), constant(b, self.bias, "bias"), name=name, **self.attrs)
        return b.finish({"y": bracket(b, y, self.output)})


def mark(x: Given) -> Any:
    """What is equal as long as a constant has the same numbers. Floats are biases, small enough to be compared by their bytes."""
    if x is None:
        return None
    if isinstance(x, QTensor):
        return tuple((id(t), version(t)) for t in (x._data, x._scale, x._zero_point))
    return array(x).tobytes()


@dataclass(frozen=True)
class _Made:
    """A session, the marks of the constants it was made from, and the integers, so that no others get their place in memory."""

    session: Session
    marks: tuple[Any, ...]
    kept: tuple[Tensor, ...]


class Compiled:
    """Sessions that are made when first needed, and again when a constant has changed. Copies begin empty: a session is no state."""

    LIMIT = 16  # the ones that were asked for last: parameters of activations and sizes of images may be as many as there are inputs

    def __init__(self) -> None:
        self._made: dict[Any, _Made] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Compiled:
        return Compiled()

    def __reduce__(self) -> Any:
        return Compiled, ()

    def __len__(self) -> int:
        return len(self._made)

    def clear(self) -> None:
        with self._lock:
            self._made.clear()

    @opaque
    def get(self, key: Any, graph: Any, constants: Iterable[Given]) -> Session:
        """The session of the graph that `graph()` gives, made from `constants`; once for each key while they stay what they are."""
        given = tuple(constants)
        marks = tuple(map(mark, given))
        with self._lock:
            found = self._made.pop(key, None)
            if found is None or found.marks != marks:
                kept = tuple(t for q in given if isinstance(q, QTensor) for t in (q._data, q._scale, q._zero_point))
                found = _Made(session(graph()), marks, kept)
            self._made[key] = found  # the last one now
            while len(self._made) > self.LIMIT:
                del self._made[next(iter(self._made))]
        return found.session


def session(graph: Graph) -> Session:
    """The graph on integers, with as many threads as torch has."""
    return Session(lower(graph).graph, threads=max(1, min(torch.get_num_threads(), os.cpu_count() or 1)))


@opaque
def run(made: Session, *xs: Tensor) -> Tensor:
    """The only output for tensors in the CPU's memory, which are not copied."""
    y = made(*[x.detach().contiguous().numpy() for x in xs])
    assert isinstance(y, np.ndarray)
    return torch.from_numpy(y)
