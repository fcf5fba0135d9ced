"""`shapes=`, for every kind of model: what the user gives is checked once, and becomes a binding of symbols.

    {"batch": 1}              a dimension by its name
    {"x": [1, 3, 224, 224]}   an input's shape: a number binds an open dimension and must be equal to a fixed one
    {"x": ["n", 3, 224, 224]} a name calls an open dimension so

A size that the model fixes cannot be changed: reshapes and constants in the model may depend on it. ONNX files say how sizes are computed:
there, one that nothing depends on can be another (frontends/onnx).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowbit.dims import Dim, Sym, as_line, parse_dim, substitute, symbol, symbols
from lowbit.errors import InputError, ShapeError
from lowbit.types import shape_text

Shapes = Mapping[str, Sequence[int | str] | int]
Given = dict[str, int | tuple[int | str, ...]]
LARGEST = 2**63 - 1  # the dtype of sizes in ONNX and in NumPy
_HINT = 'shapes={"x": [1, 3, 224, 224]} by input, or shapes={"batch": 1} by dimension'


def checked_shapes(shapes: Any) -> Given:
    """`shapes=` as plain ints, names and tuples; an InputError when it is anything else."""
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise InputError(f"shapes= is a {type(shapes).__name__}, a mapping is needed", hint=_HINT)
    found: Given = {}
    for name, value in shapes.items():
        if not isinstance(name, str):
            raise InputError(f"shapes= has the key {name!r}, names of inputs or dimensions are needed", hint=_HINT)
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
            found[name] = tuple(d if _is_open(d) else _size(d, f"{name}[{i}]") for i, d in enumerate(value))
        else:
            found[name] = _size(value, name)
    return found


def _is_open(d: Any) -> bool:
    """Whether it is text that names a dimension, or an expression of names such as 32*h."""
    if not isinstance(d, str):
        return False
    try:
        return isinstance(parse_dim(d), Sym)
    except ShapeError:
        return False


def _size(value: Any, where: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"shapes= gives {value!r} ({type(value).__name__}) for {where}, a size is needed", hint=_HINT)
    if not 0 <= value <= LARGEST:
        raise InputError(f"shapes= gives {int(value)} for {where}, a size from 0 to 2**63 - 1 is needed", hint=_HINT)
    return int(value)


def binding_of(given: Given, inputs: Mapping[str, Sequence[Dim]]) -> dict[str, Dim]:
    """The sizes that `shapes=` gives to the symbols of these inputs; a ShapeError if the model or another entry contradicts."""
    open_dims = {s for shape in inputs.values() for d in shape for s in symbols(d)}
    said: dict[str, tuple[Dim, str]] = {}

    def put(name: str, value: Dim, by: str) -> None:
        before = said.setdefault(name, (value, by))
        if before[0] != value:
            raise ShapeError(f"shapes= gives {name}={before[0]} by {before[1]} and {name}={value} by {by}")

    by_input = {n: s for n, s in given.items() if isinstance(s, tuple)}
    stray = [n for n in by_input if n not in inputs]
    for name, shape in by_input.items():
        if name in inputs:
            for symbol_name, value in _line_by_line(name, inputs[name], shape).items():
                put(symbol_name, value, f"input {name!r}")
    called = {s for v, _ in said.values() for s in symbols(v)}
    sizes: dict[str, Dim] = {}
    for name, size in given.items():
        if isinstance(size, tuple):
            continue
        if name in inputs and name not in open_dims | called:
            raise ShapeError(
                f"shapes= gives one number, its shape is {shape_text(inputs[name])}",
                where=f"input {name!r}",
                hint=f'shapes={{"{name}": [{size}]}} is a shape of rank 1',
            )
        if name in open_dims:
            put(name, size, f"{name!r}")
        elif name not in called:
            stray.append(name)
        sizes[name] = size
    listed = next((n for n in stray if n in open_dims and n in by_input), None)
    if listed is not None:
        sizes_given = ", ".join(map(str, by_input[listed]))
        raise InputError(
            f"shapes= gives {sizes_given} for {listed}, which is one dimension: one number is needed", hint=f'shapes={{"{listed}": 1}}'
        )
    if stray:
        raise InputError(
            f"shapes= names {', '.join(stray)}, which is no input and no open dimension",
            hint=f"inputs {', '.join(inputs) or 'none'}; open dimensions {', '.join(sorted(open_dims)) or 'none'}",
        )
    binding = {name: substitute(value, sizes) for name, (value, _) in said.items()}
    for name, shape in by_input.items():
        now = [substitute(d, binding) for d in inputs[name]]
        if any(isinstance(g, int) and d != g for d, g in zip(now, shape, strict=True)):
            raise _misfit(name, inputs[name], shape)
    return binding


def _line_by_line(name: str, declared: Sequence[Dim], shape: tuple[int | str, ...]) -> dict[str, Dim]:
    """The symbols that one input's shape gives. Dimensions that are no line in one symbol are checked when all are known."""
    if len(shape) != len(declared):
        raise ShapeError(f"shapes= gives rank {len(shape)}, the model has {shape_text(declared)}", where=f"input {name!r}")
    found: dict[str, Dim] = {}
    for d, g in zip(declared, shape, strict=True):
        line = as_line(d)
        if isinstance(g, str):
            if line is not None and line[1:] == (1, 0):
                value: Dim = parse_dim(g)
                if g == line[0]:
                    continue
            elif str(d) == g:
                continue
            else:
                raise _misfit(name, declared, shape)
        elif line is None:
            if isinstance(d, int) and d != g:
                raise _misfit(name, declared, shape)
            continue
        else:
            value, rest = divmod(g - line[2], line[1])  # 32*h met by 96: h is 3
            if rest or value < 0:
                raise _misfit(name, declared, shape)
        assert line is not None
        if found.setdefault(line[0], value) != value:
            raise ShapeError(
                f"shapes= gives {shape_text_of(shape)}: {line[0]} is both {found[line[0]]} and {value}", where=f"input {name!r}"
            )
    return found


def _misfit(name: str, declared: Sequence[Dim], shape: tuple[int | str, ...]) -> ShapeError:
    return ShapeError(
        f"shapes= gives {shape_text_of(shape)}, the model has {shape_text(declared)}",
        where=f"input {name!r}",
        hint="only open dimensions can be bound; export the model again with the size you need, or with that dimension open",
    )


def shape_text_of(shape: tuple[int | str, ...]) -> str:
    return shape_text(d if isinstance(d, int) else symbol(d) for d in shape)
