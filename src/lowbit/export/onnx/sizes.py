"""Symbolic sizes as arithmetic on the shapes of the inputs. Each is made once, as a vector of one int64."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Atom, Dim, Extreme, FloorDiv, Sym, as_line, at_least
from lowbit.errors import ShapeError
from lowbit.export.onnx.writer import Writer


def size(w: Writer, d: Dim) -> str:
    """The name of a vector that holds the size."""
    if not isinstance(d, Sym):
        return _number(w, d)
    if d not in w.sizes:
        w.sizes[d] = _sum(w, d)
    return w.sizes[d]


def _number(w: Writer, n: int) -> str:
    return w.constant(np.array([n], dtype=np.int64), hint="sizes")


def _sum(w: Writer, d: Sym) -> str:
    total: str | None = None
    for monomial, factor in d.terms:
        term: str | None = None
        for atom in monomial:
            a = _atom(w, atom)
            term = a if term is None else w.size_step("Mul", term, a)
        if term is None:
            term = _number(w, factor)
        elif factor != 1:
            term = w.size_step("Mul", term, _number(w, factor))
        total = term if total is None else w.size_step("Add", total, term)
    assert total is not None
    return total


def _atom(w: Writer, atom: Atom) -> str:
    if isinstance(atom, FloorDiv):
        num, den = size(w, atom.num), size(w, atom.den)
        if not at_least(atom.num, 0, unknown=False):  # Div cuts towards zero, a floor does not: take the remainder off first
            num = w.size_step("Sub", num, w.size_step("Mod", num, den))
        return w.size_step("Div", num, den)
    if isinstance(atom, Extreme):
        return w.size_step("Min" if atom.kind == "min" else "Max", size(w, atom.a), size(w, atom.b))
    key = Sym((((atom,), 1),))
    if key not in w.sizes:
        w.sizes[key] = _symbol(w, atom)
    return w.sizes[key]


def _symbol(w: Writer, name: str) -> str:
    """The symbol, from the first dimension of an input that is factor · symbol + offset."""
    for v in w.graph.inputs:
        for i, d in enumerate(v.shape):
            line = as_line(d)
            if line is None or line[0] != name:
                continue
            found = w.size_step("Shape", v.name, start=i, end=i + 1)
            if line[2]:
                found = w.size_step("Sub", found, _number(w, line[2]))
            return found if line[1] == 1 else w.size_step("Div", found, _number(w, line[1]))
    raise ShapeError(f"size '{name}' cannot be computed from the shape of an input", hint=f"bind it when loading: shapes={{'{name}': …}}")
