"""Layers with weights as they train: weight and bias on their grids, a batch norm after them folded in.

Batch norm in training sees its batch: the convolution is done with the weight folded by the running statistics and rounded, its result
is brought back and normalized by the statistics of the batch (Krishnamoorthi, 2018). Frozen, and in eval mode, there is one convolution
by the folded weight and bias, which are those of the exported graph to the bit (float64, rounded once, as `passes.fold_batchnorm`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lowbit.torch.qat.fake import ActivationFake, WeightFake
from lowbit.torch.qat.function import round_bias


class QatLayer(nn.Module):
    """op(x, weight, bias, *options) with weight and bias as the quantized layer will have them.

    times  what the result is multiplied by (or `divided` by): a number, or one for each channel; it is part of weight and bias
    """

    def __init__(
        self,
        op: Callable[..., Tensor],
        options: tuple[Any, ...],
        fake: WeightFake,
        given: ActivationFake | None,
        bn: _BatchNorm | None,
        axis: int,
        divided: bool = False,
    ) -> None:
        super().__init__()
        self.op, self.options, self.axis, self.divided = op, options, axis, divided
        self.fake = fake
        self._input = [given]  # in lists: they belong to the network, and are not this layer's to save
        self._bn = [bn]

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, times: Tensor | float | None = None) -> Tensor:
        bn, by = self._bn[0], None if times is None else factor(times, weight, divided=self.divided)
        if bn is not None and bn.training:
            return self.normalized(bn, x, weight, bias, by)
        if bn is not None:
            weight, bias = folded(bn, weight, bias, self.axis)
        if by is not None:
            weight, bias = scaled(by, weight, bias, self.axis)
        return self.op(x, self.fake(weight), self.on_grid(bias), *self.options)

    def normalized(self, bn: _BatchNorm, x: Tensor, weight: Tensor, bias: Tensor | None, times: Tensor | None) -> Tensor:
        """With the statistics of the batch, which the running ones learn from."""
        by, _ = affine(bn)
        by = by if times is None else by * times
        by = torch.where(by.abs() < 1e-6, torch.full_like(by, 1e-6), by).to(weight.dtype)
        y = self.op(x, self.fake(weight * along(by, weight, self.axis)), None, *self.options) / along(by, x, 1)
        y = bn(y if bias is None else y + along(bias, x, 1))
        return y if times is None else y * along(times.to(y.dtype), x, 1)

    def on_grid(self, bias: Tensor | None) -> Tensor | None:
        given = self._input[0]
        if bias is None or given is None or self.fake.unit.dim() > 1 or not bool(given.ready):
            return bias
        grid = given.scale.detach() * self.fake.scale.detach()
        if grid.dim():
            grid = grid.tile(bias.numel() // grid.numel())  # groups of a transposed convolution share the scales
        return round_bias(bias, grid)


def affine(bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    """s and t of y = x·s + t by the running statistics, float64."""
    assert bn.running_mean is not None and bn.running_var is not None
    var = bn.running_var.double()
    weight = torch.ones_like(var) if bn.weight is None else bn.weight.double()
    by = weight / torch.sqrt(var + bn.eps)
    plus = torch.zeros_like(var) if bn.bias is None else bn.bias.double()
    return by, plus - bn.running_mean.double() * by


def folded(bn: _BatchNorm, weight: Tensor, bias: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of the layer and its batch norm in one."""
    by, plus = affine(bn)
    old = torch.zeros_like(plus) if bias is None else bias.double()
    return (weight.double() * along(by, weight, axis)).to(weight.dtype), (old * by + plus).to(weight.dtype)


def factor(times: Tensor | float, weight: Tensor, *, divided: bool) -> Tensor:
    """The factor of each channel, or one for all, float64; a number is rounded to float32 first, as graphs keep it."""
    by = (times if isinstance(times, Tensor) else torch.tensor(times, dtype=torch.float32, device=weight.device)).double().reshape(-1)
    return 1.0 / by if divided else by


def scaled(by: Tensor, weight: Tensor, bias: Tensor | None, axis: int) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of the layer and the multiplication after it in one, as `passes.fold_affine` makes them."""
    return (weight.double() * along(by, weight, axis)).to(weight.dtype), None if bias is None else (bias.double() * by).to(bias.dtype)


def along(v: Tensor, like: Tensor, axis: int) -> Tensor:
    return v.reshape([-1 if i == axis else 1 for i in range(like.dim())])
