"""A graph as text, and back: `parse_graph(print_graph(g), g.constants) == g`.

    graph "mlp"
    input "x": float32[batch, 4]
    const "w": float32[2, 4] sha256:0f3a…
    "y": float32[batch, 2] = linear("x", "w", _) @ "fc"
    "z": float32[batch, 2] = softmax("y") {axis: -1} @ ""
    assume least <batch> <1>
    output "probabilities" = "z"

One line a thing; strings are JSON strings, so a hostile name cannot break out of its line. Constants of up to 16 elements stand
in the text, others as a digest of their bytes: the data travels beside the text (in a .lowbit file, as tensors).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowbit.assumptions import Assumption
from lowbit.dims import Sym, parse_dim
from lowbit.errors import FormatError, LowbitError
from lowbit.ir.graph import Attr, Constant, Graph, Node, Value, digest, freeze
from lowbit.types import Array, TensorType

INLINE = 16


def print_graph(graph: Graph) -> str:
    """The graph, one line for each input, constant, node and output."""
    lines = [f"graph {json.dumps(graph.name)}"]
    lines += [f"input {json.dumps(v.name)}: {v.type}" for v in graph.inputs]
    lines += [f"const {json.dumps(c.value.name)}: {c.value.type} {_data_text(c)}" for c in graph.constants.values()]
    for n in graph.nodes:
        left = ", ".join(f"{json.dumps(o.name)}: {o.type}" for o in n.outputs)
        args = ", ".join("_" if v is None else json.dumps(v.name) for v in n.inputs)
        attrs = ", ".join(f"{k}: {_attr_text(a)}" for k, a in n.attrs.items())
        lines.append(f"{left} = {n.op}({args})" + (f" {{{attrs}}}" if attrs else "") + f" @ {json.dumps(n.name)}")
    lines += [f"assume {a.kind} <{a.a}> <{a.b}>" for a in graph.assumed]
    lines += [f"output {json.dumps(name)} = {json.dumps(v.name)}" for name, v in graph.outputs.items()]
    return "\n".join(lines) + "\n"


def stands_in_text(data: Array) -> bool:
    """Whether a constant is small and plain enough to be written out: every bit must come back."""
    return data.size <= INLINE and data.dtype.kind in "fiub" and bool(np.isfinite(data).all())


def _data_text(c: Constant) -> str:
    if not stands_in_text(c.data):
        return _named(c.digest)
    flat = c.data.reshape(-1).tolist()
    return "= [" + ", ".join(x.hex() if isinstance(x, float) else str(int(x)) for x in flat) + "]"


def _named(digest: str) -> str:
    return f"sha256:{digest[:16]}"


def _attr_text(a: Attr) -> str:
    if isinstance(a, tuple):
        return "[" + ", ".join(map(_attr_text, a)) + "]"
    if isinstance(a, Sym):
        return f"<{a}>"
    if isinstance(a, float):
        return a.hex() if np.isfinite(a) else f"f{a}"
    return json.dumps(a)


_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<sym><[^>]*>)|(?P<float>-?0x[0-9a-f.]+p[+-]\d+|f-?inf|fnan)|(?P<int>-?\d+(?![\w.]))"""
    r"""|(?P<word>[A-Za-z_][\w:]*)|(?P<mark>[\[\](){},:=@*/+-]))"""
)


class _Line:
    """The tokens of one line, read from the left."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number, self.pos = text, number, 0

    def fail(self, need: str) -> FormatError:
        return FormatError(f"{self.text[self.pos : self.pos + 30]!r} found, {need} needed", where=f"graph text, line {self.number}")

    def next(self, *kinds: str) -> str:
        m = _TOKEN.match(self.text, self.pos)
        if m is None or (kinds and m.lastgroup not in kinds):
            raise self.fail(" or ".join(kinds) or "something else")
        self.pos = m.end()
        return m.group(m.lastgroup or 0)

    def peek(self, mark: str) -> bool:
        m = _TOKEN.match(self.text, self.pos)
        return m is not None and m.group(m.lastgroup or 0) == mark

    def take(self, mark: str) -> bool:
        if self.peek(mark):
            self.next()
            return True
        return False

    def need(self, mark: str) -> None:
        if not self.take(mark):
            raise self.fail(repr(mark))

    def string(self) -> str:
        return str(json.loads(self.next("string")))

    def end(self) -> None:
        if self.text[self.pos :].strip():
            raise self.fail("the end of the line")

    def type(self) -> TensorType:
        name = self.next("word")
        m = re.compile(r"\[([^\]]*)\]").match(self.text, self.pos)
        if m is None:
            raise self.fail("a shape in brackets")
        self.pos = m.end()
        return TensorType([parse_dim(d.strip()) for d in _at_top(m.group(1)) if d.strip()], name)

    def attr(self) -> Attr:
        if self.take("["):
            items: list[Attr] = []
            while not self.take("]"):
                items.append(self.attr())
                if not self.peek("]"):
                    self.need(",")
            return tuple(items)
        token = self.next("string", "sym", "float", "int", "word")
        if token.startswith("<"):
            return parse_dim(token[1:-1])
        if re.fullmatch(r"f-?inf|fnan", token):
            return float(token[1:])
        if "0x" in token and not token.startswith('"'):
            return float.fromhex(token)
        value: Any = json.loads(token)
        return value


def _at_top(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def parse_graph(text: str, data: Mapping[str, Constant] | Mapping[str, Array] | None = None) -> Graph:
    """The graph that was printed; `data` gives the constants that are too large to stand in the text."""
    name = "graph"
    inputs: list[Value] = []
    constants: dict[str, Constant] = {}
    nodes: list[Node] = []
    outputs: dict[str, Value] = {}
    assumed: list[Assumption] = []
    known: dict[str, Value] = {}

    def lookup(line: _Line) -> Value:
        n = line.string()
        if n not in known:
            raise FormatError(f"{n!r} is used before it is defined", where=f"graph text, line {line.number}")
        return known[n]

    for number, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        line = _Line(row, number)
        try:
            word = line.next("word") if not row.lstrip().startswith('"') else ""
            if word == "graph":
                name = line.string()
            elif word == "output":
                key = line.string()
                line.need("=")
                outputs[key] = lookup(line)
            elif word == "assume":
                kind = line.next("word")
                if kind not in ("fits", "least"):
                    raise line.fail("fits or least")
                a, b = (parse_dim(line.next("sym")[1:-1]) for _ in range(2))
                assumed.append(Assumption("fits" if kind == "fits" else "least", a, b))
            elif word in ("input", "const"):
                key = line.string()
                line.need(":")
                value = Value(key, line.type())
                known[key] = value
                if word == "input":
                    inputs.append(value)
                else:
                    constants[key] = Constant(value, freeze(_parse_data(line, value, data or {})))
            elif not word:
                nodes.append(_parse_node(line, lookup, known))
            else:
                raise line.fail("graph, input, const, output or a value")
            line.end()
        except LowbitError as e:
            raise FormatError(e.message, where=e.where or f"graph text, line {number}", hint=e.hint) from e
        except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as e:  # a number or a nesting beyond what Python holds
            raise FormatError(f"it cannot be read ({type(e).__name__}: {e})", where=f"graph text, line {number}") from e
    return Graph(tuple(inputs), outputs, tuple(nodes), constants, name, assumed=tuple(assumed))


def _parse_node(line: _Line, lookup: Any, known: dict[str, Value]) -> Node:
    outs: list[Value] = []
    while not outs or line.take(","):
        key = line.string()
        line.need(":")
        outs.append(Value(key, line.type()))
    line.need("=")
    op = line.next("word")
    line.need("(")
    args: list[Value | None] = []
    while not line.take(")"):
        args.append(None if line.take("_") else lookup(line))
        if not line.peek(")"):
            line.need(",")
    attrs: dict[str, Attr] = {}
    if line.take("{"):
        while not line.take("}"):
            key = line.next("word").rstrip(":")
            line.take(":")
            attrs[key] = line.attr()
            if not line.peek("}"):
                line.need(",")
    line.need("@")
    node = Node(op, tuple(args), attrs, line.string(), tuple(outs))
    known.update((o.name, o) for o in outs)
    return node


def _parse_data(line: _Line, value: Value, data: Mapping[str, Any]) -> Array:
    dtype = value.type.dtype.numpy
    if line.take("="):
        items = line.attr()
        if not isinstance(items, tuple) or len(items) != value.type.size:
            raise line.fail(f"[{value.type.size} elements]")
        return np.array(items, dtype=dtype).reshape(tuple(int(d) for d in value.shape))
    want = line.next("word")  # sha256:…
    found = data.get(value.name)
    if found is None:
        raise FormatError(f"the data of constant {value.name!r} is not there", where=f"graph text, line {line.number}")
    array: Array = found.data if isinstance(found, Constant) else found
    if _named(found.digest if isinstance(found, Constant) else digest(array)) != want:
        raise FormatError(f"the data of constant {value.name!r} is not what was saved", where=f"graph text, line {line.number}")
    return array
