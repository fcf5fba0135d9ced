"""Graph, Node, Value: immutable, in SSA form, named. Every stage takes a Graph and returns another.

A Value is defined once: by an input, a constant or a node. Nodes stand in an order in which definitions come before uses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from os import PathLike
from typing import Any, Union

import numpy as np

from lowbit.assumptions import Assumption
from lowbit.dims import Sym
from lowbit.errors import GraphError, InputError
from lowbit.ops.op import Op, get_op
from lowbit.types import Array, TensorType

Attr = Union[None, bool, int, float, str, Sym, tuple["Attr", ...]]  # noqa: UP007 (a name in quotes has no | operator)

STAYS_FLOAT = "stays float: "  # how the note of a node begins that a rule keeps float
KEEPS_FLOAT = ":float"  # how the value of a cast to its own type ends that keeps the layer after it float: it is called after that layer's
PREPROCESSING = "preprocessing: "  # the note under this and an input's name: how a picture or a sound becomes its array, as JSON
SCALED = "scaled: "  # the note under this and a value's name: [axis, [k, …]] in JSON; its channels were divided by 2^k, readers undo it


@dataclass(frozen=True)
class Value:
    """A tensor in the graph: a name that is unique in it, and its type.

    >>> Value("x", TensorType((2, 3), "float32")).shape
    (2, 3)
    """

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int | Sym, ...]:
        """The dimensions: numbers and symbols."""
        return self.type.shape

    def __str__(self) -> str:
        return f"%{self.name}"


def given(inputs: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The inputs without those that are left out at the end: never given is the same."""
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def types_of(values: Iterable[Value | None]) -> list[TensorType | None]:
    return [v.type if v is not None else None for v in values]


@dataclass(frozen=True)
class Node:
    """One application of an op. `name` is the layer's (the module path, `layer1.0.conv2`); left-out inputs are None.

    >>> import lowbit
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> node = g.nodes[0]
    >>> node.op, node.output.name, [v.name for v in node.inputs if v is not None][0]
    ('linear', 'linear', 'x')
    """

    op: str
    inputs: tuple[Value | None, ...]
    attrs: Mapping[str, Attr]
    name: str
    outputs: tuple[Value, ...]

    @property
    def definition(self) -> Op:
        """The op: types, meaning, integers."""
        return get_op(self.op)

    @property
    def output(self) -> Value:
        """The first output; for most ops the only one."""
        return self.outputs[0]

    @property
    def where(self) -> str:
        """How errors and reports call this node: conv 'layer1.0.conv2'."""
        return f"{self.op} '{self.name or self.output.name}'"

    def input(self, i: int) -> Value | None:
        """The i-th input, or None when it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None


@dataclass(frozen=True)
class Constant:
    """A value known when the graph is made: weights, tables, indices. Data is read-only."""

    value: Value
    data: Array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant) or self.value != other.value:
            return False
        a, b = self.data, other.data
        return a is b or (a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(bits(a), bits(b))))

    @cached_property
    def digest(self) -> str:
        """A name for the bytes of the data; large ones are read once."""
        return digest(self.data)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class PackedConstants:
    """Constants as some build's kernels (by its digest) want them, which that build need not pack again."""

    kernels: str
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Graph:
    """A network. Two graphs are equal when names, nodes, types and every bit of the constants are.

    >>> import lowbit
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> [n.op for n in g.nodes], g.parameter_bytes, list(g.outputs)
    (['linear'], 60, ['y'])
    """

    inputs: tuple[Value, ...]
    outputs: Mapping[str, Value]  # output name -> value: two outputs may be one value
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    name: str = "graph"
    # What reports tell and no result depends on: why a node (by its first output's name) is what it is, or remarks on the whole.
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    assumed: tuple[Assumption, ...] = ()  # conditions on the symbols under which the types are right; checked when they are bound
    packed: PackedConstants | None = field(default=None, compare=False)  # found by content: an edited graph finds what is still true
    # What `quantize` decided, as one line with the times of this machine; a file has the line without times in its notes.
    verdict: str = field(default="", compare=False)

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Every value by name."""
        defined = [*self.inputs, *(c.value for c in self.constants.values()), *(o for n in self.nodes for o in n.outputs)]
        return {v.name: v for v in defined}

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that defines a value; inputs and constants are not in it."""
        return {o.name: n for n in self.nodes for o in n.outputs}

    @cached_property
    def users(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read a value, each once, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(v.name for v in node.inputs if v is not None):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def constant(self, value: Value | None) -> Array | None:
        """The data of a value if it is a constant."""
        found = self.constants.get(value.name) if value is not None else None
        return found.data if found is not None else None

    def node(self, name: str) -> Node:
        """The node with that layer name (or that defines the value of that name)."""
        for n in self.nodes:
            if n.name == name:
                return n
        return self.producers[name]

    @property
    def reasons(self) -> dict[str, str]:
        """Why each layer is what it is, by the layer's name: the notes on nodes, which themselves go by the names of values.

        Where several nodes are one layer's, they are told apart as `layer_names` says.
        """
        noted = [n for n in self.nodes if n.output.name in self.notes]
        return {layer: self.notes[n.output.name] for n, layer in zip(noted, layer_names(noted), strict=True)}

    @property
    def symbols(self) -> tuple[str, ...]:
        """Dimensions of the inputs that are not numbers yet, in order of appearance."""
        from lowbit.dims import symbols

        return tuple(dict.fromkeys(s for v in self.inputs for d in v.shape for s in sorted(symbols(d))))

    @property
    def parameter_count(self) -> int:
        """Elements of all constants."""
        return sum(c.data.size for c in self.constants.values())

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all constants as files store them: two int4 a byte."""
        return sum(c.value.type.nbytes for c in self.constants.values())

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        from lowbit.ir.text import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        inputs = ", ".join(str(v.type) for v in self.inputs)
        verdict = f"; {self.verdict}" if self.verdict else ""
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes, {self.parameter_count:,} parameters, {inputs}{verdict}>"

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a .lowbit file, whole or not at all."""
        from lowbit.ir.file import save

        save(self, path)


def stored_verdict(notes: Mapping[str, str]) -> str:
    """The verdict as notes have it, which hold no times; "" if `quantize` did not decide by measuring."""
    unmet = f"; NOT MET: {notes['not met']}" if "not met" in notes else ""
    return f"{notes['decided']}{unmet}" if "decided" in notes else ""


def need_outputs(graph: Graph) -> Graph:
    """The graph; an error where nothing comes out of it: there is nothing to run, measure or keep."""
    if not graph.outputs:
        raise GraphError("the network has no outputs", where=graph.name, hint="a file that names what it computes; lowbit inspect shows it")
    return graph


def layer_names(nodes: Iterable[Node]) -> list[str]:
    """A name of its own for each node: the layer's; after its first node with the op, "se (relu)", and a number, "se (relu 2)"."""
    found: dict[str, None] = {}
    for n in nodes:
        layer = n.name or n.output.name
        tried = chain((layer, f"{layer} ({n.op})"), (f"{layer} ({n.op} {i})" for i in count(2)))
        found[next(name for name in tried if name not in found)] = None
    return list(found)


def need_graph(value: object, call: str) -> Graph:
    """The value, if it is a graph; an InputError with what to write instead where it is a path, a module or something else."""
    if not isinstance(value, Graph):
        in_torch = {"calibrate": "lowbit.torch.calibrate(model, data)", "quantize": "lowbit.torch.quantize_(model, data=batches)"}
        module = in_torch.get(call) if hasattr(value, "named_modules") else None
        hint = f"lowbit.{call}(lowbit.load(...), …)"
        raise InputError(f"{type(value).__name__} given, a Graph is needed", hint=f"{hint}, or {module}" if module else hint)
    return value


def bits(x: Array) -> Array:
    """The elements of a contiguous array as unsigned integers, in one row: a view of the same memory."""
    return x.reshape(-1).view(f"u{min(x.itemsize, 8)}")


def digest(x: Array) -> str:
    """SHA-256 of the array's bytes."""
    return hashlib.sha256(bits(np.ascontiguousarray(x)).data).hexdigest()


def freeze(x: Array) -> Array:
    """The array, contiguous and read-only: constants are shared between graphs and must not change under one of them."""
    if not x.flags.writeable and x.flags.c_contiguous:
        return x
    out = np.ascontiguousarray(x).reshape(x.shape)  # ascontiguousarray makes a scalar rank 1
    out = out.view()
    out.flags.writeable = False
    return out


def attr(value: Any) -> Attr:
    """The value as an attribute: lists and 1-D arrays become tuples, NumPy scalars Python ones."""
    if isinstance(value, np.ndarray | list | tuple):
        return tuple(attr(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value))
    if isinstance(value, np.generic):
        return attr(value.item())
    if value is None or isinstance(value, bool | int | float | str | Sym):
        return value
    raise TypeError(f"{type(value).__name__} cannot be an attribute")
