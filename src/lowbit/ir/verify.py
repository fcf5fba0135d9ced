"""The laws of a graph, checked one by one. A stage that breaks one is caught at the stage, not three later."""

from __future__ import annotations

from lowbit.errors import GraphError, LowbitError
from lowbit.ir.graph import Graph, Value


def verify(graph: Graph) -> Graph:
    """The graph itself, if it keeps every law; else a GraphError that names the node and the law."""
    defined: dict[str, Value] = {}

    def define(value: Value, by: str) -> None:
        if value.name in defined:
            raise GraphError(f"value {value.name!r} is defined twice, the second time by {by}")
        defined[value.name] = value

    for v in graph.inputs:
        define(v, "an input")
    for name, c in graph.constants.items():
        if name != c.value.name:
            raise GraphError(f"constant {c.value.name!r} is filed under {name!r}")
        define(c.value, "a constant")
        if c.data.shape != c.value.type.shape or c.data.dtype != c.value.type.dtype.numpy:
            raise GraphError(f"constant {name!r} holds {c.data.dtype}{list(c.data.shape)}, its type says {c.value.type}")
        if c.data.flags.writeable:
            raise GraphError(f"constant {name!r} can be written to")
    for node in graph.nodes:
        for used in node.inputs:
            if used is None:
                continue
            if used.name not in defined:
                raise GraphError(f"{node.where} uses {used.name!r} before it is defined")
            if defined[used.name] != used:
                raise GraphError(f"{node.where} takes {used.name!r} to be {used.type}, it is {defined[used.name].type}")
        try:
            complete = node.definition.signature.complete(node.op, len(node.inputs), node.attrs)
            if any(v is None for v in node.inputs[: node.definition.signature.required]):
                raise GraphError("an input that it needs is left out")
            types = node.definition.infer_types([v.type if v is not None else None for v in node.inputs], node.attrs)
        except LowbitError as e:
            raise GraphError(str(e), where=node.where) from e
        if complete != dict(node.attrs):
            raise GraphError(f"{node.where} leaves attributes to their defaults: {sorted(set(complete) - set(node.attrs))}")
        if types != tuple(o.type for o in node.outputs):
            raise GraphError(f"{node.where} is said to give {[str(o.type) for o in node.outputs]}, it gives {[str(t) for t in types]}")
        for o in node.outputs:
            define(o, node.where)
    for name, out in graph.outputs.items():
        if defined.get(out.name) != out:
            wrong = "of another type" if out.name in defined else "not defined"
            raise GraphError(f"output {name!r} is {out.name!r}, which is {wrong}")
    return graph
