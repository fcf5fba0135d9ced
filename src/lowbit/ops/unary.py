"""Elementwise functions of one tensor without attributes: y = f(x), the shape stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowbit.errors import DTypeError
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType


def _infer(x: TensorType) -> TensorType:
    return x.with_dtype(x.dtype)


def _infer_float(x: TensorType) -> TensorType:
    if not x.dtype.is_float:
        raise DTypeError(f"{x.dtype} given, a float type needed", hint="cast it before")
    return x.with_dtype(x.dtype)


def relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


_FLOAT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "sqrt": np.sqrt,
}
_ANY: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "relu": relu,
}

register(*(Op(name, _infer_float, f) for name, f in _FLOAT.items()))
register(*(Op(name, _infer, f) for name, f in _ANY.items()))
