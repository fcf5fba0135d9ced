"""Quantized arrays without data, and the two usual dtypes by name."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowbit.arguments import is_real, shown
from lowbit.dtypes import DType
from lowbit.errors import InputError, QuantError, ShapeError
from lowbit.qarray.core import QArray, quantize_array
from lowbit.quant_params import QuantParams, quant_dtype, quantize, scale_shape
from lowbit.ranges import params_from_data

LARGEST = 2**40  # elements: beyond what any machine holds, and before NumPy's own errors


def quantize_int8(x: Any, scale: ArrayLike | None = None, zero_point: ArrayLike | None = None, **options: Any) -> QArray:
    """`x` as int8 by scale and zero point, or by the range of `x` without them.

    >>> quantize_int8([1.0, -1.0], 0.5, 10).ints.tolist()
    [12, 8]
    """
    return _quantized(x, "int8", scale, zero_point, options)


def quantize_uint8(x: Any, scale: ArrayLike | None = None, zero_point: ArrayLike | None = None, **options: Any) -> QArray:
    """`x` as uint8 by scale and zero point, or by the range of `x` without them.

    >>> quantize_uint8([1.0, -1.0], 0.5, 128).ints.tolist()
    [130, 126]
    """
    return _quantized(x, "uint8", scale, zero_point, options)


def _quantized(x: Any, dtype: str, scale: Any, zero_point: Any, options: dict[str, Any]) -> QArray:
    if "dtype" in options:
        raise InputError(f"quantize_{dtype} has its dtype", hint=f"lowbit.quantize_array(x, {options['dtype']!r})")
    return quantize_array(x, dtype, scale=scale, zero_point=zero_point, **options)


def zeros(shape: int | Sequence[int], dtype: str | DType | None = None, params: QuantParams | None = None) -> QArray:
    """A QArray of zeros: every code is the zero point. Without `params`, a scale of 1.

    >>> zeros((2, 3), "uint8").tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return full(shape, 0.0, dtype, params if params is not None else QuantParams(_dtype(dtype, None), 1.0))


def empty(shape: int | Sequence[int], dtype: str | DType | None = None, params: QuantParams | None = None) -> QArray:
    """A QArray whose values mean nothing yet; `shape`, `nbytes` and `quant_params` are what they will be.

    A QArray never changes, so that this is of use where only its size and parameters are asked for.

    >>> empty((1000, 1000), "int4").nbytes
    500000
    """
    return zeros(shape, dtype, params)


def full(shape: int | Sequence[int], fill_value: float, dtype: str | DType | None = None, params: QuantParams | None = None) -> QArray:
    """A QArray of one value, rounded by `params`; without them the value decides the scale.

    >>> full((2,), 1.5, "int8").tolist(), full((2,), 1.5, params=QuantParams("int8", 1.0)).tolist()
    ([1.5, 1.5], [2.0, 2.0])
    """
    if not is_real(fill_value):
        raise InputError(f"fill_value={shown(fill_value)}, a finite number is needed", hint="lowbit.full((2, 3), 1.5, 'int8')")
    wanted, sizes = _dtype(dtype, params), _sizes(shape)
    value = np.asarray(fill_value, np.float32)
    if params is None:
        params = params_from_data(value, wanted, "symmetric" if wanted.name == "binary" or fill_value == 0 else None)
    if scale_shape(params.granularity, sizes) != params.scale.shape:
        params.check(sizes)  # says how they do not fit
    return QArray._of(quantize(np.broadcast_to(value, sizes), params), params)


def _dtype(dtype: Any, params: Any) -> DType:
    if params is not None and not isinstance(params, QuantParams):
        raise QuantError(f"params is {shown(params)}, QuantParams are needed", hint="lowbit.QuantParams('int8', scale=0.1)")
    if dtype is None:
        return quant_dtype("int8") if params is None else params.dtype
    found = quant_dtype(dtype)
    if params is not None and params.dtype != found:
        raise QuantError(f"dtype {found} with parameters of {params.dtype}", hint=f"dtype='{params.dtype}'")
    return found


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(map(operator.index, shape))
    except TypeError:
        raise ShapeError(f"shape {shown(shape)} is none", hint="lowbit.zeros((2, 3), 'int8')") from None
    count = 1
    for size in sizes:
        count *= size
        if size < 0 or count > LARGEST:
            told = "a size below 0" if size < 0 else f"more than {LARGEST:,} elements"
            raise ShapeError(f"shape {shown(sizes)} has {told}", hint="sizes from 0 on, as in (2, 3)")
    return sizes
