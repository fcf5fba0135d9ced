"""Parameters chosen by measurement, exact memory savings, and error metrics that are defined for every array."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st

from lowbit.auto import Trial, auto_quantize, estimate_memory_savings, optimal_params, try_params
from lowbit.errors import CalibrationError, DTypeError, InputError, QuantError, ShapeError
from lowbit.metrics import cosine, max_error, mse, sqnr_db
from lowbit.qarray import QArray, quantize_array
from lowbit.quant_params import QUANT_DTYPES, PerAxis, PerBlock, PerTensor, dequantize, quantize, scale_shape
from lowbit.ranges import params_from_data

quick = settings(max_examples=30, deadline=None)
numbers = st.floats(-1e6, 1e6, width=32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- choosing ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", QUANT_DTYPES)
@pytest.mark.parametrize("prefer", ["accuracy", "speed"])
def test_the_choice_is_the_best_of_what_was_tried_and_its_numbers_are_true(dtype: str, prefer: Any) -> None:
    x = normal(12, 80) * np.exp(normal(12, 1))
    q = auto_quantize(x, dtype, prefer=prefer)
    assert isinstance(q, QArray) and q.shape == x.shape and q.dtype.name == dtype
    assert q.quant_params == q.tried[0].params == optimal_params(x, dtype, prefer)
    assert [t.worth for t in q.tried] == sorted((t.worth for t in q.tried), reverse=True)
    for t in q.tried:
        assert t.sqnr_db == sqnr_db(x, dequantize(quantize(x, t.params), t.params))
        assert t.bits_per_value == pytest.approx((q.dtype.bits * x.size + 8 * t.params.nbytes) / x.size)
    assert np.array_equal(q.ints, quantize(x, q.quant_params)) and q.sqnr_db == q.tried[0].sqnr_db


@quick
@given(own.float_arrays(elements=numbers), st.sampled_from(["int8", "uint8", "int4", "uint4", "binary"]))
def test_the_choice_is_never_worth_less_than_the_default(x: np.ndarray, dtype: str) -> None:
    tried = try_params(x, dtype)
    default = params_from_data(x, dtype)
    assert tried[0].worth >= next(t.worth for t in tried if t.params == default)


def test_a_channel_of_another_size_gets_its_own_scale() -> None:
    x = normal(8, 1000)
    x[3] *= 1000
    assert optimal_params(x, "int8", "speed").granularity == PerAxis(0)
    assert optimal_params(x.T, "int8").granularity == PerAxis(1)
    assert optimal_params(np.linspace(-1, 1, 4000).reshape(4000, 1), "int8").granularity == PerTensor()


def test_blocks_are_chosen_when_they_pay_for_their_scales() -> None:
    x = (normal(4, 32, 64) * np.exp(2 * normal(4, 32, 1, seed=1))).reshape(4, 2048)
    assert isinstance(optimal_params(x, "int4").granularity, PerBlock)
    assert not isinstance(optimal_params(np.sign(x), "int4").granularity, PerBlock)


def test_one_sided_data_gets_a_zero_point_and_speed_does_not() -> None:
    x = np.abs(normal(50, 50))
    assert optimal_params(x, "uint8").scheme == "asymmetric"
    assert optimal_params(x, "uint8", "speed").scheme.startswith("symmetric")
    assert {t.params.scheme for t in try_params(x, "int8", prefer="speed")} == {"symmetric", "symmetric_restricted"}
    assert not any(isinstance(t.params.granularity, PerBlock) for t in try_params(normal(2, 300), "int4", prefer="speed"))


def test_powers_of_two_are_exact_on_a_logarithmic_grid() -> None:
    x = np.ldexp(np.float32(1), np.arange(-6, 1)) * np.float32([1, -1, 1, -1, 1, 1, -1])
    q = auto_quantize(x, "int4")
    assert q.quant_params.scheme == "logarithmic" and q.sqnr_db == inf and np.array_equal(q.dequantize(), x)


def test_heavy_tails_are_clipped_in_few_bits() -> None:
    x = np.random.default_rng(0).laplace(size=(1, 20_000)).astype(np.float32)
    chosen = try_params(x, "int4", prefer="speed")[0]
    assert chosen.method != "minmax"
    assert chosen.sqnr_db > sqnr_db(x, quantize_array(x, "int4").dequantize()) + 3


@pytest.mark.parametrize("value", [0.0, 3.0, -2.5])
@pytest.mark.parametrize("dtype", ["int8", "uint4", "int16"])
def test_constants_are_exact_enough_and_scalars_are_arrays(value: float, dtype: str) -> None:
    for x in (np.float32(value), np.full((3, 40), value, np.float32)):
        q = auto_quantize(x, dtype)
        assert q.dequantize() == pytest.approx(np.asarray(x), rel=1e-6)


def test_views_of_the_result_are_plain_and_a_qarray_can_be_requantized() -> None:
    q = auto_quantize(normal(6, 6), "int8")
    assert type(q.T) is QArray and np.array_equal(q.T.ints, q.ints.T)
    assert auto_quantize(q, "int8").sqnr_db >= 30
    assert "dB at" in str(q.tried[0]) and isinstance(q.tried[0], Trial)


def test_what_cannot_be_chosen_for_is_explained() -> None:
    with pytest.raises(CalibrationError, match=r"an array of shape \(0, 3\) has no values to choose parameters for"):
        auto_quantize(np.zeros((0, 3)), "int8")
    with pytest.raises(CalibrationError, match=r"2 of 3 values are NaN or infinite\.\n  Try: clean the data"):
        optimal_params([1.0, np.nan, np.inf], "int8")
    with pytest.raises(InputError, match=r"prefer='size' is not known\.\n  Try: prefer='accuracy' or prefer='speed'"):
        optimal_params([1.0], "int8", "size")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="float16 is not a quantized dtype"):
        auto_quantize([1.0], "float16")
    with pytest.raises(DTypeError, match="real numbers are needed"):
        auto_quantize(np.array(["a"]), "int8")


# --- memory --------------------------------------------------------------------------------------------------------------------


@quick
@given(own.shapes, st.data())
def test_savings_are_the_bytes_of_the_array_that_is_made(shape: tuple[int, ...], data: st.DataObject) -> None:
    p = data.draw(own.quant_params(shape))
    q = QArray(data.draw(own.codes(shape, p)), p)
    said = estimate_memory_savings(p.dtype, shape, granularity=p.granularity, scheme=p.scheme)
    assert said == estimate_memory_savings(q)
    assert said.data_bytes == q.nbytes and said.param_bytes == p.nbytes and said.original_bytes == 4 * q.size
    assert said.saved_bytes == said.original_bytes - said.quantized_bytes


def test_savings_by_hand() -> None:
    s = estimate_memory_savings("int4", (3, 5), granularity=PerBlock(1, 2), scheme="asymmetric")
    assert (s.original_bytes, s.data_bytes, s.param_bytes) == (60, 8, 9 * 4 + 5)  # 9 blocks: 9 scales, 9 nibbles in 5 bytes
    assert estimate_memory_savings("int8", 1000, original="float16").ratio == 2000 / 1004
    assert str(s) == "60 → 49 bytes (8 of data, 41 of scales and zero points), 1.22 times smaller"
    assert estimate_memory_savings("int8", (0,), granularity=PerAxis(0)).ratio == 1.0


def test_savings_of_a_dtype_alone_are_those_of_large_arrays() -> None:
    assert [estimate_memory_savings(d).ratio for d in ("int8", "uint16", "int4", "binary", "int32")] == [4, 2, 8, 32, 1]
    g = PerBlock(0, 32)
    for scheme in ("symmetric", "asymmetric"):
        large = estimate_memory_savings("int4", (32 * 1024,), granularity=g, scheme=scheme)
        assert estimate_memory_savings("int4", granularity=g, scheme=scheme).ratio == large.ratio
    with pytest.raises(QuantError, match=r"per axis 0: how many scales that are depends on the shape"):
        estimate_memory_savings("int8", granularity=PerAxis(0))
    with pytest.raises(QuantError, match="a QArray has its own shape"):
        estimate_memory_savings(quantize_array([1.0]), (1,))
    with pytest.raises(QuantError, match="per axis 2 does not exist"):
        estimate_memory_savings("int8", (3, 4), granularity=PerAxis(2))
    assert scale_shape(PerAxis(1), (3, 4)) == (4,)


# --- metrics -------------------------------------------------------------------------------------------------------------------


@quick
@given(own.float_arrays(elements=numbers), st.data())
def test_metrics_agree_with_their_formulas(x: np.ndarray, data: st.DataObject) -> None:
    y = data.draw(own.float_arrays(shape=x.shape, elements=numbers))
    a, b = x.astype(np.float64), y.astype(np.float64)
    assert mse(x, y) == pytest.approx(np.mean((a - b) ** 2))
    assert max_error(x, y) == np.abs(a - b).max()
    assert abs(cosine(x, y)) <= 1 + 1e-12 and cosine(x, y) == cosine(y, x)
    if mse(x, y) and np.sum(a * a):
        assert 10 ** (sqnr_db(x, y) / 10) == pytest.approx(np.mean(a * a) / mse(x, y), rel=1e-6)


@given(own.float_arrays())
def test_equal_arrays_have_no_error(x: np.ndarray) -> None:
    assert (sqnr_db(x, x), mse(x, x), max_error(x, x)) == (inf, 0.0, 0.0)


def test_metrics_at_the_edges() -> None:
    zeros, empty = np.zeros(3), np.zeros(0)
    assert sqnr_db(zeros, zeros) == inf and sqnr_db(zeros, [0, 1, 0]) == -inf and sqnr_db([0, 1, 0], zeros) == 0.0
    assert (sqnr_db(empty, empty), mse(empty, empty), max_error(empty, empty), cosine(empty, empty)) == (inf, 0.0, 0.0, 1.0)
    assert cosine(zeros, zeros) == 1.0 and cosine(zeros, [1, 0, 0]) == 0.0 and cosine([1, 0], [-2, 0]) == -1.0
    assert mse([inf, 1.0], [inf, 2.0]) == 0.5 and max_error([inf], [1.0]) == inf
    assert isnan(mse([np.nan], [1.0])) and isnan(max_error([np.nan, 1.0], [1.0, 1.0])) and isnan(sqnr_db([np.nan], [1.0]))
    for metric in (sqnr_db, mse, max_error, cosine):
        with pytest.raises(ShapeError, match=r"cannot compare shapes \(3,\) and \(1, 3\)"):
            metric(zeros, zeros[None])
