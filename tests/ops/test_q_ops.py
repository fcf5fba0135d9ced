"""Laws of integer ops: means, transposed convolutions, softmax, norms, prelu, quotients, resize, and the ops that are the same on integers.

Every case holds for int8, uint8, int16 and uint16. Formulas are derived here once more, element by element in Python's integers and single
float32 steps, and must give the same bits. Against float arithmetic between brackets a result may be off by one: both round once, one of
them a float32 that the other never forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from q_laws import ACTIVATIONS, Side, both, bracketed, inputs, lowered, off_by, ops_of, params, rounded, side, the_node, weight

from lowbit.dims import Dim, symbol
from lowbit.dtypes import dtype
from lowbit.errors import LowbitError
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.numerics import lb_log
from lowbit.ops import get_op
from lowbit.quant_params import PerAxis, QuantParams, requantize
from lowbit.types import Array, TensorType

F32 = np.float32
Sides = list[Side | Array | None]


@dataclass(frozen=True)
class Case:
    """An op with operands and attributes; `step` is the scale of the result in units of 1/256 of the dtype's codes."""

    op: str
    sides: Callable[[np.random.Generator, str, int], Sides]  # (rng, dtype, batch)
    attrs: Callable[[Dim], dict[str, Any]]  # (batch)
    step: float = 0.05
    zero: Callable[[str], int | None] = lambda d: None

    def result(self, d: str) -> QuantParams:
        return QuantParams(d, F32(self.step * unit(d)), self.zero(d))


def unit(d: str) -> float:
    """16 bits have 256 times as many steps: scales that much smaller give the same reals."""
    return 256 / 2 ** dtype(d).bits


def least(d: str) -> int:
    return int(dtype(d).min or 0)


def most(d: str) -> int:
    return int(dtype(d).max or 0)


def image(rng: np.random.Generator, d: str, n: int) -> Side:
    return side(rng, (n, 6, 7, 5), d, 0.05 * unit(d), least(d) + int(100 / unit(d)))


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(F32)


def fixed(**attrs: Any) -> Callable[[Dim], dict[str, Any]]:
    return lambda batch: attrs


POOL: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1), "dilation": (1, 2), "ceil_mode": True}
SPREAD: dict[str, Any] = {"stride": (2, 1), "pads": (1, 0, 0, 1), "dilation": (1, 2), "output_padding": (1, 0)}


def resize(mode: str, coordinates: str, h: int = 12, w: int = 9, antialias: bool = False) -> Callable[[Dim], dict[str, Any]]:
    def attrs(batch: Dim) -> dict[str, Any]:
        return {"sizes": (batch, 6, h, w), "scales": (None,) * 4, "mode": mode, "coordinate_mode": coordinates, "antialias": antialias}

    return attrs


CASES: dict[str, Case] = {
    "avg_pool": Case("avg_pool", lambda r, d, n: [image(r, d, n)], fixed(**POOL, count_include_pad=False), 0.03),
    "avg_pool_padded": Case("avg_pool", lambda r, d, n: [image(r, d, n)], fixed(**POOL, count_include_pad=True), 0.03),
    "adaptive_avg_pool": Case("adaptive_avg_pool", lambda r, d, n: [image(r, d, n)], fixed(output_size=(3, 2)), 0.03),
    "global_mean": Case("reduce_mean", lambda r, d, n: [image(r, d, n)], fixed(axes=(2, 3), keepdims=True), 0.01),
    "mean": Case("reduce_mean", lambda r, d, n: [image(r, d, n)], fixed(axes=(1,), keepdims=False), 0.02),
    "sum": Case("reduce_sum", lambda r, d, n: [image(r, d, n)], fixed(axes=(1, -1), keepdims=False), 0.5),
    "conv_transpose": Case(
        "conv_transpose", lambda r, d, n: [image(r, d, n), weight(r, (6, 4, 3, 2), 1), floats(r, 4)], fixed(**SPREAD, groups=1), 0.4
    ),
    "conv_transpose_groups": Case(
        "conv_transpose", lambda r, d, n: [image(r, d, n), weight(r, (6, 2, 3, 2), 1), floats(r, 6)], fixed(**SPREAD, groups=3), 0.3
    ),
    "softmax": Case("softmax", lambda r, d, n: [image(r, d, n)], fixed(axis=1), 1 / 256, least),
    "softmax_last": Case("softmax", lambda r, d, n: [image(r, d, n)], fixed(axis=-1), 1 / 256, least),
    "log_softmax": Case("log_softmax", lambda r, d, n: [image(r, d, n)], fixed(axis=1), 15 / 256, most),
    "layer_norm": Case("layer_norm", lambda r, d, n: [image(r, d, n), floats(r, 7, 5), floats(r, 5)], fixed(axis=2, eps=1e-5), 0.03),
    "layer_norm_plain": Case("layer_norm", lambda r, d, n: [image(r, d, n)], fixed(axis=-1, eps=1e-5), 0.02),
    "rms_norm": Case("rms_norm", lambda r, d, n: [image(r, d, n), floats(r, 5)], fixed(axis=3, eps=1e-5), 0.03),
    "instance_norm": Case("instance_norm", lambda r, d, n: [image(r, d, n), floats(r, 6), floats(r, 6)], fixed(eps=1e-5), 0.03),
    "group_norm": Case("group_norm", lambda r, d, n: [image(r, d, n), floats(r, 6), floats(r, 6)], fixed(groups=2, eps=1e-5), 0.03),
    "batch_norm": Case(
        "batch_norm",
        lambda r, d, n: [image(r, d, n), floats(r, 6), floats(r, 6), floats(r, 6), np.abs(floats(r, 6)) + F32(0.1)],
        fixed(eps=1e-5),
        0.08,
    ),
    "prelu": Case(
        "prelu", lambda r, d, n: [image(r, d, n), Side(side(r, (6, 1, 1), d).ints, params(d, 0.01 * unit(d), least(d) + 9), True)], fixed()
    ),
    "div": Case("div", lambda r, d, n: [image(r, d, n), side(r, (n, 1, 7, 1), d, 0.01 * unit(d))], fixed(), 0.3),
    "pow": Case("pow", lambda r, d, n: [image(r, d, n), np.asarray(2.0, F32)], fixed(), 0.5),
    "resize_linear": Case("resize", lambda r, d, n: [image(r, d, n)], resize("linear", "half_pixel")),
    "resize_corners": Case("resize", lambda r, d, n: [image(r, d, n)], resize("linear", "align_corners", 4, 11), 0.06),
    "resize_smaller": Case("resize", lambda r, d, n: [image(r, d, n)], resize("linear", "half_pixel", 3, 2, antialias=True), 0.04),
    "resize_cubic": Case("resize", lambda r, d, n: [image(r, d, n)], resize("cubic", "asymmetric"), 0.06),
}

pytestmark = pytest.mark.parametrize("d", ACTIVATIONS)
every_case = pytest.mark.parametrize("name", CASES)


def case(name: str, d: str, batch: int = 2) -> tuple[Case, Sides]:
    c = CASES[name]
    return c, c.sides(np.random.default_rng(len(name)), d, batch)


@every_case
def test_integers_are_off_by_at_most_one_from_float_arithmetic_between_brackets(name: str, d: str) -> None:
    c, sides = case(name, d)
    fake, exact = both(c.op, sides, c.result(d), **c.attrs(2))
    assert np.abs(fake - exact).max() <= 1
    assert len(np.unique(exact)) > 5  # the law says something


@every_case
def test_extreme_inputs_and_scales_saturate_as_float_arithmetic_does(name: str, d: str) -> None:
    c, sides = case(name, d)
    x = sides[0]
    assert isinstance(x, Side)
    for code, ratio in product((least(d), most(d)), (1e-6, 1.0, 1e6)):
        full = Side(np.full_like(x.ints, code), x.params)
        p = c.result(d)
        result = QuantParams(d, p.scale * F32(ratio), p.zero_point)
        assert off_by(c.op, [full, *sides[1:]], result, **c.attrs(2)) <= 1


@every_case
def test_a_symbolic_batch_flows_through_and_may_be_empty(name: str, d: str) -> None:
    c, sides = case(name, d)
    graph = bracketed(c.op, sides, [c.result(d)], batch="n", **c.attrs(symbol("n")))
    ints = lowered(graph)
    assert ints.outputs["y0"].type.shape[0] == symbol("n")
    for n in (0, 1, 3):
        feed = inputs(c.sides(np.random.default_rng(n), d, n))
        fake, exact = run(graph, feed)["y0"], run(ints, feed)["y0"]
        assert fake.shape == exact.shape and fake.shape[0] == n
        assert np.abs(fake.astype(np.int64) - exact).max(initial=0) <= 1


@pytest.mark.parametrize("name", [n for n in CASES if n != "pow"])  # a table holds integers
def test_a_float_result_is_the_same_without_rounding(name: str, d: str) -> None:
    c, sides = case(name, d)
    fake, exact = both(c.op, sides, None, **c.attrs(2))
    finite = np.isfinite(fake)
    slack = 2e-5
    if c.op == "conv_transpose":  # the bias is rounded to the grid of the accumulator
        slack += float((sides[0].params.scale * sides[1].params.scale).max()) / 2  # type: ignore[union-attr]
    np.testing.assert_allclose(exact[finite], fake[finite], rtol=2e-5, atol=slack)


# -- formulas, once more ------------------------------------------------------------------------------------------------------


def end(t: Any, p: QuantParams) -> int:
    """clamp(rne(t) + zero point) of one float."""
    return int(rounded(np.asarray(t), p))


def cells(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return product(*map(range, shape))


def quotient(a: Any, b: Any) -> Any:
    return F32(F32(a) / F32(b))


def check(name: str, d: str, formula: Callable[[Side, Sides, QuantParams, tuple[int, ...]], int]) -> None:
    c, sides = case(name, d, 1)
    x, p = sides[0], c.result(d)
    assert isinstance(x, Side)
    _, exact = both(c.op, sides, p, **c.attrs(1))
    want = np.zeros(exact.shape, np.int64)
    for at in cells(exact.shape):
        want[at] = formula(x, sides, p, at)
    np.testing.assert_array_equal(exact, want)


def centered(x: Side) -> Array:
    return x.ints.astype(np.int64) - int(x.params.zero_point)


@pytest.mark.parametrize("name", ["avg_pool", "avg_pool_padded"])
def test_average_pool_is_its_formula(name: str, d: str) -> None:
    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        q, (n, c, i, j) = centered(x), at
        total = count = 0
        for a, b in product(range(3), range(2)):
            y, z = i * 2 + a - 1, j + 2 * b  # kernel (3, 2), stride (2, 1), dilation (1, 2), one row of padding above
            inside = 0 <= y < 7 and 0 <= z < 5
            total += int(q[n, c, y, z]) if inside else 0
            count += inside or (name == "avg_pool_padded" and -1 <= y < 8 and z < 6)
        return end(F32(total) * quotient(quotient(x.params.scale, p.scale), count), p)

    check(name, d, formula)


def test_global_mean_is_its_formula(d: str) -> None:
    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        return end(F32(int(centered(x)[at[0], at[1]].sum())) * quotient(quotient(x.params.scale, p.scale), 35), p)

    check("global_mean", d, formula)


def test_adaptive_average_pool_is_its_formula(d: str) -> None:
    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        n, c, i, j = at
        part = centered(x)[n, c, i * 7 // 3 : math.ceil((i + 1) * 7 / 3), j * 5 // 2 : math.ceil((j + 1) * 5 / 2)]
        return end(F32(int(part.sum())) * quotient(quotient(x.params.scale, p.scale), part.size), p)

    check("adaptive_avg_pool", d, formula)


@pytest.mark.parametrize("name", ["conv_transpose", "conv_transpose_groups"])
def test_transposed_convolution_is_its_formula_and_groups_share_their_scales(name: str, d: str) -> None:
    groups = 3 if name.endswith("groups") else 1

    def formula(x: Side, sides: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        (n, o, y, z), q, w, bias = at, centered(x), sides[1], sides[2]
        assert isinstance(w, Side) and isinstance(bias, np.ndarray)
        inner, per_group = w.ints.shape[1], 6 // groups
        group, j = divmod(o, inner)
        grid = F32(x.params.scale * w.params.scale[j])
        acc = int(np.rint(F32(bias[o]) / grid))
        for c, a, b in product(range(group * per_group, (group + 1) * per_group), range(3), range(2)):
            i, rest = divmod(y + 1 - a, 2)  # stride (2, 1), pads one above, dilation (1, 2)
            k = z - 2 * b
            if rest == 0 and 0 <= i < 7 and 0 <= k < 5:
                acc += int(q[n, c, i, k]) * int(w.ints[c, j, a, b])
        return end(F32(acc) * F32(grid / p.scale), p)

    check(name, d, formula)


def test_softmax_is_its_formula(d: str) -> None:
    bits = 23 if dtype(d).bits <= 8 else 30

    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        n, _c, i, j = at
        row = x.ints[n, :, i, j].astype(int)
        e = [round(2**bits * math.exp(-float(x.params.scale) * (row.max() - v))) for v in row]
        return end(F32(e[at[1]]) * quotient(quotient(1, p.scale), sum(e)), p)

    check("softmax", d, formula)


def test_log_softmax_is_its_formula(d: str) -> None:
    bits = 23 if dtype(d).bits <= 8 else 30

    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        n, c, i, j = at
        row = x.ints[n, :, i, j].astype(int)
        total = sum(round(2**bits * math.exp(-float(x.params.scale) * (row.max() - v))) for v in row)
        log = lb_log(F32(F32(total) * F32(2.0**-bits)))
        return end(F32(row[c] - row.max()) * quotient(x.params.scale, p.scale) - quotient(log, p.scale), p)

    check("log_softmax", d, formula)


NORMS: dict[str, Callable[[tuple[int, ...]], tuple[Any, ...]]] = {
    "layer_norm": lambda at: (at[0], at[1]),
    "layer_norm_plain": lambda at: at[:3],
    "rms_norm": lambda at: at[:3],
    "instance_norm": lambda at: at[:2],
    "group_norm": lambda at: (at[0], slice(at[1] // 3 * 3, at[1] // 3 * 3 + 3)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_their_formula(name: str, d: str) -> None:
    def formula(x: Side, sides: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        q = centered(x)
        values = [int(v) for v in np.ravel(q[NORMS[name](at)])]
        n, s1, s2 = len(values), sum(values), sum(v * v for v in values)
        mean, v = quotient(s1, n), quotient(n * s2 - s1 * s1, n * n)
        if name == "rms_norm":
            mean, v = F32(0), quotient(s2, n)
        eps = quotient(1e-5, x.params.scale * x.params.scale)
        t = (F32(int(q[at])) - mean) * quotient(1, np.sqrt(v + eps))
        place = at[1] if name in ("instance_norm", "group_norm") else at[-1]
        gain: Any = 1 if len(sides) < 2 else sides[1][at[2:] if name == "layer_norm" else place]  # type: ignore[index]
        t = t * quotient(gain, p.scale)
        return end(t if len(sides) < 3 else t + quotient(sides[2][place], p.scale), p)  # type: ignore[index]

    check(name, d, formula)


def test_batch_norm_is_its_formula(d: str) -> None:
    def formula(x: Side, sides: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        scale, bias, mean, var = (float(np.asarray(v)[at[1]]) for v in sides[1:])  # type: ignore[call-overload]
        a = scale / math.sqrt(var + 1e-5)
        g, b = F32(a * float(x.params.scale) / float(p.scale)), F32((bias - mean * a) / float(p.scale))
        return end(F32(int(centered(x)[at])) * g + b, p)

    check("batch_norm", d, formula)


def test_prelu_is_its_formula(d: str) -> None:
    def formula(x: Side, sides: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        slope, q = sides[1], int(centered(x)[at])
        assert isinstance(slope, Side)
        below = F32(int(centered(slope)[at[1], 0, 0])) * quotient(x.params.scale * slope.params.scale, p.scale)
        return end(F32(q) * (quotient(x.params.scale, p.scale) if q >= 0 else below), p)

    check("prelu", d, formula)


def test_quotient_is_its_formula_and_zero_saturates(d: str) -> None:
    c, sides = case("div", d, 1)
    x, y, p = sides[0], sides[1], c.result(d)
    assert isinstance(x, Side) and isinstance(y, Side)
    y.ints[0, 0, 0] = int(y.params.zero_point)  # a divisor of 0
    x.ints[0, 0, 0, :3] = int(x.params.zero_point), least(d), most(d)
    _, exact = both("div", [x, y], p)
    m = quotient(quotient(x.params.scale, y.params.scale), p.scale)
    with np.errstate(all="ignore"):
        want = rounded((centered(x).astype(F32) / centered(y).astype(F32)) * m, p)
    np.testing.assert_array_equal(exact, want)
    assert exact[0, 0, 0, :3].tolist() == [int(p.zero_point), least(d), most(d)]


def test_power_is_a_table_of_float64(d: str) -> None:
    c, sides = case("pow", d, 1)
    x, p = sides[0], c.result(d)
    assert isinstance(x, Side)
    np.testing.assert_array_equal(both("pow", sides, p)[1], rounded(x.reals**2 / float(p.scale), p))


def test_linear_resize_is_its_formula(d: str) -> None:
    bits = 11 if dtype(d).bits <= 8 else 20

    def taps(i: int, n: int, out: int) -> list[tuple[int, int]]:
        at = (i + 0.5) / (out / n) - 0.5
        low = math.floor(at)
        if low < 0 or low >= n - 1:
            return [(min(max(low, 0), n - 1), 1 << bits)]
        w = round(2**bits * (at - low))
        return [(low, (1 << bits) - w), (low + 1, w)]

    def formula(x: Side, _: Sides, p: QuantParams, at: tuple[int, ...]) -> int:
        q, (n, c, i, j) = centered(x), at
        acc = sum(wy * wx * int(q[n, c, y, z]) for (y, wy), (z, wx) in product(taps(i, 7, 12), taps(j, 5, 9)))
        return end(F32(acc) * (F32(2.0 ** (-2 * bits)) * quotient(x.params.scale, p.scale)), p)

    check("resize_linear", d, formula)


# -- the same op on integers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
def test_argmax_and_topk_on_integers_are_those_of_the_reals(d: str, largest: bool) -> None:
    x = side(np.random.default_rng(1), (3, 50), d, 0.1, least(d) + 7)
    for axis, keep, last in product((0, 1), (True, False), (True, False)):
        attrs = {"axis": axis, "keepdims": keep, "select_last": last}
        graph = bracketed("argmax" if largest else "argmin", [x], [None], **attrs)
        ints = lowered(graph)
        assert ops_of(ints) == ["argmax" if largest else "argmin"]
        np.testing.assert_array_equal(run(ints, inputs([x]))["y0"], run(graph, inputs([x]))["y0"])
    attrs = {"k": 5, "axis": 1, "largest": largest, "sorted": True}
    graph = bracketed("topk", [x], [x.params, None], **attrs)
    ints = lowered(graph)
    assert ops_of(ints) == ["topk"]
    assert all(np.array_equal(a, b) for a, b in zip(run(graph, inputs([x])).values(), run(ints, inputs([x])).values(), strict=True))


def test_topk_with_other_parameters_behind_it_requantizes_its_values_and_no_indices(d: str) -> None:
    x, other = side(np.random.default_rng(1), (3, 50), d, 0.1), params(d, 0.17)
    ints = lowered(bracketed("topk", [x], [other, None], k=5, axis=1, largest=True, sorted=True))
    assert ops_of(ints) == ["topk", "requantize"]
    y = run(ints, inputs([x]))
    np.testing.assert_array_equal(y["y0"], requantize(np.take_along_axis(x.ints, y["y1"], 1), x.params, other))


def test_a_constant_side_is_requantized_when_lowering(d: str) -> None:
    rng = np.random.default_rng(2)
    x, table, to = side(rng, (2, 3), d, 0.05), side(rng, (5, 3), d, 0.02), params(d, 0.06)
    fixed_side = Side(table.ints, table.params, True)
    ints = lowered(bracketed("concat", [x, fixed_side], [to], axis=0))
    assert ops_of(ints) == ["requantize", "concat"]
    np.testing.assert_array_equal(run(ints, inputs([x]))["y0"][2:], requantize(table.ints, table.params, to))
    embed = lowered(bracketed("gather", [fixed_side, np.array([4, 0, 4])], [to], axis=0))
    assert ops_of(embed) == ["gather"]
    np.testing.assert_array_equal(run(embed, {})["y0"], requantize(table.ints, table.params, to)[[4, 0, 4]])


def test_movement_before_a_float_result_moves_integers_and_dequantizes_after(d: str) -> None:
    x = side(np.random.default_rng(3), (2, 3, 4), d, 0.05, least(d) + 5)
    graph = bracketed("transpose", [x], [None], perm=(2, 0, 1))
    ints = lowered(graph)
    assert ops_of(ints) == ["transpose", "dequantize_linear"]
    np.testing.assert_array_equal(run(ints, inputs([x]))["y0"], run(graph, inputs([x]))["y0"])


def test_where_chooses_between_integers_by_a_boolean(d: str) -> None:
    rng = np.random.default_rng(4)
    a, b, cond = side(rng, (4, 5), d, 0.05), side(rng, (5,), d, 0.08), rng.random((4, 1)) < 0.5
    fake, exact = both("where", [cond, a, b], params(d, 0.05))
    assert np.abs(fake - exact).max() <= 1
    np.testing.assert_array_equal(exact[cond[:, 0]], a.ints[cond[:, 0]])


def test_padding_and_what_lies_outside_hold_the_integer_of_their_value(d: str) -> None:
    x = side(np.random.default_rng(5), (1, 1, 3, 3), d, 0.05, least(d) + 50)
    for value in (0.0, 0.42, 1e9):
        fake, exact = both("pad", [x], x.params, pads=(0, 0, 1, 0, 0, 0, 0, 2), mode="constant", value=value)
        np.testing.assert_array_equal(fake, exact)
        crop = {"sizes": (1, 1, 6, 6), "scales": (None,) * 4, "mode": "nearest", "coordinate_mode": "tf_crop_and_resize"}
        crop |= {"roi": (0.0, 0.0, -0.5, -0.5, 1.0, 1.0, 1.2, 1.2), "extrapolation_value": value}
        fake, exact = both("resize", [x], x.params, **crop)
        np.testing.assert_array_equal(fake, exact)


def test_scattered_updates_are_integers_unless_they_are_summed(d: str) -> None:
    rng = np.random.default_rng(6)
    x, idx, upd = side(rng, (4, 3), d, 0.05), np.array([[0], [2]]), side(rng, (2, 3), d, 0.08)
    for reduction in ("none", "max", "min"):
        assert off_by("scatter_nd", [x, idx, upd], x.params, reduction=reduction) <= 1
    (island,) = lower(bracketed("scatter_nd", [x, idx, upd], [x.params], reduction="add")).islands
    assert island.because == "its reduction is 'add', which is not the same on integers"


@pytest.mark.parametrize("clip", [("relu", {}), ("relu6", {}), ("clip", {"min": -0.3, "max": 1.7})])
def test_every_clamp_behind_a_layer_becomes_its_limits(d: str, clip: Any) -> None:
    for name in ("avg_pool", "layer_norm", "conv_transpose", "div", "batch_norm"):
        c, sides = case(name, d)
        graph = bracketed(c.op, sides, [c.result(d)], clip=clip, **c.attrs(2))
        ints = lowered(graph)
        assert ops_of(ints) == [f"q_{c.op}"]
        feed = inputs(sides)
        assert np.abs(run(graph, feed)["y0"].astype(np.int64) - run(ints, feed)["y0"]).max() <= 1


# -- proofs and refusals ------------------------------------------------------------------------------------------------------


def test_transposed_convolution_never_leaves_its_bound(d: str) -> None:
    c, sides = case("conv_transpose_groups", d)
    x = sides[0]
    assert isinstance(x, Side)
    node = the_node(lowered(bracketed(c.op, sides, [c.result(d)], **c.attrs(2))), "q_conv_transpose")
    bound = node.attrs["bound"]
    assert isinstance(bound, int)
    acc = both(c.op, [Side(np.full_like(x.ints, most(d)), x.params), *sides[1:]], None, **c.attrs(2))[1]
    grid = np.tile(x.params.scale * sides[1].params.scale, 3)  # type: ignore[union-attr]
    assert np.abs(acc / grid[:, None, None]).max() <= bound * (1 + 1e-6)


def test_a_norm_whose_sums_are_not_proved_to_fit_stays_float_and_says_why(d: str) -> None:
    x = side(np.random.default_rng(0), (1, 2, 4, 4), d)
    vectors = [np.ones(2, F32), np.zeros(2, F32)]
    big = TensorType((1, 2, 1 << 13, 1 << 12), d)  # too large to run: only its type is lowered
    done = lower(_norm_of(big, x.params))
    held = d.removeprefix("u")
    assert [i.because for i in done.islands] == [f"its sums of squares over {1 << 25} elements of {held} do not fit 64 bits"]
    done = lower(_norm_of(TensorType((1, 2, symbol("h"), 4), d), x.params))
    assert [i.because for i in done.islands] == ["the range of its sums cannot be proved while '4*h' is not bound"]
    assert off_by("instance_norm", [x, *vectors], x.params, eps=1e-5) <= 1


def _norm_of(t: TensorType, p: QuantParams) -> Any:
    from q_laws import bracket

    from lowbit.ir.build import Builder

    b = Builder()
    x = bracket(b, "dequantize_linear", b.input("x", t), p)
    y = b.add("instance_norm", x, b.constant(np.ones(2, F32)), b.constant(np.zeros(2, F32)), eps=1e-5)
    return b.finish({"y": bracket(b, "quantize_linear", y, p, to=p.dtype.name)})


def test_what_has_no_integer_form_says_why(d: str) -> None:
    rng = np.random.default_rng(0)
    x = side(rng, (1, 6, 4, 4), d)
    exponents = np.array([1.0, 2.0, 3.0, 4.0], F32)
    crop = {"sizes": (1, 6, 8, 8), "scales": (None,) * 4, "mode": "linear", "coordinate_mode": "tf_crop_and_resize"}
    per_axis = Side(x.ints, QuantParams(d, np.full(6, 0.1, F32), None, None, PerAxis(1)))
    gamma = Side(np.ones(4, np.int8), params("int8", 0.1), True)
    told = {
        "its exponent is not one constant number": ("pow", [x, exponents], {}),
        "it crops (tf_crop_and_resize): integers have no interpolation with a value beyond the edge": (
            "resize", [x], crop | {"roi": (0.0,) * 4 + (1.0,) * 4},
        ),
        "its input is quantized per axis 1, per tensor is needed": ("softmax", [per_axis], {"axis": 1}),
        "its scale is not constant": ("layer_norm", [x, gamma], {"axis": 3, "eps": 1e-5}),
    }  # fmt: skip
    for because, (op, sides, attrs) in told.items():
        assert [i.because for i in lower(bracketed(op, sides, [x.params], **attrs)).islands] == [because]


def test_lb_log_is_within_one_ulp(d: str) -> None:
    x = np.exp(np.random.default_rng(0).uniform(0, 30, 200_000)).astype(F32)
    exact = np.log(x.astype(np.float64))
    assert np.abs((lb_log(x) - exact) / np.spacing(exact.astype(F32))).max() < 0.824
    assert lb_log(F32(1)) == 0


def test_a_mean_of_nothing_is_the_zero_point(d: str) -> None:
    x = side(np.random.default_rng(0), (2, 0, 3), d, 0.1, least(d) + 3)
    ints = lowered(bracketed("reduce_mean", [x], [x.params], axes=(1,), keepdims=False))
    assert (run(ints, inputs([x]))["y0"] == least(d) + 3).all()


def test_operands_of_the_wrong_kind_are_refused_by_inference(d: str) -> None:
    x, table = TensorType((2, 3), d), TensorType((7,), "int32")
    attrs = {"axis": 1, "y_zero": 0, "multiplier": 1.0, "lo": 0, "hi": 1, "to": d}
    with pytest.raises(LowbitError, match=rf"table int32\[7\] given, {2 ** dtype(d).bits} entries needed for {d}"):
        get_op("q_softmax").infer(x, table, **attrs)
    with pytest.raises(LowbitError, match="input is float32, integers are needed"):
        get_op("q_softmax").infer(TensorType((2, 3), "float32"), table, **attrs)
    norm = {"axis": 1, "eps": 1.0, "x_zero": 0, "y_zero": 0, "lo": 0, "hi": 1, "to": d}
    with pytest.raises(LowbitError, match=r"int32\[7\] given, gain and offset are float32"):
        get_op("q_layer_norm").infer(x, table, **norm)


def test_lowered_graphs_keep_every_law(d: str) -> None:
    for name in CASES:
        c, sides = case(name, d)
        verify(lower(bracketed(c.op, sides, [c.result(d)], **c.attrs(2))).graph)
