"""QuantParams as tensors: the layout (what a scale is for) is a hashable value, scales and zero points are tensors on any device."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lowbit.dtypes import dtype as dtype_of
from lowbit.quant_params import Granularity, PerAxis, PerBlock, PerTensor, QuantParams, Scheme, code_range
from lowbit.torch import kernels

STORED = {  # the dtype that holds the integers; four-bit and binary ones are bytes of a flat tensor
    "int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "uint16": torch.uint16, "int32": torch.int32,
    "int4": torch.uint8, "uint4": torch.uint8, "binary": torch.uint8,
}  # fmt: skip
PACKED = {"int4": 2, "uint4": 2, "binary": 8}  # elements in a byte


@dataclass(frozen=True)
class Layout:
    """All of QuantParams but the numbers: dtype and scheme by name, the axis (None: per tensor) and block size of the granularity."""

    dtype: str
    scheme: Scheme
    axis: int | None = None
    block: int | None = None

    @property
    def granularity(self) -> Granularity:
        if self.axis is None:
            return PerTensor()
        return PerAxis(self.axis) if self.block is None else PerBlock(self.axis, self.block)

    @property
    def codes(self) -> tuple[int, int]:
        return code_range(dtype_of(self.dtype), self.scheme)

    @property
    def linear(self) -> bool:
        """Whether real = scale * (q - zero_point): not for logarithmic codes."""
        return self.scheme != "logarithmic"


def layout_of(p: QuantParams) -> Layout:
    g = p.granularity
    return Layout(p.dtype.name, p.scheme, None if isinstance(g, PerTensor) else g.axis, g.size if isinstance(g, PerBlock) else None)


def as_tensors(p: QuantParams, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Scale (float32) and zero point (int32) as tensors of their own."""
    return torch.from_numpy(np.array(p.scale)).to(device), torch.from_numpy(np.array(p.zero_point)).to(device)


def as_params(layout: Layout, scale: Tensor, zero_point: Tensor) -> QuantParams:
    """The value that layout and tensors stand for."""
    numbers = scale.detach().cpu().numpy(), zero_point.detach().cpu().numpy()
    return QuantParams(layout.dtype, *numbers, layout.scheme, layout.granularity)


_WRITES = itertools.count(1)


def version(t: Tensor) -> int:
    """A number that changes when the tensor's memory is written. Tensors made in inference mode do not count writes; `wrote` does."""
    return -getattr(t.untyped_storage(), "_lowbit_write", 0) - 1 if t.is_inference() else t._version


def wrote(t: Tensor) -> None:
    """Gives all tensors that share this memory another version: below autograd torch does not count writes, and other code reads it."""
    if t.is_inference():
        t.untyped_storage()._lowbit_write = next(_WRITES)  # type: ignore[attr-defined]
    else:
        torch.autograd.graph.increment_version(t)


def spread(x: Tensor, layout: Layout, shape: Sequence[int]) -> Tensor:
    """Scales or zero points so that they broadcast against a tensor of `shape`."""
    if layout.axis is None:
        return x
    axis = layout.axis % len(shape)
    if layout.block is None:
        return x.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return x.repeat_interleave(layout.block, axis).narrow(axis, 0, shape[axis])


def packed(ints: Tensor, layout: Layout) -> Tensor:
    """Integers as they are stored: bytes, low nibble (bit 0) first, for dtypes below eight bits."""
    if layout.dtype not in PACKED:
        return ints.to(STORED[layout.dtype])
    many = PACKED[layout.dtype]
    bits = 8 // many
    codes = (ints.reshape(-1) > 0 if layout.dtype == "binary" else ints.reshape(-1).to(torch.int16) & 15).to(torch.uint8)
    filled = torch.nn.functional.pad(codes, (0, -codes.numel() % many)).reshape(-1, many)
    out = filled[:, 0].clone()
    for i in range(1, many):
        out |= filled[:, i] << (bits * i)
    return out


def unpacked(data: Tensor, layout: Layout, shape: Sequence[int]) -> Tensor:
    """The integers in the tensor's shape; binary ones as -1 and +1."""
    if layout.dtype not in PACKED:
        return data
    many = PACKED[layout.dtype]
    bits = 8 // many
    count = 1
    for d in shape:
        count *= d
    parts = torch.stack([(data >> (bits * i)) & ((1 << bits) - 1) for i in range(many)], -1).reshape(-1)[:count].reshape(tuple(shape))
    if layout.dtype == "uint4":
        return parts
    signed = parts.to(torch.int8)
    return signed * 2 - 1 if layout.dtype == "binary" else (signed ^ 8) - 8


def real(ints: Tensor, layout: Layout, scale: Tensor, zero_point: Tensor) -> Tensor:
    """fl32(q - zero_point) * scale, in operations that every device and torch.compile have."""
    shape = ints.shape
    if not layout.linear:
        from lowbit.quant_params import dequantize

        return torch.from_numpy(dequantize(ints.cpu().numpy(), as_params(layout, scale, zero_point))).to(ints.device)
    if layout.axis is not None and layout.block is not None and shape[layout.axis % len(shape)] % layout.block == 0:
        axis = layout.axis % len(shape)  # whole blocks: one scale beside each, which is not repeated for its elements
        blocks = ints.reshape(*shape[:axis], shape[axis] // layout.block, layout.block, *shape[axis + 1 :])
        return real(blocks, Layout(layout.dtype, layout.scheme), scale.unsqueeze(axis + 1), zero_point.unsqueeze(axis + 1)).reshape(shape)
    if layout.block is None and type(ints) is Tensor and kernels.kind(ints) != "cpu" and not torch.compiler.is_compiling():
        axis = 0 if layout.axis is None else layout.axis % len(shape)
        if (made := kernels.run("dequantize", ints, scale, zero_point, axis)) is not None:
            return made
    centred = ints.to(torch.int32)
    if layout.scheme == "asymmetric" or not dtype_of(layout.dtype).is_signed:
        centred = centred - spread(zero_point, layout, shape)
    return centred.to(torch.float32) * spread(scale, layout, shape)


def codes(x: Tensor, p: QuantParams) -> Tensor:
    """The integers of `x`: those of lowbit.quantize_array, bit for bit, on any device."""
    from lowbit.quant_params import quantize

    layout = layout_of(p)
    if kernels.kind(x) == "cpu" or not layout.linear or layout.dtype == "binary":
        return torch.from_numpy(np.array(quantize(x.detach().to(torch.float32).cpu().numpy(), p))).to(x.device)
    scale, zero = as_tensors(p, x.device)
    if (made := kernels.run("quantize", x.detach(), scale, zero, p)) is not None:
        return made
    scale, zero = spread(scale, layout, x.shape), spread(zero, layout, x.shape)
    lo, hi = layout.codes
    steps = torch.nan_to_num(torch.round(x.detach().to(torch.float32) / scale), 0.0)
    low, high = (lo - zero).to(torch.float32), (hi - zero).to(torch.float32)
    return (torch.minimum(torch.maximum(steps, low), high).to(torch.int32) + zero).to(STORED[layout.dtype])
