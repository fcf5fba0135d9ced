"""Quantization parameters of a tensor: from its values, from a known range, or from the parameters of another width."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lowbit.dtypes import DType, dtype
from lowbit.errors import QuantError
from lowbit.numerics import as_float32
from lowbit.ops.quant import Fixed
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, Scheme, code_range, middle, quantize, requantize
from lowbit.quantization.powers import power_params
from lowbit.quantization.rules import QuantNode
from lowbit.ranges import params_from_data, params_from_range, range_of
from lowbit.types import Array

ROWS = 256  # of a table that are looked at together


def offset_params(data: Array, block: int) -> tuple[QuantParams, Array]:
    """Parameters of weights (n, k) minus their offsets, and the offsets (n, k / block): codes -8 … 7 span a block's minimum to its maximum.

    >>> params, offset = offset_params(np.array([[1.0, 16.0]], np.float32), 2)
    >>> params.scale.tolist(), offset.tolist()
    ([[1.0]], [[9.0]])
    """
    low, high = range_of(as_float32(data), PerBlock(1, block))
    codes = code_range(dtype("int4"), "symmetric")
    scale = ((high.astype(np.float64) - low) / (codes[1] - codes[0])).astype(np.float32)
    offset = (low - codes[0] * scale.astype(np.float64)).astype(np.float32)  # for a block of equal weights: the weight itself
    scale = np.where(scale == 0, np.float32(1), scale)
    return QuantParams("int4", scale, None, "symmetric", PerBlock(1, block)), offset


def fixed_params(fixed: Fixed, dtype: DType) -> QuantParams:
    """Parameters of a known range: 2^bits equal steps from low. 0 … 1 has the scale 1/256, and -1 … 1 has the zero point 0."""
    low, _ = code_range(dtype, "asymmetric")
    scale = np.float32((fixed.high - fixed.low) / 2**dtype.bits)
    return QuantParams(dtype, scale, low - round(fixed.low / float(scale)), "asymmetric")


def in_width(params: QuantParams, dtype: DType, scheme: Scheme) -> QuantParams:
    """Parameters of another dtype for the same range. A wider symmetric dtype represents every number of the narrower one exactly.

    >>> from lowbit.dtypes import dtype
    >>> in_width(QuantParams("int8", 0.5, 3), dtype("int16"), "symmetric").scale.item()  # 0.5 / 128
    0.00390625
    """
    lowest, highest = (int(q) - int(params.zero_point) for q in params.code_range)
    if scheme != "asymmetric":
        largest, (_, top) = max(-lowest, highest), code_range(dtype, scheme)
        steps = (top - middle(dtype)) // largest
        if steps:
            return QuantParams(dtype, params.scale / np.float32(1 << (steps.bit_length() - 1)), None, scheme)
    return params_from_range(float(params.scale) * lowest, float(params.scale) * highest, dtype, scheme)


def widened(params: QuantParams, constants: Iterable[Array]) -> QuantParams:
    """Parameters that also cover the finite values of the constants: rows of an embedding that calibration did not see are not clipped."""
    if not isinstance(params.granularity, PerTensor):
        return params
    low, high = (float(params.scale) * (q - int(params.zero_point)) for q in params.code_range)
    least, most = low, high
    for data in constants:
        finite = data[np.isfinite(data)]
        least, most = min(least, float(finite.min(initial=least))), max(most, float(finite.max(initial=most)))
    half = float(params.scale) / 2  # values that round into the range are covered already
    if least >= low - half and most <= high + half:
        return params
    return params_from_range(least, most, params.dtype, params.scheme)


def weight_params(data: Array, decided: QuantNode, axis: int | tuple[int, ...], contract: int | None) -> QuantParams:
    """Parameters of a weight: symmetric, per tensor, per channel, or per block along the contraction.

    Channels along several axes (direction and row of a recurrent weight) are blocks as long as the contraction.
    """
    assert decided.weight is not None
    axes = [a % data.ndim for a in ((axis,) if isinstance(axis, int) else axis)]
    if decided.weight_scale is not None:
        return given_weight_params(data, decided, axes)
    made = power_params if decided.shifts else lambda d, g: params_from_data(d, decided.weight, decided.weight_scheme, g)
    granularity: PerTensor | PerAxis | PerBlock = PerTensor()
    if contract is not None and contract % data.ndim in axes:  # a vector: all of it is summed
        return made(data, granularity)
    if isinstance(decided.granularity, int) and contract is not None:
        granularity = PerBlock(contract % data.ndim, decided.granularity)
    elif decided.granularity != "tensor":
        one = all(data.shape[a] == 1 for a in axes[:-1])
        granularity = PerAxis(axes[-1]) if one or contract is None else PerBlock(contract % data.ndim, data.shape[contract])
    return made(data, granularity)


def given_weight_params(data: Array, decided: QuantNode, axes: list[int]) -> QuantParams:
    """The scales of the weights that the rule gives: one, or one for each channel."""
    assert decided.weight is not None and decided.weight_scale is not None
    scales, channels = decided.weight_scale, data.shape[axes[-1]]
    if len(scales) == 1:
        return QuantParams(decided.weight, scales[0], None, decided.weight_scheme)
    if len(axes) > 1 or len(scales) != channels:
        need = f"{channels} channels" if len(axes) == 1 else "channels along several axes, which take one scale"
        what = f"weight_scale has {len(scales)} numbers, the weights have {need}"
        raise QuantError(what, where=decided.because, hint="one for each channel, or one for all")
    return QuantParams(decided.weight, np.array(scales, np.float32), None, decided.weight_scheme, PerAxis(axes[-1]))


def holding(params: QuantParams, bias: Array | None, input_scale: Array, bits: int) -> QuantParams:
    """Parameters of a weight, with scales large enough that the bias fits `bits` bits on the grid input scale × weight scale.

    This changes only channels whose weights are tiny compared with their bias (dead channels of trained networks).
    """
    if params.scale.ndim > 1:
        return params
    least = np.full(params.scale.size, 2.0**-110)  # and the grid stays a normal float32
    if bias is not None and params.scale.size:
        least = np.maximum(least, np.abs(bias.astype(np.float64)).reshape(-1, params.scale.size).max(axis=0) / 2.0**bits)
    need = (least / float(input_scale)).reshape(params.scale.shape)
    if np.all(params.scale >= need):
        return params
    return QuantParams(params.dtype, np.maximum(params.scale, need), params.zero_point, params.scheme, params.granularity)


def rounded_for(data: Array, params: QuantParams, result: QuantParams) -> Array:
    """Integers of a table whose result has few bits too: after requantization they equal the values rounded once.

    Two roundings make up to twice the noise of one. If the nearest integer leads to another result, a neighbour does not, where a row has
    finer steps.
    """
    ints = quantize(data, params)
    if result.dtype.bits > params.dtype.bits:
        return ints
    low, high = params.code_range
    axis = params.axis(data.ndim) or 0
    for start in range(0, data.shape[axis], ROWS):  # some rows at a time: intermediate values take many times their bytes
        part = slice(start, start + ROWS)
        rows = np.moveaxis(ints, axis, 0)[part]
        some = QuantParams(params.dtype, params.scale[part], params.zero_point[part], params.scheme, PerAxis(0))
        want = quantize(np.moveaxis(data, axis, 0)[part], result).astype(np.int32)
        off = np.sign(want - requantize(rows, some, result))
        other = np.clip(rows + off, low, high).astype(ints.dtype)
        rows[...] = np.where(requantize(other, some, result) == want, other, rows)
    return ints
