"""A builder that computes at once what is already known: small constants, and integers made of symbolic dims.

Exporters spell shapes as arithmetic in the graph (Shape → Gather → Mul → Concat → Reshape). With known integers followed through it,
a reshape's target is `(batch, seq, 12, 32)` when the frontend asks, although batch and seq are still symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Dim, Sym
from lowbit.errors import LowbitError, ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Value, attr
from lowbit.ir.work import operations, padded_bytes
from lowbit.ops import get_op
from lowbit.types import Array, TensorType

KEPT = ("dims", "quantize_linear", "dequantize_linear")  # quantized constants stay quantized, however small
FOLD_WORK = 1 << 24  # element operations, and bytes of a padded input
FOLD_ELEMENTS = 1024  # larger results wait for the constant folding pass, which has its own limit


class FoldingBuilder(Builder):
    """`add_node` gives constants where all inputs are constants, and `dims` values where they are integers made of symbols."""

    def __init__(self, name: str = "graph") -> None:
        super().__init__(name)
        self._symbolic: dict[str, Array] = {}  # value name -> object array of Dim

    def add_node(self, op: str, *inputs: Value | None, name: str = "", outputs: tuple[str, ...] = (), **attrs: Any) -> tuple[Value, ...]:
        known = [self.known(v) for v in inputs if v is not None]
        if all(k is not None for k in known) and op not in KEPT:
            folded = self._fold(op, inputs, name, outputs, attrs)
            if folded is not None:
                return folded
        return super().add_node(op, *inputs, name=name, outputs=outputs, **attrs)

    def known(self, value: Value | None) -> Array | None:
        """The value if it is known at load time: a constant's data, or an object array of dims."""
        if value is None:
            return None
        data = self.constant_data(value)
        return data if data is not None else self._symbolic.get(value.name)

    def dims_value(self, dims: tuple[Dim, ...] | Array, out: str = "") -> Value:
        """An int64 value with these elements: a constant if all are numbers, else a `dims` node that is computed when they are bound."""
        array = np.array(dims, dtype=object)
        if not any(isinstance(d, Sym) for d in array.reshape(-1)):
            return self.constant(array.astype(np.int64), name=out)
        value = super().add_node("dims", outputs=(out,) if out else (), values=tuple(array.reshape(-1)), shape=array.shape)[0]
        self._symbolic[value.name] = array
        return value

    def folds(self, types: tuple[TensorType, ...]) -> bool:
        """Whether results of these types are computed at once. A frontend may say no."""
        return True

    def _fold(
        self, op: str, inputs: tuple[Value | None, ...], name: str, outs: tuple[str, ...], attrs: dict[str, Any]
    ) -> tuple[Value, ...] | None:
        definition = get_op(op)
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        try:
            complete = definition.signature.complete(op, len(inputs), {k: attr(v) for k, v in attrs.items()})
            types = definition.infer_types([v.type if v is not None else None for v in inputs], complete)
        except LowbitError:
            return None  # add_node reports it, with the node's name
        if not self.folds(types):
            return None
        if any(not t.is_static or int(t.size) > FOLD_ELEMENTS for t in types) or any(isinstance(a, Sym) for a in _flat(complete)):
            return None
        known_types = [v.type if v is not None else None for v in inputs]
        if operations(definition, known_types, types, complete) > FOLD_WORK or padded_bytes(known_types, complete) > FOLD_WORK:
            return None  # a window of millions of elements may give a single one
        arrays = [self.known(v) for v in inputs]
        if any(a is not None and a.dtype == object for a in arrays):
            return self._fold_symbolic(definition, arrays, complete, types, outs)
        with np.errstate(all="ignore"):
            results = definition.run(arrays, complete)
        wished = [outs[i] if i < len(outs) else "" for i in range(len(results))]
        return tuple(self.constant(r, name=o, dtype=t.dtype) for r, t, o in zip(results, types, wished, strict=True))

    def _fold_symbolic(
        self, definition: Any, arrays: list[Array | None], attrs: dict[str, Any], types: tuple[TensorType, ...], outs: tuple[str, ...]
    ) -> tuple[Value, ...] | None:
        """The op done on dims instead of numbers, where its meaning is plain integer arithmetic or movement."""
        if not all(t.dtype.is_integer or t.dtype.kind == "bool" for t in types):
            return None
        try:
            results = definition.run([a.astype(object) if a is not None else None for a in arrays], attrs)
        except (ShapeError, TypeError, ValueError, AttributeError):
            return None  # needs the number itself (a comparison, a float): it is computed when the symbols are bound
        if not all(isinstance(d, int | Sym | np.integer | np.bool_) for r in results for d in r.astype(object).reshape(-1)):
            return None
        wished = [outs[i] if i < len(outs) else "" for i in range(len(results))]
        return tuple(self._known_value(r.astype(object), t, o) for r, t, o in zip(results, types, wished, strict=True))

    def _known_value(self, array: Array, type_: TensorType, out: str) -> Value:
        """A value of this type with these elements, which are numbers or dims."""
        if not any(isinstance(d, Sym) for d in array.reshape(-1)):
            return self.constant(array.astype(type_.dtype.numpy), name=out, dtype=type_.dtype)
        if type_.dtype.name == "int64":
            return self.dims_value(array, out)
        value = super().add_node("cast", self.dims_value(array), outputs=(out,) if out else (), to=type_.dtype.name)[0]
        self._symbolic[value.name] = array
        return value


def _flat(attrs: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for a in attrs.values():
        found += list(a) if isinstance(a, tuple) else [a]
    return found
