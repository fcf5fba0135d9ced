"""Ops that mean the same on integers as on reals, as long as all sides share their parameters: movement, maxima, choice by order.

They need no integer op of their own: lower/integer.py puts the very same op on the integers. A constant side is requantized there and
then. Attributes that are reals (what a pad is made of) become integers; results that are indices stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ops.quant import NotLowered, QuantSpec, quantizes
from lowbit.quant_params import QuantParams, quantize

_FIRST = "reshape transpose split slice expand tile flip roll depth_to_space space_to_depth identity max_pool adaptive_max_pool"
_SECOND = "gather gather_elements gather_nd reverse_sequence reduce_max reduce_min"  # further inputs are indices or lengths
_ORDER = "argmax argmin topk max_pool_indices"  # scales are positive: the largest integer is the largest real


def pad_attrs(params: QuantParams, *, value: float, **attrs: Any) -> dict[str, Any]:
    """Padding holds the integer of its value: the zero point for 0."""
    return {**attrs, "value": float(quantize(np.float32(value), params))}


def scatter_attrs(params: QuantParams, *, reduction: str, **attrs: Any) -> dict[str, Any]:
    """Writing, and the larger or smaller of two, are the same on integers; sums and products are not."""
    if reduction in ("add", "mul"):
        raise NotLowered(f"its reduction is {reduction!r}, which is not the same on integers")
    return {**attrs, "reduction": reduction}


for _op in (*_FIRST.split(), *_SECOND.split(), *_ORDER.split()):
    quantizes(_op, QuantSpec((0,), output="same"))
for _op in ("concat", "maximum", "minimum"):
    quantizes(_op, QuantSpec(None, output="same"))
quantizes("where", QuantSpec((1, 2), output="same"))
quantizes("pad", QuantSpec((0,), output="same"), integer_attrs=pad_attrs)
for _op in ("scatter_elements", "scatter_nd"):
    quantizes(_op, QuantSpec((0, 2), output="same"), integer_attrs=scatter_attrs)
