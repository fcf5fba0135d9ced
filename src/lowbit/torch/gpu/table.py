"""The GPU's rows in the table of kernels (`lowbit.torch.kernels`): by the rule of lowbit.matmul, with its bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowbit.dtypes import dtype
from lowbit.ir.graph import Graph
from lowbit.matmul import plan_matmul
from lowbit.plan.kernels.call import ints as integers
from lowbit.quant_params import QuantParams
from lowbit.torch.gpu import launch
from lowbit.torch.kernels import kernel
from lowbit.torch.params import STORED, layout_of
from lowbit.torch.qtensor import QTensor
from lowbit.types import Array

QUANTIZED = ("int8", "uint8", "int4", "uint4", "int16")  # the dtypes that the kernel rounds exactly: see launch.quantize
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


@kernel("cuda", "quantize")
def quantize(x: Tensor, scale: Tensor, zero_point: Tensor, p: QuantParams) -> Tensor | None:
    """By tensor or channel; None for blocks."""
    layout = layout_of(p)
    if layout.block is not None or layout.dtype not in QUANTIZED or x.dim() == 0:
        return None
    lo, hi = layout.codes
    zero_point = zero_point.expand_as(scale)
    stored = torch.int8 if layout.dtype == "int4" else STORED[layout.dtype]
    return launch.quantize(x.to(torch.float32), scale, zero_point, lo, hi, stored, 0 if layout.axis is None else layout.axis)


@kernel("cuda", "dequantize")
def dequantize(ints: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor | None:
    """By tensor or channel, of integers up to 16 bits."""
    if ints.dim() == 0 or ints.dtype not in (torch.int8, torch.uint8, torch.int16, torch.uint16):
        return None
    zero_point = zero_point.expand_as(scale)
    return launch.dequantize(ints, scale, zero_point, axis) if scale.numel() in (1, ints.shape[axis]) else None


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
    if is_packed_int4(a) and is_packed_int4(w) and launch.way(a._scale) == "mma":
        rows, columns = (q.packed.reshape(q.shape[0], -1) for q in (a, w))
        return launch.matmul_s4(rows, columns, a._scale, w._scale, bias)
    (qa, za), (qb, zb) = as_int8(a), as_int8(w)
    return launch.matmul(qa, qb, a._scale, w._scale, za, zb, bias)


def is_packed_int4(q: QTensor) -> bool:
    """Whether it is symmetric int4 in whole bytes: as the tensor cores' int4 product takes it."""
    layout = q._layout
    return layout.dtype == "int4" and q.dim() == 2 and q.shape[1] % 2 == 0 and not bool((q._zero_point != 0).any())


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


@kernel("cuda", "linear_static")
def linear_static(x: Tensor, weight: QTensor, graph: Graph) -> Tensor | None:
    """A static layer by its lowered graph: quantize, multiply and requantize in one kernel, then dequantize. Its constants are on the
    device once, beside the weight; None where the graph is another than of int8 with sums in 32 bits."""
    layer = weight.__dict__.get("_static")
    if layer is None or layer.graph is not graph or layer.weight.device != x.device:
        layer = StaticLayer.of(graph, x.device)
        if layer is None:
            return None
        weight.__dict__["_static"] = layer
    return layer(x.to(torch.float32).reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], weight.shape[0])


@dataclass(frozen=True)
class StaticLayer:
    """The constants of quantize_linear → q_linear or q_conv (→ dequantize_linear) as tensors of a device."""

    graph: Graph
    weight: Tensor
    multiplier: Tensor
    bias: Tensor | None
    x_scale: float
    x_zero: int
    y: tuple[int, int, int]  # zero point, least and largest
    y_scale: Tensor | None  # None: reals as they are

    @staticmethod
    def of(graph: Graph, device: torch.device, op: str = "q_linear") -> StaticLayer | None:
        ops = [n.op for n in graph.nodes]
        if ops not in (["quantize_linear", op, "dequantize_linear"], ["quantize_linear", op]):
            return None
        before, node = graph.nodes[:2]
        data = [None if v is None else graph.constants[v.name].data for v in (*before.inputs[1:], *node.inputs[1:])]
        scale, zero, w, m, bias = (*data, None)[:5]
        to = "int8" if len(ops) == 3 else "float32"
        if w is None or m is None or scale is None or zero is None or zero.dtype != np.int8 or node.attrs["to"] != to or w.dtype != np.int8:
            return None
        if integers(node, "bound")["bound"] >= 2**31 or (bias is not None and bias.dtype != np.int32):
            return None  # the kernel sums in 32 bits

        def there(a: Array) -> Tensor:
            return torch.from_numpy(np.array(a)).to(device)

        after = graph.nodes[2].inputs[1] if len(ops) == 3 else None
        y = integers(node, "y_zero", "lo", "hi")
        return StaticLayer(
            graph, there(w), there(m), None if bias is None else there(bias), float(scale), int(zero), (y["y_zero"], y["lo"], y["hi"]),
            None if after is None else there(graph.constants[after.name].data),
        )  # fmt: skip

    def convolve(self, x: Tensor, attrs: Mapping[str, Any]) -> Tensor:
        """The layer as a convolution; one axis is an image of height 1."""
        line = x.dim() == 3
        one, none = ((1,), (0,)) if line else ((), ())
        half = len(attrs["stride"])
        geometry: dict[str, Any] = {
            "stride": (*one, *attrs["stride"]), "dilation": (*one, *attrs["dilation"]), "groups": attrs["groups"],
            "pads": (*none, *attrs["pads"][:half], *none, *attrs["pads"][half:]),
        }  # fmt: skip
        image, w = (x[:, :, None], self.weight[:, :, None]) if line else (x, self.weight)
        y = None if self.y_scale is None else self.y
        q = launch.conv_integers(image, self.x_scale, self.x_zero, w, self.multiplier, self.bias, y, **geometry)
        q = q[:, :, 0] if line else q
        if self.y_scale is None:
            return q
        return launch.dequantize(q, self.y_scale, torch.full((1,), self.y[0], dtype=torch.int32, device=x.device))

    def __call__(self, x: Tensor) -> Tensor:
        if self.y_scale is None:
            return launch.linear_scaled(x, self.x_scale, self.x_zero, self.weight, self.multiplier, self.bias)
        q = launch.linear_integers(x, self.x_scale, self.x_zero, self.weight, self.multiplier, self.bias, *self.y)
        return launch.dequantize(q, self.y_scale, torch.full((1,), self.y[0], dtype=torch.int32, device=x.device))


@kernel("cuda", "conv_static")
def conv_static(x: Tensor, weight: QTensor, graph: Graph) -> Tensor | None:
    """A static convolution of one or two axes by its lowered graph, in integers; None where the graph is another than of int8."""
    layer = weight.__dict__.get("_static")
    if layer is None or layer.graph is not graph or layer.weight.device != x.device:
        layer = StaticLayer.of(graph, x.device, "q_conv")
        if layer is None or layer.weight.dim() not in (3, 4):
            return None
        weight.__dict__["_static"] = layer
    return layer.convolve(x.to(torch.float32), graph.nodes[1].attrs)


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
