"""quantize_: the layers of a model become quantized ones, in place, by the same rules as graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, InputError, QuantError
from lowbit.quantization.recipes import recipe as rules_of
from lowbit.quantization.rules import QuantNode, QuantRule, RuleMatcher, as_rules
from lowbit.torch.arguments import need_module, open_dims
from lowbit.torch.calibrate import Pending, calibrate
from lowbit.torch.convert import convert, share
from lowbit.torch.modules import SWAPS, Embedding, Linear
from lowbit.torch.modules.base import HALF, Plan, Quantized
from lowbit.torch.root import NAME, attach, detach


def quantize_(
    model: nn.Module,
    recipe: str | Sequence[QuantRule] = "int8",
    *,
    data: Iterable[Any] | None = None,
    method: str = "minmax",
    guard: bool = True,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> nn.Module:
    """The model, quantized in place by a recipe or by rules (first match wins, by the module's path).

    All or nothing: where it fails, the model is as it was.

    Dynamic and weight-only layers are ready at once. Static ones need data: given here, or by `calibrate(model, data)` and
    `convert(model)` after.

    data     batches as the model takes them: a tensor, a tuple (what forward has no tensor argument for is left out: labels), or a dict
    method   how ranges are found, guard: whether outputs are measured and mended, as in lowbit.quantize
    dynamic  dimensions of the inputs that stay open, by forward's argument names; by default the first of each is the batch

    >>> model = quantize_(nn.Sequential(nn.Linear(4, 3)).eval(), "int8-dynamic")
    >>> model(torch.ones(2, 4)).shape, type(model[0].weight).__name__
    (torch.Size([2, 3]), 'QTensor')
    """
    need_module(model, hint="lowbit.quantize takes graphs")
    open_dims(dynamic)
    rules = rules_of(recipe) if isinstance(recipe, str) else list(as_rules(recipe))
    before = Snapshot(model)
    try:
        return _quantize(model, rules, data, Pending(tuple(rules), method, guard, dynamic))
    except BaseException:
        before.restore()
        raise


def _quantize(model: nn.Module, rules: list[QuantRule], data: Iterable[Any] | None, pending: Pending) -> nn.Module:
    matcher = RuleMatcher(rules)
    restore_float(model)
    chosen: list[tuple[nn.Module, QuantNode]] = []
    said: dict[str, str] = {}
    for path, module in list(model.named_modules()):
        kind = SWAPS.get(type(module))
        if kind is None:
            continue
        decided = matcher.decide(kind.from_float(module).node(path))
        said[path or type(module).__name__] = decided.because
        if decided.mode != "float":
            need_float(module, path, decided.mode == "static")
            if any(isinstance(hook, WeightNorm | SpectralNorm) for hook in module._forward_pre_hooks.values()):
                hint = "torch.nn.utils.remove_weight_norm (remove_spectral_norm) first"
                raise QuantError("its weight is computed anew for each call", where=path or type(module).__name__, hint=hint)
            chosen.append((module, decided))
    if not chosen:
        kinds = "the layers are " + ", ".join(t.__name__ for t in SWAPS)
        reasons = [f"{path}: {because}" for path, because in said.items()]
        raise QuantError(
            "nothing in the model is quantized" + (f" ({reasons[0]})" if reasons else ", for it has no layer that can be"),
            where=type(model).__name__,
            hint="rules that match its layers' paths" if reasons else kinds,
        )
    found = [(SWAPS[type(module)].swapped(module), decided) for module, decided in chosen]
    for layer, decided in found:
        tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and isinstance(layer, Linear) and m.weight is layer.weight]
        if tables and decided.weight is not None and decided.weight.bits < 8:  # few bits are for what is summed, not for rows
            decided = replace(decided, weight=dtype("int8"), offsets=False)
        layer.plan = Plan.of(decided)
        if decided.mode in ("dynamic", "weights"):
            if any(p.dtype in HALF for p in layer.parameters()):
                layer.float()
            layer.to_mode(decided.mode)
            for table in tables:
                Embedding.swapped(table).share(layer)
    if any(decided.mode == "static" for _, decided in found):
        model.__dict__["_lowbit_pending"] = pending
        if data is not None:
            calibrate(model, data)
            convert(model)
    return model


def need_float(module: nn.Module, path: str, static: bool) -> None:
    """A static model is exported, which takes float32; other layers may have parameters of 16 bits, which float32 holds exactly."""
    kinds = {p.dtype for p in module.parameters()} - {torch.float32, *(() if static else HALF)}
    if kinds:
        raise DTypeError(
            f"its parameters are {kinds.pop()}, torch.float32 is needed", where=path or type(module).__name__, hint="model.float()"
        )


class Snapshot:
    """The classes and contents of a model's modules, to restore them. Their dicts stay the same objects: hook handles refer to them."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = [(m, type(m), dict(m.__dict__)) for m in model.modules()]
        self._inner = [(v, v.copy()) for _, _, state in self._modules for v in state.values() if isinstance(v, dict | list)]

    def restore(self) -> None:
        for module, kind, state in self._modules:
            module.__class__ = kind
            module.__dict__.clear()
            module.__dict__.update(state)
        for now, then in self._inner:
            now.clear()
            now.update(then) if isinstance(now, dict) else now.extend(then)


def dequantize_(model: nn.Module) -> nn.Module:
    """The model with plain float layers again, in place: the weights are those that the integers stand for.

    >>> model = dequantize_(quantize_(nn.Sequential(nn.Linear(4, 3)), "int8-dynamic"))
    >>> model[0].weight.dtype
    torch.float32
    """
    need_module(model).__dict__.pop("_lowbit_pending", None)
    restore_float(model)
    return model


def restore_float(model: nn.Module) -> None:
    """Layers that were swapped before are plain ones again, with the weights that their integers stand for."""
    detach(model)
    tied = shared_parameters(model)
    for module in model.modules():
        if isinstance(module, Quantized):
            module.dequantize_weights().unswapped()
    for (first, name), *others in tied:
        for each, parameter in others:
            setattr(each, parameter, getattr(first, name))


def restore_(model: nn.Module, state: Mapping[str, Any]) -> nn.Module:
    """A float model, made into the quantized one whose state_dict this is.

    state = torch.load("model.pt", weights_only=True)
    restore_(Net(), state)

    >>> model = quantize_(nn.Sequential(nn.Linear(4, 3)).eval(), "int8-dynamic")
    >>> again = restore_(nn.Sequential(nn.Linear(4, 3)), model.state_dict()).eval()
    >>> torch.equal(again(torch.ones(2, 4)), model(torch.ones(2, 4)))
    True
    """
    need_module(model)
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise InputError(f"{type(state).__name__} given, a state dict is needed", hint='torch.load("model.pt", weights_only=True)')
    marks = {key.removesuffix("_extra_state").rstrip(".") for key in state if key.endswith("_extra_state")}
    modules = dict(model.named_modules())
    graph = state.get(NAME, {})
    for path in graph.get("folded", ()):
        model.set_submodule(path, nn.Identity())
    for path in marks:
        module = modules.get(path)
        kind = SWAPS.get(type(module)) if module is not None else None
        if isinstance(module, Quantized):
            continue
        if module is None or kind is None:
            raise InputError(f"the state has a quantized layer {path!r}, the model has none", hint="the model that was saved")
        layer = kind.swapped(module)
        for name, mine in list(layer._parameters.items()):
            theirs = state.get(f"{path}.{name}" if path else name)
            if mine is None and theirs is not None:  # a bias that came with a batch norm
                layer._parameters[name] = nn.Parameter(theirs.detach().clone(), requires_grad=False)
    if NAME in state:
        attach(model)
    tied = shared_parameters(model)
    try:
        model.load_state_dict(state)
    except RuntimeError as e:
        raise InputError(f"the state is not that of this model ({e})", where=type(model).__name__, hint="the model that was saved") from e
    for (first, name), *others in tied:
        for module, parameter in others:
            share(first, name, module, parameter)
    return model.eval()


def shared_parameters(model: nn.Module) -> list[list[tuple[nn.Module, str]]]:
    """Where each parameter is that several modules have, by module and name."""
    found: dict[Any, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                found.setdefault(p, []).append((module, name))
    return [places for places in found.values() if len(places) > 1]
