"""A language model of two LSTM layers of 192 on Penn Treebank's 10,000 words; the table of the words is the head's weight, too."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from zoo.sequence import RNNLanguageModel

WEIGHTS = Path(__file__).parent / "weights.safetensors"


def build() -> nn.Module:
    return RNNLanguageModel("lstm", 10000, 192, 192, 2, tied=True)
