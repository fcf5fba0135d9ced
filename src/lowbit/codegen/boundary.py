"""Inputs and outputs of a network for a small machine: integers instead of reals, channels last instead of first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lowbit.ir.build import prune
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops import get_op
from lowbit.ops.nhwc import to_last
from lowbit.types import TensorType


@dataclass(frozen=True)
class Quantized:
    """real = scale * (q - zero_point), of an input or an output."""

    scale: float
    zero_point: int


def integer_inputs(graph: Graph, only: frozenset[str]) -> tuple[Graph, dict[str, Quantized]]:
    """Inputs that are only read to be quantized, all in one way, are given as integers; the rest of the graph stays as it is.

    only  names of inputs that this is done to
    """
    changed: dict[str, Value] = {}
    found: dict[str, Quantized] = {}
    dropped: set[str] = set()
    outputs = {v.name for v in graph.outputs.values()}
    for v in graph.inputs:
        users = graph.users.get(v.name, ())
        how = {(n.output.type, _params(graph, n)) for n in users if n.op == "quantize_linear" and n.inputs[0] == v}
        if v.name not in only or v.name in outputs or len(how) != 1 or len([n for n in users if n.op == "quantize_linear"]) != len(users):
            continue
        ((kind, params),) = how
        if params is None or kind.dtype.bits < 8:  # codes of four bits have no C type: such an input stays real
            continue
        found[v.name] = params
        whole = Value(v.name, kind)
        for n in users:
            changed[n.output.name] = whole
            dropped.add(n.output.name)
        changed[v.name] = whole
    return _with(graph, changed, dropped), found


def integer_outputs(graph: Graph, only: frozenset[str]) -> tuple[Graph, dict[str, Quantized]]:
    """Outputs that were integers before the last step are given as integers."""
    outputs, found = dict(graph.outputs), {}
    for name, v in graph.outputs.items():
        node = graph.producers.get(v.name)
        if name not in only or node is None or node.op != "dequantize_linear" or node.inputs[0] is None:
            continue
        params = _params(graph, node)
        if params is not None and node.inputs[0].name not in graph.constants and node.inputs[0].type.dtype.bits >= 8:
            outputs[name], found[name] = node.inputs[0], params
    return prune(replace(graph, outputs=outputs)), found


def integer_ends(graph: Graph, float_io: bool, states: Mapping[str, str]) -> tuple[Graph, dict[str, Quantized], dict[str, Quantized]]:
    """The graph with integer inputs and outputs, and their parameters; with `float_io` only those of its states.

    A state is integers if both sides are and mean the same, else real on both. Reals lose nothing: quantizing what was dequantized
    gives the integers back.
    """
    ins_of = frozenset(states) if float_io else frozenset(v.name for v in graph.inputs)
    outs_of = frozenset(states.values()) if float_io else frozenset(graph.outputs)
    while True:
        whole, ins = integer_inputs(graph, ins_of)
        whole, outs = integer_outputs(whole, outs_of)
        kinds = {v.name: v.type for v in whole.inputs}
        apart = {a: b for a, b in states.items() if (kinds[a], ins.get(a)) != (whole.outputs[b].type, outs.get(b))}
        if not apart:
            return whole, ins, outs
        ins_of, outs_of = ins_of - set(apart), outs_of - set(apart.values())


def zero_points(graph: Graph, names: Iterable[str]) -> dict[str, int]:
    """Input → the integer that is the real number 0, by those that read it, or what is moved from it. None if they do not tell one.

    Ops on integers have an attribute for each operand: that of `x` is x_zero, that of the first state `h0` is h_zero.
    """
    found: dict[str, int] = {}
    for name in names:
        told: set[int] = set()
        seen, wanted = {name}, [name]
        while wanted:
            at = wanted.pop()
            for node in graph.users.get(at, ()):
                told |= {zero for i, v in enumerate(node.inputs) if v is not None and v.name == at for zero in _zero_of(graph, node, i)}
                if get_op(node.op).moves and node.output.type.dtype == graph.values[name].type.dtype:
                    wanted += [o.name for o in node.outputs if o.name not in seen]
                    seen |= {o.name for o in node.outputs}
        if len(told) == 1:
            found[name] = told.pop()
    return found


def _zero_of(graph: Graph, node: Node, position: int) -> list[int]:
    """The zero point of an operand, if the node has one for all of it."""
    if node.op == "dequantize_linear":
        zero = graph.constant(node.input(2))
        if position or (node.input(2) is not None and zero is None):
            return []
        return [0] if zero is None else sorted({int(z) for z in zero.reshape(-1)})
    inputs = get_op(node.op).signature.inputs
    zero_point = node.attrs.get(f"{inputs[min(position, len(inputs) - 1)].rstrip('0')}_zero")
    return [zero_point] if isinstance(zero_point, int) else []


def channels_last_inputs(graph: Graph, but: frozenset[str] = frozenset()) -> Graph:
    """Images that the graph would transpose first are taken in channels-last layout."""
    changed: dict[str, Value] = {}
    dropped: set[str] = set()
    outputs = {v.name for v in graph.outputs.values()}
    for v in graph.inputs:
        users = graph.users.get(v.name, ())
        perm = to_last(v.type.rank) if v.type.rank >= 3 else ()
        if not users or v.name in but or v.name in outputs or any(n.op != "transpose" or n.attrs["perm"] != perm for n in users):
            continue
        whole = Value(v.name, TensorType([v.shape[p] for p in perm], v.type.dtype))
        changed[v.name] = whole
        for n in users:
            changed[n.output.name] = whole
            dropped.add(n.output.name)
    return _with(graph, changed, dropped)


def _params(graph: Graph, node: Node) -> Quantized | None:
    """Scale and zero point if there is one of each for the whole tensor."""
    scale, zero = graph.constant(node.inputs[1]), graph.constant(node.input(2))
    if scale is None or scale.size != 1 or scale.dtype != np.float32 or (node.input(2) is not None and zero is None):
        return None
    return Quantized(float(scale.reshape(())), 0 if zero is None else int(zero.reshape(())))


def _with(graph: Graph, changed: Mapping[str, Value], dropped: set[str]) -> Graph:
    """The graph without some nodes, and with other values in place of those that they and the inputs gave."""
    if not changed:
        return graph

    def now(v: Value | None) -> Value | None:
        return changed.get(v.name, v) if v is not None else None

    nodes = tuple(replace(n, inputs=tuple(map(now, n.inputs))) for n in graph.nodes if n.output.name not in dropped)
    inputs = tuple(changed.get(v.name, v) for v in graph.inputs)
    return prune(replace(graph, inputs=inputs, nodes=nodes, outputs={k: changed.get(v.name, v) for k, v in graph.outputs.items()}))
