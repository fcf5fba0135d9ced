"""Functions of an ONNX model, looked at before they are written out: no function calls itself, and the graph does not explode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lowbit.errors import FormatError
from lowbit.limits import limits, over

Key = tuple[str, str]  # domain, name


def check_functions(proto: Any, source: str) -> None:
    """A FormatError where a function calls itself, directly or by others, or where written out functions exceed the limit of nodes."""
    functions = {(f.domain, f.name): f for f in proto.functions}
    sizes: dict[Key, int] = {}
    for key in functions:
        _measure(key, functions, sizes, source)
    whole = sum(sizes.get((n.domain, n.op_type), 1) for n in _nodes(proto.graph.node))
    if whole > limits().nodes:
        raise over("nodes", whole, "nodes, after functions are written out", source)


def _measure(start: Key, functions: dict[Key, Any], sizes: dict[Key, int], source: str) -> None:
    """Nodes of a function with all that it calls, into `sizes`: callees first, without recursion."""
    stack = [start]
    path: dict[Key, None] = {}  # functions that are begun, in the order of their calls
    while stack:
        key = stack[-1]
        if key in sizes:
            stack.pop()
            continue
        called = [k for n in _nodes(functions[key].node) if (k := (n.domain, n.op_type)) in functions]
        if key in path:  # all that it calls is measured
            del path[stack.pop()]
            sizes[key] = sum(sizes.get((n.domain, n.op_type), 1) for n in _nodes(functions[key].node))
            continue
        path[key] = None
        for k in called:
            if k in path:
                raise FormatError(f"function '{k[1]}' calls itself", where=source, hint="the file is damaged: export it again")
            if k not in sizes:
                stack.append(k)


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes, and those of the graphs in their attributes."""
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        for a in node.attribute:
            stack += [iter(g.node) for g in (a.g, *a.graphs) if len(g.node)]
