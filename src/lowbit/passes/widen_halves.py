"""Halves (float16, bfloat16) become float32 inside a network: float32 holds all of them, and quantized layers read and give float32.

Inputs and outputs of the network keep their types. Sums are no longer rounded to a half after every operation: the results come nearer to
those of the numbers that the weights stand for.
"""

from __future__ import annotations

from dataclasses import replace

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.verify import verify

HALVES = frozenset({"float16", "bfloat16"})


def widen_halves(graph: Graph) -> Graph:
    """The network computed in float32; the very same object where no value is a half."""
    if not any(_half(v) for v in graph.values.values()):
        return graph
    b, now = Builder(graph.name), dict[str, Value]()
    ends = {v.name for v in graph.outputs.values()}
    for v in graph.inputs:
        now[v.name] = b.input(v.name, v.type)
    for v in graph.inputs:
        now[v.name] = b.add("cast", now[v.name], out=f"{v.name}:float32", to="float32") if _half(v) else now[v.name]
    for name, c in graph.constants.items():
        data = c.data.astype("float32") if _half(c.value) else c.data
        now[name] = b.constant(data, name=name, dtype="float32" if _half(c.value) else c.value.type.dtype)
    for node in graph.nodes:
        attrs = {k: "float32" if k in ("to", "dtype") and v in HALVES else v for k, v in node.attrs.items()}
        read = [None if v is None else now[v.name] for v in node.inputs]
        names = tuple(f"{o.name}:float32" if o.name in ends and _half(o) else o.name for o in node.outputs)
        made = b.add_node(node.op, *read, name=node.name, outputs=names, **attrs)
        now.update((o.name, m) for o, m in zip(node.outputs, made, strict=True))
    given = {v.name: v for v in graph.inputs}
    outputs = {}
    for name, v in graph.outputs.items():
        again = v.name in given  # an output that is an input is handed on as it came
        half = _half(v) and not again
        outputs[name] = b.add("cast", now[v.name], out=v.name, to=v.type.dtype.name) if half else given.get(v.name, now[v.name])
    made_graph = b.finish(outputs)
    return verify(
        replace(made_graph, notes={**graph.notes}, assumed=(*graph.assumed, *(a for a in made_graph.assumed if a not in graph.assumed)))
    )


def _half(value: Value) -> bool:
    return value.type.dtype.name in HALVES
