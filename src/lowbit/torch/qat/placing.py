"""Where the fakes stand in a program: after every value that the graph's taps name, and on every weight that the rules quantize."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.fx import Node as FxNode
from torch.nn.modules.batchnorm import _BatchNorm

from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.errors import LowbitWarning, QuantError
from lowbit.frontends.torch.importer import layer_name
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quant_params import PerAxis, QuantParams
from lowbit.quantization.rules import QuantNode
from lowbit.quantization.taps import Taps
from lowbit.quantization.transform import Parameters, QuantizationTransform
from lowbit.torch.qat.fake import ActivationFake, RowsFake, WeightFake
from lowbit.torch.qat.layers import QatLayer, factor, folded, scaled
from lowbit.torch.qat.trace import Traced, parameter
from lowbit.types import Array

TIMES = {"aten::mul": False, "aten::div": True}  # whether it divides
RECURRENT = ("lowbit::lstm", "lowbit::gru")


@dataclass
class Placing:
    """The places of the fakes. Fakes of one group of taps are one module."""

    taps: dict[str, ActivationFake] = field(default_factory=dict)  # tap -> its fake
    weights: dict[tuple[str, str], WeightFake] = field(default_factory=dict)  # constant and dtype -> its fake
    behind: dict[FxNode, ActivationFake] = field(default_factory=dict)
    layers: dict[FxNode, tuple[QatLayer, FxNode]] = field(default_factory=dict)  # last node of a layer -> what runs, node of its operands
    times: dict[FxNode, FxNode | float] = field(default_factory=dict)  # last node of a layer -> the factor that it ends with
    rows: dict[FxNode, RowsFake] = field(default_factory=dict)  # layers whose input is quantized by rows
    operands: dict[tuple[FxNode, FxNode], WeightFake] = field(default_factory=dict)  # (reader, parameter) that is neither weight nor bias


def place(traced: Traced, model: nn.Module, transform: QuantizationTransform, record: CalibrationRecord | None, *, learn: bool) -> Placing:
    """The fakes for a program, with the parameters that quantizing its graph now would give. Without a record they wait for data."""
    graph, decisions = traced.graph, transform.decisions(traced.graph)
    taps = transform.taps(graph)
    known = record or CalibrationRecord({name: CalibrationEntry.per_tensor(1.0) for name in taps.observed})
    params = transform.parameters(graph, known)
    made = Placing()
    _activations(made, traced, taps, params, decisions, ready=record is not None, learn=learn)
    for node in graph.nodes:
        decided = decisions[node.output.name]
        if decided.mode == "float":
            continue
        if decided.mode == "static":
            _check_widths(node, decided, taps)
        _weights(made, traced, model, node, decided, params, learn)
    return made


def _activations(
    made: Placing, traced: Traced, taps: Taps, params: Parameters, decisions: Mapping[str, QuantNode], *, ready: bool, learn: bool
) -> None:
    on_grid: set[str] = set()
    for name in taps.taps:
        if name in traced.places or moves_only(traced.graph, name, on_grid, taps, decisions):
            on_grid.add(name)
    unseen = {first for name in taps.taps if not on_grid & set(taps.groups[name]) and (first := taps.groups[name][0])}
    for name in taps.taps:
        group = taps.groups[name]
        if group[0] not in made.taps:
            fixed = group[0] in unseen or all(taps.taps[m].fixed is not None or taps.taps[m].given is not None for m in group)
            made.taps[group[0]] = ActivationFake(
                group[0], params.taps[group[0]], taps.taps[group[0]].scheme, learn=learn, ready=ready, fixed=fixed
            )
        made.taps[name] = made.taps[group[0]]
        if name in traced.places and not moves_only(traced.graph, name, on_grid, taps, decisions):
            made.behind[traced.places[name]] = made.taps[name]
    if unseen and not ready:
        raise QuantError(f"the value {min(unseen)!r} stands nowhere in the exported program", hint="prepare_qat(…, calibration=data)")
    if unseen:
        names = ", ".join(sorted(unseen))
        text = f"{names}: inside a layer of the exported program; training does not see it rounded, the graph will have it rounded"
        warnings.warn(text, LowbitWarning, stacklevel=4)


def moves_only(graph: Graph, name: str, on_grid: set[str], taps: Taps, decisions: Mapping[str, QuantNode]) -> bool:
    """Whether a value only moves what was rounded by the same parameters: rounding it once more would change nothing."""
    node = graph.producers.get(name)
    if node is None or decisions[node.output.name].mode != "static":
        return False
    spec = QUANTIZABLE[node.op].spec
    sides = [v.name for i in spec.positions(len(node.inputs)) if (v := node.inputs[i]) is not None]
    return spec.output == "same" and all(side in taps.groups[name] and side in on_grid for side in sides)


def _check_widths(node: Node, decided: QuantNode, taps: Taps) -> None:
    for i in QUANTIZABLE[node.op].spec.positions(len(node.inputs)):
        v = node.inputs[i]
        tap = taps.taps.get(v.name) if v is not None else None
        if tap is not None and decided.activation is not None and tap.dtype != decided.activation:
            raise QuantError(
                f"it reads {v} as {decided.activation}, which is kept as {tap.dtype}: training knows one width for a value",
                where=node.where,
                hint="rules with the same dtype for layers that follow each other",
            )


def _weights(made: Placing, traced: Traced, model: nn.Module, node: Node, decided: QuantNode, params: Parameters, learn: bool) -> None:
    """The fakes of the node's constants: of a layer's weight and bias, of a recurrence's weights, of parameters that are data."""
    spec = QUANTIZABLE[node.op].spec
    weights = [v for i in spec.channel_axis if (v := node.input(i)) is not None and v.name in params.constants]
    if spec.states and weights:
        _recurrent(made, traced, node, params.constants[weights[0].name][0])
    elif weights and spec.output != "same":
        found = tuple(p for p in params.constants[weights[0].name] if p.dtype == decided.weight)
        why = _layer(made, traced, model, node, decided, found, learn)
        if why is not None:
            text = f"{node.where}: {why}; training does not see its weight rounded, the graph will have it rounded"
            warnings.warn(text, LowbitWarning, stacklevel=4)
    elif decided.mode == "static" and (spec.output != "same" or weights) and (last := traced.places.get(node.output.name)) is not None:
        for v in (node.inputs[i] for i in spec.positions(len(node.inputs))):
            if v is not None and v.name in params.constants:
                kind = decided.activation if v not in weights or decided.weight is None or decided.weight.bits < 8 else decided.weight
                found = tuple(p for p in params.constants[v.name] if kind is None or p.dtype.bits >= kind.bits)
                _data(made, traced, last, v.name, found, learn=learn and v in weights)


def _data(made: Placing, traced: Traced, reader: FxNode, name: str, found: tuple[QuantParams, ...], *, learn: bool) -> None:
    """The fake of a parameter that is read as data: a table, whose rows may learn their scales, or what is added to an activation."""
    for arg in reader.all_input_nodes:
        if arg in traced.values and traced.values[arg].name == name:
            fake = WeightFake(found[0], learn=learn and len(found) == 1)
            key = name, found[0].dtype.name
            made.operands[reader, arg] = made.weights.setdefault(key, fake) if len(found) == 1 else fake


def _layer(
    made: Placing, traced: Traced, model: nn.Module, node: Node, decided: QuantNode, found: tuple[QuantParams, ...], learn: bool
) -> str | None:
    """Puts a QatLayer in the layer's place; or says why that cannot be."""
    spec, x, w = QUANTIZABLE[node.op].spec, node.input(0), node.input(1)
    assert w is not None
    holders = [n for n, v in traced.values.items() if v.name == w.name]  # a tied weight has several
    if not holders or any(n.op != "placeholder" for n in holders):
        return "its weight is computed from parameters"
    readers = [n for n in traced.graph.nodes if n.input(1) is not None and n.input(1) == w]
    calls = [u for u in traced.program.graph.nodes if len(u.args) > 1 and u.args[1] in holders and not u.kwargs]
    if len(calls) != len(readers) or len(found) != 1:
        return "its weight is used in several ways"
    call = calls[[n.output.name for n in readers].index(node.output.name)]
    behind = next(iter(call.users)) if len(call.users) == 1 else None
    last = behind if behind is not None and schema_name(behind) == "lowbit::batch_norm" else call
    bn = batch_norm_of(traced, model, last) if last is not call else None
    arguments: tuple[Any, ...] = getattr(getattr(call.target, "_schema", None), "arguments", ())
    takes_bias = len(arguments) > 2 and arguments[2].name == "bias"
    bias_node = next(iter(call.args[2:]), None) if takes_bias else None
    if bias_node is not None and (not isinstance(bias_node, FxNode) or bias_node.op != "placeholder"):
        return "its bias is computed"
    axis = 1 if node.op == "conv_transpose" else 0
    weight = parameter(traced.program, target_of(traced, holders[0])).detach()
    bias = None if bias_node is None else parameter(traced.program, target_of(traced, bias_node)).detach()
    if bn is not None and not same(weight, traced.graph.constant(w)):
        if weight.shape[axis] != bn.num_features:
            return "its batch norm has other channels than its weight"
        with torch.no_grad():
            weight, bias = folded(bn, weight, bias, axis)
    else:
        bn, last = None, call
    divided = False
    if not same(weight, traced.graph.constant(w)) and (found_times := times_behind(traced, last, node)) is not None:
        last, times, divided = found_times
        made.times[last] = times
        number = times if isinstance(times, float) else parameter(traced.program, target_of(traced, times)).detach()
        with torch.no_grad():
            weight, bias = scaled(factor(number, weight, divided=divided), weight, bias, axis)
    if not same(weight, traced.graph.constant(w)) or not same(bias, traced.graph.constant(node.input(2))):
        return "simplifying the graph made another weight or bias of it"
    given = made.taps.get(x.name) if x is not None and decided.mode == "static" and spec.bias is not None else None
    fake = made.weights.setdefault((w.name, found[0].dtype.name), WeightFake(found[0], learn=learn))
    op = call.target if takes_bias else without_bias(call.target)
    made.layers[last] = QatLayer(op, tuple(call.args[3:]), fake, given, bn, axis, divided), call
    if decided.mode == "dynamic":
        made.rows[last] = RowsFake()
    return None


def times_behind(traced: Traced, last: FxNode, node: Node) -> tuple[FxNode, FxNode | float, bool] | None:
    """The multiplication that alone reads a layer, by a number or by a parameter that has one for each channel; and whether it divides."""
    reader = next(iter(last.users)) if len(last.users) == 1 else None
    if reader is None or schema_name(reader) not in TIMES or len(reader.args) != 2 or reader.kwargs:
        return None
    divides, (a, b) = TIMES[schema_name(reader)], reader.args
    other = b if a is last else a
    if other is last or (divides and a is not last):
        return None
    if isinstance(other, int | float):
        return reader, float(other), divides
    if not isinstance(other, FxNode) or other.op != "placeholder" or other not in traced.values:
        return None
    rank, shape = last.meta["val"].dim(), tuple(other.meta["val"].shape)
    axis, channels = rank - 1 if node.op == "linear" else 1, last.meta["val"].shape[-1 if node.op == "linear" else 1]
    wide = (1,) * (rank - len(shape)) + shape
    one = all(d == 1 for i, d in enumerate(wide) if i != axis) and wide[axis] in (1, channels) and node.op != "conv_transpose"
    return (reader, other, divides) if len(wide) == rank and one else None


def _recurrent(made: Placing, traced: Traced, node: Node, stacked: QuantParams) -> None:
    """Rows of a recurrence's matrices, by their largest weight: the scales that the graph's stacked weights get."""
    for call in traced.program.graph.nodes:
        if schema_name(call) in RECURRENT and layer_name(call) == node.name:
            for arg in call.args[2]:
                if isinstance(arg, FxNode) and arg.meta["val"].dim() == 2 and (call, arg) not in made.operands:
                    ones = np.ones(arg.meta["val"].shape[0], np.float32)
                    fake = WeightFake(QuantParams(stacked.dtype, ones, None, stacked.scheme, PerAxis(0)), learn=False)
                    fake.take_from(parameter(traced.program, target_of(traced, arg)))
                    made.operands[call, arg] = fake


def schema_name(node: FxNode) -> str:
    return str(getattr(getattr(node.target, "_schema", None), "name", ""))


def batch_norm_of(traced: Traced, model: nn.Module, node: FxNode) -> _BatchNorm | None:
    """The module of a batch norm in the program."""
    mean = node.args[3]
    assert isinstance(mean, FxNode)
    path = target_of(traced, mean).rpartition(".")[0]
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return None
    return module if isinstance(module, _BatchNorm) else None


def target_of(traced: Traced, placeholder: FxNode) -> str:
    """The name of the parameter or buffer that a placeholder stands for."""
    signature = traced.program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    return str(names[placeholder.name])


def same(tensor: torch.Tensor | None, data: Array | None) -> bool:
    """Whether torch's and the graph's constant have the same bits."""
    if tensor is None or data is None:
        return tensor is None and data is None
    mine = tensor.cpu().contiguous().numpy()
    return mine.shape == data.shape and mine.tobytes() == np.ascontiguousarray(data).tobytes()


def without_bias(op: Any) -> Any:
    def call(x: torch.Tensor, weight: torch.Tensor, bias: None, *rest: Any) -> torch.Tensor:
        return op(x, weight, *rest)

    return call
