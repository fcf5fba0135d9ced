"""PyTorch through torch.export. `load_torch` is the way in; the functions of the ATen ops are in the files beside this one.

Nothing here imports torch before `load_torch` is called: lowbit works without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Graph

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")


def load_torch(
    model: Module | ExportedProgram,
    inputs: Any = None,
    *,
    dynamic: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Graph:
    """The graph of a module as it computes in eval mode, or of an exported program.

    `inputs` are example arguments of `forward`: a tuple, a dict by argument name, or one tensor. `dynamic` names the dimensions
    that may change, by argument and axis: `dynamic={"ids": {0: "batch", 1: "seq"}}`. `strict` is torch.export's own option.
    """
    from lowbit.frontends.torch.export import export_program, input_names, symbol_names

    program = export_program(model, inputs, dynamic or {}, strict)
    name = type(model).__name__ if hasattr(model, "forward") else "graph"
    return Importer(program, name, symbol_names(program, dynamic or {}), input_names(program)).run()


__all__ = ["Importer", "aten", "load_torch"]
