"""The CPU's kernels for quantized tensors: lowbit's compiled ones, on the tensors' own memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowbit.matmul import matmul as int_matmul
from lowbit.matmul import plan_matmul
from lowbit.quant_params import PerBlock, PerTensor, QuantParams
from lowbit.torch.kernels import kernel
from lowbit.torch.layer import Compiled, Layer, dims, mark, run
from lowbit.torch.params import PACKED
from lowbit.torch.qtensor import QTensor
from lowbit.types import Array


def compiled(weight: QTensor) -> Compiled:
    """The sessions that belong to a weight."""
    found: Compiled | None = weight.__dict__.get("_compiled")
    if found is None:
        found = weight.__dict__["_compiled"] = Compiled()
    return found


@kernel("cpu", "matmul")
def matmul(a: QTensor, b: QTensor) -> Tensor | None:
    p, q = a.quant_params, b.quant_params
    if plan_matmul(tuple(a.shape), p, tuple(b.shape), q).kind == "float":
        return None
    return torch.from_numpy(np.asarray(int_matmul(a.ints.numpy(), p, b.ints.numpy(), q)))


@dataclass(frozen=True)
class _Right:
    """A weight as the right side of products: its integers, unpacked and transposed."""

    mark: Any
    ints: Array
    params: QuantParams


def right_side(weight: QTensor) -> _Right:
    """Made once for each weight: to unpack four-bit integers and to pack their transpose takes longer than to multiply them."""
    found: _Right | None = weight.__dict__.get("_right")
    if found is None or found.mark != mark(weight):
        t = weight.t()
        assert isinstance(t, QTensor)
        found = weight.__dict__["_right"] = _Right(mark(weight), np.array(t.ints.numpy()), t.quant_params)
    return found


@kernel("cpu", "linear")
def linear(x: QTensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    if weight._layout.dtype not in PACKED or weight.dim() != 2 or x.dim() < 2:
        y = matmul(x, weight.t())
    else:
        right, p = right_side(weight), x.quant_params
        if plan_matmul(tuple(x.shape), p, right.ints.shape, right.params).kind == "float":
            return None
        y = torch.from_numpy(np.asarray(int_matmul(x.ints.numpy(), p, right.ints, right.params)))
    return y if y is None or bias is None else y + bias


@kernel("cpu", "conv2d")
def conv2d(x: QTensor, weight: QTensor, bias: Tensor | None = None, **geometry: Any) -> Tensor | None:
    p, w = x.quant_params, weight.quant_params
    per_channel = isinstance(w.granularity, PerTensor) or (not isinstance(w.granularity, PerBlock) and w.axis(4) == 0)
    if not isinstance(p.granularity, PerTensor) or not per_channel or "logarithmic" in (p.scheme, w.scheme):
        return None
    attrs = conv_attrs(**geometry)
    shape = dims("n", int(x.shape[1]), int(x.shape[2]), int(x.shape[3]))
    layer = Layer("conv", shape, weight, None, p, None, True, attrs)
    made = compiled(weight).get((p, shape, tuple(attrs.items())), layer.graph, (weight,))
    y = run(made, x.ints)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


@kernel("cpu", "linear_rows")
def linear_rows(x: Tensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    layer = Layer("linear", dims("rows", int(weight.shape[1])), weight, bias, "rows")
    made = compiled(weight).get("rows", layer.graph, (weight, bias))
    return run(made, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], weight.shape[0])


@kernel("cpu", "weight_only")
def weight_only(x: Tensor, weight: QTensor, bias: Tensor | None = None) -> Tensor | None:
    """Weights in few bits, multiplied as floats by a session that keeps them as it wants them."""
    layer = Layer("linear", dims("rows", int(weight.shape[1])), weight, bias)
    made = compiled(weight).get("weights", layer.graph, (weight, bias))
    return run(made, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], weight.shape[0])


def conv_attrs(stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int) -> dict[str, Any]:
    """torch's geometry in the graph's words: pads before all axes, then after them."""
    return {"stride": tuple(stride), "pads": (*padding, *padding), "dilation": tuple(dilation), "groups": groups}
