"""quantize_weights and dequantize_weights of a whole model: each of its layers decides by itself, without a graph."""

from __future__ import annotations

from torch import nn

from lowbit.arguments import flag, shown
from lowbit.errors import InputError, QuantError
from lowbit.quantization.rules import WeightGranularity
from lowbit.torch.arguments import need_module
from lowbit.torch.modules import SWAPS
from lowbit.torch.modules.base import Quantized
from lowbit.torch.root import detach


def quantize_weights(
    model: nn.Module, dtype: str = "int8", granularity: WeightGranularity = "channel", *, keep_float: bool = True
) -> nn.Module:
    """The model, whose layers have integer weights: in eval each multiplies integers, in training it is float32 with gradients.

    A layer whose observers have seen data is static, any other dynamic. `quantize_(model, "int8", data=batches)` also quantizes the
    operations between the layers.

    >>> model = quantize_weights(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).eval()
    >>> [type(m).__name__ for m in model], model[0].quant_mode
    (['Linear', 'ReLU', 'Linear'], 'dynamic')
    """
    need_module(model, hint="lowbit.torch.quantize_weights(torch.nn.Sequential(…))")
    flag("keep_float", keep_float)
    if not isinstance(dtype, str):
        raise InputError(f"dtype={shown(dtype)}, a dtype is needed", hint='quantize_weights(model, "int8")')
    layers = [m for m in model.modules() if isinstance(m, Quantized) or type(m) in SWAPS]
    if not layers:
        hint = "the layers are " + ", ".join(t.__name__ for t in SWAPS)
        raise QuantError("it has no layer whose weights can be quantized", where=type(model).__name__, hint=hint)
    detach(model)
    for m in layers:
        layer = m if isinstance(m, Quantized) else SWAPS[type(m)].swapped(m)
        layer.quantize_weights(dtype, granularity, keep_float=keep_float)
    return model


def dequantize_weights(model: nn.Module) -> nn.Module:
    """The model, whose layers have float weights again: the very ones that were kept, else those that the integers stand for.

    >>> layer = nn.Linear(4, 3)
    >>> weight = layer.weight
    >>> dequantize_weights(quantize_weights(layer)).weight is weight
    True
    """
    need_module(model, hint="lowbit.torch.dequantize_weights(model)")
    detach(model)
    for m in model.modules():
        if isinstance(m, Quantized):
            m.dequantize_weights()
    return model
