"""Makes plain pools of adaptive ones whose windows are all of one size; plain pools have kernels."""

from __future__ import annotations

from typing import Any

from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import ints

PLAIN = {"adaptive_avg_pool": "avg_pool", "adaptive_max_pool": "max_pool"}


def even_pools(graph: Graph) -> Graph:
    """The graph in which adaptive pools are plain ones where the output's size divides the input's, both known."""
    return rewrite(graph, _even, *PLAIN)


def _even(editor: Editor, node: Node) -> None:
    x, out = node.inputs[0], ints(node, "output_size")
    assert x is not None
    spatial = [d for d in x.shape[2:] if isinstance(d, int)]
    if len(spatial) != len(out) or any(m == 0 or n % m for n, m in zip(spatial, out, strict=True)):
        return
    kernel = tuple(n // m for n, m in zip(spatial, out, strict=True))
    counts: dict[str, Any] = {"count_include_pad": False} if node.op == "adaptive_avg_pool" else {}
    around: dict[str, Any] = {"pads": (0,) * 2 * len(out), "dilation": (1,) * len(out), "ceil_mode": False}
    editor.become(node, PLAIN[node.op], x, kernel=kernel, stride=kernel, **around, **counts)
