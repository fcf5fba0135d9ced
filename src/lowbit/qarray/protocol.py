"""NumPy functions on a QArray: QUANTIZED is the one table of functions that stay quantized; all others get the dequantized array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowbit.errors import QuantError
from lowbit.qarray.core import QArray


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The ufunc by the table if it is a plain call, else on dequantized inputs."""
    out = kwargs.get("out", ())
    _refuse_writing(ufunc.__name__, (*out, *(inputs[:1] if method == "at" else ())))
    if method == "__call__" and not kwargs.keys() - {"out"} and ufunc in QUANTIZED:
        result = QUANTIZED[ufunc](*inputs)
        if result is not NotImplemented:
            if not out:
                return result
            np.copyto(out[0], result)
            return out[0]
    return getattr(ufunc, method)(*dequantized(inputs), **dequantized(kwargs))


def apply_function(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function by the table if the table takes these arguments, else on dequantized ones."""
    written = args[:1] or (kwargs.get(WRITERS[func]),) if func in WRITERS else ()
    _refuse_writing(func.__name__, (kwargs.get("out"), *written))
    if func in QUANTIZED:
        result = QUANTIZED[func](*args, **kwargs)
        if result is not NotImplemented:
            return result
    return func(*dequantized(args), **dequantized(kwargs))


def dequantized(value: Any) -> Any:
    """The same arguments with every QArray in them dequantized."""
    if isinstance(value, QArray):
        return value.dequantize()
    if type(value) in (list, tuple):
        return type(value)(dequantized(v) for v in value)
    if type(value) is dict:
        return {k: dequantized(v) for k, v in value.items()}
    return value


def _refuse_writing(name: str, targets: Sequence[Any]) -> None:
    if any(isinstance(t, QArray) for t in targets):
        raise QuantError(f"np.{name} cannot write into a QArray, which does not change", hint="write into .dequantize(), or drop out=")


def _matmul(a: Any, b: Any) -> Any:
    """Two QArrays multiply in integers; with a float the other becomes float."""
    return a.matmul(b) if isinstance(a, QArray) and isinstance(b, QArray) else NotImplemented


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    # Vectors and matrices: the same as matmul. dot of scalars and of stacks is something else, and float.
    plain = out is None and isinstance(a, QArray) and isinstance(b, QArray) and {a.ndim, b.ndim} <= {1, 2}
    return _matmul(a, b) if plain else NotImplemented


def _einsum(subscripts: Any, *operands: Any, **options: Any) -> Any:
    """Products of two QArrays over one shared letter, with any batch letters: the integer matmul. All else is float."""
    if len(operands) != 2 or options or not isinstance(subscripts, str) or not all(isinstance(o, QArray) for o in operands):
        return NotImplemented
    left, _, rest = subscripts.replace(" ", "").partition(",")
    right, arrow, out = rest.partition("->")
    letters = left + right
    if not arrow:
        out = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    distinct = all(len(set(s)) == len(s) and s.isalpha() for s in (left, right)) and len(set(out)) == len(out)
    if not distinct or len(left) != operands[0].ndim or len(right) != operands[1].ndim or not set(out) <= set(letters):
        return NotImplemented
    batch = [c for c in left if c in right and c in out]
    summed = [c for c in left if c in right and c not in out]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    if len(summed) != 1 or len(rows) > 1 or len(columns) > 1 or not set(rows + columns) <= set(out):
        return NotImplemented
    a = operands[0].transpose([left.index(c) for c in batch + rows + summed])
    b = operands[1].transpose([right.index(c) for c in batch + summed + columns])
    product = _matmul(a if rows else a[..., None, :], b if columns else b[..., None])  # (batch…, rows or 1, columns or 1)
    product = product.reshape(product.shape[: len(batch)] + tuple(n for n, kept in zip(product.shape[-2:], (rows, columns)) if kept))
    return product.transpose([(batch + rows + columns).index(c) for c in out])


def _expand_dims(a: QArray, axis: int | tuple[int, ...]) -> Any:
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    ndim = a.ndim + len(axes)
    new = {x % ndim for x in axes if -ndim <= x < ndim}
    return a[tuple(None if i in new else slice(None) for i in range(ndim))] if len(new) == len(axes) else NotImplemented


def _moveaxis(a: QArray, source: Any, destination: Any) -> Any:
    probe = np.empty(tuple(range(a.ndim)), np.int8)  # each length is the axis it was; an axis that does not exist is NumPy's own error
    return a.transpose(np.moveaxis(probe, source, destination).shape)


def _reshape(a: QArray, /, shape: Any = None, order: str = "C", **other: Any) -> Any:
    return NotImplemented if order != "C" or other or shape is None else a.reshape(shape)


def _take(a: QArray, indices: Any, axis: int | None = None, **other: Any) -> Any:
    if other or axis is None or not isinstance(a, QArray) or not -a.ndim <= axis < a.ndim:
        return NotImplemented
    return a[(slice(None),) * (axis % a.ndim) + (np.asarray(indices) if np.ndim(indices) else indices,)]


# NumPy function → what does it on QArrays without leaving the integers; NotImplemented means: these arguments need floats.
QUANTIZED: dict[Any, Callable[..., Any]] = {
    np.matmul: _matmul,
    np.dot: _dot,
    np.einsum: _einsum,
    np.reshape: _reshape,
    np.ravel: lambda a, order="C": a.ravel() if order == "C" else NotImplemented,
    np.transpose: lambda a, axes=None: a.transpose(axes),
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.moveaxis: _moveaxis,
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.expand_dims: _expand_dims,
    np.broadcast_to: lambda array, shape, subok=False: array.broadcast_to(shape),
    np.take: _take,
    np.flip: lambda m, axis=None: m[
        tuple(slice(None, None, -1) if axis is None or i in _axes(axis, m.ndim) else slice(None) for i in range(m.ndim))
    ],
    np.copy: lambda a, order="K", subok=False: a,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}

# Functions that write into their first argument, and its name.
WRITERS: dict[Any, str] = {
    np.copyto: "dst",
    np.put: "a",
    np.place: "arr",
    np.putmask: "a",
    np.put_along_axis: "arr",
    np.fill_diagonal: "a",
}


def _axes(axis: int | tuple[int, ...], ndim: int) -> set[int]:
    return {a % ndim for a in ((axis,) if isinstance(axis, (int, np.integer)) else axis)}
