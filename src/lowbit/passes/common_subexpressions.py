"""Computes equal things once: nodes of the same op, inputs and attributes, and constants of the same bytes."""

from __future__ import annotations

from typing import Any

from lowbit.ir.graph import Constant, Graph, bits
from lowbit.ir.rewrite import Editor

HEAD = 16  # elements: constants that differ in these need not be read to the end


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
    alike: dict[tuple[str, bytes], list[Constant]] = {}
    for c in graph.constants.values():
        alike.setdefault((str(c.value.type), bits(c.data)[:HEAD].tobytes()), []).append(c)
    for group in alike.values():
        seen: dict[str, Constant] = {}
        for c in group if len(group) > 1 else ():
            first = seen.setdefault(c.digest, c)
            if first is not c:
                editor.replace(c.value, first.value)
