"""Dims: polynomials that behave like the integers they will become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowbit.dims import Dim, Sym, at_least, extreme, parse_dim, product, substitute, symbol, symbols
from lowbit.errors import ShapeError

VALUES = {"a": 7, "b": 3, "c": 12}
leaves = st.one_of(st.integers(-5, 9), st.sampled_from(sorted(VALUES)).map(symbol))
SIGNS = ["+", "-", "*", "//", "%", "min", "max"]


def combine(sign: str, x: Dim, y: Dim) -> Dim:
    if sign in ("min", "max"):
        return extreme("min" if sign == "min" else "max", x, y)
    return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y}[sign]()


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Dim, int]:
    """A dimension and the number it must become."""
    if depth == 0 or draw(st.booleans()):
        leaf = draw(leaves)
        return leaf, VALUES[str(leaf)] if isinstance(leaf, Sym) else leaf
    sign = draw(st.sampled_from(SIGNS))
    (x, i), (y, j) = draw(pairs(depth - 1)), draw(pairs(depth - 1))
    if sign in ("//", "%") and (j == 0 or y == 0):
        return x, i
    result = combine(sign, i, j)
    assert isinstance(result, int)
    return combine(sign, x, y), result


@given(pairs())
def test_symbolic_arithmetic_bound_equals_integer_arithmetic(pair: tuple[Dim, int]) -> None:
    dim, number = pair
    assert substitute(dim, VALUES) == number


@given(pairs())
def test_text_of_a_dim_parses_to_the_same_dim(pair: tuple[Dim, int]) -> None:
    assert parse_dim(str(pair[0])) == pair[0]


@given(pairs(), pairs())
def test_what_is_proved_of_two_dims_holds_for_all_sizes(first: tuple[Dim, int], second: tuple[Dim, int]) -> None:
    a, b = first[0], second[0]
    sure = {at_least(a, b, unknown=u) for u in (True, False)}
    if len(sure) == 1:
        for sizes in ({"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 1, "c": 5}, {"a": 4, "b": 0, "c": 1}, VALUES):
            try:
                truth = substitute(a, sizes) >= substitute(b, sizes)
            except ShapeError:  # a division by zero
                continue
            assert sure == {truth}


def test_a_size_that_divides_by_zero_is_named() -> None:
    with pytest.raises(ShapeError, match=r"the size \(\(h\)//\(w - 3\)\) divides by zero with w=3"):
        substitute(parse_dim("h//(w - 3)"), {"h": 5, "w": 3})
    with pytest.raises(ShapeError, match="divides by zero"):
        parse_dim("n//0")


def test_floors_and_extremes_are_compared_where_they_can_be() -> None:
    h = symbol("h")
    assert at_least(h, h // 2) and at_least(-((-h) // 7) * 7, h) and not at_least(h // 2 * 2, h + 1)
    assert at_least(parse_dim("min(h, 5)"), 0) and at_least(5, parse_dim("min(h, 5)")) and at_least(parse_dim("max(h, w)"), h)
    assert extreme("min", h, h // 2) == h // 2 and extreme("max", extreme("max", h, 3), 3) == extreme("max", 3, h)
    with pytest.raises(ShapeError, match="depends on the sizes"):
        at_least(h, 1)  # 0 is a size


def test_equal_sizes_are_equal_whatever_way_they_were_computed() -> None:
    b, s = symbol("batch"), symbol("seq")
    assert (b * s * 64) // (s * 64) == b
    assert b * s == s * b
    assert hash((b + 1) * 2) == hash(2 * b + 2)
    assert (b * 4 + 2) // 2 == b * 2 + 1
    assert b - b == 0
    assert isinstance(b - b, int)
    assert product([b, 2, 3]) == 6 * b


def test_substituting_one_symbol_leaves_the_others() -> None:
    d = symbol("h") * symbol("w") + 1
    assert symbols(substitute(d, {"h": 2})) == {"w"}


def test_a_number_that_is_needed_but_not_known_says_which() -> None:
    with pytest.raises(ShapeError, match="'batch' is symbolic") as e:
        range(symbol("batch"))  # type: ignore[call-overload]
    assert "shapes=" in str(e.value)
    with pytest.raises(ShapeError):
        _ = symbol("batch") > 3


@pytest.mark.parametrize("text", ["", "a b", "f(x)", "1.5", "a**2", "a if b else c", "__import__('os')", "(" * 5000])
def test_text_that_is_no_dimension_is_refused(text: str) -> None:
    with pytest.raises(ShapeError, match="is not a dimension"):
        parse_dim(text)
