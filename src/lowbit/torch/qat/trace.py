"""A module as the exported program that is trained and as the graph that is quantized, with the way from one to the other."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node as FxNode

from lowbit.errors import InputError
from lowbit.frontends.torch.export import export_program, input_names, symbol_names
from lowbit.frontends.torch.importer import Importer
from lowbit.frontends.torch.opaque import training_layers_as_ops
from lowbit.ir.graph import Graph, Value
from lowbit.passes import PASSES, simplify
from lowbit.passes.common_subexpressions import common_subexpressions

# Parameters that are equal now (zeros, ones) will not be after training: nothing is merged because of it.
STRUCTURAL = tuple(p for p in PASSES if p is not common_subexpressions)


@dataclass(frozen=True)
class Traced:
    """`places` has for each value of the graph (constants too) the program's node that makes it."""

    program: ExportedProgram
    graph: Graph
    places: Mapping[str, FxNode]
    values: Mapping[FxNode, Value]


def trace(model: nn.Module, inputs: Any, dynamic: Mapping[str, Any] | None) -> Traced:
    """The module exported in eval mode, dropout and batch norm kept as ops; its graph is the one that `lowbit.load` gives."""
    with training_layers_as_ops():
        program = export_program(model, positional(model, inputs), dynamic or {}, False)
    importer = Importer(program, type(model).__name__, symbol_names(program, dynamic or {}), input_names(program))
    graph = importer.run()
    values = {node: value for node, value in importer.values.items() if isinstance(value, Value)}
    places: dict[str, FxNode] = {}
    for node, value in values.items():
        places.setdefault(value.name, node)  # an op that returns its input (dropout in eval mode) has the name of that
    return Traced(program, simplify(graph, STRUCTURAL), places, values)


def positional(model: nn.Module, inputs: Any) -> tuple[Any, ...]:
    """Example inputs as the positional arguments of forward."""
    if inputs is None:
        raise InputError("example inputs are needed to trace a module", where=type(model).__name__, hint="prepare_qat(model, inputs=(x,))")
    signature = inspect.signature(model.forward)
    try:
        if isinstance(inputs, Mapping):
            bound = signature.bind(**inputs)
        else:
            bound = signature.bind(*(inputs if isinstance(inputs, tuple | list) else (inputs,)))
    except TypeError as e:
        raise InputError(f"the inputs do not fit forward{signature}: {e}", where=type(model).__name__) from e
    if bound.kwargs:
        names = ", ".join(bound.kwargs)
        raise InputError(f"{names} can only be given by name, which training does not do", hint="make them positional in forward")
    return bound.args


def parameter(program: ExportedProgram, name: str) -> Tensor:
    tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
    assert isinstance(tensor, Tensor)
    return tensor
