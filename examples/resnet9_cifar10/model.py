"""ResNet-9 of width 24 on CIFAR-10: 0.92 million parameters, 54 million multiplications an image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.vision import ResNet9

WEIGHTS = Path(__file__).parent / "weights.safetensors"
MEAN, STD = (125.31, 122.95, 113.87), (62.99, 62.09, 66.70)  # of the training images, per channel


def build() -> nn.Module:
    return ResNet9(width=24)


def prepare(images: NDArray[np.uint8]) -> torch.Tensor:
    """Bytes (N, 3, 32, 32) as the network's input."""
    x = torch.tensor(images).float()
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
