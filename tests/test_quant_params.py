"""QuantParams is a value that is checked when it is made; parameters from ranges are right for every degenerate range."""

from __future__ import annotations

import json

import numpy as np
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

from lowbit.errors import CalibrationError, DTypeError, FormatError, LowbitError, QuantError
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, dequantize, quantize, scale_shape
from lowbit.ranges import params_from_data, params_from_range

TINY, HUGE = np.finfo(np.float32).tiny, np.finfo(np.float32).max
INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
AFFINE = ("symmetric", "symmetric_restricted", "asymmetric")


@given(own.shapes, st.data())
def test_params_survive_json_to_the_bit_and_are_values(shape: tuple[int, ...], data: st.DataObject) -> None:
    p = data.draw(own.quant_params(shape))
    back = QuantParams.from_dict(json.loads(json.dumps(p.to_dict())))
    assert back == p and hash(back) == hash(p) and {p: 1}[back] == 1
    assert back.scale.tobytes() == p.scale.tobytes() and back.scale.shape == p.scale.shape
    assert not p.scale.flags.writeable and not p.zero_point.flags.writeable


def test_params_differ_in_any_field() -> None:
    a = QuantParams("uint8", 0.5, 3)
    others = [
        QuantParams("int8", 0.5, 3),
        QuantParams("uint8", 0.25, 3),
        QuantParams("uint8", 0.5, 4),
        QuantParams("uint8", 0.5, 128),
        QuantParams("uint8", [0.5], 3, granularity=PerAxis(0)),
    ]
    assert all(a != b for b in others) and len({a, *others}) == 6
    assert a != "uint8"


def test_params_do_not_change_with_the_array_they_were_made_from() -> None:
    scale = np.array([1.0, 2.0], np.float32)
    p = QuantParams("int8", scale, granularity=PerAxis(0))
    scale[0] = 9
    assert p.scale.tolist() == [1.0, 2.0]


def test_the_zero_point_of_symmetric_is_the_middle() -> None:
    assert [int(QuantParams(d, 1.0).zero_point) for d in ("int8", "uint8", "uint4", "uint16", "int32", "binary")] == [
        0,
        128,
        8,
        32768,
        0,
        0,
    ]
    assert int(QuantParams("uint4", 1.0, scheme="logarithmic").zero_point) == 0


def test_scale_shapes_of_the_three_granularities() -> None:
    assert scale_shape(PerTensor(), (4, 100)) == ()
    assert scale_shape(PerAxis(-1), (4, 100)) == (100,)
    assert scale_shape(PerBlock(1, 32), (4, 100)) == (4, 4)


def test_each_block_has_its_own_scale_and_the_last_may_be_short() -> None:
    x = np.array([[1, 2, 30, 40, 500]], np.float32)
    p = params_from_data(x, "int8", "symmetric_restricted", PerBlock(-1, 2))
    assert np.array_equal(p.scale, np.array([[2 / 127, 40 / 127, 500 / 127]], np.float32))
    assert quantize(x, p).tolist() == [[64, 127, 95, 127, 127]]


# --- from a range ------------------------------------------------------------------------------------------------------------


@given(own.finite_floats, own.finite_floats, st.sampled_from(INTEGERS), st.sampled_from(AFFINE))
def test_a_range_is_covered_to_half_a_step_and_holds_zero(a: float, b: float, name: str, scheme: str) -> None:
    lo, hi = min(a, b), max(a, b)
    p = params_from_range(lo, hi, name, scheme)
    assert dequantize(quantize([0.0], p), p)[0] == 0.0
    extremes = dequantize(np.array(p.code_range, p.dtype.numpy), p)
    assert np.all(np.isfinite(extremes))
    if max(abs(lo), abs(hi)) < HUGE / 4:  # wider ranges can have ends that no float32 grid reaches
        x = np.array([lo, hi], np.float32)
        steps = 2.0 ** (p.dtype.bits + 1)
        slack = float(p.scale) * (0.5 + steps * 2.0**-23)
        assert np.all(np.abs(dequantize(quantize(x, p), p).astype(np.float64) - x) <= slack)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("scheme", AFFINE)
def test_a_range_of_only_zero_has_scale_one(name: str, scheme: str) -> None:
    p = params_from_range(0.0, 0.0, name, scheme)
    assert p.scale == 1.0
    assert dequantize(quantize(np.zeros(3), p), p).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("value", [5.0, -5.0, 1e-45, -3e38, 1e-30])
@pytest.mark.parametrize("name", INTEGERS)
def test_a_constant_tensor_comes_back(value: float, name: str) -> None:
    x = np.full((2, 3), value, np.float32)
    p = params_from_data(x, name, "asymmetric")
    back = dequantize(quantize(x, p), p)
    assert np.all(np.abs(back.astype(np.float64) - x) <= float(p.scale) * 2.0**-8)


def test_known_scales_and_zero_points() -> None:
    def scale_and_zero(*args: object) -> tuple[float, int]:
        p = params_from_range(*args)  # type: ignore[arg-type]
        return float(p.scale), int(p.zero_point)

    f = lambda v: float(np.float32(v))  # noqa: E731
    assert scale_and_zero(-1.0, 3.0, "uint8", "asymmetric") == (f(4 / 255), 64)
    assert scale_and_zero(2.0, 3.0, "uint8", "asymmetric") == (f(3 / 255), 0)
    assert scale_and_zero(-3.0, -2.0, "uint8", "asymmetric") == (f(3 / 255), 255)
    assert scale_and_zero(-3.0, -2.0, "int8", "asymmetric") == (f(3 / 255), 127)
    assert scale_and_zero(-1.0, 1.0, "int8", "symmetric_restricted") == (f(1 / 127), 0)
    assert scale_and_zero(-1.0, 0.5, "int8", "symmetric") == (f(1 / 128), 0)
    assert scale_and_zero(-1.0, 1.0, "uint8", "symmetric") == (f(1 / 127), 128)
    assert scale_and_zero(-4.0, 1.0, "int4", "logarithmic") == (4.0, 0)
    assert scale_and_zero(-4.0, 1.0, "uint4", "logarithmic") == (1.0, 0)
    assert scale_and_zero(-4.0, 1.0, "binary") == (2.0, 0)
    assert scale_and_zero(0.0, 1e-45, "int8", "asymmetric") == (TINY, -128)


def test_binary_from_data_has_the_mean_magnitude() -> None:
    x = np.array([[1.0, -3.0, 5.0], [0.0, 0.0, 0.0]], np.float32)
    assert params_from_data(x, "binary").scale == 1.5
    assert params_from_data(x, "binary", granularity=PerAxis(0)).scale.tolist() == [3.0, 1.0]
    assert params_from_data(x, "binary", granularity=PerBlock(1, 2)).scale.tolist() == [[2.0, 5.0], [1.0, 1.0]]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: QuantParams("int8", 0.0), QuantError, "scale 0.0 is not a finite positive float32 (1 of 1 are not)"),
        (
            lambda: QuantParams("int8", [1, NAN, INF], granularity=PerAxis(0)),
            QuantError,
            "scale nan is not a finite positive float32 (2 of 3",
        ),
        (lambda: QuantParams("int8", -1.0), QuantError, "scale -1.0 is not"),
        (lambda: QuantParams("int8", 1e-50), QuantError, "scale 0.0 is not"),
        (lambda: QuantParams("int8", [1.0, 2.0]), QuantError, "scale has shape (2,), per tensor needs one number"),
        (lambda: QuantParams("int8", 1.0, granularity=PerAxis(0)), QuantError, "per axis 0 needs one number for each index of the axis"),
        (lambda: QuantParams("uint8", 1.0, -1), QuantError, "zero point -1 is outside uint8, which holds 0..255"),
        (lambda: QuantParams("uint8", 1.0, 256), QuantError, "zero point 256 is outside uint8"),
        (lambda: QuantParams("uint8", 1.0, 0.5), QuantError, "zero point is float64, integers are needed"),
        (lambda: QuantParams("uint8", [1.0, 1.0], [1, 2, 3], granularity=PerAxis(0)), QuantError, "3 zero points for 2 scales"),
        (lambda: QuantParams("uint8", 1.0, 3, "symmetric"), QuantError, "symmetric uint8 has zero point 128, got 3"),
        (lambda: QuantParams("binary", 1.0, 1), QuantError, "binary has no zero point"),
        (lambda: QuantParams("int32", 1.0, 1), QuantError, "int32 has no zero point"),
        (lambda: QuantParams("int8", 1.0, 0, "affine"), QuantError, "scheme 'affine' does not exist.\n  Try: one of symmetric, "),
        (lambda: QuantParams("int16", 1.0, 0, "logarithmic"), DTypeError, "the logarithmic scheme has no int16"),
        (lambda: QuantParams("int9", 1.0), DTypeError, "dtype 'int9' is not one of lowbit's"),
        (lambda: QuantParams("float16", 1.0), DTypeError, "float16 is not a quantized dtype"),
        (lambda: PerBlock(0, 0), QuantError, "block size 0 is not positive"),
        (lambda: quantize(np.zeros(4), QuantParams("int8", [1, 1], granularity=PerAxis(0))), QuantError, "scales of shape (2,) do not fit"),
        (lambda: quantize(np.zeros(4), QuantParams("int8", [1, 1], granularity=PerAxis(1))), QuantError, "per axis 1 does not exist in"),
        (lambda: params_from_range(1.0, 0.0, "int8"), QuantError, "range 1..0 is upside down"),
        (lambda: params_from_range([0.0], [1.0, 2.0], "int8"), QuantError, "lo has shape (1,), hi has (2,)"),
        (lambda: params_from_range(0.0, INF, "int8"), CalibrationError, "the range holds infinity (1 of 1 ends)"),
        (lambda: params_from_range(NAN, 1.0, "int8"), CalibrationError, "the range holds NaN"),
        (lambda: params_from_data([NAN, NAN], "int8"), CalibrationError, "the range holds NaN (1 of 1 ends).\n  Try: clean the data"),
        (lambda: params_from_data(np.zeros((0, 3)), "int8"), CalibrationError, "an array of shape (0, 3) has no values"),
        (lambda: params_from_data(["a"], "int8"), DTypeError, "x is an array of <U1"),
        (lambda: QuantParams.from_dict({"dtype": "int8"}), FormatError, "not quantization parameters: KeyError"),
    ],
)
def test_bad_parameters_are_refused_with_what_was_found(call: object, kind: type[LowbitError], text: str) -> None:
    with pytest.raises(kind) as e:
        call()  # type: ignore[operator]
    assert text in str(e.value)
