"""One layer as a graph of its own: quantize → dequantize → layer → quantize → dequantize, on integers once it is compiled.

A module's integer function is that graph, lowered and run as any other: it has the bits that the layer has inside a network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowbit.dims import Dim, parse_dim
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower import lower
from lowbit.quant_params import PerBlock, QuantParams
from lowbit.runtime.session import Session
from lowbit.torch.qtensor import QTensor
from lowbit.types import Array, TensorType

Given = QTensor | Tensor | None


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


class Compiled:
    """Sessions that are made when first needed. Copies begin empty: a session is no state."""

    def __init__(self) -> None:
        self._made: dict[Any, Session] = {}

    def __deepcopy__(self, memo: Any) -> Compiled:
        return Compiled()

    def __reduce__(self) -> Any:
        return Compiled, ()

    def clear(self) -> None:
        self._made.clear()

    def get(self, key: Any, graph: Any) -> Session:
        """The session of the graph that `graph()` gives; once for each key."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = session(graph())
        return found


def session(graph: Graph) -> Session:
    """The graph on integers, with as many threads as torch has."""
    return Session(lower(graph).graph, threads=max(1, min(torch.get_num_threads(), os.cpu_count() or 1)))


def run(made: Session, *xs: Tensor) -> Tensor:
    """The only output for tensors in the CPU's memory, which are not copied."""
    y = made(*[x.detach().contiguous().numpy() for x in xs])
    assert isinstance(y, np.ndarray)
    return torch.from_numpy(y)
