"""Turns the arithmetic that brings bytes to reals, (cast(x) / 255 - mean) / std, into one table for each channel.

The 256 entries are computed by the ops themselves, one rounding after the other, so every number keeps its bits.
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.types import Array

LINKS = ("mul", "div", "add", "sub")


def fuse_pixels(graph: Graph) -> Graph:
    return rewrite(graph, _fuse, "cast")


def _fuse(editor: Editor, node: Node) -> None:
    x = node.inputs[0]
    if x is None or x.type.dtype.name != "uint8" or node.output.type.dtype.name != "float32" or x.type.rank < 1:
        return
    chain, constants = [], []
    user = editor.only_user(node.output)
    while user is not None and user.op in LINKS and (data := _constant(editor, user)) is not None:
        chain.append(user)
        constants.append(data)
        user = editor.only_user(user.output)
    axis = _axis(x, constants)
    if not chain or axis is None:
        return
    table: Array = np.arange(256, dtype=np.float32)[None]
    with np.errstate(all="ignore"):
        for link, data in zip(chain, constants, strict=True):
            column = data.reshape(-1, 1)
            left = editor.constant_data(link.inputs[0]) is not None
            (table,) = link.definition.run([column, table] if left else [table, column], link.attrs)
    last = chain[-1].output
    made = editor.add(
        "channel_table", x, editor.constant(np.ascontiguousarray(table), name=f"{last.name}.table"), name=node.name, axis=axis
    )
    editor.replace(last, made, inherit=True)


def _constant(editor: Editor, node: Node) -> Array | None:
    """The constant of a sum or product with one, whose other operand has the result's shape."""
    found = [editor.constant_data(v) for v in node.inputs]
    known = [i for i, data in enumerate(found) if data is not None]
    if len(known) != 1 or node.inputs[1 - known[0]].type != node.output.type:  # type: ignore[union-attr]
        return None
    return found[known[0]]


def _axis(x: Value, constants: list[Array]) -> int | None:
    """The one axis along which the constants differ, 0 where none does; None where there are several such axes."""
    axes = set()
    for data in constants:
        wide = [a for a, n in enumerate(data.shape) if n != 1]
        if len(wide) > 1:
            return None
        axes |= {a + x.type.rank - data.ndim for a in wide}
    return None if len(axes) > 1 else next(iter(axes), 0)
