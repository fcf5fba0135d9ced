"""Weights stored in few bits and multiplied as floats: a session dequantizes them once, not at every run.

That takes four bytes a weight while the session lives; the file and the graph keep the few bits.
"""

from __future__ import annotations

from lowbit.ir.graph import Graph
from lowbit.ir.interp import run_node
from lowbit.ir.rewrite import Editor


def real_weights(graph: Graph) -> Graph:
    """The integer graph with every dequantize_linear of constants replaced by its value."""
    stored = [n for n in graph.nodes if n.op == "dequantize_linear" and all(v is None or v.name in graph.constants for v in n.inputs)]
    if not stored:
        return graph
    editor = Editor(graph)
    for node in stored:
        (real,) = run_node(node, [None if v is None else graph.constants[v.name].data for v in node.inputs])
        editor.replace(node.output, editor.constant(real, name=node.output.name, dtype=node.output.type.dtype))
    return editor.done()
