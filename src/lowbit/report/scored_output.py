"""Which output labels are compared with: the named one, the only one, or the only one that holds classes."""

from __future__ import annotations

from lowbit.errors import InputError
from lowbit.ir.graph import Graph, Value
from lowbit.report.ends import last_function

CLASSES = ("softmax", "log_softmax", "argmax")


def scored_output(graph: Graph, name: str | None = None) -> str:
    """The name of the output that labels belong to.

    Of several outputs it is the one that ends in a softmax or an argmax, else the only one with a row of numbers for each row of data.
    Where that leaves several, or none, it must be named.
    """
    names = list(graph.outputs)
    if name is not None:
        if name not in graph.outputs:
            raise InputError(f"there is no output {name!r}, the network has {', '.join(names)}", hint=f'output="{names[0]}"')
        return name
    if len(names) == 1:
        return names[0]
    found = [n for n in names if _ends_in_classes(graph, n)]
    found = found or [n for n, v in graph.outputs.items() if _may_be_classes(v)]
    if len(found) != 1:
        listed = ", ".join(f"{n} {graph.outputs[n].type}" for n in found or names)
        what = "any of these outputs may have their classes" if found else "no output has a row of classes"
        raise InputError(f"labels are given, and {what}: {listed}", hint=" or ".join(f'output="{n}"' for n in (found or names)[:3]))
    return found[0]


def _ends_in_classes(graph: Graph, output: str) -> bool:
    last = last_function(graph, output)
    return last is not None and last.op in CLASSES and _may_be_classes(graph.outputs[output])


def _may_be_classes(value: Value) -> bool:
    """Whether its shape is that of a class number, or of a number for each class, of every row."""
    shape = list(value.shape)
    while len(shape) > 2 and shape[-1] == 1:
        shape.pop()
    if not value.type.dtype.is_float:
        return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    return len(shape) == 2 and shape[1] != 1
