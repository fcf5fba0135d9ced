"""Which integer form a linear layer or a matrix product takes, and the two forms whose sums are scaled in float32 (docs/arithmetic.md §2).

    q_linear, q_matmul   one scale for the activations, one for each output channel: q_matmul.py
    q_linear_blocks      weights with a scale for each block along the contraction
    q_linear_rows        activations with a scale for each row, made at run time; weights per channel or per block

    t = +0;  t = t + fl32(Σ_block (x - x_zero)·w) × scale[c, block], blocks in ascending order;  t = t + bias[c]
    q_linear_rows: x_scale × scale[c] in the place of the only block's scale;  t = t × x_scale + bias[c] where there are more

`block` is the block size (0: the whole contraction); `bound` the largest |Σ| of any block and any input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.dtypes import dtype
from lowbit.errors import ShapeError
from lowbit.numerics import F32, round_clamp, sums_of_magnitudes
from lowbit.ops.linear import infer as infer_linear
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_matmul import exact_product, lower_linear, lower_matmul, need_integers
from lowbit.ops.quant import (
    Arg,
    Const,
    DynamicOperands,
    FloatOperand,
    NotLowered,
    OpCall,
    Operand,
    Operands,
    QuantSpec,
    Ref,
    Result,
    RowsOperand,
    largest_magnitude,
    quantizes,
    symmetric_weights,
)
from lowbit.quant_params import PerAxis, PerBlock
from lowbit.types import Array, TensorType

ROW_MAGNITUDE = 127  # of an activation that quantize_rows made


def blocks_of(size: int, block: int) -> list[slice]:
    """The blocks of a contraction; one of nothing where it is empty."""
    step = block or max(size, 1)
    return [slice(start, start + step) for start in range(0, max(size, 1), step)]


def check_scales(w: TensorType, scale: TensorType, bias: TensorType | None, block: int) -> None:
    channels, size = w.shape
    assert isinstance(size, int)
    need = TensorType((channels, len(blocks_of(size, block))), "float32")
    if scale != need:
        raise ShapeError(f"scales {scale} given, {need} needed")
    if bias is not None and bias != TensorType((channels,), "float32"):
        raise ShapeError(f"bias {bias} given, float32[{channels}] needed")


@dataclass(frozen=True)
class LinearBlocks:
    """Attributes of q_linear_blocks."""

    block: int
    x_zero: int
    y_scale: float
    y_zero: int
    lo: int
    hi: int
    to: str
    bound: int


@attributes(LinearBlocks)
def infer_blocks(x: TensorType, w: TensorType, multiplier: TensorType, bias: TensorType | None = None, *, a: LinearBlocks) -> TensorType:
    need_integers(input=x, weight=w)
    out = infer_linear(x.with_dtype("float32"), w.with_dtype("float32"))
    check_scales(w, multiplier, bias, a.block)
    return out.with_dtype(a.to)


def scaled_sum(x: Array, w: Array, scales: F32, block: int, bound: int) -> F32:
    """t: one exact sum for each block, scaled and added in float32; `scales` (…, channels, blocks) broadcasts against the rows."""
    t = np.zeros((*x.shape[:-1], w.shape[0]), np.float32)
    for i, part in enumerate(blocks_of(w.shape[1], block)):
        t = t + exact_product(x[..., part], w[:, part].T, bound).astype(np.float32) * scales[..., i]
    return t


@attributes(LinearBlocks)
def q_linear_blocks(x: Array, w: Array, multiplier: Array, bias: Array | None = None, *, a: LinearBlocks) -> Array:
    t = scaled_sum(x.astype(np.int64) - a.x_zero, w, multiplier, a.block, a.bound)
    t = t if bias is None else t + bias
    if a.to == "float32":
        return t
    return round_clamp(t / np.float32(a.y_scale), np.asarray(a.y_zero), dtype(a.to), qmin=a.lo, qmax=a.hi)


def infer_rows(
    x: TensorType, x_scale: TensorType, w: TensorType, w_scale: TensorType, bias: TensorType | None = None, *, block: int, bound: int
) -> TensorType:
    need_integers(input=x, weight=w)
    if x_scale != TensorType((*x.shape[:-1], 1), "float32"):
        raise ShapeError(f"row scales {x_scale} given, {TensorType((*x.shape[:-1], 1), 'float32')} needed")
    out = infer_linear(x.with_dtype("float32"), w.with_dtype("float32"))
    check_scales(w, w_scale, bias, block)
    return out


def q_linear_rows(x: Array, x_scale: Array, w: Array, w_scale: Array, bias: Array | None = None, *, block: int, bound: int) -> Array:
    one = w_scale.shape[1] == 1
    t = scaled_sum(x, w, x_scale[..., None] * w_scale if one else w_scale, block, bound)
    return (t if one else t * x_scale) + (np.float32(0) if bias is None else bias)  # a product that underflows may be -0: + 0 is +0


def macs_blocks(x: TensorType, w: TensorType, *_: TensorType | None, **__: Any) -> Dim:
    return x.size * w.shape[0]


def macs_rows(x: TensorType, x_scale: TensorType, w: TensorType, *_: TensorType | None, **__: Any) -> Dim:
    return x.size * w.shape[0]


# -- lowering -----------------------------------------------------------------------------------------------------------------


def block_weights(w: Operand, channel: int, magnitude: int) -> tuple[Array, str, F32, int, int]:
    """Integers (out, in), their dtype, scales (out, blocks), the block size, and the bound of a block's sum."""
    if w.type.rank != 2:
        raise NotLowered(f"its weight has {w.type.rank} axes, 2 are needed")
    data, name = symmetric_weights(w)
    g, scale, block = w.params.granularity, w.params.scale, 0
    if isinstance(g, PerBlock):
        if g.axis % 2 == channel:
            raise NotLowered("the blocks of its weight do not lie along the contraction")
        block, scale = g.size, scale if channel == 0 else scale.T
    else:
        if isinstance(g, PerAxis) and g.axis % 2 != channel:
            raise NotLowered(f"its weight is quantized {g}, axis {channel} is needed")
        scale = np.broadcast_to(scale, (data.shape[channel],))[:, None]
    if channel == 1:
        data = data.T
    sums = [sums_of_magnitudes(data[:, part], 1).max(initial=0) for part in blocks_of(data.shape[1], block)]
    return np.ascontiguousarray(data), name, np.ascontiguousarray(scale, np.float32), block, int(max(sums)) * magnitude


def float_bias(bias: RowsOperand | Operand | FloatOperand | None) -> Arg:
    """The bias as float32: the sum it is added to is one."""
    if bias is None:
        return None
    if isinstance(bias, FloatOperand) and bias.data is not None:
        return Const(bias.data.astype(np.float32), "bias")
    raise NotLowered("its bias is not a float constant")


def lower_blocks(operands: Operands, result: Result, channel: int) -> OpCall:
    x, w = operands[0], operands[1]
    assert isinstance(x, Operand) and isinstance(w, Operand)
    sx, xz = x.per_tensor("input")
    weights, name, scale, block, bound = block_weights(w, channel, largest_magnitude(x))
    grid = np.asarray(sx * scale, np.float32)
    if not np.all(np.isfinite(grid) & (grid > 0)):
        raise NotLowered("input scale × weight scale leaves the range of float32")
    sy, yz = result.target()
    args = (Ref(0), Const(weights, "weight", name), Const(grid, "multiplier"), float_bias(operands[2] if len(operands) > 2 else None))
    attrs = {"block": block, "x_zero": xz, "y_scale": float(sy), "y_zero": yz, **result.clamp, "bound": bound}
    return OpCall("q_linear_blocks", args, attrs)


def lower_rows(operands: DynamicOperands, channel: int) -> OpCall:
    w = operands[1]
    if not isinstance(operands[0], RowsOperand) or not isinstance(w, Operand):
        raise NotLowered("its weight is not quantized")
    weights, name, scale, block, bound = block_weights(w, channel, ROW_MAGNITUDE)
    bias = float_bias(operands[2] if len(operands) > 2 else None)
    args = (Ref(0), Ref(0, "scale"), Const(weights, "weight", name), Const(scale, "scale"), bias)
    return OpCall("q_linear_rows", args, {"block": block, "bound": bound})


def has_blocks(w: Operand | FloatOperand | None) -> bool:
    return isinstance(w, Operand) and isinstance(w.params.granularity, PerBlock)


def linear(operands: Operands, result: Result) -> OpCall:
    return lower_blocks(operands, result, 0) if has_blocks(operands[1]) else lower_linear(operands, result)


def matmul(operands: Operands, result: Result) -> OpCall:
    a, b = operands
    if isinstance(a, Operand) and isinstance(b, Operand) and a.data is not None and b.data is None and a.type.rank == 2:
        return weights_on_the_left(a, b, result)
    return lower_blocks(operands, result, 1) if has_blocks(b) else lower_matmul(operands, result)


def weights_on_the_left(a: Operand, b: Operand, result: Result) -> OpCall:
    """A·B = (Bᵀ·Aᵀ)ᵀ: the rows of a constant A are the output channels of a linear layer, each with its scale."""
    rank = b.type.rank
    if rank == 1:  # nothing to turn
        made = linear((b, a), result)
        return replace(made, args=tuple(Ref(1) if arg == Ref(0) else arg for arg in made.args))
    turn = {"perm": (*range(rank - 2), rank - 1, rank - 2)}
    made = linear((replace(b, type=TensorType((*b.type.shape[:-2], b.type.shape[-1], b.type.shape[-2]), b.type.dtype)), a), result)
    turned = replace(made, args=tuple(OpCall("transpose", (Ref(1),), turn) if arg == Ref(0) else arg for arg in made.args))
    return OpCall("transpose", (turned,), turn)


register(Op("q_linear_blocks", infer_blocks, q_linear_blocks, macs_blocks), Op("q_linear_rows", infer_rows, q_linear_rows, macs_rows))
quantizes(
    "linear",
    QuantSpec((0, 1), {1: 0}, {1: 1}, bias=2, fuses_clip=True, blocks=True),
    linear,
    dynamic=lambda operands, result: lower_rows(operands, 0),
)
quantizes(
    "matmul",
    QuantSpec((0, 1), {0: -2, 1: -1}, {0: -1, 1: -2}, fuses_clip=True, blocks=True),
    matmul,
    dynamic=lambda operands, result: lower_rows(operands, 1),
)
