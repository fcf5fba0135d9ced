"""Walks an ONNX graph and calls one function per op. Functions are found by (domain, op type) in a table that decorators fill."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowbit.assumptions import noting
from lowbit.dims import Dim, Sym, symbol
from lowbit.errors import DTypeError, FormatError, GraphError, LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.folding import FoldingBuilder
from lowbit.frontends.onnx.inputs import Reopened, fixed_inputs, input_types
from lowbit.frontends.onnx.own import respelled
from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxModel, OnnxNode, OnnxTensor, OnnxValue, check_attributes, subgraphs
from lowbit.ir.graph import Graph, Value
from lowbit.ir.shapes import Shapes
from lowbit.progress import progress
from lowbit.types import Array, TensorType, shape_text

Handler = Callable[["Importer", OnnxNode], "Value | Sequence[Value | None]"]
HANDLERS: dict[tuple[str, str], Handler] = {}


def onnx_op(*op_types: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Registers a function as the import of these ops."""

    def put(f: Handler) -> Handler:
        for t in op_types:
            assert (domain, t) not in HANDLERS, t
            HANDLERS[domain, t] = f
        return f

    return put


class NeedsConstant(UnsupportedOp):
    """An input that decides the shape of things is computed from data. `input` is its name in the ONNX graph."""

    def __init__(self, message: str, input: str, **kw: Any) -> None:
        super().__init__(message, **kw)
        self.input = input


class Importer(FoldingBuilder):
    """Builds the graph. An op's function reads `c.input(node, i)`, asks for constants by `c.const`, and adds nodes by `c.add`."""

    def __init__(self, model: OnnxModel, anew: Mapping[str, Reopened] | None = None) -> None:
        """`anew`: sizes that the file fixes and that are symbols instead."""
        super().__init__(model.graph.name or "graph")
        self.anew = anew or {}
        model = respelled(model)
        self.model = model
        self.opsets = model.opsets
        self.scope: dict[str, Value] = {}
        self._tensors: dict[str, OnnxTensor] = {}
        self._node: OnnxNode | None = None

    @property
    def opset(self) -> int:
        """Version of the default operator set."""
        return self.opsets.get("", 1)

    # -- what functions of ops use -------------------------------------------------------------------------------------

    def input(self, node: OnnxNode, i: int) -> Value:  # type: ignore[override]
        """The i-th input, which must be there."""
        value = self.optional(node, i)
        if value is None:
            raise GraphError(f"input {i} is missing")
        return value

    def optional(self, node: OnnxNode, i: int) -> Value | None:
        """The i-th input, or None when it is left out."""
        name = node.inputs[i] if i < len(node.inputs) else ""
        return self.lookup(name) if name else None

    def inputs(self, node: OnnxNode, count: int) -> list[Value | None]:
        """The first `count` inputs, None for those left out."""
        return [self.optional(node, i) for i in range(count)]

    def lookup(self, name: str) -> Value:
        if name in self.scope:
            return self.scope[name]
        if name in self._tensors:
            t = self._tensors[name]
            self.scope[name] = self.constant(t.data, name=self.named(name), dtype=t.dtype)
            return self.scope[name]
        raise GraphError(f"input {name!r} is not defined before it is used: unsorted, cyclic or missing")

    def const(self, node: OnnxNode, i: int, what: str) -> Array | None:
        """The data of an input that must be known at load time (`what` names it in the error); None when it is left out."""
        value = self.optional(node, i)
        if value is None:
            return None
        data = self.constant_data(value)
        if data is None:
            raise NeedsConstant(
                f"its {what} (input {node.inputs[i]!r}) is computed from data or from dimensions that are not bound",
                node.inputs[i],
                hint="bind symbolic dimensions with shapes=, or make it a constant when exporting",
            )
        return data

    def needed(self, node: OnnxNode, i: int, what: str) -> Array:
        """The data of an input that must be there and be known at load time."""
        self.input(node, i)
        data = self.const(node, i, what)
        assert data is not None
        return data

    def ints(self, node: OnnxNode, i: int, what: str) -> list[int] | None:
        """A constant input as a flat list of ints; None when it is left out."""
        data = self.const(node, i, what)
        return None if data is None else [int(x) for x in _whole(data, what).reshape(-1)]

    def dims(self, node: OnnxNode, i: int, what: str) -> list[Dim] | None:
        """A shape-like input as a flat list of dims, which may be symbolic; None when it is left out."""
        value = self.optional(node, i)
        known = self.known(value)
        if value is not None and known is None:
            self.const(node, i, what)
        return None if known is None else [d if isinstance(d, Sym) else int(d) for d in _whole(known, what).reshape(-1)]

    def ints_attr_or_input(self, node: OnnxNode, attr: str, i: int) -> list[int] | None:
        """Integers that older opsets hold in an attribute and newer ones in an input (axes, split …)."""
        from_attr = node.attr(attr)
        return [int(a) for a in from_attr] if from_attr is not None else self.ints(node, i, attr)

    def scalar(self, value: float | int | bool, like: Value) -> Value:
        """A rank-0 constant of the same element type."""
        return self.constant(np.array(value, dtype=like.type.dtype.numpy), dtype=like.type.dtype)

    def add_node(self, op: str, *inputs: Value | None, name: str = "", outputs: tuple[str, ...] = (), **attrs: Any) -> tuple[Value, ...]:
        """Adds a node that carries the name of the ONNX node being imported."""
        if self._node is not None:
            name = name or self.layer(self._node)
            outputs = outputs or self.wished(self._node)
        return super().add_node(op, *inputs, name=name, outputs=outputs, **attrs)

    def folds(self, types: tuple[TensorType, ...]) -> bool:
        """A file that lowbit wrote holds the graph as it was; only sizes are arithmetic in it."""
        return self.model.own is None or all(t.dtype.name == "int64" for t in types)

    def layer(self, node: OnnxNode) -> str:
        """The layer's name. A file that lowbit wrote says it."""
        own = self.model.own
        return layer_name(node) if own is None else own.layers.get(node.name, node.name)

    def wished(self, node: OnnxNode) -> tuple[str, ...]:
        """Names for the values that the node defines, where they are free; () when the first is not."""
        names = [self.named(o) for o in node.outputs]
        return tuple("" if n in self._names else n for n in names) if names and names[0] not in self._names else ()

    def named(self, name: str) -> str:
        """The graph's name of a value of the file."""
        return name if self.model.own is None else self.model.own.names.get(name, name)

    # -- the walk ------------------------------------------------------------------------------------------------------

    def run(self, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None) -> Graph:
        graph = self.model.graph
        report_unsupported(self.model)
        fixed = fixed_inputs(graph.inputs, constants, self.model.source)
        free = [v for v in graph.inputs if v.name not in fixed]
        self.scope |= {name: self.constant(data, name=self.named(name)) for name, data in fixed.items()}
        for value, type_ in zip(free, input_types(free, shapes, self.model.source), strict=True):
            self.scope[value.name] = graph_input(self, value.name, type_)
        with noting(self._assumed):
            self.walk(graph, shown=True)
        outputs = {}
        for o in graph.outputs:
            try:
                outputs[o.name] = self.lookup(o.name)
            except LowbitError as e:
                raise e.at(f"{self.model.source}, output '{o.name}'") from None
        if not shapes:
            for name, v in graph.declared.items():
                if name in self.scope:
                    check_declared(v, self.scope[name].type, f"{self.model.source}, value '{name}'")
            for o in graph.outputs:
                check_declared(o, outputs[o.name].type, f"{self.model.source}, output '{o.name}'")
        order = {self.named(name): i for i, name in enumerate(graph.initializers)}  # the file's: not that of their first use
        self._constants = dict(sorted(self._constants.items(), key=lambda c: order.get(c[0], len(order))))
        return self.finish(outputs)

    def walk(self, graph: OnnxGraph, shown: bool = False) -> None:
        """Imports the nodes of a graph (or of a branch, whose names live in the same scope)."""
        self._tensors |= graph.initializers
        nodes = sorted_nodes(graph, set(self.scope) | set(self._tensors), self.model.source)
        for node in progress(nodes, "loading") if shown else nodes:
            self.node(node)

    def inline(self, graph: OnnxGraph, given: Mapping[str, Value] | None = None) -> list[Value]:
        """The outputs of a branch or a loop's body, imported in place, its inputs given by name.

        Names of the branch hide outer ones and are forgotten after it.
        """
        scope, tensors = dict(self.scope), dict(self._tensors)
        for name in graph.initializers:
            self.scope.pop(name, None)
        self.scope |= given or {}
        self.walk(graph)
        outputs = [self.lookup(o.name) for o in graph.outputs]
        self.scope, self._tensors = scope, tensors
        return outputs

    def weights(self, graph: OnnxGraph) -> dict[str, Value]:
        """The initializers of a body that stands there many times, once."""
        return {name: self.constant(t.data, name=self.named(name), dtype=t.dtype) for name, t in graph.initializers.items()}

    def fixable(self, value: Value) -> str:
        """How to say in `constants=` what a value is computed from, where that is one input alone: a beginning of a hint."""
        found: set[str] = set()
        waiting, seen = [value], set()
        made = {o.name: n for n in self._nodes.values() for o in n.outputs}
        while waiting:
            v = waiting.pop()
            if v.name in seen:
                continue
            seen.add(v.name)
            if self.is_input(v):
                found.add(v.name)
            elif v.name in made:
                waiting += [i for i in made[v.name].inputs if i is not None]
        return f'constants={{"{found.pop()}": …}} fixes its value, or ' if len(found) == 1 else ""

    def node(self, node: OnnxNode) -> None:
        outer, self._node = self._node, node
        try:
            if not node.outputs:
                raise FormatError("it has no outputs")
            result = self.own_op(node) if node.own else self.standard_op(node)
            values = [result] if isinstance(result, Value) else list(result)
            for name, value in zip(node.outputs, values, strict=False):
                if name and value is not None:
                    self.scope[name] = value
            absent = [name for name, v in zip(node.outputs, [*values, *[None] * len(node.outputs)], strict=False) if name and v is None]
            if absent:
                raise UnsupportedOp(f"its output {absent[0]!r} is not supported")
        except LowbitError as e:
            e.hint = e.hint or see(self.model.source, node.index)
            raise e.at(place(self.model.source, node)) from None
        except RecursionError as e:
            raise GraphError("nested too deeply", where=place(self.model.source, node)) from e
        finally:
            self._node = outer

    def standard_op(self, node: OnnxNode) -> Value | Sequence[Value | None]:
        check_attributes(node, self.opsets.get(node.domain, 1))
        return HANDLERS[node.domain, node.op_type](self, node)

    def own_op(self, node: OnnxNode) -> Sequence[Value]:
        """The node as it stands: an op of lowbit's with its attributes."""
        try:
            return self.add_node(node.op_type, *self.inputs(node, len(node.inputs)), **node.attrs)
        except (TypeError, ValueError) as e:
            raise FormatError(f"lowbit's metadata do not describe it ({e})", hint="export it again") from e


def place(source: str, node: OnnxNode) -> str:
    """How errors call a node of the file."""
    return f"{node.op_type} '{node.name or next(iter(node.outputs), '')}' ({source}, node {node.index})"


def see(source: str, index: int | None = None) -> str | None:
    """The command that shows the nodes of the file, or one; None for a model that is no file."""
    if not source.endswith(".onnx"):
        return None
    return f"lowbit inspect {shlex.quote(source)} --onnx" + (f" --node {index}" if index is not None else "")


def _whole(data: Array, what: str) -> Array:
    """The data, which must be integers or dims."""
    if data.dtype.kind not in "iubO":
        raise DTypeError(f"its {what} is {data.dtype}, integers needed")
    return data


def graph_input(c: Importer, name: str, type_: TensorType) -> Value:
    """Importer.input reads a node's input; this declares one of the graph's."""
    return FoldingBuilder.input(c, name, type_)


def report_unsupported(model: OnnxModel) -> None:
    """An UnsupportedOp that lists everything the file uses and lowbit lacks, at once."""
    missing: Counter[str] = Counter()
    first: dict[str, OnnxNode] = {}

    def scan(graph: OnnxGraph) -> None:
        for n in graph.nodes:
            if not n.own and (n.domain, n.op_type) not in HANDLERS:
                key = f"{n.domain}::{n.op_type}" if n.domain else n.op_type
                missing[key] += 1
                first.setdefault(key, n)
            for a in n.attrs.values():
                for g in a if isinstance(a, list) else [a]:
                    if isinstance(g, OnnxGraph):
                        scan(g)

    scan(model.graph)
    if missing:
        rows = ", ".join(f"{k} ({n}x, first at node {first[k].index} '{first[k].name}')" for k, n in missing.items())
        raise UnsupportedOp(f"{len(missing)} kinds of operator are not supported: {rows}", where=model.source, hint=see(model.source))


def check_declared(declared: OnnxValue, found: TensorType, where: str) -> None:
    """A ShapeError when the file says otherwise than what its nodes compute: one of the two is wrong."""
    if declared.dtype is not None and declared.dtype != found.dtype.name:
        raise ShapeError(f"declared as {declared.dtype}, computed as {found.dtype}", where=where)
    if declared.shape is None:
        return
    fits = len(declared.shape) == found.rank
    fits = fits and all(not (isinstance(d, int) and isinstance(f, int)) or d == f for d, f in zip(declared.shape, found.shape, strict=True))
    if not fits:
        text = shape_text(d if isinstance(d, int) else symbol("n") for d in declared.shape)
        raise ShapeError(
            f"declared as {text}, computed as {shape_text(found.shape)}", where=where, hint="the file contradicts itself: export it again"
        )


def sorted_nodes(graph: OnnxGraph, known: set[str], source: str) -> list[OnnxNode]:
    """The nodes in an order where definitions come first. Files should be sorted already; some are not, and a cycle is an error."""
    defined = {o for n in graph.nodes for o in n.outputs if o}
    seen_outputs: Counter[str] = Counter(o for n in graph.nodes for o in n.outputs if o)
    twice = [o for o, k in seen_outputs.items() if k > 1]
    if twice:
        raise FormatError(f"value {twice[0]!r} is defined twice", where=source)

    def needs(n: OnnxNode) -> set[str]:
        names = set(n.inputs)
        for g in subgraphs(n):
            for inner in g.nodes:
                names |= needs(inner)
        return names & defined

    waiting = {n.index: needs(n) for n in graph.nodes}
    ready_after: dict[str, list[OnnxNode]] = {}
    for n in graph.nodes:
        for name in waiting[n.index]:
            ready_after.setdefault(name, []).append(n)
    queue = [n for n in graph.nodes if not waiting[n.index]]
    order: list[OnnxNode] = []
    for n in queue:
        order.append(n)
        for o in n.outputs:
            for after in ready_after.get(o, ()):
                waiting[after.index].discard(o)
                if not waiting[after.index]:
                    queue.append(after)
    if len(order) < len(graph.nodes):
        stuck = next(n for n in graph.nodes if waiting[n.index])
        raise GraphError(
            f"{stuck.op_type} '{stuck.name}' (node {stuck.index}) depends on its own output: the graph has a cycle", where=source
        )
    return sorted(order, key=lambda n: n.index) if _is_sorted(graph, defined) else order


def _is_sorted(graph: OnnxGraph, defined: set[str]) -> bool:
    seen: set[str] = set()
    for n in graph.nodes:
        if any(i in defined and i not in seen for i in n.inputs):
            return False
        seen.update(n.outputs)
    return True


def layer_name(node: OnnxNode) -> str:
    """The module path of the layer, as exporters record it: from scopes, or from names like /layer1/layer1.0/conv1/Conv."""
    if len(node.scopes) >= 2 and node.scopes[-2]:
        return node.scopes[-2]
    if node.name.startswith("/"):
        parts = node.name.strip("/").split("/")
        path = [p for p, after in zip(parts, [*parts[1:], ""], strict=True) if not after.startswith(f"{p}.")]
        if len(path) > 1 and re.fullmatch(rf"{re.escape(node.op_type)}(_\d+)?", path[-1]):
            path = path[:-1]
        return ".".join(path)
    return node.name or next((o for o in node.outputs if o), "")
