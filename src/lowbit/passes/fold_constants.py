"""Computes nodes that depend on constants alone, as long as the file does not grow."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Sym
from lowbit.ir.graph import Attr, Graph, Node, Value
from lowbit.ir.interp import run_node
from lowbit.ir.rewrite import Editor
from lowbit.ir.work import padding, work
from lowbit.limits import limits
from lowbit.types import Array

GROWTH = 1 << 20  # bytes by which one result may be larger than the constants that it replaces
CHEAP_GROWTH = 1 << 12  # the same for ops that only repeat or count: made again at run time they cost less than read from a file
WORK = 1 << 30  # element operations of one result: more would take seconds, by the interpreter

CHEAP = frozenset({"fill", "expand", "tile", "range", "eye", "one_hot"})
KEPT = frozenset({"dequantize_linear"})  # integer weights stay integers: their real values are four times the size
WIDENS = frozenset({"float16", "bfloat16"})  # weights stored in half: to cast them at every run is worse than twice the size


def fold_constants(graph: Graph, growth: int = GROWTH, cheap_growth: int = CHEAP_GROWTH) -> Graph:
    """The graph with constant nodes replaced by their values, if the constants grow by no more than `growth`.

    Whole regions are judged by their result: the steps of a table made by range → mul → sin may be larger than the limit, the
    sum over it that is used may not.
    """
    editor = Editor(graph)
    known = {n.output.name for n in _computable(graph)}
    cache: dict[str, Array] = {}
    for node in reversed(graph.nodes):
        now = editor.producer(node.output)
        if now is None or node.output.name not in known:
            continue
        if not any(editor.is_output(o) or any(u.output.name not in known for u in editor.users(o)) for o in node.outputs):
            continue  # only read inside a region that is folded as a whole
        limit = cheap_growth if node.op in CHEAP else growth
        if sum(o.type.nbytes for o in node.outputs) - _freed(editor, node, known) > limit and not _widens(editor, node):
            known.discard(node.output.name)  # stays an op: its inputs are read at run time
            continue
        for o in node.outputs:
            if editor.users(o) or editor.is_output(o):
                editor.replace(o, editor.constant(_compute(graph, o, cache), name=o.name, dtype=o.type.dtype))
    return editor.done()


def _computable(graph: Graph) -> list[Node]:
    """Nodes that depend on constants alone, in order."""
    names = set(graph.constants)
    room = limits().folded_bytes + 8 * sum(c.data.nbytes for c in graph.constants.values())
    found = []
    for node in graph.nodes:
        if node.op in KEPT or not all(v is None or v.name in names for v in node.inputs) or any(_symbolic(a) for a in node.attrs.values()):
            continue
        if not all(o.type.is_static for o in node.outputs) or work(node) > WORK:
            continue
        taken = sum(o.type.nbytes for o in node.outputs) + padding(node)
        if taken <= room:
            room -= taken
            found.append(node)
            names.update(o.name for o in node.outputs)
    return found


def _symbolic(a: Attr) -> bool:
    return isinstance(a, Sym) or (isinstance(a, tuple) and any(map(_symbolic, a)))


def _freed(editor: Editor, node: Node, known: set[str]) -> int:
    """Bytes of constants that no node needs after folding the node."""
    inside = {node.output.name}
    stack, freed, seen = [node], 0, set()
    while stack:
        for v in stack.pop().inputs:
            if v is None or v.name in seen or any(u.output.name not in inside for u in editor.users(v)) or editor.is_output(v):
                continue
            seen.add(v.name)
            before = editor.producer(v)
            if before is None:
                freed += v.type.nbytes
            elif before.output.name in known:
                inside.add(before.output.name)
                stack.append(before)
    return freed


def _widens(editor: Editor, node: Node) -> bool:
    x = node.inputs[0] if node.op == "cast" else None
    return x is not None and x.type.dtype.name in WIDENS and editor.producer(x) is None


def _compute(graph: Graph, value: Value, cache: dict[str, Array]) -> Array:
    """The value, by the interpreter; steps on the way are remembered for the other results that need them."""
    stack = [value.name]
    while stack:
        name = stack[-1]
        if name in cache or name in graph.constants:
            stack.pop()
            continue
        node = graph.producers[name]
        missing = [v.name for v in node.inputs if v is not None and v.name not in cache and v.name not in graph.constants]
        if missing:
            stack += missing
            continue
        inputs = [None if v is None else cache[v.name] if v.name in cache else graph.constants[v.name].data for v in node.inputs]
        for o, array in zip(node.outputs, run_node(node, inputs), strict=True):
            cache[o.name] = np.asarray(array)
    return cache[value.name] if value.name in cache else graph.constants[value.name].data
