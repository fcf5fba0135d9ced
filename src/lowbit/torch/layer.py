"""One layer as a graph of its own: quantize → dequantize → layer → quantize → dequantize, on integers once it is compiled.

A module's integer function is that graph, lowered and run as any other: it has the bits that the layer has inside a network.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from lowbit.dims import Dim, parse_dim
from lowbit.errors import DTypeError, InputError, LowbitError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.lower import lower
from lowbit.quant_params import PerBlock, QuantParams
from lowbit.runtime.session import Session
from lowbit.torch.params import version
from lowbit.torch.qtensor import QTensor
from lowbit.torch.watch import parts
from lowbit.types import Array, TensorType

Given = QTensor | Tensor | None
F = TypeVar("F", bound=Callable[..., Any])


def opaque(f: F) -> F:
    """The function, which torch.compile calls and does not look into: sessions are compiled by lowbit, and run in its own code."""
    reason = "a quantized layer is compiled by lowbit, outside of torch's compiled code"
    hidden: F = torch.compiler.disable(f, reason=reason)  # type: ignore[no-untyped-call]

    @wraps(f)
    def call(*args: Any) -> Any:
        return hidden(*args) if torch.compiler.is_compiling() else f(*args)  # disable's own wrapper takes 5 µs

    return cast(F, call)


def dims(*names: str | int) -> tuple[Dim, ...]:
    """Sizes, and names for those that are open."""
    return tuple(n if isinstance(n, int) else parse_dim(n) for n in names)


def array(x: Tensor) -> Array:
    """The tensor's memory as a NumPy array."""
    return x.detach().cpu().numpy()


def constant(b: Builder, x: Given, name: str) -> Value | None:
    """A constant: integers and a dequantize, or reals."""
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
    """quantize → dequantize after a value; the value itself where there are no parameters."""
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


def mark(x: QTensor | Tensor) -> Any:
    """What is equal as long as a constant has the same numbers. Floats are biases, small enough to be compared by their bytes; on
    another device that would wait for it in every call, so there they are what was written last, if torch counts that."""
    if isinstance(x, QTensor):
        data = x._data  # copy_ into a QTensor writes all of it
        return id(data), version(data)
    if x.device.type != "cpu" and not x.is_inference():
        return id(x), version(x), x.data_ptr()
    return x.detach().cpu().numpy().tobytes()


@dataclass(frozen=True)
class _Made:
    """A session, the marks of the constants it was made from, and their tensors, so that no others get their place in memory."""

    session: Session
    marks: list[Any]
    kept: tuple[Tensor, ...]


class Compiled:
    """Sessions that are made when first needed, and again when a constant has changed. Copies begin empty: a session is no state."""

    LIMIT = 16  # the ones that were asked for last: parameters of activations and sizes of images may be as many as there are inputs

    def __init__(self) -> None:
        self._made: dict[Any, _Made] = {}
        self._last: tuple[Any, _Made] | None = None  # the one that was asked for last, found without the lock
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
            self._last = None

    @opaque
    def get(self, key: Any, graph: Any, constants: Iterable[Given]) -> Session:
        """The session of the graph that `graph()` gives, made from `constants`; once for each key while they stay what they are."""
        return self._get(key, graph, constants)

    @opaque
    def run(self, key: Any, graph: Any, constants: Iterable[Given], x: Tensor) -> Tensor:
        """Its only output for one tensor in the CPU's memory, which is not copied."""
        given = plain(x)
        return torch.from_numpy(self._get(key, graph, constants)(given))

    @opaque
    def lowered(self, graph: Any, constants: Iterable[Given]) -> Graph:
        """The graph that the session of `graph()` runs, for other devices; the same object while the constants do not change."""
        return self._get("graph", graph, constants).graph

    def _get(self, key: Any, graph: Any, constants: Iterable[Given]) -> Session:
        given = tuple(constants)
        marks = [None if x is None else mark(x) for x in given]
        last = self._last
        if last is not None and last[0] == key and last[1].marks == marks:
            return last[1].session
        with self._lock:
            found = self._made.pop(key, None)
            if found is None or found.marks != marks:
                kept = tuple(t for x in given for t in parts(x))
                found = _Made(session(graph()), marks, kept)
            self._made[key] = found  # the last one now
            self._last = key, found
            while len(self._made) > self.LIMIT:
                del self._made[next(iter(self._made))]
        return found.session


def plain(x: Tensor) -> Array:
    """A tensor's memory for a session, which has none of torch's dtypes of its own and is no operation that torch could look into."""
    if x.dtype == torch.float64:
        raise DTypeError("torch.float64 given, a quantized layer takes float32, float16 and bfloat16", hint="x.float()")
    try:
        return x.detach().contiguous().numpy()
    except RuntimeError as e:
        raise not_plain(x) from e


def not_plain(x: Tensor) -> LowbitError:
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        said, hint = (
            "torch.func's transforms (vmap, grad, jvp) do not reach into a layer on integers",
            "model.train(), or dequantize_(model)",
        )
        return InputError(said, hint=f"{hint}: floats with the same weights")
    hint = "lowbit.load(model) is its graph: for lowbit.compile, emit_c, export_onnx"
    return InputError(f"a {type(x).__name__} has no numbers: torch.export cannot look into a layer on integers", hint=hint)


def session(graph: Graph) -> Session:
    """The graph on integers, with as many threads as torch has."""
    return Session(lower(graph).graph, threads=max(1, min(torch.get_num_threads(), os.cpu_count() or 1)))


@opaque
def run(made: Session, *xs: Tensor) -> Tensor:
    """The only output for tensors in the CPU's memory, which are not copied."""
    y = made(*[plain(x) for x in xs])
    return torch.from_numpy(y)
