"""The inputs of an ONNX graph: declared dimensions as lowbit's, and `shapes=` laid over them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowbit.dims import Dim, parse_dim, substitute, symbol, symbols
from lowbit.dtypes import dtype
from lowbit.errors import InputError, LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.onnx.serialize import OnnxValue
from lowbit.ir.shapes import Given, Shapes, binding_of, checked_shapes
from lowbit.numerics import as_array
from lowbit.types import Array, TensorType

Declared = int | str | None


def input_types(inputs: Sequence[OnnxValue], shapes: Shapes | None, source: str) -> list[TensorType]:
    """Types of the graph's inputs: what the file declares, with `shapes` bound."""
    given = checked_shapes(shapes)
    declared: dict[str, Sequence[Declared]] = {}
    for v in inputs:
        where = f"{source}, input '{v.name}'"
        if v.dtype is None:
            raise UnsupportedOp("only tensors can be inputs (this is a sequence, an optional or untyped)", where=where)
        wanted = given.get(v.name)
        shape = v.shape if v.shape is not None or not isinstance(wanted, tuple) else wanted
        if shape is None:
            raise ShapeError("the model declares no shape for it", where=where, hint=f"shapes={{'{v.name}': [1, ...]}}")
        declared[v.name] = shape
    dims = named_dims(declared)
    try:
        binding = binding_of(given, dims)
    except LowbitError as e:
        raise e.at(source) from None
    types = []
    for v in inputs:
        now = [substitute(d, binding) for d in dims[v.name]]
        if any(isinstance(d, int) and d < 0 for d in now):
            raise ShapeError(f"its shape {now} has a negative dimension", where=f"{source}, input '{v.name}'")
        assert v.dtype is not None
        types.append(TensorType(now, v.dtype))
    return types


def fixed_inputs(inputs: Sequence[OnnxValue], constants: Mapping[str, Any] | None, source: str) -> dict[str, Array]:
    """`constants=`: the values that inputs are given once and for all, as arrays of their types."""
    if constants is None:
        return {}
    if not isinstance(constants, Mapping):
        raise InputError(f"constants= is a {type(constants).__name__}, a mapping is needed", hint='constants={"sr": 16000}')
    declared = {v.name: v for v in inputs}
    found: dict[str, Array] = {}
    for name, given in constants.items():
        if name not in declared:
            raise InputError(f"constants= names {name!r}, which is no input", where=source, hint=f"inputs {', '.join(declared) or 'none'}")
        where, v = f"{source}, input {name!r}", declared[name]
        data = as_array(given, what=f"constants= for {name!r}")
        if v.dtype is None:
            raise UnsupportedOp("only tensors can be inputs (this is a sequence, an optional or untyped)", where=where)
        if v.shape is not None and data.ndim == 0 and all(d == 1 or not isinstance(d, int) for d in v.shape):
            data = data.reshape((1,) * len(v.shape))
        fits = v.shape is None or (
            len(v.shape) == data.ndim and all(not isinstance(d, int) or d == n for d, n in zip(v.shape, data.shape, strict=True))
        )
        target = dtype(v.dtype).numpy
        with np.errstate(invalid="ignore"):
            held = data.dtype.kind in "fiub" and (target.kind == "f" or np.array_equal(data.astype(target).astype(data.dtype), data))
        if not fits or not held:
            text = f"{v.dtype}" + ("" if v.shape is None else f" of shape {list(v.shape)}")
            raise InputError(f"constants= gives {data.dtype} of shape {list(data.shape)}, it is {text}", where=where)
        found[name] = np.asarray(data.astype(target))
    return found


@dataclass(frozen=True)
class Reopened:
    """A size that the file fixes and `shapes=` gives anew: a symbol while the file is read, so that what depends on it is found."""

    old: int
    new: int | str
    first: bool  # of the first axis: a batch


def reopened(inputs: Sequence[OnnxValue], given: Given) -> tuple[tuple[OnnxValue, ...], Given, dict[str, Reopened]]:
    """The inputs with sizes opened that `shapes=` gives otherwise, `shapes=` with symbols there, and what each symbol stands for."""
    now, shapes, found = [], dict(given), dict[str, Reopened]()
    names: dict[tuple[int, int | str], str] = {}
    for v in inputs:
        wanted = given.get(v.name)
        if v.shape is None or not isinstance(wanted, tuple) or len(wanted) != len(v.shape):
            now.append(v)
            continue
        shape: list[Declared] = list(v.shape)
        asked: list[int | str] = list(wanted)
        for axis, (old, new) in enumerate(zip(v.shape, wanted, strict=True)):
            if isinstance(old, int) and old != new:
                name = names.setdefault((old, new), new if isinstance(new, str) else re.sub(r"\W", "_", f"{v.name}_{axis}_size"))
                known = found.get(name)
                found[name] = Reopened(old, new, axis == 0 or (known is not None and known.first))
                shape[axis] = asked[axis] = name
        now.append(replace(v, shape=tuple(shape)))
        shapes[v.name] = tuple(asked)
    return tuple(now), shapes, found


def named_dims(declared: dict[str, Sequence[Declared]]) -> dict[str, list[Dim]]:
    """Declared dimensions as numbers, expressions and symbols, where equal texts and no others are equal symbols.

    Names that are no identifiers are made such ("a/b" is a_b), and unnamed dimensions ("?") are called by their input and axis; where
    that would be the name of another one, it is counted on.
    """
    texts = {d for shape in declared.values() for d in shape if isinstance(d, str)}
    parsed = {t: found for t in texts if (found := _parsed(t)) is not None}
    taken = {s for d in parsed.values() for s in symbols(d)}

    def fresh(text: str) -> Dim:
        name = re.sub(r"\W", "_", text)
        base = name if name.isidentifier() else f"d_{name}"
        name, k = base, 1
        while name in taken:
            name, k = f"{base}_{k}", k + 1
        taken.add(name)
        return symbol(name)

    out: dict[str, list[Dim]] = {}
    for name, shape in declared.items():
        out[name] = []
        for i, d in enumerate(shape):
            if isinstance(d, str) and re.search(r"\w", d):
                if d not in parsed:
                    parsed[d] = fresh(d)
                out[name].append(parsed[d])
            else:
                out[name].append(d if isinstance(d, int) else fresh(f"{name}_{i}"))
    return out


def _parsed(text: str) -> Dim | None:
    try:
        return parse_dim(text)
    except ShapeError:
        return None
