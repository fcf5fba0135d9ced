"""Modules of torch.ao that torch.export cannot trace, as modules that it can: fake quantization, and the quantized layers of eager mode.

Quantized tensors between them become floats on the same grid; their brackets are `fake_quantize` ops, which the importer knows.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from lowbit.errors import UnsupportedOp

if TYPE_CHECKING:
    from torch.nn import Module

LAYERS = ("Linear", "Conv1d", "Conv2d", "LinearReLU", "ConvReLU1d", "ConvReLU2d")


def exportable(module: Module) -> Module:
    """The module itself where nothing of it is torch.ao's; else a copy whose parts of torch.ao are plain ones."""
    if not any(is_ao(m) for m in module.modules()):
        return module
    made: Any = replaced(copy.deepcopy(module), "")
    done: list[str] = []
    for path, m in list(made.named_modules()):
        inside = any(path.startswith(f"{outer}.") for outer in done)  # of a layer that was replaced: its packed weights
        if path and is_ao(m) and not inside:
            made.set_submodule(path, replaced(m, path))
            done.append(path)
    return made.train(module.training)


def is_ao(m: Any) -> bool:
    from torch.ao.quantization import FakeQuantizeBase

    kind = type(m)
    return isinstance(m, FakeQuantizeBase) or (
        ".ao.nn." in kind.__module__ and "quantized" in kind.__module__ and ".qat" not in kind.__module__
    )


def replaced(m: Any, path: str) -> Any:
    """What stands for one module."""
    from torch import nn
    from torch.ao.quantization import FakeQuantizeBase

    if not is_ao(m):
        return m
    if isinstance(m, FakeQuantizeBase):
        return fake_of(m)
    name = type(m).__name__
    if name == "Quantize":
        return Fake()(m.scale, m.zero_point, *codes(m.dtype))
    if name == "DeQuantize":
        return nn.Identity()
    if name == "QFunctional":
        return functional(m)
    if name in LAYERS and "dynamic" not in type(m).__module__:
        return layer_of(m)
    hint = "a model of Linear, Conv1d, Conv2d with ReLU, quantized statically; or the float model, quantized by lowbit"
    raise UnsupportedOp(f"torch.ao's {name} has no form that can be exported", where=path or type(m).__name__, hint=hint)


def codes(kind: Any) -> tuple[int, int]:
    return (0, 255) if "quint8" in str(kind) else (-128, 127)


def Fake() -> Any:
    """The module of fixed fake quantization: Fake()(scale, zero_point, qmin, qmax, axis)."""
    import torch

    class FixedFakeQuantize(torch.nn.Module):
        def __init__(self, scale: Any, zero_point: Any, qmin: int, qmax: int, axis: int | None = None) -> None:
            super().__init__()
            self.scale, self.zero_point = torch.as_tensor(scale).float(), torch.as_tensor(zero_point).to(torch.int32)
            self.qmin, self.qmax, self.axis = int(qmin), int(qmax), axis
            self.numbers = None if axis is not None else (float(self.scale.reshape(())), int(self.zero_point.reshape(())))

        def forward(self, x: Any) -> Any:
            if self.numbers is None and self.axis is not None:
                return torch.fake_quantize_per_channel_affine(x, self.scale, self.zero_point, self.axis, self.qmin, self.qmax)
            assert self.numbers is not None
            return torch.fake_quantize_per_tensor_affine(x, *self.numbers, self.qmin, self.qmax)

    return FixedFakeQuantize


def fake_of(m: Any) -> Any:
    """A fake quantize module with the parameters that it has now."""
    import torch

    if not bool(m.fake_quant_enabled[0]):
        return torch.nn.Identity()
    axis = int(m.ch_axis) if m.scale.numel() > 1 or "per_channel" in str(getattr(m, "qscheme", "")) else None
    qmin, qmax = (int(getattr(m, n, None) or getattr(m.activation_post_process, n)) for n in ("quant_min", "quant_max"))
    return Fake()(m.scale.detach(), m.zero_point.detach(), qmin, qmax, axis)


def layer_of(m: Any) -> Any:
    """A quantized Linear or Conv on floats of the same grid: weights, bias, a relu where it has one, and its output's rounding."""
    import torch
    import torch.nn.functional as F

    w, bias = m.weight(), m.bias()
    per_channel = w.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric, torch.per_channel_affine_float_qparams)
    scale, zero = (w.q_per_channel_scales(), w.q_per_channel_zero_points()) if per_channel else (w.q_scale(), w.q_zero_point())
    weight_fake = Fake()(scale, zero, -128, 127, int(w.q_per_channel_axis()) if per_channel else None)
    result = Fake()(m.scale, m.zero_point, 0, 255)
    name = type(m).__name__

    class QuantizedLayer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(w.dequantize())
            self.bias = None if bias is None else torch.nn.Parameter(bias.detach())
            self.weight_fake, self.result = weight_fake, result

        def forward(self, x: Any) -> Any:
            weight = self.weight_fake(self.weight)
            if "Linear" in name:
                y = F.linear(x, weight, self.bias)
            else:
                conv = F.conv1d if "1d" in name else F.conv2d
                y = conv(x, weight, self.bias, m.stride, m.padding, m.dilation, m.groups)
            return self.result(F.relu(y) if "ReLU" in name else y)

    return QuantizedLayer()


def functional(m: Any) -> Any:
    """QFunctional: sums, products and joins whose result is rounded."""
    import torch

    class Functional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.result = Fake()(m.scale, m.zero_point, 0, 255)

        def add(self, a: Any, b: Any) -> Any:
            return self.result(a + b)

        def add_relu(self, a: Any, b: Any) -> Any:
            return self.result(torch.relu(a + b))

        def mul(self, a: Any, b: Any) -> Any:
            return self.result(a * b)

        def cat(self, xs: Any, dim: int = 0) -> Any:
            return self.result(torch.cat(xs, dim))

    return Functional()
