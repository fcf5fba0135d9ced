"""Conv1d, Conv2d, ConvTranspose2d on integers. Padding holds the zero point."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowbit.quant_params import QuantParams
from lowbit.torch import kernels
from lowbit.torch.layer import Layer, dims, run
from lowbit.torch.modules.base import HALF, Quantized, StraightThrough, faked
from lowbit.torch.qtensor import QTensor


class _Conv(Quantized):
    """The common part of the convolutions."""

    op = "conv"
    weight: Tensor
    bias: Tensor | None
    in_channels: int
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    padding: Any
    padding_mode: Any
    _reversed_padding_repeated_twice: list[int]

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = (self._wide if input.dtype in HALF and self.is_quantized else self._forward)(input)
        return made

    def attrs(self) -> dict[str, Any]:
        """torch's geometry in the graph's words: pads before all axes, then after them. Other paddings than zeros come before the layer."""
        n = len(self.stride)
        flat = self._reversed_padding_repeated_twice  # last axis first, before and after
        pads = [flat[2 * (n - 1 - i) + side] for side in (0, 1) for i in range(n)] if self.padding_mode == "zeros" else [0] * (2 * n)
        return {"stride": tuple(self.stride), "pads": tuple(pads), "dilation": tuple(self.dilation), "groups": self.groups}

    def _on_integers(self, x: Tensor) -> Tensor:
        if x.requires_grad and torch.is_grad_enabled():
            return StraightThrough.of(x, self)
        return self._exact(x)

    def _exact(self, x: Tensor) -> Tensor:
        if self.quant_mode == "dynamic":
            return self._by_image(x)
        if kernels.kind(x) != "cpu":
            return self._elsewhere(x)
        x, alone = self._padded(x)
        spatial = tuple(x.shape[-len(self.stride) :])
        made = self._compiled.get(spatial, lambda: self.layer(spatial), self._constants())
        y = run(made, x)
        return y[0] if alone else y

    def _elsewhere(self, x: Tensor) -> Tensor:
        """On another device, by its kernels; where there are none, in float with the same quantized numbers."""
        y = None
        if self.op == "conv" and kernels.find(kernels.kind(x), "conv_static") is not None:
            images, alone = self._padded(x)
            spatial = tuple(images.shape[-len(self.stride) :])
            lowered = self._compiled.get(spatial, lambda: self.layer(spatial), self._constants()).graph
            y = kernels.run("conv_static", images, self.weight, lowered)
            y = y[0] if y is not None and alone else y
        return faked(self._real(faked(x, self.input_params)), self.output_params) if y is None else y

    def _padded(self, x: Tensor) -> tuple[Tensor, bool]:
        """Images with other paddings than zeros around them, and whether there is one without a batch."""
        if self.padding_mode != "zeros":
            x = F.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        alone = x.dim() == len(self.stride) + 1
        return x[None] if alone else x, alone

    def _by_image(self, x: Tensor) -> Tensor:
        """Each image gets a scale at run time, its largest magnitude over 127. Integers are multiplied; y = sums · sx · sw + b."""
        if kernels.kind(x) != "cpu" or x.dtype != torch.float32:
            return self._real(x)
        x, alone = self._padded(x)
        scale = x.abs().amax(dim=tuple(range(1, x.dim())), keepdim=True) / 127
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # an image of zeros, or of numbers that are next to nothing
        ints = torch.round(x / scale).to(torch.int8)
        spatial = tuple(x.shape[-len(self.stride) :])
        made = self._compiled.get(("dynamic", spatial), lambda: self.sums(spatial), self._constants())
        y = run(made, ints) * scale
        y = y if self.bias is None else y + self.bias.detach().reshape(-1, *(1,) * len(self.stride))
        return y[0] if alone else y

    def sums(self, spatial: tuple[int, ...]) -> Any:
        """The graph of the layer alone on int8 images whose scale is 1, without its bias."""
        assert isinstance(self.weight, QTensor)
        shape = dims("n", self.in_channels, *spatial)
        return Layer(self.op, shape, self.weight, None, QuantParams("int8", 1.0, 0), None, ints=True, attrs=self.attrs()).graph()

    def layer(self, spatial: tuple[int, ...]) -> Any:
        """The graph of the layer alone, on images of this size."""
        assert isinstance(self.weight, QTensor)
        shape = dims("n", self.in_channels, *spatial)
        return Layer(self.op, shape, self.weight, self.bias, self.input_params, self.output_params, attrs=self.attrs()).graph()


class Conv1d(_Conv, nn.Conv1d):
    """nn.Conv1d that can be quantized.

    >>> layer = Conv1d.from_float(nn.Conv1d(4, 3, 3, padding=1)).quantize_weights().eval()
    >>> layer(torch.ones(2, 4, 8)).shape
    torch.Size([2, 3, 8])
    """


class Conv2d(_Conv, nn.Conv2d):
    """nn.Conv2d that can be quantized.

    >>> layer = Conv2d.from_float(nn.Conv2d(4, 3, 3, padding=1)).quantize_weights().eval()
    >>> layer(torch.ones(2, 4, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """


class ConvTranspose2d(_Conv, nn.ConvTranspose2d):
    """nn.ConvTranspose2d that can be quantized.

    >>> layer = ConvTranspose2d.from_float(nn.ConvTranspose2d(4, 3, 2, stride=2)).quantize_weights().eval()
    >>> layer(torch.ones(2, 4, 8, 8)).shape
    torch.Size([2, 3, 16, 16])
    """

    op = "conv_transpose"

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        made: Tensor = (self._wide if input.dtype in HALF and self.is_quantized else self._forward)(input, output_size)
        return made

    def attrs(self) -> dict[str, Any]:
        return super().attrs() | {"output_padding": tuple(self.output_padding)}

    def _on_integers(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        if output_size is not None:  # asks for a padding that depends on the input: in float
            return nn.ConvTranspose2d.forward(self, x, output_size)
        return super()._on_integers(x)
