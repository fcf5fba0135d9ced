"""Checks that the `infer` of many ops shares, with one wording for each error; and the type of sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import DTypeError, ShapeError
from lowbit.types import Array, Shape, TensorType, shape_text


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are known to be different; a symbol may turn out to be equal to anything."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def wide(x: Array) -> Array:
    """16- and 8-bit floats as float32, in which sums over them are made; everything else as it is."""
    narrow = x.dtype.kind in "fV" and x.dtype.itemsize < 4
    return x.astype(np.float32) if narrow else x


Attrs = ParamSpec("Attrs")


def rounded_once(f: Callable[Concatenate[Array, Attrs], Array]) -> Callable[Concatenate[Array, Attrs], Array]:
    """The function, with all its steps on 16- and 8-bit floats made in float32: fp16 20000 may be squared on the way to its root."""

    @wraps(f)
    def real(x: Array, /, *args: Attrs.args, **attrs: Attrs.kwargs) -> Array:
        return np.asarray(f(wide(x), *args, **attrs)).astype(x.dtype, copy=False)

    return real


def same_dtype(**inputs: TensorType | None) -> None:
    """A DTypeError unless all inputs that are there have the same element type."""
    given = {k: t.dtype for k, t in inputs.items() if t is not None}
    if len(set(given.values())) > 1:
        raise DTypeError(", ".join(f"{k} is {d}" for k, d in given.items()) + ": one type is needed", hint="cast before")


def need_float(x: TensorType) -> None:
    if not x.dtype.is_float:
        raise DTypeError(f"{x.dtype} given, a float type needed", hint="cast it before")


def need_order(p: int) -> None:
    if p < 1:
        raise ShapeError(f"a norm of order {p} given, 1 or more needed")


def need_vector(what: str, t: TensorType | None, size: Dim) -> None:
    """A ShapeError unless the input is left out or has shape (size)."""
    if t is not None and (t.rank != 1 or differ(t.shape[0], size)):
        raise ShapeError(f"{what} {shape_text(t.shape)} given, ({size}) needed")


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether a shape can be repeated to fill the target; symbols may turn out to fit."""
    return len(shape) <= len(target) and not any(s != 1 and differ(s, t) for s, t in zip(reversed(shape), reversed(target), strict=False))
