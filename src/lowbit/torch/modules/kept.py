"""The float weights that a quantized layer keeps beside its integers, for training to go on with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from lowbit.torch.qtensor import QTensor


class Kept:
    """Parameters by module and name, the very objects that an optimizer holds. A saved model has none of them: files hold integers."""

    def __init__(self) -> None:
        self.floats: dict[str, nn.Parameter] = {}
        self.lost = False  # whether the layer came from a file, which has integers only

    def __bool__(self) -> bool:
        return bool(self.floats)

    def __deepcopy__(self, memo: Any) -> Kept:
        made = Kept()
        made.floats, made.lost = copy.deepcopy(self.floats, memo), self.lost
        return made

    def __reduce__(self) -> Any:
        return _lost, ()

    def keep(self, layer: nn.Module) -> None:
        """Remembers every float parameter of the layer, biases as well: a static graph may round them."""
        self.floats = {name: p for name, p in layer.named_parameters() if not isinstance(p, QTensor)}
        self.lost = False

    def put_back(self, layer: nn.Module) -> None:
        """The layer has the very parameters again that it had."""
        for name, owner, short in _places(layer, self.floats):
            owner._parameters.pop(short, None)
            setattr(owner, short, self.floats[name])

    def moved(self, move: Any) -> None:
        """Other memory or another device, for the parameters that the layer does not show now."""
        for name, p in self.floats.items():
            made = move(p.data)
            if torch._has_compatible_shallow_copy_type(p.data, made):
                p.data = made
            else:  # a device whose tensors are of another kind: as nn.Module does, a new parameter
                self.floats[name] = nn.Parameter(made, p.requires_grad)


def _lost() -> Kept:
    made = Kept()
    made.lost = True
    return made


def _places(layer: nn.Module, names: Any) -> Iterator[tuple[str, nn.Module, str]]:
    for name in list(names):
        path, _, short = name.rpartition(".")
        yield name, layer.get_submodule(path), short
