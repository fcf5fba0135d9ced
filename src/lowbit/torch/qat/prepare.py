"""prepare_qat: from a module to the network that trains with quantization in the loop."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from lowbit.arguments import items, whole
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.run import calibrate
from lowbit.errors import InputError
from lowbit.quantization.recipes import recipe as rules_of
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.torch.arguments import need_module
from lowbit.torch.modules.base import Quantized
from lowbit.torch.qat.model import QatModel
from lowbit.torch.qat.placing import place
from lowbit.torch.qat.trace import trace


def prepare_qat(
    model: nn.Module,
    recipe: str = "int8",
    *,
    inputs: Any,
    rules: Iterable[QuantRule] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    calibration: CalibrationRecord | Iterable[Any] | None = None,
    method: str = "minmax",
    learn_step: bool = True,
    warmup: int | None = 0,
    freeze_bn: int | None = None,
    inplace: bool = False,
) -> QatModel:
    """The module with fake quantization where `lowbit.quantize` puts its brackets; train it, then `lowbit.load(it)`.

    inputs       example arguments of forward, as for `lowbit.load`; dynamic={"x": {0: "batch"}} leaves the size of the batch open
    calibration  a record, or data to make one with `method`: before the first step the network is then the one that
                 `lowbit.quantize` gives. Without it, ranges come from the first batches: warmup=1 or more
    learn_step   step sizes are learned (LSQ); False: they follow what the observers see
    warmup       training steps in which ranges follow the data and no step learns; None: they always follow
    freeze_bn    training steps after which batch norms keep their statistics (0: from the first on)
    inplace      the parameters of `model` itself are trained; else those of a copy

    >>> model = prepare_qat(nn.Sequential(nn.Linear(4, 3)), inputs=torch.ones(2, 4), calibration=[torch.ones(2, 4)])
    >>> model(torch.ones(2, 4)).requires_grad
    True
    """
    need_module(model)
    done = next((path or "it" for path, m in model.named_modules() if isinstance(m, Quantized | QatModel)), None)
    if done is not None:
        raise InputError(f"the model is quantized already ({done})", where="prepare_qat", hint="the float model; dequantize_(model) first")
    for name, steps in (("warmup", warmup), ("freeze_bn", freeze_bn)):
        if steps is not None:
            whole(name, steps, 0)
    if calibration is None and warmup == 0:
        raise InputError(
            "there are no ranges to begin with", where="prepare_qat", hint="calibration=data or a record; or warmup=100 to learn them first"
        )
    model = model if inplace else copy.deepcopy(model)
    traced = trace(model, inputs, dynamic)
    transform = QuantizationTransform(rules if rules is not None else rules_of(recipe))
    record = calibration if calibration is None or isinstance(calibration, CalibrationRecord) else None
    if record is None and calibration is not None:
        observed = transform.taps(traced.graph).observed
        record = calibrate(traced.graph, as_arrays(calibration), observed, method=method)
    placing = place(traced, model, transform, record, learn=learn_step)
    return QatModel(model, traced, placing, transform, record, (inputs, dynamic), warmup=warmup, freeze_bn=freeze_bn)


def as_arrays(data: Iterable[Any]) -> Iterator[Any]:
    """Samples with NumPy arrays for tensors."""
    for sample in items("calibration", data, hint="a CalibrationRecord, or batches: [(x1,), (x2,), …]"):
        yield tree_map(lambda x: x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x, sample)
