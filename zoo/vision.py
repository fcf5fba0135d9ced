"""Networks on images and spectrograms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.sequence import Block


def conv_bn(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([act()] if act is not None else []))


class MLP(nn.Module):
    """Fully connected layers with batch norm and dropout between them."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in pairwise(widths[:-1]):
            layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.2)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class ResNet9(nn.Module):
    """The CIFAR-10 speed-run network: two residual pairs, pooling between."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        w = width
        self.prep = conv_bn(3, w, 3)
        self.layer1 = nn.Sequential(conv_bn(w, 2 * w, 3), nn.MaxPool2d(2))
        self.res1 = nn.Sequential(conv_bn(2 * w, 2 * w, 3), conv_bn(2 * w, 2 * w, 3))
        self.layer2 = nn.Sequential(conv_bn(2 * w, 4 * w, 3), nn.MaxPool2d(2))
        self.layer3 = nn.Sequential(conv_bn(4 * w, 8 * w, 3), nn.MaxPool2d(2))
        self.res3 = nn.Sequential(conv_bn(8 * w, 8 * w, 3), conv_bn(8 * w, 8 * w, 3))
        self.fc = nn.Linear(8 * w, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(self.prep(x))
        x = x + self.res1(x)
        x = self.layer3(self.layer2(x))
        x = x + self.res3(x)
        return self.fc(F.adaptive_max_pool2d(x, 1).flatten(1)) * 0.125


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = conv_bn(cin, width, 1, stride, act=None) if stride != 1 or cin != width else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = conv_bn(cin, out, 1, stride, act=None) if stride != 1 or cin != out else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """ResNet-18 is (BasicBlock, (2, 2, 2, 2)), ResNet-50 (Bottleneck, (3, 4, 6, 3)); layer names are torchvision's."""

    def __init__(self, block: type[BasicBlock] | type[Bottleneck], depths: Sequence[int], classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        cin = 64
        for i, depth in enumerate(depths):
            width = 64 << i
            layers = []
            for j in range(depth):
                layers.append(block(cin, width, 2 if i and not j else 1))
                cin = width * block.expansion
            self.add_module(f"layer{i + 1}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class InvertedResidual(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = cin * expand
        self.expand = conv_bn(cin, hidden, 1, act=nn.ReLU6) if expand != 1 else nn.Identity()
        self.depthwise = conv_bn(hidden, hidden, 3, stride, groups=hidden, act=nn.ReLU6)
        self.project = conv_bn(hidden, cout, 1, act=None)
        self.shortcut = stride == 1 and cin == cout

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


class MobileNetV2(nn.Module):
    # expansion, channels, repeats, first stride
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_bn(3, 32, 3, 2, act=nn.ReLU6)]
        cin = 32
        for expand, cout, repeats, stride in self.STAGES:
            for i in range(repeats):
                layers.append(InvertedResidual(cin, cout, 1 if i else stride, expand))
                cin = cout
        self.features = nn.Sequential(*layers, conv_bn(cin, 1280, 1, act=nn.ReLU6))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class SeparableBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = conv_bn(channels, channels, 3, groups=channels)
        self.pointwise = conv_bn(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))


class DSCNN(nn.Module):
    """Keyword spotting on 49 frames of 10 coefficients: MLPerf Tiny's shape of network."""

    def __init__(self, channels: int = 64, blocks: int = 4, classes: int = 12) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, channels, (10, 4), (2, 2), (5, 1), bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.Dropout(0.2)
        )
        self.blocks = nn.Sequential(*[SeparableBlock(channels) for _ in range(blocks)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


class UNet(nn.Module):
    """Encoder and decoder with skips; upsampling by ConvTranspose."""

    def __init__(self, width: int = 64, depth: int = 3, classes: int = 2) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.inc = self._double(3, widths[0])
        self.down = nn.ModuleList(self._double(a, b) for a, b in pairwise(widths))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.dec = nn.ModuleList(self._double(2 * a, a) for a in widths[:-1])
        self.out = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def _double(cin: int, cout: int) -> nn.Sequential:
        return nn.Sequential(*conv_bn(cin, cout, 3), *conv_bn(cout, cout, 3))

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.inc(x)]
        for down in self.down:
            skips.append(down(self.pool(skips[-1])))
        y = skips.pop()
        for up, dec in zip(reversed(self.up), reversed(self.dec), strict=True):
            y = dec(torch.cat([skips.pop(), up(y)], 1))
        return self.out(y)


class ViT(nn.Module):
    def __init__(self, size: int = 224, patch: int = 16, width: int = 192, heads: int = 3, depth: int = 12, classes: int = 1000) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, patch, patch)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, causal=False) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patch_embed(x).flatten(2).transpose(1, 2)  # (N, patches, width)
        y = torch.cat([self.cls_token.expand(y.shape[0], -1, -1), y], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(y))[:, 0])
