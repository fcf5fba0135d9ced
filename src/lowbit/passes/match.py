"""Patterns of nodes as plain values, and the search for them.

    GELU = times(0.5, X, op("add", Num(1), op("erf", times(SQRT_HALF, X))))
    found = match(editor, node, GELU)        # found["x"] is the value X stood for

A pattern is read from the result backwards. add, mul, maximum and minimum match in either order; `times` matches a product of its
factors in any nesting, order and spelling (mul, div by a number, neg), with the numbers multiplied together. All that a pattern swallows
must be used by nothing else, so that nothing is computed twice afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations, takewhile

import numpy as np

from lowbit.dims import Dim
from lowbit.ir.graph import Attr, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.types import Array

COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})
UNIFORM_LIMIT = 4096  # constants up to this size are looked through for being one number
# An exporter writes √2 rounded, and numbers that were multiplied into one carry the rounding of each.
TOLERANCE = {"float64": 1e-6, "float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Var:
    """Any value; the same name twice means the same value."""

    name: str


@dataclass(frozen=True)
class Const:
    """Any constant, by its name in the match."""

    name: str


@dataclass(frozen=True)
class Num:
    """A constant whose elements are all one number: this one, or any, which the match then holds under the name."""

    number: float | str


@dataclass(frozen=True)
class Does:
    """The (first) output of a node of one of these ops, with these inputs and attributes; the same `name` twice means the same node."""

    ops: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class Times:
    """A product of factors and numbers; `number` is the product of the numbers, or the name to store it under."""

    number: float | str
    factors: tuple[Pattern, ...]


@dataclass(frozen=True)
class Either:
    """The first of the patterns that fits."""

    options: tuple[Pattern, ...]


Pattern = Var | Const | Num | Does | Times | Either


def op(ops: str, *inputs: Pattern, name: str = "", **attrs: Attr) -> Does:
    """Pattern of a node; `ops` may name several: "reduce_mean|reduce_sum"."""
    return Does(tuple(ops.split("|")), inputs, attrs, name)


def times(number: float | str, *factors: Pattern) -> Times:
    return Times(number, factors)


def either(*options: Pattern) -> Either:
    return Either(options)


@dataclass(frozen=True)
class Match:
    """The values of a pattern's names, and the nodes that it covers, the root first."""

    values: Mapping[str, Value] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    named: Mapping[str, Node] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    @property
    def layer(self) -> str:
        return layer_name(self.nodes)


def match(editor: Editor, root: Node, pattern: Pattern) -> Match | None:
    """The first way in which the pattern fits the node and all that it swallows is used by nothing else."""
    for found in _value(editor, root.output, pattern, Match()):
        if found.nodes and swallows(editor, found.nodes):
            return found
    return None


def swallows(editor: Editor, nodes: tuple[Node, ...]) -> bool:
    """Whether all nodes but the first are used only by these nodes, so that they die with the first."""
    inside = {n.output.name for n in nodes}
    return not any(editor.is_output(o) or any(u.output.name not in inside for u in editor.users(o)) for n in nodes[1:] for o in n.outputs)


def number(editor: Editor, value: Value | None) -> float | None:
    """The number that all elements of a constant are (an int for integers: no float holds 2**63 - 1); None for anything else."""
    data = editor.constant_data(value)
    return uniform(data) if data is not None else None


def uniform(data: Array) -> float | None:
    """The number that all elements are; None when they differ or there are none (or too many to look)."""
    if not 0 < data.size <= UNIFORM_LIMIT or data.dtype.kind not in "fiub":
        return None
    first = data.reshape(-1)[0]
    if data.size > 1 and not bool((data == first).all()):
        return None
    return float(first) if data.dtype.kind == "f" else int(first)


def close(a: float, b: float, dtype: str = "float32") -> bool:
    """Whether two numbers are the same but for rounding in that dtype."""
    return a == b or (dtype in TOLERANCE and math.isclose(a, b, rel_tol=TOLERANCE[dtype]))


def layer_name(nodes: tuple[Node, ...]) -> str:
    """The module path that all the nodes share; else the name of the first (in a match: the last computed).

    >>> from lowbit.ir.graph import Node
    >>> layer_name(tuple(Node("add", (), {}, n, ()) for n in ("encoder.0.attn", "encoder.0.attn.q")))
    'encoder.0.attn'
    """
    names = [n.name for n in nodes if n.name]
    if not names:
        return ""
    parts = [re.split(r"(?=[./])", n) for n in names]  # 'a.b' is 'a', '.b'
    shared = [same[0] for same in takewhile(lambda p: len(set(p)) == 1, zip(*parts, strict=False))]
    return "".join(shared) or nodes[0].name or names[0]


def same_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True))


def _value(editor: Editor, value: Value, pattern: Pattern, so_far: Match) -> Iterator[Match]:
    """Every match of the pattern with the value, given the names that are bound already."""
    if isinstance(pattern, Var):
        known = so_far.values.get(pattern.name)
        if known is None:
            yield Match({**so_far.values, pattern.name: value}, so_far.numbers, so_far.named, so_far.nodes)
        elif known.name == value.name:
            yield so_far
    elif isinstance(pattern, Does):
        node = editor.producer(value)
        if node is not None and node.op in pattern.ops and node.output.name == value.name and len(node.inputs) == len(pattern.inputs):
            if any(node.attrs[k] != a for k, a in pattern.attrs.items()):
                return
            if so_far.named.get(pattern.name, node) is not node:
                return
            named = {**so_far.named, pattern.name: node} if pattern.name else so_far.named
            seen = Match(so_far.values, so_far.numbers, named, _with(so_far.nodes, node))
            yield from _inputs(editor, node.inputs, pattern.inputs, seen)
            if node.op in COMMUTATIVE and node.inputs[0] != node.inputs[1]:
                yield from _inputs(editor, node.inputs[::-1], pattern.inputs, seen)
    elif isinstance(pattern, Times):
        for n, factors, nodes in _products(editor, value, len(pattern.factors)):
            with_number = _hold(so_far, pattern.number, n, value)
            if with_number is None:
                continue
            covered = with_number.nodes
            for node in nodes:
                covered = _with(covered, node)
            seen = Match(with_number.values, with_number.numbers, with_number.named, covered)
            for order in permutations(factors):
                yield from _inputs(editor, order, pattern.factors, seen)
    elif isinstance(pattern, Either):
        for option in pattern.options:
            yield from _value(editor, value, option, so_far)
    elif isinstance(pattern, Const):
        if editor.constant_data(value) is not None:
            yield from _value(editor, value, Var(pattern.name), so_far)
    else:
        n_or_none = number(editor, value)
        held = _hold(so_far, pattern.number, n_or_none, value) if n_or_none is not None else None
        if held is not None:
            yield held


def _inputs(editor: Editor, inputs: tuple[Value | None, ...], patterns: tuple[Pattern, ...], so_far: Match) -> Iterator[Match]:
    if not inputs:
        yield so_far
        return
    first = inputs[0]
    if first is not None:
        for found in _value(editor, first, patterns[0], so_far):
            yield from _inputs(editor, inputs[1:], patterns[1:], found)


def _hold(m: Match, wanted: float | str, n: float, value: Value) -> Match | None:
    """The match with the number noted, or None when it is not the wanted one."""
    if not isinstance(wanted, str):
        return m if close(n, wanted, value.type.dtype.name) else None
    if wanted in m.numbers:
        return m if close(n, m.numbers[wanted], value.type.dtype.name) else None
    return Match(m.values, {**m.numbers, wanted: n}, m.named, m.nodes)


def _with(nodes: tuple[Node, ...], node: Node) -> tuple[Node, ...]:
    return nodes if any(n is node for n in nodes) else (*nodes, node)


def _products(editor: Editor, value: Value, count: int) -> Iterator[tuple[float, tuple[Value, ...], tuple[Node, ...]]]:
    """Every way to read the value as number × `count` factors, with the nodes that multiply; those with most numbers taken out first."""
    node = editor.producer(value)
    if node is not None and node.op in ("mul", "div", "neg"):
        yield from _opened(editor, node, count)
    if count == 1:
        yield 1.0, (value,), ()


def _opened(editor: Editor, node: Node, count: int) -> Iterator[tuple[float, tuple[Value, ...], tuple[Node, ...]]]:
    if node.op == "neg":
        peeled = [(node.inputs[0], -1.0)]
    else:
        a, b = node.inputs
        of_a, of_b = number(editor, a), number(editor, b)
        peeled = [(a, of_b if node.op == "mul" else np.divide(1.0, of_b))] if of_b is not None and of_b != 0 else []
        if node.op == "mul" and of_a is not None:
            peeled.append((b, of_a))
    for inner, n in peeled:
        assert inner is not None
        for m, factors, nodes in _products(editor, inner, count):
            yield float(n) * m, factors, (node, *nodes)
    if node.op == "mul" and not peeled:
        for left in range(1, count):
            for m, f, ns in _products(editor, node.inputs[0], left):  # type: ignore[arg-type]
                for k, g, us in _products(editor, node.inputs[1], count - left):  # type: ignore[arg-type]
                    yield m * k, (*f, *g), (node, *ns, *us)
