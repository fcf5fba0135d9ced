"""A language model of two transformer blocks of width 192 on Penn Treebank's 10,000 words, reading 128 of them at a time."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from zoo.sequence import GPT

WEIGHTS, LENGTH = Path(__file__).parent / "weights.safetensors", 128


def build() -> nn.Module:
    return GPT(10000, LENGTH, 192, 4, 2)
