"""Files that lowbit wrote: ops that ONNX lacks, and linear layers, are again what they were before they were spelled out.

The file's metadata say which nodes belong together; they are believed only where the nodes are what lowbit writes, else these stay as
they are. A MatMul and an Add that were one linear layer are one again, with the weight as (out, in).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxModel, OnnxNode, OnnxTensor, OwnGroup


def respelled(model: OnnxModel) -> OnnxModel:
    """The model with lowbit's own ops where its metadata name them."""
    if model.own is None:
        return model
    tensors = dict(model.graph.initializers)
    for name, kind in model.own.dtypes.items():
        if kind == "binary" and name in tensors and tensors[name].dtype == "int4" and (abs(tensors[name].data) == 1).all():
            tensors[name] = OnnxTensor(kind, tensors[name].data)
    graph = replace(model.graph, initializers=tensors)
    if model.own.groups:
        graph = _with_groups(graph, model.own.groups)
    if model.own.linears:
        graph = _Linears(graph, model.own.linears).run()
    return replace(model, graph=graph)


def _with_groups(graph: OnnxGraph, groups: tuple[OwnGroup, ...]) -> OnnxGraph:
    nodes = {n.index: n for n in graph.nodes}
    producers = {o: n for n in graph.nodes for o in n.outputs}
    readers: dict[str, set[int]] = {o.name: {-1} for o in graph.outputs}
    for n in graph.nodes:
        for name in n.inputs:
            readers.setdefault(name, set()).add(n.index)
    for g in groups:
        members = {producers[o].index: producers[o] for o in g.nodes}
        last = producers[g.nodes[-1]]
        inner = {o for m in members.values() for o in m.outputs} - set(g.results)
        if all(readers.get(o, set()) <= set(members) for o in inner):
            for index in members:
                del nodes[index]
            nodes[last.index] = replace(last, op_type=g.op, inputs=g.inputs, outputs=g.results, attrs=g.attrs, own=True)
    return replace(graph, nodes=tuple(nodes[i] for i in sorted(nodes)))


class _Linears:
    def __init__(self, graph: OnnxGraph, linears: dict[str, str]) -> None:
        self.graph, self.linears = graph, linears
        self.producers = {o: n for n in graph.nodes for o in n.outputs}
        self.users: dict[str, list[OnnxNode]] = {}
        for n in graph.nodes:
            for name in n.inputs:
                self.users.setdefault(name, []).append(n)
        self.outputs = {o.name for o in graph.outputs}
        self.tensors = dict(graph.initializers)

    def run(self) -> OnnxGraph:
        nodes = {n.index: n for n in self.graph.nodes}
        found = {m: self.products(m, after) for m, after in self.linears.items()}
        weights: dict[str, str | None] = {}
        for matmul, _ in filter(None, found.values()):
            if matmul.inputs[1] not in weights:
                weights[matmul.inputs[1]] = self.weight(matmul.inputs[1], found, nodes)
        for pair in found.values():
            if pair is None:
                continue
            matmul, add = pair
            weight = weights[matmul.inputs[1]]
            if weight is None:
                continue
            last = add or matmul
            inputs = (matmul.inputs[0], weight, *(add.inputs[1:] if add is not None else ()))
            nodes[last.index] = replace(last, op_type="linear", inputs=inputs, attrs={}, own=True)
            if add is not None:
                del nodes[matmul.index]
        return replace(self.graph, nodes=tuple(nodes.values()), initializers=self.tensors)

    def products(self, name: str, after: str) -> tuple[OnnxNode, OnnxNode | None] | None:
        """The MatMul of that output and the Add that alone reads it; None when they are not there."""
        matmul = self.producers.get(name)
        if matmul is None or matmul.op_type != "MatMul" or matmul.domain or len(matmul.inputs) != 2:
            return None
        if not after:
            return matmul, None
        users = self.users.get(name, [])
        if len(users) != 1 or name in self.outputs:
            return None
        (add,) = users
        fits = add.op_type == "Add" and not add.domain and add.inputs[0] == name and add.outputs == (after,)
        bias = self.shape(add.inputs[1]) if fits else None
        return (matmul, add) if bias is not None and len(bias) == 1 else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a constant, of integers behind a dequantize too."""
        node = self.producers.get(name)
        source = node.inputs[0] if node is not None and node.op_type == "DequantizeLinear" else name
        return self.tensors[source].data.shape if source in self.tensors else None

    def weight(self, name: str, found: dict[str, tuple[OnnxNode, OnnxNode | None] | None], nodes: dict[int, OnnxNode]) -> str | None:
        """The weight, turned back to (out, in) in place; None when something else reads it."""
        node = self.producers.get(name)
        read_by = self.users.get(name, [])
        if name in self.outputs or not all(u.inputs[1:] == (name,) and found.get(u.outputs[0]) is not None for u in read_by):
            return None
        if name in self.tensors:
            return name if self.turn(name) else None
        if node is None or node.op_type != "DequantizeLinear":
            return None
        block = node.attr("block_size", 0)
        moved = [node.inputs[0], *(i for i in node.inputs[1:] if i and block)]
        if any(len(self.users[m]) > 1 or m in self.outputs or not self.is_matrix(m) for m in moved):
            return None
        for m in moved:
            self.turn(m)
        if "axis" in node.attrs:
            nodes[node.index] = replace(node, attrs={**node.attrs, "axis": 1 - node.attrs["axis"] % 2})
        return name

    def is_matrix(self, name: str) -> bool:
        return name in self.tensors and self.tensors[name].data.ndim == 2

    def turn(self, name: str) -> bool:
        if not self.is_matrix(name):
            return False
        t = self.tensors[name]
        self.tensors[name] = OnnxTensor(t.dtype, np.ascontiguousarray(t.data.T))
        return True
