"""Gives symbolic dimensions their values: attributes are substituted and every type is inferred again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowbit.assumptions import still_open
from lowbit.dims import Dim, Sym, as_line, substitute
from lowbit.errors import LowbitError, ShapeError
from lowbit.ir.graph import Attr, Graph, Node, Value
from lowbit.types import TensorType, shape_text


def bind(graph: Graph, binding: Mapping[str, Dim]) -> Graph:
    """The same graph with the named symbols replaced. Symbols that are not named stay.

    `bind(g, {"batch": 4})` turns float32[batch, 10] into float32[4, 10] everywhere.
    """
    unknown = sorted(set(binding) - set(graph.symbols))
    if unknown:
        have = ", ".join(graph.symbols) or "none"
        raise ShapeError(f"the graph has no dimension named {', '.join(unknown)}", hint=f"its symbolic dimensions: {have}")
    if not binding:
        return graph
    inputs = tuple(Value(v.name, v.type.with_shape([substitute(d, binding) for d in v.shape])) for v in graph.inputs)
    now = retype(replace(graph, inputs=inputs), {n.output.name: _bind_attrs(n.attrs, binding) for n in graph.nodes})
    now = replace(now, assumed=still_open(graph.assumed, binding))
    for before, node in zip(graph.nodes, now.nodes, strict=True):
        for was, value in zip(before.outputs, node.outputs, strict=True):
            _check_size(was, value, binding, node)
    return now


def _check_size(was: Value, now: Value, binding: Mapping[str, Dim], node: Node) -> None:
    """Checks that the new shape is an instance of the symbolic one, from which sizes and attributes of later nodes were computed."""
    for d, found in zip(was.shape, now.shape, strict=True):
        need = substitute(d, binding)
        if isinstance(need, int) and isinstance(found, int) and need != found:
            given = ", ".join(f"{s}={v}" for s, v in sorted(binding.items()))
            raise ShapeError(
                f"its shape was taken to be {shape_text(was.shape)}, with {given} it is {shape_text(now.shape)}",
                where=node.where,
                hint="load the model with shapes= for these sizes",
            )


def retype(graph: Graph, attrs: Mapping[str, Mapping[str, Attr]] | None = None) -> Graph:
    """The graph with every type inferred again from the inputs and constants. `attrs` replaces attributes by first output name."""
    now: dict[str, Value] = {v.name: v for v in graph.inputs} | {c.value.name: c.value for c in graph.constants.values()}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(now[v.name] if v is not None else None for v in node.inputs)
        node_attrs = attrs[node.output.name] if attrs is not None else node.attrs
        try:
            types = node.definition.infer_types([v.type if v is not None else None for v in inputs], node_attrs)
        except LowbitError as e:
            raise e.at(node.where) from None
        outputs = tuple(Value(o.name, t) for o, t in zip(node.outputs, types, strict=True))
        now.update((o.name, o) for o in outputs)
        nodes.append(Node(node.op, inputs, node_attrs, node.name, outputs))
    ends = {k: now[v.name] for k, v in graph.outputs.items()}
    return replace(graph, outputs=ends, nodes=tuple(nodes))


def _bind_attrs(attrs: Mapping[str, Attr], binding: Mapping[str, Dim]) -> Mapping[str, Attr]:
    def bound(a: Attr) -> Attr:
        if isinstance(a, Sym):
            return substitute(a, binding)
        return tuple(map(bound, a)) if isinstance(a, tuple) else a

    return {k: bound(a) for k, a in attrs.items()}


def binding_for(expected: TensorType, shape: tuple[int, ...], binding: dict[str, int]) -> None:
    """Learns symbols from an actual shape, into `binding`; a ShapeError when the shape does not fit the type."""
    if len(shape) != expected.rank:
        raise ShapeError(f"shape {shape_text(shape)} given, {shape_text(expected.shape)} needed: rank {expected.rank}")
    fits = True
    for want, got in zip(expected.shape, shape, strict=True):
        line = as_line(want)
        if line is not None and line[0] not in binding and (got - line[2]) % line[1] == 0:
            binding[line[0]] = (got - line[2]) // line[1]  # 32*h met by 96: h is 3
    for want, got in zip(expected.shape, shape, strict=True):
        need = substitute(want, binding)
        fits = fits and (need == got or (isinstance(need, Sym) and as_line(need) is None))
    if not fits:
        known = {s: v for s, v in binding.items() if s in expected.symbols}
        note = f" with {', '.join(f'{s}={v}' for s, v in known.items())}" if known else ""
        raise ShapeError(
            f"shape {shape_text(shape)} given, {shape_text(expected.shape)} needed{note}", hint=_channels_second(expected, shape)
        )


def _channels_second(expected: TensorType, shape: tuple[int, ...]) -> str | None:
    """How to bring an array with its channels last to the type, if that is what is wrong with it: x.transpose(0, 3, 1, 2)."""
    moved = (shape[0], shape[-1], *shape[1:-1]) if expected.rank in (3, 4, 5) else ()
    sizes = zip(expected.shape, moved, strict=False)
    if not moved or any(isinstance(want, int) and want != got for want, got in sizes):
        return None
    axes = ", ".join(map(str, (0, len(shape) - 1, *range(1, len(shape) - 1))))
    return f"x.transpose({axes}), if its channels are last: they are the second axis here"
