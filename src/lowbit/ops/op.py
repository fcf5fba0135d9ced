"""An op is a name, `infer` (types to types) and `real` (arrays to arrays, the meaning). All else is read off their signatures.

    def infer(x: TensorType, w: TensorType, b: TensorType | None = None, *, stride: tuple[int, ...]) -> TensorType
    def real(x: Array, w: Array, b: Array | None = None, *, stride: tuple[int, ...]) -> Array

Positional parameters are the inputs (a default of None: may be left out; `*xs`: any number), keyword-only ones the attributes. Where there
are many, `infer` and `real` share them as a frozen class: `@attributes(Conv)` gives its fields as one keyword `a`.
`infer` sees symbolic dims and must carry them; `real` is called with everything bound.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import GraphError, InputError, UnsupportedOp
from lowbit.types import Array, TensorType

R = TypeVar("R")
Infer = Callable[..., "TensorType | tuple[TensorType, ...]"]
Real = Callable[..., "Array | tuple[Array, ...]"]
Macs = Callable[..., Dim]

REQUIRED = inspect.Parameter.empty


def attributes(kind: type) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Attributes as one frozen object: the fields of a dataclass are the keyword-only parameters of a function that takes it as `a`."""
    defaults = {f: REQUIRED if f.default is MISSING else f.default for f in fields(kind)}
    own = [inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=f.type) for f, d in defaults.items()]

    def decorate(f: Callable[..., R]) -> Callable[..., R]:
        @wraps(f)
        def with_attributes(*inputs: Any, **attrs: Any) -> R:
            return f(*inputs, a=kind(**attrs))

        signature = inspect.signature(f)
        inputs = [p for p in signature.parameters.values() if p.name != "a"]
        with_attributes.__signature__ = signature.replace(parameters=[*inputs, *own])  # type: ignore[attr-defined]
        return with_attributes

    return decorate


@dataclass(frozen=True)
class OpSignature:
    """The inputs and attributes of an op, read from the parameters of `infer`."""

    inputs: tuple[str, ...]
    required: int  # how many of the inputs must be there
    variadic: bool
    attrs: Mapping[str, Any]  # name -> default, or REQUIRED

    def complete(self, op: str, n_inputs: int, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes with defaults filled in, in the order of the signature; a GraphError when something does not fit."""
        if n_inputs < self.required or (not self.variadic and n_inputs > len(self.inputs)):
            most = "any number" if self.variadic else str(len(self.inputs))
            raise GraphError(f"{n_inputs} inputs given, {op}({', '.join(self.inputs)}) takes {self.required} to {most}")
        unknown = sorted(set(attrs) - set(self.attrs))
        missing = [a for a, default in self.attrs.items() if default is REQUIRED and a not in attrs]
        if unknown or missing:
            raise GraphError(f"attributes {unknown or missing} {'unknown' if unknown else 'missing'}; {op} has {list(self.attrs)}")
        return {a: attrs.get(a, default) for a, default in self.attrs.items()}


@dataclass(frozen=True)
class Op:
    """One operation of the graph.

    `macs(*input types, **attrs)` counts multiply-accumulates, for ops where they are the cost.
    `moves` marks data movement: output elements are input elements, no arithmetic.
    `quantizable` says of a function of one value, y[i] = f(x[i]), that rules may quantize it: in 8 bits it is a table of 256 numbers.
    Others say how by `lowbit.ops.quant.quantizes`.

    >>> Op("cube", lambda x: x, lambda x: x**3, quantizable=True).quantizable
    True
    """

    name: str
    infer: Infer
    real: Real
    macs: Macs | None = None
    moves: bool = False
    quantizable: bool = False
    doc: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.quantizable, bool):
            raise InputError(
                f"quantizable={self.quantizable!r} is neither true nor false", where=f"op {self.name!r}", hint="quantizable=True"
            )

    @cached_property
    def signature(self) -> OpSignature:
        inputs: list[str] = []
        attrs: dict[str, Any] = {}
        required = 0
        variadic = False
        for p in inspect.signature(self.infer).parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                attrs[p.name] = p.default
            elif p.kind is p.VAR_POSITIONAL:
                variadic = True
                inputs.append(p.name)
            else:
                inputs.append(p.name)
                required += p.default is REQUIRED
        return OpSignature(tuple(inputs), required, variadic, attrs)

    def completed(self, inputs: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[TensorType, ...]]:
        """All attributes of a node with these inputs, and the types of its outputs; a LowbitError when something does not fit."""
        complete = self.signature.complete(self.name, len(inputs), attrs)
        return complete, self.infer_types(inputs, complete)

    def infer_types(self, inputs: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """Types of the outputs, always as a tuple."""
        out = self.infer(*inputs, **attrs)
        return out if isinstance(out, tuple) else (out,)

    def run(self, inputs: Sequence[Array | None], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        """Values of the outputs, always as a tuple of arrays (NumPy makes scalars of rank-0 results)."""
        out = self.real(*inputs, **attrs)
        return tuple(np.asarray(o) for o in (out if isinstance(out, tuple) else (out,)))


OPS: dict[str, Op] = {}
BY_FLAG: list[Callable[[Op], None]] = []  # makes an op with quantizable=True one that rules can quantize (lowbit.ops.q_elementwise)


def register(*ops: Op) -> None:
    """Makes ops known by name. A second op of the same name is an error, so that a user's file cannot change ours unseen.

    >>> register(Op("cube", lambda x: x, lambda x: x**3))
    >>> get_op("cube").run([np.float32(2)], {})[0].item()
    8.0
    >>> del OPS["cube"]
    """
    for op in ops:
        if op.name in OPS and OPS[op.name] is not op:
            raise GraphError(f"an op named {op.name!r} exists already", hint="choose another name")
        if op.quantizable and op.name not in OPS:
            for quantized in BY_FLAG:
                quantized(op)
        OPS[op.name] = op


def get_op(name: str) -> Op:
    op = OPS.get(name)
    if op is None:
        import difflib

        near = difflib.get_close_matches(name, OPS, n=3)
        raise UnsupportedOp(
            f"there is no op named {name!r}", hint=f"did you mean {', '.join(near)}?" if near else "docs/ops.md lists the ops"
        )
    return op
