"""The networks of MLPerf Tiny as architectures, an LSTM and a transformer of their size, in int8. Weights are seeded, not trained."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))

import lowbit
from lowbit.ir.graph import Graph
from zoo import randomize
from zoo.vision import DSCNN


def conv_bn(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), *([nn.ReLU()] if act else []))


class MobileNetV1(nn.Module):
    """Visual wake words: MobileNetV1 of a quarter of the width on 96 x 96 pixels."""

    STAGES = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))  # channels, stride

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        layers, cin = [conv_bn(3, 8, 3, 2)], 8
        for cout, stride in self.STAGES:
            layers += [conv_bn(cin, cin, 3, stride, groups=cin), conv_bn(cin, cout, 1)]
            cin = cout
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x).mean((2, 3)))


class ResNet8(nn.Module):
    """Image classification on 32 x 32 pixels: three stacks of two convolutions."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = conv_bn(3, 16, 3)
        self.bodies = nn.ModuleList(
            nn.Sequential(conv_bn(cin, cout, 3, stride), conv_bn(cout, cout, 3, act=False))
            for cin, cout, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        )
        self.shortcuts = nn.ModuleList([nn.Identity(), nn.Conv2d(16, 32, 1, 2), nn.Conv2d(32, 64, 1, 2)])
        self.fc = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for body, shortcut in zip(self.bodies, self.shortcuts, strict=True):
            x = torch.relu(body(x) + shortcut(x))
        return self.fc(x.mean((2, 3)))


class AutoEncoder(nn.Module):
    """Anomaly detection on 5 frames of 128 bands."""

    def __init__(self) -> None:
        super().__init__()
        widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
        layers: list[nn.Module] = []
        for cin, cout in pairwise(widths):
            layers += [nn.Linear(cin, cout), nn.BatchNorm1d(cout), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(128, 640))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class KeywordLSTM(nn.Module):
    """Keyword spotting by an LSTM of 64 units on 49 frames of 10 coefficients."""

    def __init__(self, hidden: int = 64, classes: int = 12) -> None:
        super().__init__()
        self.rnn = nn.LSTM(10, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.rnn(x)[0][:, -1])


class KeywordTransformer(nn.Module):
    """Keyword spotting by two transformer layers of width 32 on 49 frames of 10 coefficients."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2, classes: int = 12) -> None:
        super().__init__()
        self.embed = nn.Linear(10, width)
        self.positions = nn.Parameter(torch.randn(49, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.encoder(self.embed(x) + self.positions).mean(1))


@dataclass(frozen=True)
class Tiny:
    """A network, its input, and the bytes of its arena that TensorFlow Lite Micro uses, measured apart from this benchmark."""

    name: str
    what: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    arena: int | None = None

    def graph(self) -> Graph:
        """The int8 graph, calibrated with noise."""
        torch.manual_seed(0)
        model = randomize(self.build()).eval()
        x = torch.randn(self.shape)
        g = lowbit.load(model, inputs=(x,))
        data = [{g.inputs[0].name: torch.randn(self.shape).numpy()} for _ in range(4)]
        return lowbit.quantize(g, data, recipe="int8", guard=False)


MODELS = [
    Tiny("kws", "DS-CNN, keyword spotting, 49 x 10", lambda: DSCNN(), (1, 1, 49, 10), 24_576),
    Tiny("vww", "MobileNetV1 0.25, visual wake words, 96 x 96 x 3", MobileNetV1, (1, 3, 96, 96)),
    Tiny("ic", "ResNet-8, image classification, 32 x 32 x 3", ResNet8, (1, 3, 32, 32), 58_416),
    Tiny("ad", "autoencoder, anomaly detection, 640", AutoEncoder, (1, 640), 19_968),
    Tiny("lstm", "LSTM of 64 units, keyword spotting, 49 x 10", KeywordLSTM, (1, 49, 10)),
    Tiny("transformer", "transformer, 2 layers of 32, keyword spotting, 49 x 10", KeywordTransformer, (1, 49, 10)),
]
