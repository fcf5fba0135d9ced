"""Reductions, norms of vectors, and search: sum, mean, var, max, argmax, topk, cumsum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lowbit.dims import Dim
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis

Dims = Sequence[int] | int | None


def reduce(c: Importer, op: str, x: Value, dim: Dims, keepdim: bool) -> Value:
    return c.add(op, x, axes=c.axes(x, dim), keepdims=bool(keepdim))  # one number has no axes, but a norm


@aten("sum", "prod", "mean")
def total(c: Importer, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    op = str(c.node.target._schema.name).removeprefix("aten::")  # type: ignore[union-attr]
    return reduce(c, f"reduce_{op}", c.cast(x, c.dtype()), dim, keepdim)


@aten("amax")
def amax(c: Importer, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return reduce(c, "reduce_max", x, dim, keepdim)


@aten("amin")
def amin(c: Importer, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return reduce(c, "reduce_min", x, dim, keepdim)


@aten("max.default", "max.dim", "min.default", "min.dim")
def extreme(c: Importer, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | tuple[Value | None, Value | None]:
    """The largest (or smallest) of all, or along an axis together with where it stands."""
    kind = "max" if "max" in str(c.node.target) else "min"
    if dim is None:
        return reduce(c, f"reduce_{kind}", x, None, False)
    where = arg(c, x, dim, keepdim, f"arg{kind}") if c.uses(1) else None
    return (reduce(c, f"reduce_{kind}", x, dim, keepdim) if c.uses(0) else None), where


@aten("max.other")
def max_other(c: Importer, a: Value, b: Value) -> Value:
    return c.add("maximum", c.cast(a, c.dtype()), c.cast(b, c.dtype()))


@aten("min.other")
def min_other(c: Importer, a: Value, b: Value) -> Value:
    return c.add("minimum", c.cast(a, c.dtype()), c.cast(b, c.dtype()))


@aten("aminmax")
def aminmax(c: Importer, x: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    return reduce(c, "reduce_min", x, dim, keepdim), reduce(c, "reduce_max", x, dim, keepdim)


def arg(c: Importer, x: Value, dim: int | None, keepdim: bool, op: str) -> Value:
    if dim is None:
        y = c.add(op, c.reshape(x, (x.type.size,)), axis=0, keepdims=False, select_last=False)
        return c.reshape(y, (1,) * x.type.rank) if keepdim else y
    return c.add(op, x, axis=normalize_axis(dim, x.type.rank), keepdims=bool(keepdim), select_last=False)


@aten("argmax")
def argmax(c: Importer, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return arg(c, x, dim, keepdim, "argmax")


@aten("argmin")
def argmin(c: Importer, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return arg(c, x, dim, keepdim, "argmin")


@aten("any")
def any_(c: Importer, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return c.cast(reduce(c, "reduce_max", c.cast(c.cast(x, "bool"), "int32"), dim, keepdim), c.dtype())


@aten("all")
def all_(c: Importer, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return c.cast(reduce(c, "reduce_min", c.cast(c.cast(x, "bool"), "int32"), dim, keepdim), c.dtype())


@aten("logsumexp")
def logsumexp(c: Importer, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    return reduce(c, "reduce_log_sum_exp", c.cast(x, c.dtype()), dim, keepdim)


# -- variance ------------------------------------------------------------------------------------------------------------


def variance(c: Importer, x: Value, dim: Dims, correction: float, keepdim: bool) -> tuple[Value, Value]:
    """Σ(x − mean)² / (n − correction), and the mean: two passes, as torch."""
    axes = c.axes(x, dim)
    mean = c.add("reduce_mean", x, axes=axes, keepdims=True)
    off = c.add("sub", x, mean)
    total = c.add("reduce_sum", c.add("mul", off, off), axes=axes, keepdims=bool(keepdim))
    count: Dim = 1
    for a in axes:
        count = count * x.shape[a]
    if isinstance(count, int):
        left = count - correction
        n = c.tensor(left if left > 0 else 0.0, x.type.dtype)
    else:
        n = c.add("sub", c.tensor(count, x.type.dtype), c.tensor(correction, x.type.dtype))
    return c.add("div", total, n), mean if keepdim else c.reshape(mean, total.shape)


def _options(dim: Any, args: tuple[Any, ...], keepdim: bool, correction: float | None) -> tuple[Dims, float, bool]:
    """The overloads: (unbiased), (dim, unbiased, keepdim), (dim, *, correction, keepdim)."""
    if isinstance(dim, bool):
        return None, float(dim), keepdim
    unbiased = float(args[0]) if args else 1.0
    return dim, unbiased if correction is None else correction, bool(args[1]) if len(args) > 1 else keepdim


@aten("var")
def var(c: Importer, x: Value, dim: Any = None, *args: Any, correction: float | None = None, keepdim: bool = False) -> Value:
    return variance(c, x, *_options(dim, args, keepdim, correction))[0]


@aten("std")
def std(c: Importer, x: Value, dim: Any = None, *args: Any, correction: float | None = None, keepdim: bool = False) -> Value:
    return c.add("sqrt", variance(c, x, *_options(dim, args, keepdim, correction))[0])


@aten("var_mean")
def var_mean(
    c: Importer, x: Value, dim: Any = None, *args: Any, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return variance(c, x, *_options(dim, args, keepdim, correction))


@aten("std_mean")
def std_mean(
    c: Importer, x: Value, dim: Any = None, *args: Any, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    v, mean = variance(c, x, *_options(dim, args, keepdim, correction))
    return c.add("sqrt", v), mean


# -- norms of vectors ----------------------------------------------------------------------------------------------------


@aten("linalg_vector_norm")
def vector_norm(c: Importer, x: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    x = c.cast(x, c.dtype())
    if ord in (1, 2):
        return reduce(c, f"reduce_l{int(ord)}", x, dim, keepdim)
    if math.isinf(ord):
        return reduce(c, "reduce_max" if ord > 0 else "reduce_min", c.add("abs", x), dim, keepdim)
    if ord == 0:
        return reduce(c, "reduce_sum", c.cast(c.add("not_equal", x, c.tensor(0, c.dtype())), c.dtype()), dim, keepdim)
    powers = c.add("pow", c.add("abs", x), c.tensor(ord, c.dtype()))
    return c.add("pow", reduce(c, "reduce_sum", powers, dim, keepdim), c.tensor(1 / ord, c.dtype()))


@aten("norm")
def norm(c: Importer, x: Value, p: float | None = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return vector_norm(c, x, 2 if p is None else p, dim, keepdim)


# -- search and running totals -------------------------------------------------------------------------------------------


@aten("topk")
def topk(c: Importer, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, ...]:
    return c.add_node("topk", x, k=k, axis=normalize_axis(dim, x.type.rank), largest=bool(largest), sorted=bool(sorted))


@aten("sort.default")
def sort(c: Importer, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, ...]:
    axis = normalize_axis(dim, x.type.rank)
    if not isinstance(x.shape[axis], int):
        raise UnsupportedOp("sorting along a symbolic dimension is not supported", hint="leave that dimension out of dynamic=")
    return c.add_node("topk", x, k=x.shape[axis], axis=axis, largest=bool(descending), sorted=True)


@aten("sort.stable")
def sort_stable(c: Importer, x: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Value, ...]:
    return sort(c, x, dim, descending)  # topk keeps the order of equal elements


@aten("argsort")
def argsort(c: Importer, x: Value, dim: int = -1, descending: bool = False, **_: Any) -> Value:
    return sort(c, x, dim, descending)[1]


@aten("cumsum")
def cumsum(c: Importer, x: Value, dim: int, *, dtype: Any = None) -> Value:
    return c.add("cumsum", c.cast(x, c.dtype()), axis=normalize_axis(dim, x.type.rank), exclusive=False, reverse=False)


@aten("cumprod")
def cumprod(c: Importer, x: Value, dim: int, *, dtype: Any = None) -> Value:
    return c.add("cumprod", c.cast(x, c.dtype()), axis=normalize_axis(dim, x.type.rank), exclusive=False, reverse=False)
