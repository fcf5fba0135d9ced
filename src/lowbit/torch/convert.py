"""convert(model): from calibrated to static. The graph path decides (same rules, guard and scales), the modules get what it found."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lowbit.errors import CalibrationError, InputError, LowbitError, LowbitWarning
from lowbit.ir.graph import Graph
from lowbit.ir.rewrite import Editor
from lowbit.pipeline import load as load_graph
from lowbit.pipeline import quantize as quantize_graph
from lowbit.torch.calibrate import Pending, pending
from lowbit.torch.modules.base import Plan, Quantized
from lowbit.torch.qtensor import QTensor
from lowbit.torch.root import Owned, arguments, attach, spec_of


def convert(model: nn.Module) -> nn.Module:
    """The calibrated model, static: in eval it runs on integers, with the bits of lowbit.compile on its graph.

    A model that torch.export cannot trace is converted layer by layer, with a warning that says why: what lies between its layers stays
    float then, and its outputs are not those of a graph.

    >>> model = quantize_(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), "int8", guard=False)
    >>> convert(calibrate(model, [torch.ones(2, 4)]))(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    waiting = pending(model)
    if not waiting.batches:
        raise CalibrationError("the model has seen no data", where=type(model).__name__, hint="calibrate(model, batches)")
    layers = {path: m for path, m in model.named_modules() if isinstance(m, Quantized)}
    for m in layers.values():
        if m.plan.mode == "static":
            m.quant_mode = "float"
    training = {m: m.training for m in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            _convert(model, waiting, layers)
    finally:
        for each, mode in training.items():
            each.training = mode
    del model.__dict__["_lowbit_pending"]
    return model


def _convert(model: nn.Module, waiting: Pending, layers: Mapping[str, Quantized]) -> None:
    dynamic = [path for path, m in layers.items() if m.plan.mode in ("dynamic", "weights")]
    for path in dynamic:
        layers[path].dequantize_weights()
    args, options = waiting.batches[0]
    outputs = spec_of(model(*args, **options))
    try:
        graph = exported(model, args, options, waiting.dynamic)
    except InputError:
        raise  # the request is impossible: no other way would fulfil it
    except LowbitError as e:
        warnings.warn(f"{type(model).__name__} is converted layer by layer: {e.message}", LowbitWarning, stacklevel=4)
        for m in layers.values():
            if m.plan.mode == "static":
                m.finish_calibration()
            elif m.plan.mode in ("dynamic", "weights"):
                m.to_mode(m.plan.mode)
        return
    samples = [sample(graph, model, *batch) for batch in waiting.batches]
    quantized = quantize_graph(graph, samples, rules=waiting.rules, method=waiting.method, guard=waiting.guard)
    owned = write(quantized, layers)
    folded = fold(model, graph, layers)
    attach(model).set_graph(model, quantized, owned, folded, outputs)


def exported(model: nn.Module, args: tuple[Any, ...], options: dict[str, Any], dynamic: Mapping[str, Mapping[int, str]] | None) -> Graph:
    """The float graph: with the dimensions that are asked to stay open, or with the batch open where the model allows it."""
    inputs: Any = options or args
    if dynamic is not None:
        return load_graph(model, inputs=inputs, dynamic=dynamic)
    named = options or inspect.signature(type(model).forward.__get__(model)).bind(*args).arguments
    tensors = {k: v for k, v in named.items() if isinstance(v, Tensor) and v.dim()}
    if len(tensors) == len(named) and len({v.shape[0] for v in tensors.values()}) == 1:
        try:
            return load_graph(model, inputs=inputs, dynamic={k: {0: "batch"} for k in tensors})
        except LowbitError:  # its first dimension is no batch
            pass
    return load_graph(model, inputs=inputs)


def sample(graph: Graph, model: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """A batch by the names of the graph's inputs."""
    leaves = arguments(model, args, options)
    return {v.name: np.asarray(x) for v, x in zip(graph.inputs, leaves, strict=True)}


def write(graph: Graph, layers: Mapping[str, Quantized]) -> dict[str, Owned]:
    """Puts integers and parameters of a quantized graph into the layers they came from; which constants the layers have now."""
    editor = Editor(graph)
    owned: dict[str, Owned] = {}
    seen: set[str] = set()
    for node in graph.nodes:
        path = node.name if node.name in layers else ""  # a model that is one layer has no path
        layer = layers.get(path)
        if layer is None or node.op != layer.op:
            continue
        names = layer.take(editor, node)
        for constant, parameter in names.items():
            if constant in owned:
                share(layers[owned[constant].module], owned[constant].parameter, layer, parameter)
            else:
                owned[constant] = Owned(path, parameter)
        seen.add(path)
    for path, layer in layers.items():
        if path not in seen:
            layer.quant_mode, layer.plan = "float", Plan("float", because="its node is not in the graph")
    return owned


def share(first: nn.Module, name: str, other: nn.Module, parameter: str) -> None:
    """A table that is also a layer's weight is one parameter of both, where both read it with the same scales."""
    a, b = (getattr(m, n, None) for m, n in ((first, name), (other, parameter)))
    if isinstance(a, QTensor) and isinstance(b, QTensor) and a.quant_params == b.quant_params:
        setattr(other, parameter, a)


def fold(model: nn.Module, graph: Graph, layers: Mapping[str, Quantized]) -> tuple[str, ...]:
    """Batch norms that are no node of the simplified graph have become part of the convolution before them: they do nothing any more."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    here = {n.name for n in graph.nodes}
    gone = tuple(path for path, m in model.named_modules() if isinstance(m, kinds) and path not in here)
    for path in gone:
        model.set_submodule(path, nn.Identity())
    return gone
