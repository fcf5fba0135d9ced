"""Tensors made from nothing: filled, counted, identity. Their shapes may be symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Sym
from lowbit.dtypes import DType
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, Number, aten
from lowbit.ir.graph import Value


def filled(c: Importer, value: Number) -> Value:
    if isinstance(value, Sym):
        return c.expand(c.tensor(value, c.dtype()), c.shape())
    return c.add("fill", shape=c.shape(), value=exactly(value, c.dtype()), dtype=c.dtype().name)


def exactly(value: Any, dtype: DType) -> float | int | bool:
    """The number as an element of that dtype would hold it."""
    kind = bool if dtype.kind == "bool" else int if dtype.is_integer else float
    return kind(value)


@aten("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_permuted")
def zeros(c: Importer, *_: Any, **__: Any) -> Value:
    """Zeros; also for `empty`, whose content must not be read before it is written."""
    return filled(c, 0)


@aten("ones", "ones_like", "new_ones")
def ones(c: Importer, *_: Any, **__: Any) -> Value:
    return filled(c, 1)


@aten("full", "full_like", "new_full")
def full(c: Importer, _: Any, *args: Any, **__: Any) -> Value:
    value = args[-1]
    return c.expand(c.cast(value, c.dtype()), c.shape()) if isinstance(value, Value) else filled(c, value)


@aten("fill")
def fill(c: Importer, x: Value, value: Any) -> Value:
    return full(c, x, value)


@aten("scalar_tensor")
def scalar_tensor(c: Importer, value: Number, **_: Any) -> Value:
    return filled(c, value)


@aten("arange")
def arange(c: Importer, *args: Number, **_: Any) -> Value:
    start, limit, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
    number = float if c.dtype().is_float else int
    bounds = [a if isinstance(a, Sym) else number(a) for a in (start, limit, step)]
    if any(isinstance(b, Sym) for b in bounds) and c.dtype().is_float:  # counted in integers: sizes are
        counted = c.add("range", start=start, limit=limit, step=step, dtype="int64")
        return c.cast(counted, c.dtype())
    return c.add("range", start=bounds[0], limit=bounds[1], step=bounds[2], dtype=c.dtype().name)


@aten("linspace")
def linspace(c: Importer, start: float, end: float, steps: int, **_: Any) -> Value:
    import torch

    if isinstance(start, Value) or isinstance(end, Value) or isinstance(steps, Sym):
        raise UnsupportedOp("linspace between values computed at run time is not supported")
    data = torch.linspace(start, end, steps, dtype=getattr(torch, c.dtype().name))
    return c.constant(data.numpy(), dtype=c.dtype())


@aten("eye")
def eye(c: Importer, *_: Any, **__: Any) -> Value:
    rows, cols = c.shape()
    return c.add("eye", rows=rows, cols=cols, k=0, dtype=c.dtype().name)


@aten("tril_indices", "triu_indices")
def triangle_indices(c: Importer, rows: int, cols: int, offset: int = 0, **_: Any) -> Value:
    pick = np.tril_indices if "tril" in str(c.node.target) else np.triu_indices
    return c.constant(np.stack(pick(rows, offset, cols)).astype(c.dtype().numpy))


@aten(
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "randint",
    "randint_like",
    "bernoulli",
    "multinomial",
    "normal",
    "uniform",
    "randperm",
    "native_dropout",
)
def random(c: Importer, *_: Any, **__: Any) -> Value:
    raise UnsupportedOp("it draws random numbers; the same input must give the same output", hint="pass the random numbers in as an input")
