"""Ops that mean the same on integers as on reals, as long as all sides share their parameters: movement, maxima, choice by order.

They need no integer op of their own: lower/integer.py puts the very same op on the integers. A constant side is requantized there and
then. Attributes that are reals (what a pad is made of) become integers; results that are indices stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ops.quant import Const, NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.quant_params import PerAxis, PerTensor, QuantParams, quantize, requantize
from lowbit.types import Array, normalize_axis

ROWS = 256  # of a table that are requantized together

_FIRST = "reshape transpose split slice expand tile flip roll depth_to_space space_to_depth identity max_pool adaptive_max_pool"
_SECOND = "gather_elements gather_nd reverse_sequence reduce_max reduce_min"  # further inputs are indices or lengths
_ORDER = "argmax argmin topk max_pool_indices"  # scales are positive: the largest integer is the largest real


def pad_attrs(params: QuantParams, *, value: float, **attrs: Any) -> dict[str, Any]:
    """Padding holds the integer of its value: the zero point for 0."""
    return {**attrs, "value": float(quantize(np.float32(value), params))}


def scatter_attrs(params: QuantParams, *, reduction: str, **attrs: Any) -> dict[str, Any]:
    """Writing, and the larger or smaller of two, are the same on integers; sums and products are not."""
    if reduction in ("add", "mul"):
        raise NotLowered(f"its reduction is {reduction!r}, which is not the same on integers")
    return {**attrs, "reduction": reduction}


def brought(table: Array, params: QuantParams, result: QuantParams, axis: int) -> Array:
    """A table's integers by the result's parameters; some rows at a time, for what is computed on the way takes many times their bytes."""
    out = np.empty(table.shape, result.dtype.numpy)
    rows, into = np.moveaxis(table, axis, 0), np.moveaxis(out, axis, 0)
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        some = QuantParams(params.dtype, params.scale[part], params.zero_point[part], params.scheme, PerAxis(0))
        into[part] = requantize(rows[part], some, result)
    return out


def rows_of_a_table(operands: Operands, result: Result, *, axis: int) -> OpCall | None:
    """Rows of a constant table that have a scale each: brought to the result's parameters here and now, or scaled after the gather."""
    table = operands[0]
    if not isinstance(table, Operand) or table.data is None or isinstance(table.params.granularity, PerTensor):
        return None
    rank = table.type.rank
    if table.params.axis(rank) != normalize_axis(axis, rank) or table.params.scale.ndim > 1:
        raise NotLowered(f"its table is quantized {table.params.granularity}, axis {axis} is needed")
    if result.params is not None:
        result.per_tensor()
        return OpCall(
            "gather",
            (
                Const(brought(table.data, table.params, result.params, normalize_axis(axis, rank)), "table", result.params.dtype.name),
                Ref(1),
            ),
            {"axis": axis},
        )
    if np.any(table.params.zero_point):
        raise NotLowered("the rows of its table have zero points, and its result stays float")
    one = Const(np.ones((), np.float32), "one")
    reals = OpCall("dequantize_linear", (OpCall("gather", (Ref(0), Ref(1)), {"axis": axis}), one, None), {"axis": 0, "block_size": 0})
    scales = table.params.scale.reshape([-1 if i == normalize_axis(axis, rank) else 1 for i in range(rank)])
    return OpCall("mul", (reals, OpCall("gather", (Const(scales, "scale"), Ref(1)), {"axis": axis})))


for _op in (*_FIRST.split(), *_SECOND.split(), *_ORDER.split()):
    quantizes(_op, QuantSpec((0,), output="same"))
quantizes("gather", QuantSpec((0,), {0: "axis"}, output="same"), rows_of_a_table)  # a constant table has a scale for each of its rows
for _op in ("concat", "maximum", "minimum"):
    quantizes(_op, QuantSpec(None, output="same"))
quantizes("where", QuantSpec((1, 2), output="same"))
quantizes("pad", QuantSpec((0,), output="same"), integer_attrs=pad_attrs)
for _op in ("scatter_elements", "scatter_nd"):
    quantizes(_op, QuantSpec((0, 2), output="same"), integer_attrs=scatter_attrs)
