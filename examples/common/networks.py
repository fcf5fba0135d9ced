"""The four trained networks with their data: what `examples/results.py` measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.common import data
from examples.common.language import WINDOW, windows
from examples.common.training import load_weights
from examples.lstm_ptb import model as lstm
from examples.mlp_mnist import model as mlp
from examples.resnet9_cifar10 import model as resnet9
from examples.transformer_ptb import model as transformer

Batches = list[tuple[Tensor, Tensor]]  # inputs and what is right


@dataclass(frozen=True)
class Network:
    """A trained network. `score` maps logits and right answers of all batches to its number; lower is better for perplexities."""

    name: str
    metric: str
    model: nn.Module
    argument: str  # of forward, whose first axis is the batch
    train: Callable[[], Batches]  # a little of what it was trained on: for calibration and training with quantization
    test: Callable[[], Batches]
    timed: int  # rows of the batch that is timed

    @property
    def lower(self) -> bool:
        return self.metric == "perplexity"

    def score(self, logits: Callable[[Tensor], Tensor], batches: Batches) -> float:
        """Accuracy in percent, or perplexity, over the batches."""
        good, loss, count = 0.0, 0.0, 0
        with torch.no_grad():
            for x, y in batches:
                z = logits(x).flatten(0, -2)
                good += float((z.argmax(1) == y.flatten()).sum())
                loss += float(F.cross_entropy(z, y.flatten(), reduction="sum"))
                count += y.numel()
        return float(np.exp(loss / count)) if self.lower else 100 * good / count


def _cut(x: Tensor, y: Tensor, size: int) -> Batches:
    return list(zip(x.split(size), y.split(size)))


def _images(load: Callable[[], tuple[data.Split, data.Split]], prepare: Callable[..., Tensor], part: int, count: int, size: int) -> Batches:
    images, labels = load()[part]
    return _cut(prepare(images[:count]), torch.from_numpy(labels[:count]), size)


def _text(split: str, count: int, length: int, size: int) -> Batches:
    return list(windows(torch.from_numpy(data.treebank()[split][:count]), size, length))


def networks(names: Sequence[str]) -> list[Network]:
    """Those of the four that are asked for, with their committed weights."""
    made = {
        "mlp_mnist": lambda: Network(
            "MLP, MNIST", "accuracy", load_weights(mlp.build(), mlp.WEIGHTS), "x",
            partial(_images, data.mnist, mlp.prepare, 0, 8192, 64), partial(_images, data.mnist, mlp.prepare, 1, 10000, 500), 64,
        ),
        "resnet9_cifar10": lambda: Network(
            "ResNet-9, CIFAR-10", "accuracy", load_weights(resnet9.build(), resnet9.WEIGHTS), "x",
            partial(_images, data.cifar10, resnet9.prepare, 0, 4096, 32),
            partial(_images, data.cifar10, resnet9.prepare, 1, 10000, 250), 16,
        ),
        "lstm_ptb": lambda: Network(
            "LSTM, Penn Treebank", "perplexity", load_weights(lstm.build(), lstm.WEIGHTS), "ids",
            partial(_text, "train", 32769, WINDOW, 1), partial(_text, "test", 82430, WINDOW, 8), 1,
        ),
        "transformer_ptb": lambda: Network(
            "Transformer, Penn Treebank", "perplexity", load_weights(transformer.build(), transformer.WEIGHTS), "ids",
            partial(_text, "train", 32769, transformer.LENGTH, 2), partial(_text, "test", 82430, transformer.LENGTH, 16), 1,
        ),
    }  # fmt: skip
    return [made[name]() for name in names]


WEIGHTS = {"mlp_mnist": mlp.WEIGHTS, "resnet9_cifar10": resnet9.WEIGHTS, "lstm_ptb": lstm.WEIGHTS, "transformer_ptb": transformer.WEIGHTS}
NAMES = tuple(WEIGHTS)
