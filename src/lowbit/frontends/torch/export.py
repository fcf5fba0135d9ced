"""From a module to an exported program the importer can walk: traced in eval mode, without mutation, unknown ops decomposed."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from lowbit.dims import as_line, parse_dim
from lowbit.errors import InputError, ShapeError, UnsupportedOp
from lowbit.frontends.torch.ao import exportable
from lowbit.frontends.torch.importer import find_handler, layer_name, op_name
from lowbit.frontends.torch.opaque import recurrent_layers_as_ops

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

ROUNDS = 4  # a decomposition may bring ops that need one themselves; these chains are short


def export_program(model: Any, inputs: Any, dynamic: Mapping[str, Any], strict: bool) -> ExportedProgram:
    """The model as a program of ops that lowbit has, or an UnsupportedOp that lists all it lacks."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        program = model
    elif isinstance(model, torch.nn.Module):
        program = _export(exportable(model), inputs, dynamic, strict)
    else:
        raise InputError(f"{type(model).__name__} given, a torch.nn.Module or a torch.export.ExportedProgram needed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _decompose(_without_mutation(program))


def _export(module: Module, inputs: Any, dynamic: Mapping[str, Any], strict: bool) -> ExportedProgram:
    import torch

    name = type(module).__name__
    if inputs is None:
        raise InputError(
            "example inputs are needed to trace a module",
            where=name,
            hint="load(module, inputs=(torch.zeros(1, 3, 224, 224),)): their shapes matter",
        )
    args, kwargs = _arguments(inputs)
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise InputError(f"the inputs do not fit forward{inspect.signature(module.forward)}: {e}", where=name) from e
    stray = [k for k in dynamic if k not in bound]
    if stray:
        raise InputError(
            f"dynamic= names {', '.join(stray)}, which is no argument of forward",
            where=name,
            hint=f"its arguments are {', '.join(bound)}",
        )
    args, kwargs = _at_least_two(bound, args, kwargs, dynamic)
    shapes = {k: _dynamic_spec(dynamic.get(k)) for k in bound} if dynamic else None
    recurrent = nullcontext() if strict else recurrent_layers_as_ops()
    with _eval_mode(module), _without_fastpath(), recurrent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=strict)
        except Exception as e:  # torch.export raises many kinds; the user's forward may raise any
            raise _fixed_size(e, name, bound, dynamic) or _export_error(e, name) from e


def _fixed_size(e: Exception, name: str, bound: Mapping[str, Any], dynamic: Mapping[str, Any]) -> ShapeError | None:
    """The error about a dimension in dynamic= that the program holds to one size, where torch says which it is.

    It is mostly for want of an entry for another input, which has the same size and is not said to change.
    """
    found = re.search(r"L\['(\w+)'\]\.size\(\)\[(\d+)\] as dynamic but your code specialized it to be a constant \((\d+)\)", str(e))
    if found is None:
        return None
    argument, axis, size = found[1], int(found[2]), int(found[3])
    spec = {k: v if isinstance(v, Mapping) else {} for k, v in dynamic.items()}
    called = spec.get(argument, {}).get(axis, f"axis {axis}")
    others = [
        (i != axis, k, i)
        for k, x in bound.items()
        for i, d in enumerate(getattr(x, "shape", ()))
        if k != argument and int(d) == size and i not in spec.get(k, {})
    ]
    hint = "leave it out of dynamic=, if forward needs this size"
    if others:
        _, other, i = min(others)
        hint = f"if {other} changes with it: dynamic={ {argument: {axis: called}, other: {i: called}} }; else leave it out"
    return ShapeError(f"dynamic= lets {called} of {argument!r} change, its forward fixes it to {size}", where=name, hint=hint)


def _export_error(e: Exception, name: str) -> UnsupportedOp | ShapeError:
    text = str(e)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(e).__name__)
    if "data-dependent" in text or "GuardOnDataDependent" in type(e).__name__ or "DynamicControlFlow" in text:
        return UnsupportedOp(
            f"its forward decides by the values of data, which a graph cannot: {first}",
            where=name,
            hint="use torch.where, or a plain Python condition that does not look into tensors",
        )
    if "Constraints violated" in text or ("marked" in text and "dynamic" in text):
        fixes = " ".join(line.strip(" -") for line in text.splitlines() if "marked" in line or "specialized" in line) or first
        return ShapeError(f"a dimension named in dynamic= cannot change: {fixes}", where=name, hint="leave it out of dynamic=")
    return UnsupportedOp(
        f"torch.export cannot trace it: {type(e).__name__}: {first}",
        where=name,
        hint="torch.export.export(module, inputs) by itself shows where",
    )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs in any form as (args, kwargs) of tensors."""
    import numpy as np
    import torch
    from torch.utils._pytree import tree_map

    inputs = tree_map(lambda x: torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x, inputs)
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)), {}


def _at_least_two(
    bound: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with dynamic dims of size 1 doubled: torch takes an example size of 1 to mean "always 1"."""
    import torch

    sizes: dict[str, set[int]] = {}
    plain = {k: spec for k, spec in dynamic.items() if isinstance(spec, Mapping) and isinstance(bound[k], torch.Tensor)}
    for k, spec in plain.items():
        for axis, symbol in spec.items():
            if not -bound[k].dim() <= axis < bound[k].dim():
                raise ShapeError(f"dynamic= names axis {axis} of {k!r}, which has rank {bound[k].dim()}")
            sizes.setdefault(str(symbol), set()).add(bound[k].shape[axis])
    for symbol, found in sizes.items():
        if len(found) > 1:
            raise ShapeError(f"dimension {symbol!r} has sizes {sorted(found)} in the example inputs", hint="one name is one size")

    def doubled(k: str, x: Any) -> Any:
        for axis in plain.get(k, {}):
            if x.shape[axis] == 1:
                x = torch.cat([x, x], axis)
        return x

    names = list(bound)
    return tuple(doubled(names[i], x) if i < len(names) else x for i, x in enumerate(args)), {k: doubled(k, x) for k, x in kwargs.items()}


def _torch_dim(name: Any) -> Any:
    """A size that may change: any for `h`, multiples for `8*h`. torch finds the range of the former by itself."""
    import torch

    d = parse_dim(str(name))
    line = as_line(d)
    if line is None:
        raise ShapeError(f"dynamic= has '{name}', a name or a line like 8*h is needed")
    symbol, factor, offset = line
    return torch.export.Dim.DYNAMIC if (factor, offset) == (1, 0) else factor * torch.export.Dim(symbol) + offset


def _dynamic_spec(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        axes = all(isinstance(k, int) for k in spec)
        return {k: _torch_dim(v) if axes else _dynamic_spec(v) for k, v in spec.items()}
    return type(spec)(_dynamic_spec(s) for s in spec) if isinstance(spec, list | tuple) else None


@contextmanager
def _eval_mode(module: Module) -> Iterator[None]:
    """Inside, dropout is off and batch norm uses its statistics; after, every submodule is in the mode it was in."""
    before = {m: m.training for m in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for m, training in before.items():
            m.training = training


@contextmanager
def _without_fastpath() -> Iterator[None]:
    """Inside, nn.TransformerEncoder is traced as its parts and not as one opaque op."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _without_mutation(program: ExportedProgram) -> ExportedProgram:
    """The same program in functional form: `relu_` is `relu`. What writes to a buffer or an input is an UnsupportedOp."""
    from torch.export.graph_signature import OutputKind

    def effects(n: Any) -> bool:
        schema = getattr(n.target, "_schema", None)
        return n.op == "get_attr" or (schema is not None and schema.is_mutable) or "higher_order" in str(type(n.target))

    if any(effects(n) for n in program.graph.nodes):
        program = program.run_decompositions({})
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)
    written = [str(o.target) for o in program.graph_signature.output_specs if o.kind in kinds]
    if written:
        raise UnsupportedOp(
            f"its forward writes to {', '.join(written)}: a graph has no memory from call to call",
            hint="pass the state in as an argument and return the new one",
        )
    return program


def _unknown(program: ExportedProgram) -> dict[Any, list[Any]]:
    import torch

    found: dict[Any, list[Any]] = {}
    for n in program.graph.nodes:
        sizes = isinstance(n.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat | int | float | bool)
        if n.op == "call_function" and not sizes and op_name(n.target) != "getitem" and find_handler(op_name(n.target)) is None:
            found.setdefault(n.target, []).append(n)
    return found


def _decompose(program: ExportedProgram) -> ExportedProgram:
    """The program with the ops that lowbit lacks written out by torch's own decompositions, and no others."""
    import torch

    for _ in range(ROUNDS):
        unknown = _unknown(program)
        if not unknown:
            return program
        table = {**torch._decomp.decomposition_table, **torch.export.default_decompositions()}
        mine = {op: table[op] for op in unknown if op in table}
        if not mine:
            break
        program = program.run_decompositions(mine)
    unknown = _unknown(program)
    if unknown:
        counts = Counter({op: len(nodes) for op, nodes in unknown.items()})
        rows = ", ".join(f"{op_name(op)} ({k}x, first in '{layer_name(unknown[op][0])}')" for op, k in counts.items())
        raise UnsupportedOp(f"{len(unknown)} kinds of operator are not supported: {rows}", hint="write that part with other operators")
    return program


# -- names ---------------------------------------------------------------------------------------------------------------


def input_names(program: ExportedProgram) -> dict[str, str]:
    """Argument names of forward by placeholder: torch renames those that are Python's (`input` is `input_1` in its graph)."""
    return {n.name: str(n.target) for n in program.graph.nodes if n.op == "placeholder"}


def symbol_names(program: ExportedProgram, dynamic: Mapping[str, Any]) -> dict[str, str]:
    """Names for torch's symbols (`s23`): those of `dynamic`, else the input's name and axis (`x_0`), as for ONNX."""
    names: dict[str, str] = {}
    specs = _flat_specs(dynamic)
    given_names = {line[0] for spec in specs.values() for d in spec.values() if (line := as_line(parse_dim(str(d)))) is not None}

    def fresh(wished: str) -> str:
        while wished in given_names or wished in names.values():
            wished += "_"
        return wished

    users = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        val = node.meta.get("val")
        if node.op != "placeholder" or node.name not in users or not hasattr(val, "shape"):
            continue
        spec = specs.get(str(node.target), {})
        for axis, d in enumerate(val.shape):
            free = [] if isinstance(d, int) else sorted(map(str, d.node.expr.free_symbols))
            given = spec.get(axis, spec.get(axis - len(val.shape)))
            line = None if given is None else as_line(parse_dim(str(given)))
            if line is not None and len(free) == 1:
                names[free[0]] = line[0]
            else:
                for s in free:
                    if s not in names:
                        names[s] = fresh(re.sub(r"\W", "_", f"{node.target}_{axis}"))
    return names


def _flat_specs(dynamic: Mapping[str, Any]) -> dict[str, Mapping[int, Any]]:
    """Axis names by flat input name: a tuple `state` has inputs `state_0`, `state_1`."""
    flat: dict[str, Mapping[int, Any]] = {}

    def walk(name: str, spec: Any) -> None:
        if isinstance(spec, Mapping) and all(isinstance(k, int) for k in spec):
            flat[name] = spec
        elif isinstance(spec, Mapping):
            for k, s in spec.items():
                walk(f"{name}_{k}", s)
        elif isinstance(spec, list | tuple):
            for i, s in enumerate(spec):
                walk(f"{name}_{i}", s)

    for name, spec in dynamic.items():
        walk(name, spec)
    return flat


def output_names(program: ExportedProgram) -> list[str]:
    """`output` for one; the keys of a dict; `output_0`, `output_1` … for a tuple. Nested ones are joined by _."""
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    spec = program.call_spec.out_spec
    assert spec is not None
    paths = [path for path, _ in tree_flatten_with_path(tree_unflatten(list(range(spec.num_leaves)), spec))[0]]

    def part(key: Any) -> str:
        return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))

    names = []
    for path in paths:
        parts = [part(k) for k in path]
        names.append("_".join(parts if parts and not parts[0].isdigit() else ["output", *parts]))
    return names
