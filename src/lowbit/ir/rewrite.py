"""Edits a copy of a graph: adds nodes and redirects uses; nodes without readers are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowbit.errors import GraphError, LowbitError
from lowbit.ir.build import Builder, prune
from lowbit.ir.graph import Constant, Graph, Node, Value, attr, freeze
from lowbit.ops import get_op
from lowbit.types import Array


class Editor(Builder):
    """A graph under change. Every edit takes effect at once; `done()` gives the new graph.

    A node is known by its first output. `nodes()` may be iterated while editing: nodes that died are passed over,
    nodes that changed are seen as they are now.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self._graph = graph
        self._inputs = list(graph.inputs)
        self._constants = dict(graph.constants)
        self._assumed = dict.fromkeys(graph.assumed)
        self._names = set(graph.values)
        self._outputs = dict(graph.outputs)
        self._producers: dict[str, str] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._nodes = {}
        for node in graph.nodes:  # like `_put`, without its bookkeeping of order: passes make many editors
            key = node.outputs[0].name
            self._nodes[key] = node
            for o in node.outputs:
                self._producers[o.name] = key
            for v in node.inputs:
                if v is not None:
                    self._users.setdefault(v.name, {})[key] = None
        self._rank = {key: i for i, key in enumerate(self._nodes)}
        self._inherits: dict[str, str] = {}
        self.changed = False

    def _put(self, node: Node) -> None:
        key = node.output.name
        super()._put(node)
        if key not in self._rank:  # a new node stands right after the last of its inputs
            before = (self._producers.get(v.name) for v in node.inputs if v is not None)
            self._rank[key] = max((self._rank[k] for k in before if k is not None), default=-1)
        for o in node.outputs:
            self._producers[o.name] = key
        for v in node.inputs:
            if v is not None:
                self._users.setdefault(v.name, {})[key] = None
        self.changed = True

    def nodes(self) -> Iterator[Node]:
        """The nodes of the graph as it was, each as it is now."""
        for node in self._graph.nodes:
            now = self._nodes.get(node.output.name)
            if now is not None:
                yield now

    def producer(self, value: Value | None) -> Node | None:
        """The node that defines the value, as it is now."""
        key = self._producers.get(value.name) if value is not None else None
        return self._nodes.get(key) if key is not None else None

    def users(self, value: Value) -> list[Node]:
        """The nodes that read the value, as they are now."""
        return [self._nodes[k] for k in self._users.get(value.name, ()) if k in self._nodes]

    def is_output(self, value: Value) -> bool:
        return any(v.name == value.name for v in self._outputs.values())

    def only_user(self, value: Value) -> Node | None:
        """The one node that reads the value, if there is just one and it is no output of the graph: the value may then be absorbed."""
        users = self.users(value)
        return users[0] if len(users) == 1 and not self.is_output(value) else None

    def set_inputs(self, node: Node, inputs: Sequence[Value | None]) -> Node:
        """The node with other inputs. The types of its outputs must stay what they are."""
        types = node.definition.infer_types([v.type if v is not None else None for v in inputs], node.attrs)
        if types != tuple(o.type for o in node.outputs):
            raise GraphError(f"{node.where} would change its type from {node.output.type} to {types[0]}")
        for v in node.inputs:
            if v is not None:
                self._users[v.name].pop(node.output.name, None)
        new = replace(node, inputs=tuple(inputs))
        self._put(new)
        return new

    def become(self, node: Node, op: str, *inputs: Value | None, name: str = "", **attrs: Any) -> Node | None:
        """The node turned into another op that defines the same values; None, and nothing is changed, when that would change a type."""
        definition = get_op(op)
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        try:
            complete = definition.signature.complete(op, len(inputs), {k: attr(v) for k, v in attrs.items()})
            types = definition.infer_types([v.type if v is not None else None for v in inputs], complete)
        except LowbitError:
            return None
        if types != tuple(o.type for o in node.outputs):
            return None
        for v in node.inputs:
            if v is not None:
                self._users[v.name].pop(node.output.name, None)
        new = Node(op, inputs, complete, name or node.name, node.outputs)
        self._put(new)
        for v in node.inputs:
            if v is not None:
                self._drop_dead(v)
        return new

    def set_constant(self, value: Value, data: Array) -> None:
        """Other data of the same type for a constant: every user of it sees them."""
        if data.shape != value.type.shape or data.dtype != value.type.dtype.numpy:
            raise GraphError(f"constant {value.name!r} is {value.type}, {data.dtype}{list(data.shape)} given")
        self._constants[value.name] = Constant(value, freeze(data))
        self.changed = True

    def replace(self, old: Value, new: Value, *, inherit: bool = False, outputs: bool = True) -> None:
        """Every use of `old`, outputs of the graph included (unless they are not to be), reads `new` from now on.

        With `inherit` it will also have its name.
        """
        if old.name == new.name:
            return
        if old.type != new.type:
            raise GraphError(f"{old} is {old.type}, {new} that should stand for it is {new.type}")
        between = self._way_to(new)
        for user in self.users(old):
            if user.output.name in between:
                continue  # `new` is computed from `old`: that use stays
            self.set_inputs(user, [new if v is not None and v.name == old.name else v for v in user.inputs])
        for name, v in self._outputs.items():
            if v.name == old.name and outputs:
                self._outputs[name] = new
        self.changed = True
        if inherit:
            self._inherits[new.name] = old.name
        self._drop_dead(old)

    def _way_to(self, new: Value) -> set[str]:
        """The producer of `new` and the nodes added in this edit that lead to it."""
        way: set[str] = set()
        stack: list[Value | None] = [new]
        while stack:
            node = self.producer(stack.pop())
            if node is not None and node.output.name not in way and (not way or node.output.name not in self._graph.values):
                way.add(node.output.name)
                stack.extend(node.inputs)
        return way

    def _drop_dead(self, value: Value) -> None:
        """Takes the value's producer away if no output of it is used, and so on upwards, so that use counts stay true."""
        stack = [value]
        while stack:
            node = self.producer(stack.pop())
            if node is None or any(self.users(o) or self.is_output(o) for o in node.outputs):
                continue
            del self._nodes[node.output.name]
            for v in node.inputs:
                if v is not None:
                    self._users[v.name].pop(node.output.name, None)
                    stack.append(v)

    def done(self) -> Graph:
        """The new graph; the very same object if nothing was changed."""
        if not self.changed:
            return self._graph
        nodes = sorted(self._nodes.values(), key=lambda n: self._rank[n.output.name])
        graph = prune(
            replace(
                self._graph,
                inputs=tuple(self._inputs),
                outputs=self._outputs,
                nodes=tuple(nodes),
                constants=self._constants,
                assumed=tuple(self._assumed),
            )
        )
        names = {new: old for new, old in self._inherits.items() if new in graph.values and old not in graph.values}
        return renamed(graph, names) if names else graph


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with values renamed (old name → new name). Inputs and constants keep theirs."""

    def value(v: Value) -> Value:
        return Value(names[v.name], v.type) if v.name in names else v

    nodes = tuple(
        replace(n, inputs=tuple(v if v is None else value(v) for v in n.inputs), outputs=tuple(map(value, n.outputs))) for n in graph.nodes
    )
    return replace(graph, nodes=nodes, outputs={k: value(v) for k, v in graph.outputs.items()})


def rewrite(graph: Graph, rule: Callable[[Editor, Node], None], *ops: str) -> Graph:
    """The graph after `rule(editor, node)` was tried once on every node (of the named ops)."""
    if ops and not any(node.op in ops for node in graph.nodes):
        return graph
    editor = Editor(graph)
    for node in editor.nodes():
        if not ops or node.op in ops:
            rule(editor, node)
    return editor.done()
