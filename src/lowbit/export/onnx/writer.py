"""Walks a graph and calls one function per op. Functions are found by the op's name in a table that decorators fill.

Names are kept: values and constants have theirs in the file, a node's name is its layer's. Where ONNX cannot say a name (an output of
the graph is called by its value's name there, and that may be another value's), the model's metadata hold lowbit's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim, Sym
from lowbit.dtypes import DType, dtype
from lowbit.errors import LowbitError, UnsupportedOp
from lowbit.export.onnx.recurrence import integer_forms
from lowbit.export.onnx.tensors import element_type, tensor_proto, value_info
from lowbit.frontends.onnx.serialize import group_digest
from lowbit.ir.graph import PREPROCESSING, Attr, Graph, Node, Value
from lowbit.types import Array

FLOOR = 17  # every runtime of the last years reads it, and LayerNormalization is there
CEILING = 23
Spell = Callable[["Writer", Node], None]
Since = Callable[[Node], int]


@dataclass(frozen=True)
class Spelling:
    write: Spell
    since: Since  # the least opset in which the node can be said at all
    respelled: bool  # by one node that reads back as another op


SPELLINGS: dict[str, Spelling] = {}


def spells(*ops: str, since: int | Since = FLOOR, respelled: bool = False) -> Callable[[Spell], Spell]:
    """Registers a function as the spelling of these ops. `since` is the first opset that has it, or a function of the node.

    `respelled`: even as one node it is another op when it is read. Several nodes always are; the file then says what they were.
    """

    def put(f: Spell) -> Spell:
        for op in ops:
            assert op not in SPELLINGS, op
            SPELLINGS[op] = Spelling(f, since if callable(since) else lambda _, v=since: v, respelled)  # type: ignore[misc]
        return f

    return put


class Writer:
    """Collects nodes and initializers. An op's function adds steps by `step`, which gives their name, and its last node by `node`."""

    def __init__(self, graph: Graph, opset: int | None = None, matmul_nbits: bool = False, recurrences: str = "float") -> None:
        self.graph = graph
        needed = needed_opset(graph)
        if opset is not None and not needed <= opset <= CEILING:
            raise UnsupportedOp(
                f"opset {opset} asked for, this graph needs {needed} to {CEILING}",
                where=graph.name,
                hint="leave it out: the least that will do is taken",
            )
        self.opset = opset or needed
        self.matmul_nbits = matmul_nbits
        self.integer = integer_forms(graph) if recurrences == "integer" else {}  # first output of a layer -> what it computes
        self.codes: dict[str, str] = {}  # output of a quantize -> the integers of such a layer that it would only give again
        self.tables: dict[str, str] = {}  # large constants that layers share, by what they are
        self.domains: set[str] = set()
        self.linears: dict[str, str] = {}  # MatMul output -> Add output: which of them are one layer (see frontends/onnx/own.py)
        self.turned: set[str] = set()  # constants that are stored transposed, by lowbit's name
        self._nodes: list[Any] = []
        self.held: dict[str, int] = {}  # dequantized weight that its layer holds -> how many nodes were written before it
        self.nbits: dict[str, dict[str, Any]] = {}  # output of a MatMulNBits -> what it was (see frontends/onnx/own.py)
        self._groups: list[dict[str, Any]] = []  # nodes that spell one op, see frontends/onnx/own.py
        self._layers: dict[str, str] = {}  # name of a node -> name of its layer
        self._initializers: dict[str, Any] = {}
        self._taken: set[str] = set()
        self._names: dict[str, str] = {}
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.sizes: dict[Dim, str] = {}  # symbolic sizes that are computed already
        self._size_names: set[str] = set()
        self._choose_names()

    # -- names ---------------------------------------------------------------------------------------------------------

    def _choose_names(self) -> None:
        """Outputs first, because they are fixed; then every value by its own name where that is free."""
        graph = self.graph
        inputs = {v.name for v in graph.inputs}
        both = inputs & set(graph.outputs)
        if both:
            raise UnsupportedOp(f"an input and an output are both called {min(both)!r}", where=graph.name, hint="rename one of them")
        self._taken = inputs | set(graph.outputs)
        self._names = {name: name for name in inputs}
        self._copies: dict[str, str] = {}  # outputs that are an input, a constant or another output
        for out, value in graph.outputs.items():
            if value.name in graph.producers and value.name not in self._names:
                self._names[value.name] = out
            else:
                self._copies[out] = value.name
        for name in graph.values:
            if name not in self._names:
                self._names[name] = name if name not in self._taken else self.fresh(name)
                self._taken.add(name)

    def fresh(self, hint: str) -> str:
        """A name in the file that nothing has yet, no value of the graph either."""
        i, name = 0, hint
        while name in self._taken or name in self.graph.values:
            i, name = i + 1, f"{hint}/{i}"
        self._taken.add(name)
        return name

    def name(self, x: str | Value | None) -> str:
        """The file's name of a value; absent inputs have the empty name."""
        return "" if x is None else x if isinstance(x, str) else self._names[x.name]

    # -- what functions of ops use -------------------------------------------------------------------------------------

    def node(self, node: Node, op_type: str, *inputs: str | Value | None, **attrs: Any) -> None:
        """Adds the node that defines the outputs of the graph's node. Attributes that are None are left out."""
        self._add(op_type, [self.name(x) for x in inputs], [self._names[o.name] for o in node.outputs], node.name, attrs)

    def define(self, node: Node, output: Value, op_type: str, *inputs: str | Value | None, **attrs: Any) -> None:
        """Adds the node that defines one of several outputs of the graph's node."""
        self._add(op_type, [self.name(x) for x in inputs], [self._names[output.name]], node.name, attrs)

    def step(self, node: Node, op_type: str, *inputs: str | Value | None, **attrs: Any) -> str:
        """Adds a node before the last one and gives the name of its result."""
        out = self.fresh(f"{self._names[node.output.name]}/{op_type}")
        self._add(op_type, [self.name(x) for x in inputs], [out], node.name, attrs)
        return out

    def steps(self, node: Node, op_type: str, count: int, *inputs: str | Value | None, **attrs: Any) -> list[str]:
        """The same for a node with several results."""
        outputs = [self.fresh(f"{self._names[node.output.name]}/{op_type}") for _ in range(count)]
        self._add(op_type, [self.name(x) for x in inputs], outputs, node.name, attrs)
        return outputs

    def _add(self, op_type: str, inputs: list[str], outputs: list[str], name: str, attrs: Mapping[str, Any]) -> None:
        """Ops of another domain are called domain:type."""
        from onnx import helper

        domain, _, kind = op_type.rpartition(":")
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        given: dict[str, Any] = {
            k: int(v) if isinstance(v, bool) else list(v) if isinstance(v, tuple) else v for k, v in attrs.items() if v is not None
        }
        self.domains.add(domain)
        unique = self._node_name(name)
        self._nodes.append(helper.make_node(kind, inputs, outputs, name=unique, domain=domain, **given))

    def _node_name(self, layer: str) -> str:
        """The layer's name, with a number where several nodes have it: names of nodes must differ."""
        i, name = 0, layer
        while name in self._layers:
            i, name = i + 1, f"{layer}/{i}"
        if layer:
            self._layers[name] = layer
        return name

    def constant(self, data: Array, d: str | DType | None = None, hint: str = "constant") -> str:
        """A constant of the file that is none of the graph's; equal small ones are one."""
        d = dtype(d if d is not None else data.dtype)
        key = (d.name, data.shape, data.tobytes())
        if key not in self._small or data.size > 64:
            self._small[key] = self.fresh(hint)
            self._initializers[self._small[key]] = tensor_proto(self._small[key], data, d)
        return self._small[key]

    def scalar(self, value: float | int | bool, like: Value) -> str:
        """A rank-0 constant of the same element type."""
        return self.constant(np.asarray(value).astype(like.type.dtype.numpy), like.type.dtype)

    def ints(self, values: Iterable[Dim]) -> str:
        """A vector of int64: a constant, or for symbolic sizes the arithmetic that makes it from the inputs' shapes."""
        dims = tuple(values)
        if not any(isinstance(d, Sym) for d in dims):
            return self.constant(np.array(dims, dtype=np.int64).reshape(len(dims)), hint="sizes")
        from lowbit.export.onnx.sizes import size

        parts = [size(self, d) for d in dims]
        if len(parts) == 1:
            return parts[0]
        return self.size_step("Concat", *parts, axis=0)

    def size_step(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """A node of size arithmetic, which belongs to no layer."""
        out = self.fresh("size")
        self._size_names.add(out)
        self._add(op_type, list(inputs), [out], "", attrs)
        return out

    @property
    def count(self) -> int:
        """How many nodes were written so far."""
        return len(self._nodes)

    # -- the walk ------------------------------------------------------------------------------------------------------

    def model(self) -> Any:
        """The ModelProto."""
        from onnx import helper

        from lowbit import __version__

        for node in self.graph.nodes:
            first, own = len(self._nodes), SPELLINGS[node.op]
            try:
                own.write(self, node)
            except LowbitError as e:
                raise e.at(node.where) from None
            if node.output.name in self.integer:
                continue  # the brackets before it are part of it: it is read as nothing but what it is
            steps = [n for n in self._nodes[first:] if n.output[0] not in self._size_names]
            if (len(steps) > 1 or (steps and own.respelled)) and not any(n.output[0] in self.linears for n in steps):
                self._add_group(node, steps)
        for out, source in self._copies.items():
            self._add("Identity", [self._names[source]], [out], "", {})
        self._add_constants()
        inputs = [value_info(v.name, v.type) for v in self.graph.inputs]
        outputs = [value_info(name, v.type) for name, v in self.graph.outputs.items()]
        body = helper.make_graph(self._nodes, self.graph.name, inputs, outputs, list(self._initializers.values()))
        opsets = [helper.make_opsetid(d, self.opset if not d else 1) for d in sorted({"", *self.domains})]
        version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        model = helper.make_model(body, opset_imports=opsets, ir_version=version, producer_name="lowbit", producer_version=__version__)
        names = {k: v for v, k in self._names.items() if k != v}
        layers = {k: v for k, v in self._layers.items() if k != v}
        kinds = {self._names[k]: c.value.type.dtype.name for k, c in self.graph.constants.items() if c.value.type.dtype.name == "binary"}
        tables = {"names": names, "layers": layers, "dtypes": kinds, "linears": self.linears, "groups": self._groups, "nbits": self.nbits}
        tables["nodes"] = group_digest(self._nodes, ())
        stored = {f"lowbit.{k}": text for k, text in sorted(self.graph.notes.items()) if k.startswith(PREPROCESSING)}
        helper.set_model_props(model, {"lowbit": json.dumps(tables, sort_keys=True, ensure_ascii=False), **stored})
        return model

    def _add_group(self, node: Node, steps: list[Any]) -> None:
        """Says what the nodes spell. Attributes with symbols are left out: sizes that another program binds would not change in them."""
        if any(_symbolic(a) for a in node.attrs.values()):
            return
        constants = [i for n in steps for i in n.input if i in self._initializers]
        constants = list(dict.fromkeys(constants))
        self._groups.append(
            {
                "outputs": [n.output[0] for n in steps],
                "constants": constants,
                "digest": group_digest(steps, [self._initializers[c] for c in constants]),
                "op": node.op,
                "inputs": [self.name(v) for v in node.inputs],
                "results": [self.name(v) for v in node.outputs],
                "attrs": dict(node.attrs),
            }
        )

    def _add_constants(self) -> None:
        read = {i for n in self._nodes for i in n.input}
        for name, c in self.graph.constants.items():
            if self._names[name] in read:
                data = np.ascontiguousarray(c.data.T) if name in self.turned else c.data
                self._initializers[self._names[name]] = tensor_proto(self._names[name], data, c.value.type.dtype)


def _symbolic(a: Attr) -> bool:
    return isinstance(a, Sym) or (isinstance(a, tuple) and any(map(_symbolic, a)))


def needed_opset(graph: Graph) -> int:
    """The least opset (but at least FLOOR) that can say every node; an UnsupportedOp that names the first node that none can."""
    version = FLOOR
    for node in graph.nodes:
        found = SPELLINGS.get(node.op)
        if found is None:
            raise _no_spelling(node)
        version = max(version, found.since(node))
    for v in graph.values.values():
        element_type(v.type.dtype)
        version = max(version, 21 if v.type.dtype.bits < 8 else 19 if v.type.dtype.name.startswith("float8") else 0)
    return version


def _no_spelling(node: Node) -> UnsupportedOp:
    if node.op.startswith("q_") or node.op == "requantize":
        return UnsupportedOp(
            "integer ops of lowbit have no spelling in ONNX", where=node.where, hint="export the Q/DQ graph (of lowbit.quantize) instead"
        )
    return UnsupportedOp("it has no spelling in ONNX", where=node.where, hint="lowbit.save keeps any graph: q.save('model.lowbit')")
