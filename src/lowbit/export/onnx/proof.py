"""Proves what a file's metadata say: an op of lowbit's stands for nodes of the file only if lowbit writes that op as these very nodes.

Metadata are text from anywhere. Without the proof a file could mean one thing to ONNX Runtime and another thing to lowbit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowbit.errors import LowbitError
from lowbit.export.onnx.writer import Writer
from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxModel, OnnxNode, OnnxTensor, OwnGroup, parse_model
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value

Row = tuple[Any, ...]


def spelled(model: OnnxModel, graph: Graph, group: OwnGroup) -> bool:
    """Whether lowbit writes the op that a group names, as it stands in the graph that was read, as the group's nodes."""
    names = model.own.names if model.own is not None else {}
    node = graph.producers.get(names.get(group.results[0], group.results[0])) if group.results else None
    if node is None or node.op != group.op:
        return False
    try:
        alone = _alone(graph, node)
        written = parse_model(Writer(alone, opset=_opset(model, alone)).model().SerializeToString(), "proof")
    except LowbitError:
        return False
    own = written.own
    same = [g for g in own.groups if g.op == node.op] if own is not None else []
    if len(same) != 1:
        return False
    return _rows(model.graph, group) == _rows(written.graph, same[0])


def _opset(model: OnnxModel, alone: Graph) -> int | None:
    from lowbit.export.onnx.writer import needed_opset

    return max(model.opsets.get("", 0), needed_opset(alone)) or None


def _alone(graph: Graph, node: Node) -> Graph:
    """A graph of this node alone: its inputs are inputs, or the constants that they are. A constant with other readers is an output."""
    b = Builder("proof")
    made: dict[str, Value] = {}
    for v in node.inputs:
        if v is not None and v.name not in made:
            known = graph.constants.get(v.name)
            made[v.name] = b.input(v.name, v.type) if known is None else b.constant(known.data, name=v.name, dtype=v.type.dtype)
    inputs = [None if v is None else made[v.name] for v in node.inputs]
    results = b.add_node(node.op, *inputs, name="proof", **dict[str, Any](node.attrs))
    shared = [v for name, v in made.items() if name in graph.constants and _readers(graph, name) > 1]
    return b.finish({f"proof/{i}": v for i, v in enumerate([*results, *shared])})


def _readers(graph: Graph, name: str) -> int:
    return sum(v is not None and v.name == name for n in graph.nodes for v in n.inputs)


def _rows(graph: OnnxGraph, group: OwnGroup) -> list[Row] | None:
    """The group's nodes with names that do not depend on the file: inputs and results by number, constants by their contents.

    None where a node reads anything else: sizes that are computed elsewhere, for one, are not looked into.
    """
    producers = {o: n for n in graph.nodes for o in n.outputs}
    known: dict[str, Any] = {"": ""}
    for i, name in enumerate(group.inputs):
        known.setdefault(name, _constant(graph.initializers, name) or ("input", i))
    rows: list[Row] = []
    for i, out in enumerate(group.nodes):
        node = producers[out]
        reads = [known.get(name) or _constant(graph.initializers, name) for name in node.inputs]
        if any(r is None for r, name in zip(reads, node.inputs, strict=True) if name):
            return None
        for j, name in enumerate(node.outputs):
            known[name] = ("result", group.results.index(name)) if name in group.results else ("step", i, j)
        rows.append((node.domain, node.op_type, tuple(reads), tuple(known[o] for o in node.outputs), _attributes(node)))
    return rows


def _constant(tensors: Mapping[str, OnnxTensor], name: str) -> Row | None:
    t = tensors.get(name)
    return None if t is None else ("constant", t.dtype, t.data.shape, t.data.tobytes())


def _attributes(node: OnnxNode) -> Row:
    def plain(a: Any) -> Any:
        if isinstance(a, OnnxTensor):
            return ("constant", a.dtype, a.data.shape, a.data.tobytes())
        return tuple(map(plain, a)) if isinstance(a, list) else repr(a)

    return tuple(sorted((k, plain(v)) for k, v in node.attrs.items()))
