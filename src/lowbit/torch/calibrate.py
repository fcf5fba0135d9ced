"""calibrate(model, data): the model runs over batches while its layers observe; the batches are kept for the graph that convert makes."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from lowbit.arguments import items
from lowbit.errors import CalibrationError, InputError
from lowbit.quantization.rules import QuantRule
from lowbit.torch.arguments import need_module
from lowbit.torch.modules.base import Quantized


@dataclass
class Pending:
    """The arguments of quantize_, until convert uses them."""

    rules: tuple[QuantRule, ...]
    method: str
    guard: bool
    dynamic: Mapping[str, Mapping[int, str]] | None
    batches: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)


def pending(model: nn.Module) -> Pending:
    found = need_module(model).__dict__.get("_lowbit_pending")
    if not isinstance(found, Pending):
        raise InputError("the model waits for no calibration", where=type(model).__name__, hint='quantize_(model, "int8") comes first')
    return found


def prepared(model: nn.Module, method: str | None, recipe: str | None) -> Pending:
    """The pending arguments of the model; without any, the recipe prepares it."""
    from lowbit.torch.swap import quantize_

    waiting = need_module(model, hint="lowbit.calibrate takes graphs").__dict__.get("_lowbit_pending") is not None
    if waiting and recipe is not None:
        hint = f"calibrate(model, data), or quantize_(model, {recipe!r}) before it"
        raise InputError(f"the model is prepared already, recipe={recipe!r} comes too late", where=type(model).__name__, hint=hint)
    if not waiting and getattr(model, "lowbit_graph", None) is not None:
        hint = "quantize_(model, recipe, data=batches), or dequantize_(model) first"
        raise InputError("the model is static already", where=type(model).__name__, hint=hint)
    if not waiting:
        quantize_(model, recipe or "int8", method=method or "minmax")
        if "_lowbit_pending" not in model.__dict__:
            said = f"{recipe!r} has no static layers, which calibration is for"
            raise InputError(said, where=type(model).__name__, hint=f"quantize_(model, {recipe!r}) is all it needs, or recipe='int8'")
    return pending(model)


def calibrate(model: nn.Module, data: Iterable[Any], *, method: str | None = None, recipe: str | None = None) -> nn.Module:
    """The model, with observers that have seen `data`; call it again for more. `convert` makes it static.

    A model that `quantize_` has not prepared is prepared first, by `recipe` (int8).

    >>> model = calibrate(nn.Linear(4, 2), [torch.ones(3, 4), torch.zeros(3, 4)])
    >>> convert(model).quant_mode
    'static'
    """
    waiting = prepared(model, method, recipe)
    if method is not None:
        waiting.method = method
    layers = [m for m in model.modules() if isinstance(m, Quantized) and m.plan.mode == "static"]
    for m in layers:
        if m.input_observer is None:
            m.start_calibration(waiting.method)
    before = {m: m.training for m in model.modules()}
    count = len(waiting.batches)
    model.eval()
    try:
        with torch.no_grad():
            for i, batch in enumerate(items("data", data, hint="batches as the model takes them: [x1, x2, …] or a DataLoader")):
                args, options = call_of(model, batch)
                try:
                    model(*args, **options)
                except (RuntimeError, TypeError, IndexError) as e:
                    said = str(e).partition("\n")[0]
                    raise InputError(
                        f"the model does not take it ({said})", where=f"batch {i}", hint="batches as forward takes them"
                    ) from e
                waiting.batches.append(tree_map_only(Tensor, lambda t: t.detach().clone(), (args, options)))
    finally:
        for each, training in before.items():
            each.training = training
    if len(waiting.batches) == count:
        raise CalibrationError("there is no data to calibrate with", hint="an iterable of batches: tensors, tuples or dicts")
    return model


def call_of(model: nn.Module, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch as arguments of forward: a tuple's first ones, as many as forward has arguments for that a tensor can be.

    Those are the ones without a default, and after them the ones that are None by default (a mask): labels after them are left out."""
    if isinstance(batch, Mapping):
        return (), {str(k): torch.as_tensor(v) for k, v in batch.items()}
    parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return parts, {}
    need = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes = list(itertools.takewhile(lambda p: p.default is p.empty or p.default is None, need))
    taken = parts[: max(len(takes), 1)]
    return tuple(x if isinstance(x, Tensor | tuple | list | None) else torch.as_tensor(x) for x in taken), {}
