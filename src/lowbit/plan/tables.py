"""Joins a chain of functions of one byte into one table."""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.types import Array

OF_A_BYTE = ("q_table", "requantize", "q_add", "q_mul", "q_div")  # where other operands are constants of one element, or the same byte

Function = tuple[Value, Array]  # what is looked up, and the entries for -128 … 127


def join_tables(graph: Graph) -> Graph:
    """The same function, with one table for each chain of lookups, sums and products with constants whose inner values no node reads.

    A learned scale and shift after a hard swish, or x · sigmoid(x) spelled out, are one lookup instead of three. The entries are
    computed by the ops themselves for all 256 bytes, so every result keeps its bits.
    """
    editor = Editor(graph)
    functions: dict[str, Function] = {}
    for node in editor.nodes():
        found = function(editor, node, functions)
        if found is None:
            continue
        functions[node.output.name] = found
        root, entries = found
        if any(v is not None and v != root and editor.constant_data(v) is None for v in node.inputs):
            editor.become(node, "q_table", root, editor.constant(entries, name=f"{node.output.name}.table"), name=node.name)
    return editor.done()


def function(editor: Editor, node: Node, functions: dict[str, Function]) -> Function | None:
    """A node as a function of the byte at the head of its chain; None for other nodes."""
    if node.op not in OF_A_BYTE or node.output.type.dtype.name != "int8":
        return None
    codes = np.arange(-128, 128).astype(np.int8)
    root: Value | None = None
    given: list[Array] = []
    for i, v in enumerate(node.inputs):
        if v is None:
            return None
        data = editor.constant_data(v)
        if data is not None:
            if data.size != 1 and not (node.op == "q_table" and i == 1):
                return None
            given.append(data.reshape(1) if data.size == 1 else data)
            continue
        head, entries = functions.get(v.name, (v, codes)) if editor.only_user(v) is not None else (v, codes)
        if head.type.dtype.name != "int8" or head.shape != node.output.shape or (root is not None and head != root):
            return None
        root = head
        given.append(entries)
    return None if root is None else (root, node.definition.run(given, node.attrs)[0])
