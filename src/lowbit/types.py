"""The type of a tensor: its shape (ints or symbols) and its element type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.assumptions import note
from lowbit.dims import Dim, Sym, product, symbols
from lowbit.dtypes import DType, dtype
from lowbit.errors import ShapeError

Array = NDArray[Any]
Shape = tuple[Dim, ...]
MAX_RANK = 32  # of every NumPy; no network comes near it


@dataclass(frozen=True)
class TensorType:
    """Shape and element type. What integers stand for is said by the nodes around them (see ARCHITECTURE.md).

    >>> print(TensorType((1, 3, 224, 224), "float32"))
    float32[1, 3, 224, 224]
    """

    shape: Shape
    dtype: DType

    def __init__(self, shape: Sequence[Dim], dtype_: str | DType | np.dtype[Any]) -> None:
        object.__setattr__(self, "shape", tuple(d if isinstance(d, Sym) else int(d) for d in shape))
        object.__setattr__(self, "dtype", dtype(dtype_))
        if len(self.shape) > MAX_RANK:
            raise ShapeError(f"rank {len(self.shape)} given, {MAX_RANK} is the most")
        for d in self.shape:
            if isinstance(d, int) and d < 0:
                raise ShapeError(f"shape {shape_text(self.shape)} has a negative dimension")

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes when packed; needs a shape without symbols."""
        return self.dtype.nbytes(int(self.size))

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of open dimensions."""
        return frozenset().union(*(symbols(d) for d in self.shape))

    def with_shape(self, shape: Sequence[Dim]) -> TensorType:
        """The same dtype in another shape."""
        return TensorType(shape, self.dtype)

    def with_dtype(self, d: str | DType) -> TensorType:
        """The same shape with other elements."""
        return TensorType(self.shape, d)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def type_of(x: Array) -> TensorType:
    return TensorType(x.shape, x.dtype)


def shape_text(shape: Iterable[Dim]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def broadcast(*shapes: Shape) -> Shape:
    """The NumPy broadcast of the shapes. A symbol that meets a number or the symbol before it is taken to be 1 or equal to it.

    Of two symbols that is noted, and checked when they are bound: a network may fit some sizes only, e.g. heights divisible by 32.

    >>> broadcast((4, 1, 3), (5, 1))
    (4, 5, 3)
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for i in range(rank):
        dims = [s[len(s) - rank + i] for s in shapes if len(s) - rank + i >= 0]
        wide = [d for d in dims if d != 1]
        fixed = [d for d in wide if isinstance(d, int)] or wide[:1]
        if any(d != fixed[0] for d in fixed):
            raise ShapeError("shapes " + " and ".join(shape_text(s) for s in shapes) + " do not broadcast")
        for d in wide:
            if isinstance(fixed[0], Sym) and d != fixed[0]:
                note("fits", d, fixed[0])
        out.append(fixed[0] if fixed else 1)
    return tuple(out)


def axis_of(axis: int, shape: Shape) -> int:
    """The axis counted from the front, of a shape that has one: a scalar has none."""
    if not shape:
        raise ShapeError("a scalar has no axes")
    return normalize_axis(axis, len(shape))


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; out of range, or none at all, is a ShapeError."""
    if not isinstance(axis, int | np.integer):
        raise ShapeError(f"axis {axis!r} is given, a whole number is needed")
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
