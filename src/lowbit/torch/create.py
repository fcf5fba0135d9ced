"""Quantized tensors without data: those of lowbit.empty, lowbit.full and lowbit.zeros, on a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lowbit.dtypes import DType
from lowbit.qarray import create
from lowbit.quant_params import QuantParams
from lowbit.torch.qtensor import QTensor

Shape = int | Sequence[int]
Device = torch.device | str


def zeros(shape: Shape, dtype: str | DType | None = None, params: QuantParams | None = None, *, device: Device = "cpu") -> QTensor:
    """A QTensor of zeros: every code is the zero point. Without `params`, a scale of 1.

    >>> zeros((2,), "uint8").ints.tolist()
    [128, 128]
    """
    return QTensor.from_qarray(create.zeros(shape, dtype, params), device)


def empty(shape: Shape, dtype: str | DType | None = None, params: QuantParams | None = None, *, device: Device = "cpu") -> QTensor:
    """A QTensor whose values mean nothing yet; its shape, bytes and parameters are what they will be.

    >>> empty((10, 10), "int4").packed.numel()
    50
    """
    return QTensor.from_qarray(create.empty(shape, dtype, params), device)


def full(
    shape: Shape, fill_value: float, dtype: str | DType | None = None, params: QuantParams | None = None, *, device: Device = "cpu"
) -> QTensor:
    """A QTensor of one value, rounded by `params`; without them the value decides the scale.

    >>> full((2,), 1.5, "int8").tolist()
    [1.5, 1.5]
    """
    return QTensor.from_qarray(create.full(shape, fill_value, dtype, params), device)
