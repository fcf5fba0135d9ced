"""Runs a graph node by node in NumPy. Slow and obvious: this is what a graph means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from lowbit.arguments import shown
from lowbit.errors import InputError, LowbitError, ShapeError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, Node, Value
from lowbit.numerics import as_array
from lowbit.progress import progress
from lowbit.types import Array

OnValue = Callable[[Value, Array], None]


def run(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    keep: Iterable[str] = (),
    on_value: OnValue | None = None,
) -> dict[str, Array]:
    """Outputs by name (and the values named in `keep`). `on_value` sees every value computed by a node, in order.

    Values are freed after their last use, so memory is that of the widest point, not of the whole network.
    """
    return evaluate(bound_to(graph, inputs), check_inputs(graph, inputs), keep=keep, on_value=on_value)


def bound_to(graph: Graph, inputs: Mapping[str, Array]) -> Graph:
    """The graph at the sizes of these inputs."""
    arrays, binding = check_inputs(graph, inputs), dict[str, int]()
    for v in graph.inputs:
        try:
            binding_for(v.type, arrays[v.name].shape, binding)
        except LowbitError as e:
            raise e.at(f"input {v.name!r}") from None
    bound = bind(graph, binding)
    if bound.symbols:
        raise ShapeError(f"dimensions {', '.join(bound.symbols)} are not given by any input's shape")
    return bound


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs as native-endian arrays; an InputError or ShapeError when names, dtypes or ranks do not fit."""
    names = [v.name for v in graph.inputs]
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"{type(inputs).__name__} given, a mapping of arrays by name is needed",
            where=graph.name,
            hint=f"{{{', '.join(f'{n!r}: array' for n in names)}}}; session(x) takes arrays in their order",
        )
    missing, unknown = [n for n in names if n not in inputs], [n for n in inputs if n not in names]
    if missing or unknown:
        few = ", ".join(repr(n) for n in unknown[:3]) + (", …" if len(unknown) > 3 else "")
        given = f", {few} given" if missing and unknown else ""
        what = f"input {missing[0]!r} is missing{given}" if missing else f"there is no input named {unknown[0]!r}"
        raise InputError(what, where=graph.name, hint=f"the inputs are {', '.join(f'{v.name}: {v.type}' for v in graph.inputs)}")
    arrays = {}
    for v in graph.inputs:
        if isinstance(inputs[v.name], Mapping):
            raise InputError(
                f"{type(inputs[v.name]).__name__} given, an array is needed",
                where=f"input {v.name!r}",
                hint="session(x) and session.profile(x) take arrays in the order of the inputs, session.run({name: array}) by name",
            )
        x = as_array(inputs[v.name], what=f"input {v.name!r}")
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        need = v.type.dtype.numpy
        if x.dtype != need:
            numbers = x.dtype.kind in "biufc"
            part = "x.real" if x.dtype.kind == "c" else "x"
            hint = f"{part}.astype(np.{need})" if numbers else f"an array of numbers: np.asarray(…, np.{need})"
            what = str(x.dtype) if numbers or isinstance(inputs[v.name], np.ndarray) else shown(inputs[v.name]).removeprefix("of type ")
            raise InputError(f"{what} given, {need} needed", where=f"input {v.name!r}", hint=hint)
        try:
            binding_for(v.type, x.shape, {})
        except LowbitError as e:
            raise e.at(f"input {v.name!r}") from None
        arrays[v.name] = x
    return arrays


def evaluate(
    graph: Graph,
    arrays: Mapping[str, Array],
    *,
    keep: Iterable[str] = (),
    on_value: OnValue | None = None,
) -> dict[str, Array]:
    """Like `run`, for a graph without symbols and inputs that were checked."""
    keep = tuple(keep)
    env: dict[str, Array] = dict(arrays)

    def known(name: str) -> Array:
        return env[name] if name in env else graph.constants[name].data

    last = last_uses(graph)
    forever = {v.name for v in graph.outputs.values()} | set(keep)
    for i, node in enumerate(progress(graph.nodes, "running")):
        read = [known(v.name) if v is not None else None for v in node.inputs]
        for value, array in zip(node.outputs, run_node(node, read), strict=True):
            env[value.name] = array
            if on_value is not None:
                on_value(value, array)
        for name in last.get(i, ()):
            if name not in forever and name not in graph.constants:
                del env[name]
    return {name: known(v.name) for name, v in graph.outputs.items()} | {name: known(name) for name in keep}


def run_node(node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
    """The node's outputs; what comes out must be what its types say, so that an op cannot lie."""
    try:
        with np.errstate(all="ignore"):  # inf and NaN are values; a network may divide by zero on purpose
            outputs = node.definition.run(inputs, node.attrs)
    except LowbitError as e:
        raise e.at(node.where) from None
    except MemoryError as e:
        raise ShapeError(f"no memory for its result, {', '.join(str(o.type) for o in node.outputs)}", where=node.where) from e
    for value, array in zip(node.outputs, outputs, strict=True):
        if array.shape != value.type.shape or array.dtype != value.type.dtype.numpy:
            raise ShapeError(f"computed {array.dtype}{list(array.shape)}, its type says {value.type}", where=node.where)
    return outputs


def last_uses(graph: Graph) -> dict[int, list[str]]:
    """For each node's position, the values that are dead after it (unread values included)."""
    last: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.inputs, *node.outputs):
            if v is not None:
                last[v.name] = i
    dead: dict[int, list[str]] = {}
    for name, i in last.items():
        dead.setdefault(i, []).append(name)
    return dead
