"""The layers that can be quantized, by the float module they stand for."""

from __future__ import annotations

from torch import nn

from lowbit.torch.modules.attention import MultiheadAttention
from lowbit.torch.modules.base import Plan, Quantized
from lowbit.torch.modules.conv import Conv1d, Conv2d, ConvTranspose2d
from lowbit.torch.modules.linear import Embedding, Linear
from lowbit.torch.modules.recurrent import GRU, LSTM

SWAPS: dict[type[nn.Module], type[Quantized]] = {
    nn.Linear: Linear,
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.ConvTranspose2d: ConvTranspose2d,
    nn.Embedding: Embedding,
    nn.LSTM: LSTM,
    nn.GRU: GRU,
    nn.MultiheadAttention: MultiheadAttention,
}

__all__ = [
    "GRU",
    "LSTM",
    "SWAPS",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Embedding",
    "Linear",
    "MultiheadAttention",
    "Plan",
    "Quantized",
]
