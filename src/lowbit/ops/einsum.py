"""einsum: sums of products by letters, "bij,bjk->bik"; "..." stands for leading dimensions that broadcast."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import ShapeError
from lowbit.ops.checks import differ, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.types import Array, Shape, TensorType, broadcast, shape_text


def parse(equation: str, count: int) -> tuple[list[str], str]:
    """The letters of each input and of the output; without "->" the output has the letters that occur once, in order.

    >>> parse("ij, jk", 2)
    (['ij', 'jk'], 'ik')
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    letters = text.replace("->", "").replace(",", "").replace("...", "")
    if len(terms) != count or (letters and not letters.isalpha()):
        raise ShapeError(f"equation '{equation}' is not one of {count} inputs", hint='letters, commas, "..." and one "->"')
    if not arrow:
        uses = Counter(left.replace(",", "").replace("...", ""))
        right = ("..." if "..." in left else "") + "".join(sorted(c for c, n in uses.items() if n == 1))
    return terms, right


def letter_sizes(xs: tuple[TensorType, ...], equation: str) -> tuple[dict[str, Dim], Shape, str]:
    """The size of each letter, the broadcast shape of "...", and the letters of the output."""
    terms, right = parse(equation, len(xs))
    sizes: dict[str, Dim] = {}
    rest: list[Shape] = []
    for term, x in zip(terms, xs, strict=True):
        before, dots, after = term.partition("...")
        named = len(before) + len(after)
        if x.rank < named or (not dots and x.rank != named):
            raise ShapeError(f"input {shape_text(x.shape)} does not have the dimensions of '{term}'")
        split = x.rank - len(after)
        if dots:
            rest.append(x.shape[len(before) : split])
        places = dict[str, Dim]()
        for letter, size in [*zip(before, x.shape), *zip(after, x.shape[split:])]:
            if differ(places.setdefault(letter, size), size):
                raise ShapeError(f"'{letter}' of '{term}' is {places[letter]} and {size}")
            known = sizes.get(letter, 1)
            if differ(known, size) and 1 not in (known, size):
                raise ShapeError(f"'{letter}' of '{equation}' is {known} and {size}")
            sizes[letter] = size if known == 1 or (isinstance(size, int) and size != 1) else known
    if rest and "..." not in right:
        raise ShapeError(f"'{equation}' sums over \"...\"; the output must have it")
    if len(set(right)) != len(right) - 2 * ("..." in right):
        raise ShapeError(f"'{equation}' names an output dimension twice")
    unknown = sorted(set(right.replace("...", "")) - set(sizes))
    if unknown:
        raise ShapeError(f"output letter '{unknown[0]}' of '{equation}' is in no input")
    return sizes, broadcast(*rest), right


def infer(*xs: TensorType, equation: str) -> TensorType:
    same_dtype(**{f"input {i}": x for i, x in enumerate(xs)})
    sizes, rest, right = letter_sizes(xs, equation)
    before, dots, after = right.partition("...")
    return TensorType([sizes[c] for c in before] + list(rest if dots else ()) + [sizes[c] for c in after], xs[0].dtype)


def real(*xs: Array, equation: str) -> Array:
    terms, right = parse(equation, len(xs))
    y = np.einsum(",".join(terms) + "->" + right, *map(wide, xs), optimize=len(xs) > 1)
    return np.asarray(y).astype(xs[0].dtype, copy=False)


def macs(*xs: TensorType, equation: str) -> Dim:
    sizes, rest, _ = letter_sizes(xs, equation)
    return product([*sizes.values(), *rest]) if len(xs) > 1 else 0


EINSUM = Op("einsum", infer, real, macs)
register(EINSUM)
