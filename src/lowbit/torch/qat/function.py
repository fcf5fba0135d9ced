"""Fake quantization: the reals that a quantized tensor stands for, with gradients to train by.

    q = clamp(rne(x / s) + zp)          y = fl32(q - zp) * s            the bits of lowbit.numerics
    dy/dx = 1 inside the range, 0 outside                               straight through
    dy/ds = rne(x / s) - x / s inside, qmin - zp below, qmax - zp above learned step size (Esser et al., 2020), times 1 / sqrt(N * Qp)

Inside is qmin - zp < x / s < qmax - zp where the step learns, as published. Where it does not (it follows the data, or is that of a row's
largest number), inside is all that rounds into the range: the largest number has the outermost code, and it must learn like the others.
N is the number of elements that one step serves, Qp = qmax - zp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lowbit.quant_params import Granularity, PerAxis, PerBlock

SMALLEST = float(torch.finfo(torch.float32).tiny)  # below it x / s would lose bits (lowbit.ranges)


def codes(x: Tensor, scale: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """q - zp as float32, for `low` = qmin - zp and `high` = qmax - zp; NaN gives 0, and zero is +0.

    The scale lies on the data's device: torch divides by a number of the host as a multiplication by its inverse, which has other bits.
    """
    return (x / scale).round_().clamp_(low, high).nan_to_num_(nan=0.0).add_(0.0)


class _FakeQuantize(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, low: Tensor, high: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x, scale, low, high)
        ctx.factor = factor
        return codes(x, scale, low, high).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        x, scale, low, high = ctx.saved_tensors
        g, t = grads[0], x / scale
        met = t if ctx.factor else t.round()
        inside = (met > low).logical_and_(met < high) if ctx.factor else (met >= low).logical_and_(met <= high)
        to_x = g * inside if ctx.needs_input_grad[0] else None
        to_scale = torch.zeros_like(scale) if ctx.needs_input_grad[1] else None
        if ctx.needs_input_grad[1] and ctx.factor:
            step = t.round().clamp_(low, high).nan_to_num_(nan=0.0)  # outside it is the bound itself
            step -= t.masked_fill_(inside.logical_not_(), 0.0)
            to_scale = step.mul_(g).sum_to_size(scale.shape) * ctx.factor
        return to_x, to_scale, None, None, None


def fake_quantize(x: Tensor, scale: Tensor, zero_point: Tensor, qmin: int, qmax: int, factor: float | None = None) -> Tensor:
    """`x` quantized and dequantized. `scale` and `zero_point` broadcast against it; `factor` multiplies the gradient of the scale.

    Without `factor` it is that of the paper; 0 keeps the scale where it is (its gradient is zeros, which distributed training needs).

    >>> fake_quantize(torch.tensor([0.2, 0.3, 9.0]), torch.tensor(0.5), torch.tensor(0), -8, 7)
    tensor([0.0000, 0.5000, 3.5000])
    """
    zero = zero_point.to(torch.float32)
    if factor is None:
        factor = step_factor(x.numel() // max(1, scale.numel()), qmax - int(zero_point.max()))
    y: Tensor = _FakeQuantize.apply(x.to(torch.float32), scale, qmin - zero, qmax - zero, factor)  # type: ignore[no-untyped-call]
    return y


def step_factor(count: int, top: int) -> float:
    """1 / sqrt(N * Qp)."""
    return float((max(1, count) * max(1, top)) ** -0.5)


def spread(scale: Tensor, granularity: Granularity, shape: torch.Size) -> Tensor:
    """The scales in a shape that broadcasts against a tensor; differentiable."""
    if isinstance(granularity, PerAxis):
        axis = granularity.axis % len(shape)
        return scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if isinstance(granularity, PerBlock):
        axis = granularity.axis % len(shape)
        return scale.repeat_interleave(granularity.size, axis).narrow(axis, 0, shape[axis])
    return scale


class _Scale(Function):
    @staticmethod
    def forward(ctx: Any, step: Tensor, unit: Tensor) -> Tensor:
        ctx.save_for_backward(unit.clone())  # an observer may move it before the backward pass comes
        return (step * unit).clamp_min(SMALLEST)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] / ctx.saved_tensors[0], None


def scale_of(step: Tensor, unit: Tensor) -> Tensor:
    """step · unit, never below 2^-126; the gradient of `step` is that of the scale, divided by the unit.

    Plain gradient descent then moves the scale as if it were the parameter itself, and Adam, whose steps have the size of the learning
    rate whatever the gradient, moves it by so many parts of itself: int8 scales are often smaller than a learning rate.
    """
    y: Tensor = _Scale.apply(step, unit)  # type: ignore[no-untyped-call]
    return y


class _RoundBias(Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, grid: Tensor) -> Tensor:
        steps = torch.round(bias / grid)
        fits = bool((steps.abs() < 2.0**31).all()) and bool((torch.isfinite(grid) & (grid > 0)).all())
        return (steps + 0.0) * grid if fits else bias.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def round_bias(bias: Tensor, grid: Tensor) -> Tensor:
    """The bias on the accumulator's grid, as int32 would hold it; as it is where it does not fit. Straight through."""
    y: Tensor = _RoundBias.apply(bias, grid)  # type: ignore[no-untyped-call]
    return y
