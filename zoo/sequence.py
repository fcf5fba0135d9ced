"""Networks on tokens: recurrent language models, a transformer encoder, a GPT."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class RNNLanguageModel(nn.Module):
    """Embedding, LSTM or GRU, logits; with `tied` the table of the embedding is the weight of the head."""

    def __init__(self, kind: str, vocabulary: int, width: int, hidden: int, layers: int, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, hidden, layers, batch_first=True, dropout=0.1)
        self.head = nn.Linear(hidden, vocabulary)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        y, _ = self.rnn(self.embed(ids))
        return self.head(y)


class TransformerClassifier(nn.Module):
    """PyTorch's own encoder under sinusoidal positions, mean over time."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, classes: int, length: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        place = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("positions", torch.stack([place.sin(), place.cos()], -1).flatten(1))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.positions[: ids.shape[1]]
        return self.head(self.encoder(x).mean(1))


class Attention(nn.Module):
    """Multi-head self-attention written out: scores, causal mask, softmax."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.causal:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(n, t, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Decoder with learned positions; the head's weight is the embedding's table."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocabulary, width)
        self.pos = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads, causal=True) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


class BidirectionalStack(nn.Module):
    """Frames of features -> classes of each frame: an instance norm over time, bidirectional LSTMs, a linear layer; as diarization has it.

    The weights are larger than PyTorch's initial ones, with which a state forgets its inputs within few steps and all classes are about
    as likely. The head has no bias at first, so that all classes are met.
    """

    def __init__(self, features: int, hidden: int, layers: int, classes: int, gain: float = 2.0) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(features, affine=True)
        self.rnn = nn.LSTM(features, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.LeakyReLU(), nn.Linear(hidden, classes))
        with torch.no_grad():
            for name, p in self.rnn.named_parameters():
                if name.startswith("weight"):
                    p.mul_(gain)
            for name, p in self.head.named_parameters():
                p.mul_(0 if name.endswith("bias") else 2 * gain)

    def forward(self, x: Tensor) -> Tensor:
        """(N, features, T) -> (N, T, classes)."""
        y, _ = self.rnn(self.norm(x).transpose(1, 2))
        return self.head(y).log_softmax(-1)
