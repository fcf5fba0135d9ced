"""The GPU's rows in the table of kernels (`lowbit.torch.kernels`): by the rule of lowbit.matmul, with its bits."""

from __future__ import annotations

import torch
from torch import Tensor

from lowbit.dtypes import dtype
from lowbit.matmul import plan_matmul
from lowbit.torch.gpu import launch
from lowbit.torch.kernels import kernel
from lowbit.torch.qtensor import QTensor

EIGHT = ("int8", "uint8", "int4", "uint4")
SIZES = (32, 64, 128, 256)  # blocks of 4-bit weights that the kernel takes: a tile's depth


def as_int8(q: QTensor) -> tuple[Tensor, Tensor | None]:
    """The integers in int8 and their zero points: unsigned codes move by half their range, and the zero point with them."""
    layout = q._layout
    ints, by = q.ints, 0 if dtype(layout.dtype).is_signed or layout.dtype == "uint4" else 128
    moved = ints.to(torch.int8) if not by else (ints.to(torch.int16) - by).to(torch.int8)
    zero = q._zero_point.to(torch.int32) - by
    return moved, zero if bool((zero != 0).any()) else None


def along_rows(q: QTensor, axis: int) -> bool:
    """Whether its scales are one, or one for each index of the axis that is not summed over."""
    layout = q._layout
    return layout.linear and layout.dtype in EIGHT and layout.block is None and (layout.axis is None or layout.axis % q.dim() == axis)


@kernel("cuda", "matmul")
def matmul(a: QTensor, b: QTensor) -> Tensor | None:
    if a.dim() != 2 or b.dim() != 2:
        return None
    return product(a, b.t())  # type: ignore[arg-type]


def product(a: QTensor, w: QTensor, bias: Tensor | None = None) -> Tensor | None:
    """(M, K) by (N, K)ᵀ in integers; None where their scales do not fit one product."""
    if not along_rows(a, 0) or not along_rows(w, 0):
        return None
    if plan_matmul(tuple(a.shape), a.quant_params, tuple(w.shape[::-1]), w.t().quant_params).kind == "float":  # type: ignore[attr-defined]
        return None
    (qa, za), (qb, zb) = as_int8(a), as_int8(w)
    return launch.matmul(qa, qb, a._scale, w._scale, za, zb, bias)


@kernel("cuda", "linear")
def linear(x: QTensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    y = product(flat, weight, bias) if isinstance(flat, QTensor) else None
    return None if y is None else y.reshape(*x.shape[:-1], weight.shape[0])


@kernel("cuda", "linear_rows")
def linear_rows(x: Tensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    """Activations quantized by rows (docs/arithmetic.md §2): int8 weights by channel, 4-bit ones by block."""
    q, scale = launch.quantize_rows(x.reshape(-1, x.shape[-1]))
    if in_blocks(weight):
        y = launch.matmul_int4(q, weight.packed.reshape(weight.shape[0], -1), scale, weight._scale, block_of(weight), weight.shape[0],
                               zeros_of(weight), bias)  # fmt: skip
    elif along_rows(weight, 0):
        ints, zero = as_int8(weight)
        y = launch.matmul(q, ints, scale, weight._scale, None, zero, bias)
    else:
        return None
    return y.reshape(*x.shape[:-1], weight.shape[0])


@kernel("cuda", "weight_only")
def weight_only(x: Tensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    """4-bit weights by block, made real tile by tile; None for others, which are dequantized as a whole."""
    if not in_blocks(weight):
        return None
    packed = weight.packed.reshape(weight.shape[0], -1)
    y = launch.matmul_int4(
        x.reshape(-1, x.shape[-1]), packed, None, weight._scale, block_of(weight), weight.shape[0], zeros_of(weight), bias
    )
    return y.reshape(*x.shape[:-1], weight.shape[0])


def in_blocks(weight: QTensor) -> bool:
    layout = weight._layout
    along = weight.dim() == 2 and layout.axis is not None and layout.axis % 2 == 1 and layout.block in SIZES
    return layout.dtype == "int4" and layout.linear and along and weight.shape[1] % 2 == 0


def block_of(weight: QTensor) -> int:
    assert weight._layout.block is not None
    return weight._layout.block


def zeros_of(weight: QTensor) -> Tensor | None:
    return weight._zero_point if weight._layout.scheme == "asymmetric" else None
