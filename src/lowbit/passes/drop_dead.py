"""Removes nodes, constants and second results that no output depends on."""

from __future__ import annotations

from lowbit.dims import Dim
from lowbit.ir.build import prune
from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import dims, options


def drop_dead(graph: Graph) -> Graph:
    """The graph with only the nodes that its outputs depend on."""
    live = prune(graph)
    same = len(live.nodes) == len(graph.nodes) and len(live.constants) == len(graph.constants)
    return rewrite(graph if same else live, _unread_results, "max_pool_indices", "split")


def _unread_results(editor: Editor, node: Node) -> None:
    """A pool whose positions no node reads becomes a plain pool; a split with one part that is read becomes a slice."""
    read = [i for i, o in enumerate(node.outputs) if editor.users(o) or editor.is_output(o)]
    if node.op == "max_pool_indices" and read == [0]:
        attrs = options(node)
        del attrs["column_major"]
        editor.replace(node.output, editor.add("max_pool", *node.inputs, name=node.name, **attrs))
    elif node.op == "split" and len(read) == 1:
        sizes = dims(node, "sizes")
        start: Dim = 0
        for size in sizes[: read[0]]:
            start = start + size
        end = start + sizes[read[0]]
        part = node.outputs[read[0]]
        sliced = editor.add(
            "slice", *node.inputs, name=node.name, out=part.name, axes=(node.attrs["axis"],), starts=(start,), ends=(end,), steps=(1,)
        )
        editor.replace(part, sliced)
