"""Arguments of lowbit.torch: as they are needed, or an InputError that says what was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from lowbit.arguments import shown
from lowbit.errors import InputError


def need_module(model: Any, hint: str | None = None) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"{type(model).__name__} given, a torch.nn.Module needed", hint=hint)
    return model


def open_dims(dynamic: Any) -> Mapping[str, Mapping[int, str]] | None:
    """Which dimensions stay open: {argument: {axis: name}}, or None."""
    fits = isinstance(dynamic, Mapping) and all(isinstance(k, str) and isinstance(v, Mapping) for k, v in dynamic.items())
    if dynamic is not None and not fits:
        raise InputError(f"dynamic={shown(dynamic)}, dimensions by argument are needed", hint='dynamic={"x": {0: "batch"}}')
    return dynamic
