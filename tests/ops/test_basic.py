"""Laws of the elementwise, reducing, moving and creating ops, where ONNX's node tests do not reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowbit.dims import Sym, substitute, symbol
from lowbit.dtypes import DTYPES
from lowbit.errors import DTypeError, InputError, LowbitError, ShapeError
from lowbit.frontends.onnx.movement import slice_bound
from lowbit.ops import OPS, get_op
from lowbit.ops.slices import slice_length
from lowbit.types import Array, TensorType, type_of

N = 7  # stands for the batch: the same number in a shape or an attribute becomes a symbol in the law of symbols
MINE = (
    "unary",
    "erf",
    "activation",
    "cast",
    "binary",
    "reduce",
    "search",
    "reshape",
    "slices",
    "gather",
    "create",
    "quantize_linear",
    "signal",
    "qlinear",
)


def words(text: str) -> list[str]:
    return text.split()


def call(op: str, *xs: Any, **attrs: Any) -> Any:
    """The op's first result on these inputs."""
    with np.errstate(all="ignore"):
        return get_op(op).run([None if x is None else np.asarray(x) for x in xs], attrs)[0]


def f32(*shape: int) -> Array:
    return (np.random.default_rng(1).random(shape) * 2 - 1).astype(np.float32)


def index(*shape: int, below: int = 3) -> Array:
    return np.random.default_rng(2).integers(0, below, shape)


def i8(*shape: int) -> Array:
    return np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)


BOOL = np.arange(N * 3).reshape(N, 3) % 2 == 0
SCALE, ZERO = np.float32([0.1]).reshape(()), np.int8([3]).reshape(())
WINDOW = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
REDUCE = {"axes": (1,), "keepdims": True}

Case = tuple[str, list[Array], dict[str, Any]]
CASES: list[Case] = [
    *[(op, [f32(N, 3)], {}) for op in words("identity neg abs sign relu exp expm1 log log1p sqrt reciprocal sin cos tan asin acos atan")],
    ("swish", [f32(N, 3)], {"alpha": 1.702}),
    *[(op, [f32(N, 3)], {}) for op in words("sinh cosh tanh asinh acosh atanh erf sigmoid softplus softsign silu mish hardswish relu6")],
    *[(op, [f32(N, 3)], {}) for op in words("floor ceil round isnan isinf gelu")],
    ("logical_not", [BOOL], {}),
    ("bitwise_not", [i8(N, 3)], {}),
    ("clip", [f32(N, 3)], {"min": -0.5, "max": None}),
    *[(op, [f32(N, 3)], {"alpha": 0.5}) for op in ("leaky_relu", "elu", "celu", "thresholded_relu")],
    ("selu", [f32(N, 3)], {"alpha": 1.5, "gamma": 1.1}),
    ("hardsigmoid", [f32(N, 3)], {"alpha": 0.2, "beta": 0.5}),
    ("shrink", [f32(N, 3)], {"lambd": 0.5, "bias": 0.1}),
    ("prelu", [f32(N, 3), f32(3)], {}),
    ("cast", [f32(N, 3)], {"to": "int8"}),
    *[(op, [f32(N, 3), f32(1, 3)], {}) for op in words("add sub mul div floor_div mod fmod maximum minimum atan2 pow")],
    *[(op, [f32(N, 1), f32(3)], {}) for op in words("equal not_equal less less_equal greater greater_equal")],
    *[(op, [BOOL, BOOL[:1]], {}) for op in ("logical_and", "logical_or", "logical_xor")],
    *[(op, [i8(N, 3), i8(3)], {}) for op in ("bit_and", "bit_or", "bit_xor")],
    *[(op, [i8(N, 3), index(3, below=7).astype(np.int8)], {}) for op in ("shift_left", "shift_right")],
    ("where", [BOOL, f32(N, 3), f32()], {}),
    *[(f"reduce_{k}", [f32(N, 3, 2)], REDUCE) for k in words("sum mean max min prod l1 l2 log_sum log_sum_exp sum_square")],
    ("reduce_sum", [f32(N, 3, 2)], {"axes": (0, 2), "keepdims": False}),
    ("argmax", [f32(N, 3)], {"axis": 1, "keepdims": False}),
    ("argmin", [f32(N, 3)], {"axis": 0, "keepdims": True, "select_last": True}),
    ("topk", [f32(N, 5)], {"k": 2, "axis": 1, "largest": True, "sorted": True}),
    ("cumsum", [f32(N, 3)], {"axis": 0, "exclusive": True, "reverse": True}),
    ("cumprod", [f32(N, 3)], {"axis": 1}),
    ("trilu", [f32(N, 3, 3)], {"k": 1, "upper": False}),
    ("reshape", [f32(N, 6)], {"shape": (2, N, 3)}),
    ("transpose", [f32(N, 3, 2)], {"perm": (2, 0, 1)}),
    ("expand", [f32(N, 1)], {"shape": (2, N, 3)}),
    ("tile", [f32(N, 3)], {"repeats": (1, 2)}),
    ("flip", [f32(N, 3)], {"axes": (0, 1)}),
    ("roll", [f32(N, 3)], {"shifts": (2,), "axes": (0,)}),
    ("reverse_sequence", [f32(N, 4), index(N, below=5)], {"batch_axis": 0, "time_axis": 1}),
    ("slice", [f32(N, 9)], {"axes": (0, 1), "starts": (1, 8), "ends": (N, -1), "steps": (2, -3)}),
    ("concat", [f32(N, 3), f32(N, 2)], {"axis": 1}),
    ("split", [f32(N, 5)], {"axis": 1, "sizes": (2, 3)}),
    ("pad", [f32(N, 3)], {"pads": (1, -1, 2, 0), "mode": "constant", "value": 1.0}),
    ("pad", [f32(N, 3)], {"pads": (1, 2, 2, 1), "mode": "reflect"}),
    ("gather", [f32(3, 4), index(N, 2)], {"axis": 0}),
    ("gather_elements", [f32(N, 3), index(N, 2)], {"axis": 1}),
    ("gather_nd", [f32(N, 3, 4), index(N, 2, 1)], {"batch_dims": 1}),
    ("scatter_elements", [f32(N, 3), index(N, 2), f32(N, 2)], {"axis": 1, "reduction": "add"}),
    ("scatter_nd", [f32(5, N), index(2, 1), f32(2, N)], {}),
    ("fill", [], {"shape": (N, 2), "value": 1.5, "dtype": "float16"}),
    ("range", [], {"start": 0, "limit": N, "step": 2, "dtype": "int64"}),
    ("eye", [], {"rows": N, "cols": 3, "k": -1, "dtype": "int32"}),
    ("one_hot", [index(N)], {"depth": 4, "axis": 1, "on": 1, "off": 0, "dtype": "float32"}),
    ("quantize_linear", [f32(N, 3), SCALE, ZERO], {"axis": 0, "block_size": 0, "to": "int8"}),
    ("quantize_linear", [f32(N, 8), np.abs(f32(N, 2)) + 1], {"axis": 1, "block_size": 4, "to": "uint4"}),
    ("dequantize_linear", [i8(N, 3), f32(3), i8(3)], {"axis": 1, "block_size": 0}),
    ("dynamic_quantize_linear", [f32(N, 3)], {}),
    ("conv_integer", [i8(N, 2, 5, 5), i8(4, 2, 3, 3), ZERO], WINDOW),
    ("matmul_integer", [i8(N, 4), i8(4, 3), ZERO, i8(3)], {}),
    (
        "qlinear_conv",
        [i8(N, 2, 5, 5), SCALE, ZERO, i8(4, 2, 3, 3), np.abs(f32(4)), i8(4) * 0, SCALE, ZERO, np.arange(4, dtype=np.int32)],
        WINDOW,
    ),
    ("qlinear_matmul", [i8(N, 4), SCALE, ZERO, i8(4, 3), SCALE, ZERO, SCALE, ZERO], {}),
    ("dft", [f32(N, 8, 1)], {"axis": 1, "length": 8, "inverse": False, "onesided": True}),
    ("det", [f32(N, 3, 3)], {}),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])


def test_every_op_of_these_families_has_a_case() -> None:
    mine = {name for name, op in OPS.items() if op.infer.__module__.removeprefix("lowbit.ops.") in MINE}
    assert mine - {c[0] for c in CASES} == set()


def types_of(op: str, types: list[TensorType], attrs: dict[str, Any]) -> tuple[TensorType, ...]:
    signature = get_op(op).signature
    return get_op(op).infer_types(types, signature.complete(op, len(types), attrs))


@every_case
def test_what_is_computed_is_what_was_inferred(case: Case) -> None:
    op, xs, attrs = case
    inferred = types_of(op, [type_of(x) for x in xs], attrs)
    with np.errstate(all="ignore"):
        outputs = get_op(op).run(xs, attrs)
    assert [(t.shape, t.dtype.numpy) for t in inferred] == [(y.shape, y.dtype) for y in outputs]


def symbolic(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(symbolic(v) for v in value)
    return symbol("n") if value == N and isinstance(value, int) else value


@every_case
def test_types_with_symbols_become_the_types_with_numbers(case: Case) -> None:
    op, xs, attrs = case
    types = [type_of(x) for x in xs]
    inferred = types_of(op, [TensorType(symbolic(t.shape), t.dtype) for t in types], {k: symbolic(a) for k, a in attrs.items()})
    bound = [t.with_shape([substitute(d, {"n": N}) for d in t.shape]) for t in inferred]
    assert bound == list(types_of(op, types, attrs))
    depends = any(N in t.shape for t in types) or any(a == N or (isinstance(a, tuple) and N in a) for a in attrs.values())
    reduced = op in ("argmin",) or attrs.get("axes") == (0, 2)
    assert any(isinstance(d, Sym) for t in inferred for d in t.shape) == (depends and not reduced)


ELEMENTWISE = [c for c in CASES if OPS[c[0]].infer.__module__.split(".")[-1] in ("unary", "erf", "activation", "binary", "cast")]


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda c: c[0])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_elementwise_ops_take_scalars_and_empty_tensors(case: Case, shape: tuple[int, ...]) -> None:
    op, xs, attrs = case
    some = [np.resize(x.reshape(-1)[:1], shape) if math.prod(shape) else np.empty(shape, x.dtype) for x in xs]
    assert call(op, *some, **attrs).shape == shape


@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if c[1][0].dtype == np.float32], ids=lambda c: c[0])
def test_float16_gives_float16_near_float32(case: Case) -> None:
    op, xs, attrs = case
    halves = [x.astype(np.float16) if x.dtype == np.float32 else x for x in xs]
    got, want = call(op, *halves, **attrs), call(op, *[h.astype(np.float32) if h.dtype == np.float16 else h for h in halves], **attrs)
    assert got.dtype == (np.float16 if want.dtype == np.float32 else want.dtype)
    if op not in ("floor_div", "mod", "fmod"):  # these jump: one rounding decides
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=8e-3, atol=2e-3)


def test_erf_is_erf_to_fourteen_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), [0.0, -0.0, 1e-300, np.inf, -np.inf, 1 / 32, 6.0]])
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(call("erf", x), exact, rtol=2e-15, atol=2e-15)
    assert np.isnan(call("erf", np.full(100, np.nan))).all()
    y = np.linspace(-4, 4, 5001, dtype=np.float32)
    np.testing.assert_array_equal(call("erf", y), np.array([math.erf(v) for v in y], np.float32))


def test_integer_division_drops_the_fraction_for_all_bytes() -> None:
    a, b = np.meshgrid(np.arange(-128, 128), [v for v in range(-128, 128) if v])
    want = np.trunc(a / b)
    want[want == 128] = -128  # -128 / -1 does not fit and wraps
    np.testing.assert_array_equal(call("div", a.astype(np.int8), b.astype(np.int8)), want.astype(np.int8))
    assert call("mod", np.int32([-7]), np.int32([3])) == 2 and call("fmod", np.int32([-7]), np.int32([3])) == -1
    assert call("floor_div", np.int32([-7]), np.int32([2])) == -4


def test_power_keeps_the_type_of_its_base() -> None:
    assert call("pow", np.int32([2, 3]), np.float32([3, 0.5])).tolist() == [8, 1]
    assert call("pow", np.int32([2]), np.int64([-1])).tolist() == [0]
    assert call("pow", np.float16([2]), np.int64([10])).dtype == np.float16


def test_activations_are_finite_where_their_limits_are() -> None:
    x = np.float32([-200, -90, 0, 90, 200])
    for op, want in {
        "sigmoid": [0, 0, 0.5, 1, 1],
        "softplus": [0, 0, math.log(2), 90, 200],
        "silu": [0, 0, 0, 90, 200],
        "mish": [0, 0, 0, 90, 200],
    }.items():
        np.testing.assert_allclose(call(op, x), want, atol=1e-30, rtol=1e-6, err_msg=op)
    assert call("elu", x, alpha=1.0).tolist() == [-1, -1, 0, 90, 200]
    assert np.isfinite(call("reduce_log_sum_exp", x * 10, axes=(0,), keepdims=False))


def test_clip_with_crossed_bounds_is_the_upper_one() -> None:
    assert call("clip", np.float32([-5, 0, 5]), min=2.0, max=-1.0).tolist() == [-1, -1, -1]
    assert call("clip", np.uint8([0, 9]), min=None, max=4).tolist() == [0, 4]
    assert np.isnan(call("clip", np.float32([np.nan]), min=0.0, max=1.0))


@pytest.mark.parametrize("op, neutral", [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf), ("l2", 0), ("log_sum_exp", -np.inf)])
def test_a_reduction_of_nothing_is_the_neutral_element(op: str, neutral: float) -> None:
    assert call(f"reduce_{op}", np.empty((2, 0), np.float32), axes=(1,), keepdims=False).tolist() == [neutral, neutral]


def test_a_reduction_without_axes_keeps_every_element_alone() -> None:
    x = np.float32([[-3, 4]])
    assert call("reduce_sum", x, axes=(), keepdims=True).tolist() == x.tolist()
    assert call("reduce_l2", x, axes=(), keepdims=False).tolist() == [[3, 4]]
    assert call("reduce_sum_square", x, axes=(), keepdims=False).tolist() == [[9, 16]]


def test_of_equal_elements_the_first_index_wins_unless_the_last_is_asked_for() -> None:
    x = np.float32([[2, 1, 2, 1]])
    assert call("topk", x, k=4, axis=1, largest=True, sorted=True).tolist() == [[2, 2, 1, 1]]
    for largest, order in ((True, [0, 2, 1, 3]), (False, [1, 3, 0, 2])):
        assert get_op("topk").run([x], {"k": 4, "axis": 1, "largest": largest, "sorted": True})[1].tolist() == [order]
    assert call("argmax", x, axis=1, keepdims=False).tolist() == [0]
    assert call("argmax", x, axis=1, keepdims=False, select_last=True).tolist() == [2]


@given(st.integers(0, 9), st.integers(-12, 12), st.integers(-12, 12), st.integers(-4, 4).filter(bool))
def test_slices_are_pythons_with_the_start_cut_to_the_axis(size: int, start: int, end: int, step: int) -> None:
    """ONNX cuts the start of a backward slice to the first element, where Python takes nothing."""
    s, e = slice_bound(start, size, step, start=True), slice_bound(end, size, step, start=False)
    want = np.arange(size)[max(start, -size) if step < 0 else start : end : step]
    assert slice_length(size, s, e, step) == len(want)
    assert call("slice", np.arange(size), axes=(0,), starts=(s,), ends=(e,), steps=(step,)).tolist() == want.tolist()


@given(st.integers(1, 6), st.integers(-2, 9), st.integers(-2, 9), st.sampled_from(["constant", "reflect", "edge", "wrap"]))
def test_negative_pads_cut_and_positive_ones_extend(size: int, before: int, after: int, mode: str) -> None:
    if size + min(before, 0) + min(after, 0) <= 0:
        return
    x = np.arange(size)[max(-before, 0) : size + min(after, 0)]
    y = call("pad", np.arange(size), pads=(before, after), mode=mode, value=-1)
    assert y.shape == (size + before + after,)
    assert y[max(before, 0) : max(before, 0) + len(x)].tolist() == x.tolist()


@pytest.mark.parametrize("name", [d for d in DTYPES if d.startswith("float8")])
def test_every_float8_survives_the_way_through_float32(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(DTYPES[name].numpy)
    wide = call("cast", codes, to="float32")
    back = call("cast", wide, to=name)
    finite = np.isfinite(wide)
    assert back[finite].view(np.uint8).tolist() == codes[finite].view(np.uint8).tolist()
    top = np.nanmax(np.where(finite, wide, np.nan))
    over = np.float32([top * 4, -np.inf, np.nan])
    assert call("cast", over, to=name).astype(np.float32)[:2].tolist() == [top, -top]
    assert not np.isfinite(call("cast", over, to=name, saturate=False).astype(np.float32)).any()


@pytest.mark.parametrize("name, low, high", [("int4", -8, 7), ("uint4", 0, 15)])
def test_every_nibble_survives_a_cast_and_wider_integers_lose_their_upper_bits(name: str, low: int, high: int) -> None:
    q = np.arange(low, high + 1)
    assert call("cast", q.astype(np.float32), to=name).tolist() == q.tolist()
    assert call("cast", q + 16, to=name).tolist() == q.tolist()
    assert call("cast", q + 0.75 * np.sign(q), to=name).tolist() == q.tolist()


def test_bfloat16_is_cast_by_value() -> None:
    x = call("cast", np.float32([1.5, -2.75, 3e38]), to="bfloat16")
    assert call("cast", x, to="int32")[:2].tolist() == [1, -2]
    assert call("cast", x, to="bool").tolist() == [True, True, True]
    assert call("cast", np.int8([-3]), to="bfloat16").astype(np.float32).tolist() == [-3]


def test_a_scatter_takes_part_once_per_index() -> None:
    x = np.zeros(3, np.float32)
    assert call("scatter_elements", x, [1, 1, -1], np.float32([1, 2, 5]), axis=0, reduction="add").tolist() == [0, 3, 5]
    assert call("scatter_nd", x, [[2], [2]], np.float32([4, 7]), reduction="max").tolist() == [0, 0, 7]
    assert x.tolist() == [0, 0, 0]


def test_an_exact_integer_convolution_does_not_round() -> None:
    x, w = np.full((1, 64, 9, 9), -128, np.int8), np.full((1, 64, 9, 9), 127, np.int8)
    acc = call("conv_integer", x, w, stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1)
    assert acc.tolist() == [[[[-128 * 127 * 64 * 81]]]]


def test_padding_of_an_integer_convolution_stands_for_zero() -> None:
    x, w, zp = np.full((1, 1, 3, 3), 5, np.uint8), np.ones((1, 1, 3, 3), np.int8), np.uint8(5)
    assert not call("conv_integer", x, w, zp, **WINDOW).any()


def test_a_dynamic_range_always_holds_zero() -> None:
    for x in (np.float32([1, 2]), np.float32([-3, -1]), np.float32([0]), np.empty(0, np.float32)):
        q, scale, zp = get_op("dynamic_quantize_linear").run([x], {})
        assert 0 <= int(zp) <= 255 and np.abs((q.astype(np.float32) - zp) * scale - x).max(initial=0) <= scale / 2 * 1.001


ERRORS: list[tuple[type[LowbitError], str, Callable[[], Any]]] = [
    (DTypeError, "inputs are float32 and int8, one element type needed", lambda: types_of("add", [type_of(f32(2)), type_of(i8(2))], {})),
    (ShapeError, "shapes (2, 3) and (4) do not broadcast", lambda: types_of("mul", [type_of(f32(2, 3)), type_of(f32(4))], {})),
    (DTypeError, "int8 given, a float type needed", lambda: types_of("exp", [type_of(i8(2))], {})),
    (DTypeError, "float32 given, bool needed", lambda: types_of("logical_not", [type_of(f32(2))], {})),
    (DTypeError, "condition is int8, bool needed", lambda: types_of("where", [type_of(x) for x in (i8(2), f32(2), f32(2))], {})),
    (ShapeError, "slope (4) does not broadcast to input (2, 1)", lambda: types_of("prelu", [type_of(f32(2, 1)), type_of(f32(4))], {})),
    (
        ShapeError,
        "axis 2 is outside a tensor of rank 2",
        lambda: types_of("reduce_max", [type_of(f32(2, 3))], {"axes": (2,), "keepdims": True}),
    ),
    (ShapeError, "name one axis twice", lambda: types_of("reduce_max", [type_of(f32(2, 3))], {"axes": (1, -1), "keepdims": True})),
    (
        ShapeError,
        "is empty: nothing is largest",
        lambda: types_of("argmax", [TensorType((2, 0), "float32")], {"axis": 1, "keepdims": True}),
    ),
    (
        ShapeError,
        "k is 4, axis 1 of (2, 3) has 3 elements",
        lambda: types_of("topk", [type_of(f32(2, 3))], {"k": 4, "axis": 1, "largest": True, "sorted": True}),
    ),
    (ShapeError, "(2, 3) has 6 elements, (4) needs 4", lambda: types_of("reshape", [type_of(f32(2, 3))], {"shape": (4,)})),
    (ShapeError, "perm (0, 0) is not an order of the 2 axes", lambda: types_of("transpose", [type_of(f32(2, 3))], {"perm": (0, 0)})),
    (ShapeError, "(2, 3) does not expand to (3)", lambda: types_of("expand", [type_of(f32(2, 3))], {"shape": (3,)})),
    (ShapeError, "differ in more than axis 0", lambda: types_of("concat", [type_of(f32(2, 3)), type_of(f32(2, 4))], {"axis": 0})),
    (ShapeError, "sizes (1, 1) sum to 2, axis 0 of (3) has 3", lambda: types_of("split", [type_of(f32(3))], {"axis": 0, "sizes": (1, 1)})),
    (ShapeError, "2 pads given, rank 2 needs 4", lambda: types_of("pad", [type_of(f32(2, 3))], {"pads": (1, 1), "mode": "edge"})),
    (ShapeError, "an empty axis has nothing to repeat", lambda: call("pad", np.empty(0, np.float32), pads=(1, 0), mode="edge", value=0.0)),
    (ShapeError, "a step of 0 goes nowhere", lambda: types_of("range", [], {"start": 0, "limit": 3, "step": 0, "dtype": "int64"})),
    (InputError, "index 3 is outside an axis of 3 elements", lambda: call("gather", f32(3), [0, 3], axis=0)),
    (InputError, "index -4 is outside an axis of 3 elements", lambda: call("gather_nd", f32(3), [[-4]], batch_dims=0)),
    (DTypeError, "indices are float32, integers needed", lambda: types_of("gather", [type_of(f32(3)), type_of(f32(1))], {"axis": 0})),
    (
        ShapeError,
        "scale (2) does not fit input (3, 4): axis 1 needs (4)",
        lambda: types_of("dequantize_linear", [type_of(i8(3, 4)), type_of(f32(2))], {"axis": 1, "block_size": 0}),
    ),
    (
        DTypeError,
        "cannot quantize to float16",
        lambda: types_of("quantize_linear", [type_of(f32(3)), type_of(f32())], {"axis": 0, "block_size": 0, "to": "float16"}),
    ),
    (
        DTypeError,
        "b is float32, an integer of 16 bits or fewer needed",
        lambda: types_of("matmul_integer", [type_of(i8(2, 2)), type_of(f32(2, 2))], {}),
    ),
    (ShapeError, "a square matrix or a stack of them needed", lambda: types_of("det", [type_of(f32(2, 3))], {})),
]


@pytest.mark.parametrize("kind, text, act", ERRORS, ids=[text for _, text, _ in ERRORS])
def test_what_does_not_fit_is_said(kind: type[LowbitError], text: str, act: Callable[[], Any]) -> None:
    with pytest.raises(kind) as e:
        act()
    assert text in str(e.value)
