"""The modules that stand where a trained network will have integers: one for each set of parameters.

A step is learned (LSQ), or follows what an observer sees; while ranges warm up, it follows. All that decides a result is in the
state_dict: training resumed from a checkpoint goes on with the same bits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lowbit.dtypes import DType
from lowbit.errors import QuantError
from lowbit.quant_params import PerTensor, QuantParams, Scheme
from lowbit.ranges import params_from_data, params_from_range
from lowbit.torch.qat.function import fake_quantize, scale_of, spread, step_factor


class FakeQuant(nn.Module):
    """The common part: a scale (or several), a zero point, the range of the codes, and whether the scale learns.

    scale = step · unit: the unit is the scale it began with, the step (1 at first) is what learns.
    """

    step: nn.Parameter
    unit: Tensor
    zero_point: Tensor

    def __init__(self, params: QuantParams, qmin: int, qmax: int, *, learn: bool) -> None:
        super().__init__()
        self.dtype: DType = params.dtype
        self.scheme: Scheme = params.scheme
        self.granularity = params.granularity
        self.qmin, self.qmax, self.learn = qmin, qmax, learn
        self.observing = False  # set for each step by the network that holds this
        self.register_buffer("unit", torch.from_numpy(np.array(params.scale, np.float32)))
        self.step = nn.Parameter(torch.ones_like(self.unit), requires_grad=learn)
        self.register_buffer("zero_point", torch.from_numpy(np.array(params.zero_point, np.int32)))

    @property
    def scale(self) -> Tensor:
        return scale_of(self.step, self.unit)

    def params(self) -> QuantParams:
        """The parameters as they are now."""
        scale = self.scale.detach().cpu().numpy()
        return QuantParams(self.dtype, scale, self.zero_point.cpu().numpy(), self.scheme, self.granularity)

    def take(self, params: QuantParams) -> None:
        """Goes on with other parameters."""
        with torch.no_grad():
            self.unit.copy_(torch.from_numpy(np.array(params.scale, np.float32)))
            self.step.fill_(1.0)
            self.zero_point.copy_(torch.from_numpy(np.array(params.zero_point, np.int32)))

    def rounded(self, x: Tensor, count: int) -> Tensor:
        """`x` on the grid; `count` is the N of the step's gradient."""
        learning = self.learn and not self.observing
        factor = step_factor(count, self.qmax - int(self.zero_point.max())) if learning else 0.0
        zero = spread(self.zero_point, self.granularity, x.shape)
        return fake_quantize(x, spread(self.scale, self.granularity, x.shape), zero, self.qmin, self.qmax, factor)

    def extra_repr(self) -> str:
        return f"{self.dtype.name}, {self.scheme}, {self.granularity}, {'learned' if self.learn else 'observed'}"


class ActivationFake(FakeQuant):
    """An activation's grid. In training, while it observes, its range is a moving average of what it sees, in all processes together.

    momentum  share of the new batch in the average
    ready     whether there is a range yet: before the first batch a network that was not calibrated has none, and hands on its input
    fixed     the range is known without data (a softmax): it neither moves nor learns
    """

    low: Tensor
    high: Tensor
    ready: Tensor

    def __init__(
        self, name: str, params: QuantParams, scheme: Scheme, *, learn: bool, ready: bool, fixed: bool, momentum: float = 0.1
    ) -> None:
        d = params.dtype
        if not isinstance(params.granularity, PerTensor):
            raise QuantError(f"activations are trained per tensor, {params.granularity} given", where=name)
        assert d.min is not None and d.max is not None
        super().__init__(params, d.min, d.max, learn=learn and not fixed)
        self.name, self.scheme, self.fixed, self.momentum = name, scheme, fixed, momentum
        scale, zero = float(params.scale), int(params.zero_point)
        self.register_buffer("low", torch.tensor(scale * (d.min - zero), dtype=torch.float64))
        self.register_buffer("high", torch.tensor(scale * (d.max - zero), dtype=torch.float64))
        self.register_buffer("ready", torch.tensor(ready or fixed))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.observing and not self.fixed:
            self.observe(x.detach())
        if not bool(self.ready):
            if not self.training:
                raise QuantError(
                    f"the range of {self.name!r} is not known yet", hint="prepare_qat(…, calibration=…), or train with warmup= of 1 or more"
                )
            return x
        return self.rounded(x, x[0].numel() if x.dim() > 1 and len(x) else x.numel())

    def observe(self, x: Tensor) -> None:
        """Moves the range towards that of the batch, and the parameters with it."""
        ends = torch.stack([-x.min(), x.max()]).to(torch.float64) if x.numel() else x.new_full((2,), -torch.inf, dtype=torch.float64)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(ends, torch.distributed.ReduceOp.MAX)
        if not bool(torch.isfinite(ends).all()):
            raise QuantError(f"{self.name!r} holds NaN or infinity", hint="a smaller learning rate, or clipped gradients")
        if bool(self.ready):
            self.low.lerp_(-ends[0], self.momentum)
            self.high.lerp_(ends[1], self.momentum)
        else:
            self.low.copy_(-ends[0])
            self.high.copy_(ends[1])
            self.ready.fill_(True)
        self.take(params_from_range(float(self.low), float(self.high), self.dtype, self.scheme))


class WeightFake(FakeQuant):
    """A weight's grid: learned steps, or steps that follow the largest weight."""

    def __init__(self, params: QuantParams, *, learn: bool) -> None:
        if params.dtype.name == "binary":
            raise QuantError("binary weights are not trained", hint="int4 or int8 weights; or a FloatRule for the layer")
        super().__init__(params, *params.code_range, learn=learn)

    def forward(self, w: Tensor) -> Tensor:
        if self.training and (self.observing or not self.learn):
            self.take_from(w)
        return self.rounded(w, w.numel() // max(1, self.unit.numel()))

    def take_from(self, w: Tensor) -> None:
        """Goes on with the steps that cover the weights."""
        self.take(params_from_data(w.detach().cpu().numpy(), self.dtype, self.scheme, self.granularity))


class RowsFake(nn.Module):
    """Rows quantized at run time (docs/arithmetic.md §2, dynamic activations): int8 by the largest magnitude of each. Straight through."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            top = torch.nan_to_num(x, nan=0.0, posinf=torch.inf, neginf=-torch.inf).abs().amax(-1, keepdim=True)
            scale = top / top.new_full((), 127.0)
            scale = torch.where(torch.isfinite(scale) & (scale != 0), scale, torch.ones_like(scale))
        return fake_quantize(x, scale, torch.zeros((), dtype=torch.int32, device=x.device), -127, 127, 0.0)
