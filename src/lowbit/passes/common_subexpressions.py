"""Computes equal things once: nodes of the same op, inputs and attributes, and constants of the same bytes."""

from __future__ import annotations

import hashlib
from typing import Any

from lowbit.ir.graph import Graph
from lowbit.ir.rewrite import Editor

SMALL = 64  # bytes: longer constants are compared by their digest


def common_subexpressions(graph: Graph) -> Graph:
    """The graph in which no two nodes compute the same and no two constants are equal; the first of each stays."""
    editor = Editor(graph)
    _constants(editor, graph)
    seen: dict[Any, Any] = {}
    for node in editor.nodes():
        key = (node.op, tuple(v.name if v is not None else None for v in node.inputs), _key(tuple(node.attrs.items())))
        first = seen.setdefault(key, node)
        if first is not node:
            for old, new in zip(node.outputs, first.outputs, strict=True):
                editor.replace(old, new)
    return editor.done()


def _key(a: Any) -> Any:
    """Attributes as a dictionary key that tells True from 1, 1 from 1.0 and 0.0 from -0.0, which == does not."""
    if isinstance(a, tuple):
        return tuple(map(_key, a))
    return (type(a).__name__, a.hex() if isinstance(a, float) else a)


def _constants(editor: Editor, graph: Graph) -> None:
    by_type: dict[str, list[Any]] = {}
    for c in graph.constants.values():
        by_type.setdefault(str(c.value.type), []).append(c)
    for same_type in by_type.values():
        if len(same_type) == 1:
            continue
        seen: dict[bytes, Any] = {}
        for c in same_type:
            bits = c.data.tobytes()
            bits = bits if len(bits) <= SMALL else hashlib.sha256(bits).digest()
            first = seen.setdefault(bits, c)
            if first is not c:
                editor.replace(c.value, first.value)
