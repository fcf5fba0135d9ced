"""Files that lowbit wrote: ops that ONNX lacks, and linear layers, are again what they were before they were spelled out.

The file's metadata say which nodes belong together; they are believed only where the nodes are what lowbit writes, else these stay as
they are. A MatMul and an Add that were one linear layer are one again, with the weight as (out, in).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxModel, OnnxNode, OnnxTensor, OwnBits, OwnGroup
from lowbit.types import Array


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
    if model.own.nbits and model.own.intact:
        graph = _with_nbits(graph, model.own.nbits)
    return replace(model, graph=graph)


def _with_nbits(graph: OnnxGraph, nbits: tuple[OwnBits, ...]) -> OnnxGraph:
    """Each MatMulNBits as the linear layer that it was, after the dequantize of its weight, which stands where it stood."""
    tensors = dict(graph.initializers)
    nodes = {n.outputs[0]: n for n in graph.nodes}
    before: dict[int, list[OnnxNode]] = {}
    for b in nbits:
        node = nodes.get(b.output)
        found = _codes(tensors, node, b) if node is not None and node.op_type == "MatMulNBits" else None
        if node is None or found is None or b.real in nodes or any(_other(tensors.get(name), t) for name, t in found.items()):
            continue
        tensors.update(found)
        attrs = {"axis": 1, "block_size": node.attrs["block_size"]}
        before.setdefault(b.at, []).append(OnnxNode("DequantizeLinear", "", b.layer, b.inputs, (b.real,), attrs, 0))
        inputs = (node.inputs[0], b.real, *filter(None, node.inputs[5:]))
        nodes[b.output] = replace(node, op_type="linear", inputs=inputs, attrs={}, own=True)
    order: list[OnnxNode] = []
    for n in nodes.values():
        for at in sorted(k for k in before if k <= n.index):  # the node of that number may be part of another op by now
            order += before.pop(at)
        order.append(n)
    read = {name for n in order for name in n.inputs} | {o.name for o in graph.outputs}  # layers of one size share their zero points
    held = {name: t for name, t in tensors.items() if name in read}
    return replace(graph, nodes=tuple(replace(n, index=i) for i, n in enumerate(order)), initializers=held)


def _other(there: OnnxTensor | None, t: OnnxTensor) -> bool:
    """Whether a tensor of that name is there with other contents: metadata must not change what other nodes read."""
    return there is not None and not (there.dtype == t.dtype and np.array_equal(there.data, t.data))


def _codes(tensors: dict[str, OnnxTensor], node: OnnxNode, b: OwnBits) -> dict[str, OnnxTensor] | None:
    """The constants of the dequantize, from those of the MatMulNBits; None where they are not those that lowbit writes."""
    rows, columns, block = (node.attr(k) for k in ("N", "K", "block_size"))
    held = [tensors.get(name) for name in node.inputs[1:4]]
    codes, scales, zeros = held if len(held) == 3 else (None, None, None)
    if codes is None or scales is None or zeros is None or b.dtype not in ("int4", "uint4") or len(b.inputs) not in (2, 3):
        return None
    blocks = -(-columns // block)
    if codes.data.shape != (rows, blocks, block // 2) or scales.data.shape != (rows, blocks) or len(zeros.data) != rows:
        return None
    shift, stored = (8, np.int8) if b.dtype == "int4" else (0, np.uint8)
    ints, points = (nibbles(t.data.reshape(rows, -1)).astype(np.int16) - shift for t in (codes, zeros))
    made = {
        b.inputs[0]: OnnxTensor(b.dtype, np.ascontiguousarray(ints[:, :columns].astype(stored))),
        b.inputs[1]: scales,
    }
    if len(b.inputs) == 3 and b.inputs[2]:
        made[b.inputs[2]] = OnnxTensor(b.dtype, np.ascontiguousarray(points[:, :blocks].astype(stored)))
    return made


def nibbles(packed: Array) -> Array:
    """The four-bit numbers of each row, low nibble first."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


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
        """The shape of a constant, also of one that is dequantized."""
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
