"""A dimension is an int or a Sym: a polynomial with integer coefficients in named symbols, floor divisions, minima and maxima.

Shapes are computed once for all sizes: `batch`, `3*seq + 1`, `(h - 3)//2 + 1`. Equal expressions are equal objects
(terms are kept in a canonical order), so `batch*seq*64` reshaped to `(batch, seq, 64)` is seen to fit.
Symbols stand for sizes, 0 or more; a comparison that would need to know which one says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal, Union

from lowbit.errors import ShapeError
from lowbit.limits import limits

Dim = Union[int, "Sym"]
LARGEST = 2**128  # coefficients end here: those of real shapes have at most 64 bits, and a few more on the way
Monomial = tuple["Atom", ...]  # sorted by text; the empty one is the constant term


@dataclass(frozen=True)
class FloorDiv:
    """An atom: the floor of a quotient that does not divide evenly as a polynomial."""

    num: Dim
    den: Dim

    def __str__(self) -> str:
        num, den = (f"({d})" if isinstance(d, Sym) else str(d) for d in (self.num, self.den))
        return f"({num}//{den})"  # in brackets: unary minus and % bind otherwise


@dataclass(frozen=True)
class Extreme:
    """An atom: the smaller or the larger of two dimensions of which either may be that."""

    kind: Literal["min", "max"]
    a: Dim
    b: Dim

    def __str__(self) -> str:
        return f"{self.kind}({self.a}, {self.b})"


Atom = str | FloorDiv | Extreme


@dataclass(frozen=True, eq=True)
class Sym:
    """A size that is not known yet. Build with `symbol(name)` and Python arithmetic, or `parse_dim(text)`.

    >>> b = symbol("batch"); print((b * 2 + 2) // 2, (b * 4) // b, (b + 1) // 2)
    batch + 1 4 ((batch + 1)//2)
    """

    terms: tuple[tuple[Monomial, int], ...]
    parts: int = field(init=False, compare=False, repr=False)  # symbols in it, as often as they stand there

    def __post_init__(self) -> None:
        parts = sum(_size(a) for monomial, _ in self.terms for a in monomial)
        object.__setattr__(self, "parts", parts)
        _check_parts(parts)
        if any(abs(coeff) >= LARGEST for _, coeff in self.terms):
            raise ShapeError("a symbolic dimension has a coefficient beyond 128 bits", hint="the file's shape arithmetic is damaged")

    def __add__(self, other: Dim) -> Dim:
        return _sum([*self.terms, *_terms(other)])

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return other + self * -1

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, Sym):
            _check_parts(max(self.parts, other.parts, len(self.terms) * len(other.terms) // 4))  # before the work: terms often cancel
        return _sum([(_monomial((*m, *n)), c * d) for m, c in self.terms for n, d in _terms(other)])

    def __floordiv__(self, other: Dim) -> Dim:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return self - (self // other) * other

    def __rmod__(self, other: Dim) -> Dim:
        return other - (other // self) * self

    __radd__ = __add__
    __rmul__ = __mul__

    def _unbound(self, *_: object) -> int:
        size = 1 if str(self) in symbols(self) else 64  # of M - 2, 1 is too small
        raise ShapeError(
            f"dimension '{self}' is symbolic, and its value is needed here",
            hint="bind it when loading: shapes={" + ", ".join(f'"{s}": {size}' for s in sorted(symbols(self))) + "}, or another size",
        )

    __int__ = __index__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _unbound

    def __str__(self) -> str:
        parts = []
        for monomial, coeff in self.terms:
            factors = [str(a) for a in monomial]
            if abs(coeff) != 1 or not factors:
                factors.insert(0, str(abs(coeff)))
            parts.append(("- " if coeff < 0 else "+ ") + "*".join(factors))
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    __repr__ = __str__


def _size(atom: Atom) -> int:
    if isinstance(atom, str):
        return 1
    return 1 + sum(part.parts for part in _parts(atom) if isinstance(part, Sym))


def _check_parts(parts: int) -> None:
    if parts > limits().dim_parts:
        raise ShapeError(
            f"a symbolic dimension of {parts:,} parts, the limit is {limits().dim_parts:,}",
            hint="bind the open dimensions when loading: shapes={...}",
        )


def symbol(name: str) -> Sym:
    """The symbol of that name; names are Python identifiers."""
    if not name.isidentifier():
        raise ShapeError(f"'{name}' is not a name for a dimension", hint="letters, digits and _, not starting with a digit")
    return Sym((((name,), 1),))


def _key(monomial: Monomial) -> tuple[int, str]:
    return (-len(monomial), "*".join(str(a) for a in monomial))  # higher degrees first, constant last


def _monomial(atoms: Iterable[Atom]) -> Monomial:
    return tuple(sorted(atoms, key=str))


def _terms(d: Dim) -> tuple[tuple[Monomial, int], ...]:
    return d.terms if isinstance(d, Sym) else (((), int(d)),) if d else ()


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coeff in terms:
        total[monomial] = total.get(monomial, 0) + coeff
    left = tuple(sorted(((m, c) for m, c in total.items() if c), key=lambda t: _key(t[0])))
    if not left:
        return 0
    if len(left) == 1 and not left[0][0]:
        return left[0][1]
    return Sym(left)


def _floordiv(num: Dim, den: Dim) -> Dim:
    divisor = _terms(den)
    if not divisor:
        raise ShapeError(f"the size ({num})//{den} divides by zero")
    if isinstance(num, int) and isinstance(den, int):
        return num // den
    if num == den:
        return 1
    if len(divisor) == 1:  # by a monomial: divide what divides, keep the floor of the rest
        (monomial, coeff) = divisor[0]
        whole: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for m, c in _terms(num):
            quotient = _without(m, monomial)
            if quotient is not None and c % coeff == 0:
                whole.append((quotient, c // coeff))
            else:
                rest.append((m, c))
        if not rest:
            return _sum(whole)
        remainder = _sum(rest)
        if isinstance(remainder, int) and isinstance(den, int):
            return _sum(whole) + remainder // den
        return _sum(whole) + Sym((((FloorDiv(remainder, den),), 1),))
    return Sym((((FloorDiv(num, den),), 1),))


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    left = list(monomial)
    for f in factors:
        if f not in left:
            return None
        left.remove(f)
    return tuple(left)


def symbols(d: Dim) -> frozenset[str]:
    """Names of the symbols a dimension depends on."""
    names: set[str] = set()
    for monomial, _ in _terms(d):
        for atom in monomial:
            names |= {atom} if isinstance(atom, str) else frozenset().union(*map(symbols, _parts(atom)))
    return frozenset(names)


def _parts(atom: FloorDiv | Extreme) -> tuple[Dim, Dim]:
    return (atom.num, atom.den) if isinstance(atom, FloorDiv) else (atom.a, atom.b)


def as_line(d: Dim) -> tuple[str, int, int] | None:
    """(symbol, factor, offset) of a dimension factor·symbol + offset; None for anything else.

    >>> as_line(parse_dim("32*h + 1"))
    ('h', 32, 1)
    """
    terms = dict(_terms(d))
    offset = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((monomial, factor),) = terms.items()
    return (monomial[0], factor, offset) if len(monomial) == 1 and isinstance(monomial[0], str) else None


def substitute(d: Dim, binding: Mapping[str, Dim]) -> Dim:
    """The dimension with symbols replaced; symbols that are not in the binding stay.

    >>> substitute(parse_dim("(h - 3)//2 + 1"), {"h": 224})
    111
    """
    if not isinstance(d, Sym):
        return d

    def atom(a: Atom) -> Dim:
        if isinstance(a, str):
            return binding[a] if a in binding else symbol(a)
        x, y = (substitute(part, binding) for part in _parts(a))
        if isinstance(a, Extreme):
            return extreme(a.kind, x, y)
        if y == 0:
            given = ", ".join(f"{s}={binding[s]}" for s in sorted(symbols(a.den)) if s in binding)
            raise ShapeError(f"the size {a} divides by zero with {given}")
        return _floordiv(x, y)

    parts = [product([coeff, *map(atom, monomial)]) for monomial, coeff in d.terms]
    return reduce(lambda a, b: a + b, parts)


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    total: Dim = 1
    for d in dims:
        total = total * d
    return total


def at_least(a: Dim, b: Dim, *, unknown: bool | None = None) -> bool:
    """Whether a ≥ b for all sizes (symbols are 0 or more). When that depends on the sizes: `unknown`, or a ShapeError.

    >>> at_least(symbol("batch") * 2, 0), at_least(-1, symbol("batch"))
    (True, False)
    """
    difference = a - b
    if isinstance(difference, int):
        return difference >= 0
    if _never_negative(difference):
        return True
    if _never_negative(-difference - 1):
        return False
    if unknown is None:
        raise ShapeError(f"whether {a} is at least {b} depends on the sizes", hint="bind them when loading: shapes={...}")
    return unknown


def _never_negative(d: Dim, depth: int = 8) -> bool:
    """Whether d ≥ 0 can be proved: floors are put between their bounds, minima and maxima tried both ways."""
    if isinstance(d, int):
        return d >= 0
    if depth == 0:
        return False

    def holds(e: Dim) -> bool:
        return _never_negative(e, depth - 1)

    for monomial, factor in d.terms:
        if len(monomial) != 1 or isinstance(monomial[0], str):
            continue
        atom, rest = monomial[0], d - Sym(((monomial, factor),))
        if isinstance(atom, Extreme):
            either = (holds(rest + part * factor) for part in _parts(atom))
            return any(either) if (atom.kind == "max") == (factor > 0) else all(either)
        if not isinstance(atom.den, int) or atom.den < 1:
            continue
        if factor < 0:  # num/den is the most that a floor is
            return holds(rest * atom.den + atom.num * factor)
        lowest = holds(rest * atom.den + (atom.num - (atom.den - 1)) * factor)
        return lowest or (holds(atom.num) and holds(rest))
    positive = all(factor > 0 or not monomial for monomial, factor in d.terms) and dict(d.terms).get((), 0) >= 0
    return positive and all(_is_size(a, holds) for m, _ in d.terms for a in m)


def _is_size(a: Atom, holds: Callable[[Dim], bool]) -> bool:
    if isinstance(a, FloorDiv):
        return holds(a.num) and holds(a.den)
    return isinstance(a, str) or holds(Sym((((a,), 1),)))


def extreme(kind: Literal["min", "max"], a: Dim, b: Dim) -> Dim:
    """The smaller or the larger of both, as an atom where that depends on the sizes.

    >>> print(extreme("min", symbol("n"), 5), extreme("max", symbol("n") + 1, symbol("n")))
    min(5, n) n + 1
    """
    for larger, smaller in ((a, b), (b, a)):
        if at_least(larger, smaller, unknown=False):
            return larger if kind == "max" else smaller
    first, second = sorted((a, b), key=str)
    return Sym((((Extreme(kind, first, second),), 1),))


def ceil_div(num: Dim, den: Dim) -> Dim:
    return -((-num) // den)


_BINARY: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}

_GRAMMAR = "integers, names, + - * // %, min(a, b), max(a, b)"


def parse_dim(text: str) -> Dim:
    """The dimension that `str()` of it printed.

    >>> parse_dim("2*seq + 1") == symbol("seq") * 2 + 1
    True
    """

    def build(e: ast.expr) -> Dim:
        match e:
            case ast.Constant(value=int(v)):
                return v
            case ast.Name(id=name):
                return symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -build(x)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return _BINARY[type(op)](build(a), build(b))
            case ast.Call(func=ast.Name(id="min" | "max" as kind), args=[a, b], keywords=[]):
                return extreme("min" if kind == "min" else "max", build(a), build(b))
        raise ShapeError(f"'{text}' is not a dimension", hint=_GRAMMAR)

    try:
        if re.search(r"(?<!\w)\d+[^\W\d]", text):
            raise SyntaxError("a name begins with a digit")  # Python would print a warning
        return build(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise ShapeError(f"'{text}' is not a dimension", hint=_GRAMMAR) from e
