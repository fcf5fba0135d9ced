"""BERT as an encoder of sentences, in plain torch; the parameters are named as in published checkpoints."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Embeddings(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, eps: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps)

    def forward(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device)
        return self.LayerNorm(
            self.word_embeddings(ids) + self.token_type_embeddings(torch.zeros_like(ids)) + self.position_embeddings(place)
        )


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n, t, width = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + mask
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width)


class Output(nn.Module):
    """Linear, residual, norm: behind attention and behind the two-layer network alike."""

    def __init__(self, wide: int, width: int, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(wide, width)
        self.LayerNorm = nn.LayerNorm(width, eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, wide: int, eps: float) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(width, heads), "output": Output(width, width, eps)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, wide)})
        self.output = Output(wide, width, eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(nn.functional.gelu(self.intermediate["dense"](x)), x)


class SentenceEncoder(nn.Module):
    """ids, mask (N, S) → unit vectors (N, width): the mean of the last layer over the tokens that are there."""

    def __init__(
        self, vocabulary: int = 30522, positions: int = 512, width: int = 384, heads: int = 12, wide: int = 1536, layers: int = 6
    ) -> None:
        super().__init__()
        eps = 1e-12
        self.embeddings = Embeddings(vocabulary, positions, width, eps)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(width, heads, wide, eps) for _ in range(layers))})

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        there = mask.to(torch.float32)
        x = self.embeddings(ids)
        hidden = (1.0 - there)[:, None, None, :] * torch.finfo(torch.float32).min
        for layer in self.encoder["layer"]:
            x = layer(x, hidden)
        mean = (x * there[:, :, None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1e-9)
        return nn.functional.normalize(mean)
