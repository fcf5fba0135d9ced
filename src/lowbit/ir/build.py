"""Builds a graph node by node: types are inferred as nodes are added, so a misfit is reported at the node that causes it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lowbit.assumptions import Assumption, noting
from lowbit.dtypes import DType
from lowbit.errors import GraphError, LowbitError
from lowbit.ir.graph import Constant, Graph, Node, Value, attr, freeze, given, types_of
from lowbit.ops import get_op
from lowbit.types import Array, TensorType


class Builder:
    """Collects inputs, constants and nodes; `finish` gives the graph.

    >>> b = Builder()
    >>> x = b.input("x", TensorType((1, 4), "float32"))
    >>> y = b.add("relu", x, name="act")
    >>> print(b.finish({"y": y}).nodes[0].output.type)
    float32[1, 4]
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._inputs: list[Value] = []
        self._constants: dict[str, Constant] = {}
        self._nodes: dict[str, Node] = {}  # by the name of the first output, which is unique
        self._names: set[str] = set()
        self._numbers: defaultdict[str, int] = defaultdict(lambda: 1)  # the next to try after a name: many equal hints stay cheap
        self._assumed: dict[Assumption, None] = {}
        self._same: dict[tuple[str, tuple[int, ...], bytes], Value] = {}  # small constants made on the way, each once

    def unique(self, hint: str) -> str:
        """The hint itself, or the hint with a number, so that no value has it yet."""
        name = hint = hint or "v"
        if name in self._names:
            stem = re.sub(r"\.\d+$", "", hint)
            while name in self._names:
                name = f"{stem}.{self._numbers[stem]}"
                self._numbers[stem] += 1
        self._names.add(name)
        return name

    def input(self, name: str, type: TensorType) -> Value:
        if name in self._names:
            raise GraphError(f"two values are named {name!r}")
        self._names.add(name)
        value = Value(name, type)
        self._inputs.append(value)
        return value

    def constant(self, data: Array, name: str = "", dtype: str | DType | None = None) -> Value:
        """A constant value. Unnamed small ones that are equal are the same value. `dtype` says more than NumPy can (int4 in int8)."""
        type_ = TensorType(data.shape, dtype if dtype is not None else data.dtype)
        key = (str(type_), data.shape, data.tobytes()) if not name and data.size <= 64 else None
        if key is not None and key in self._same:
            return self._same[key]
        value = Value(self.unique(name or "c"), type_)
        self._constants[value.name] = Constant(value, freeze(data))
        if key is not None:
            self._same[key] = value
        return value

    def constant_data(self, value: Value | None) -> Array | None:
        """The data of a value if it is a constant."""
        found = self._constants.get(value.name) if value is not None else None
        return found.data if found is not None else None

    def is_input(self, value: Value) -> bool:
        return value in self._inputs

    def producer(self, value: Value) -> Node | None:
        """The node whose first output the value is."""
        return self._nodes.get(value.name)

    def add_node(self, op: str, *inputs: Value | None, name: str = "", outputs: tuple[str, ...] = (), **attrs: Any) -> tuple[Value, ...]:
        """Adds a node and gives all its outputs. `outputs` are wished-for value names."""
        definition = get_op(op)
        inputs = given(inputs)
        try:
            complete = definition.signature.complete(op, len(inputs), {k: attr(v) for k, v in attrs.items()})
            with noting(self._assumed):
                types = definition.infer_types(types_of(inputs), complete)
        except LowbitError as e:
            raise e.at(f"{op} '{name}'" if name else op) from None
        hint = outputs[0] if outputs else name or op
        names = [self.unique(outputs[i] if i < len(outputs) and outputs[i] else f"{hint}:{i}" if i else hint) for i in range(len(types))]
        node = Node(op, inputs, complete, name, tuple(Value(n, t) for n, t in zip(names, types, strict=True)))
        self._put(node)
        return node.outputs

    def add(self, op: str, *inputs: Value | None, name: str = "", out: str = "", **attrs: Any) -> Value:
        """Adds a node and gives its first output."""
        return self.add_node(op, *inputs, name=name, outputs=(out,) if out else (), **attrs)[0]

    def _put(self, node: Node) -> None:
        self._nodes[node.output.name] = node

    def finish(self, outputs: Mapping[str, Value]) -> Graph:
        """The graph with these outputs: nodes and constants that do not reach them are left out."""
        nodes, assumed = tuple(self._nodes.values()), tuple(self._assumed)
        return prune(Graph(tuple(self._inputs), dict(outputs), nodes, self._constants, self.name, assumed=assumed))


def prune(graph: Graph) -> Graph:
    """The graph without nodes and constants that no output needs, in topological order."""
    producers = graph.producers
    done: set[str] = set()
    nodes: list[Node] = []
    used: set[str] = set()
    for root in graph.outputs.values():
        stack: list[tuple[Node, bool]] = []
        used.add(root.name)
        if root.name in producers:
            stack.append((producers[root.name], False))
        open_: set[str] = set()
        while stack:
            node, ready = stack.pop()
            key = node.output.name
            if key in done:
                continue
            if ready:
                done.add(key)
                nodes.append(node)
                continue
            if key in open_:
                raise GraphError(f"{node.where} depends on its own output: the graph has a cycle")
            open_.add(key)
            stack.append((node, True))
            for v in node.inputs:
                if v is None:
                    continue
                used.add(v.name)
                before = producers.get(v.name)
                if before is not None and before.output.name not in done:
                    if before.output.name in open_:
                        raise GraphError(f"{before.where} depends on its own output: the graph has a cycle")
                    stack.append((before, False))
    order = {id(n): i for i, n in enumerate(graph.nodes)}
    ranked = _stable_order(nodes, order)
    constants = {k: c for k, c in graph.constants.items() if k in used}
    return replace(graph, nodes=ranked, constants=constants)


def _stable_order(nodes: list[Node], rank: Mapping[int, int]) -> tuple[Node, ...]:
    """The nodes in their old order where that is already topological, else in the order of the walk."""
    by_rank = sorted(nodes, key=lambda n: rank[id(n)])
    defined = {o.name for n in nodes for o in n.outputs}
    seen: set[str] = set()
    for n in by_rank:
        if any(v is not None and v.name in defined and v.name not in seen for v in n.inputs):
            return tuple(nodes)
        seen.update(o.name for o in n.outputs)
    return tuple(by_rank)
