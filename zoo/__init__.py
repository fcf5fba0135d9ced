"""Networks of the usual kinds, written out small: tests take them tiny, benchmarks in full size. Weights are seeded, not trained.

`entry("resnet18").make()` is the module at its size for tests, in eval mode; `.inputs` are example arguments by name.
The classes take sizes: `ResNet(Bottleneck, (3, 4, 6, 3))` is ResNet-50 of 25.6 M parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from zoo.sequence import GPT, RNNLanguageModel, TransformerClassifier
from zoo.vision import DSCNN, MLP, BasicBlock, Bottleneck, MobileNetV2, ResNet, ResNet9, UNet, ViT


@dataclass(frozen=True)
class Entry:
    """A network at its size for tests. `layer` is one of its layers by module path; `dynamic` the dims that may change."""

    name: str
    build: Callable[[], nn.Module]
    inputs: dict[str, tuple[tuple[int, ...], int | None]]  # argument -> shape, and for token ids the vocabulary
    layer: str
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)

    def make(self) -> nn.Module:
        torch.manual_seed(0)
        return randomize(self.build()).eval()

    def example(self, seed: int = 0, **sizes: int) -> dict[str, Tensor]:
        """Arguments of forward; `sizes` replaces dynamic dims by name."""
        rng = torch.Generator().manual_seed(seed)

        def make(name: str, shape: tuple[int, ...], vocabulary: int | None) -> Tensor:
            dims = [sizes.get(self.dynamic.get(name, {}).get(i, ""), n) for i, n in enumerate(shape)]
            return torch.randint(0, vocabulary, dims, generator=rng) if vocabulary else torch.randn(dims, generator=rng)

        return {name: make(name, *spec) for name, spec in self.inputs.items()}


def randomize(model: nn.Module) -> nn.Module:
    """The model with statistics and affine parameters of norms as after training: at their initial 0 and 1 a wrong fold would pass."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d):
            assert m.running_mean is not None and m.running_var is not None
            nn.init.normal_(m.running_mean, std=0.2)
            nn.init.uniform_(m.running_var, 0.5, 2.0)
        if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
            nn.init.uniform_(m.weight, 0.7, 1.3)
            nn.init.normal_(m.bias, std=0.1)
    return model


def _image(*shape: int, **more: Any) -> dict[str, Any]:
    return {"inputs": {"x": (shape, None)}, "dynamic": {"x": {0: "batch"}}, **more}


def _tokens(length: int, vocabulary: int, dynamic: dict[int, str], **more: Any) -> dict[str, Any]:
    return {"inputs": {"ids": ((2, length), vocabulary)}, "dynamic": {"ids": dynamic}, **more}


ZOO = {
    e.name: e
    for e in [
        Entry("mlp", lambda: MLP((64, 128, 128, 10)), **_image(4, 64, layer="layers.0")),
        Entry("resnet9", lambda: ResNet9(width=16), **_image(2, 3, 32, 32, layer="res1.0.0")),
        Entry("resnet18", lambda: ResNet(BasicBlock, (2, 2, 2, 2), classes=100), **_image(1, 3, 64, 64, layer="layer1.0.conv2")),
        Entry("resnet50", lambda: ResNet(Bottleneck, (3, 4, 6, 3), classes=100), **_image(1, 3, 64, 64, layer="layer3.5.conv3")),
        Entry("mobilenetv2", lambda: MobileNetV2(classes=100), **_image(1, 3, 64, 64, layer="features.3.expand.0")),
        Entry("dscnn", DSCNN, **_image(2, 1, 49, 10, layer="blocks.0.depthwise.0")),
        Entry("unet", lambda: UNet(width=8), **_image(1, 3, 48, 64, layer="up.0")),
        Entry("lstm_lm", lambda: RNNLanguageModel("lstm", 200, 32, 48, 2), **_tokens(12, 200, {0: "batch", 1: "seq"}, layer="rnn")),
        Entry("gru_lm", lambda: RNNLanguageModel("gru", 200, 32, 48, 2), **_tokens(12, 200, {0: "batch", 1: "seq"}, layer="rnn")),
        Entry(
            "transformer",
            lambda: TransformerClassifier(200, 32, 4, 2, 10),
            **_tokens(16, 200, {0: "batch", 1: "seq"}, layer="encoder.layers.1.linear2"),
        ),
        Entry("gpt", lambda: GPT(200, 32, 64, 4, 2), **_tokens(16, 200, {0: "batch", 1: "seq"}, layer="blocks.1.attn.qkv")),
        Entry("vit", lambda: ViT(32, 8, 64, 4, 2, 10), **_image(2, 3, 32, 32, layer="blocks.0.mlp.0")),
    ]
}


def entry(name: str) -> Entry:
    return ZOO[name]
