"""uint8 arrays, tensors and layers."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit import LowbitError, PerAxis, QuantParams

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import lowbit.torch as lt  # noqa: E402

X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


# -- arrays and tensors ---------------------------------------------------------------------------------------------------------


def test_quantize_uint8_takes_scale_and_zero_point_positionally() -> None:
    """`x.quantize_uint8(scale, zero_point)` → `lowbit.quantize_uint8`, `lowbit.torch.quantize_uint8`, `lowbit.array(x).quantize_uint8`"""
    want = np.clip(np.rint(X / np.float32(0.02)) + 100, 0, 255)
    for made in (
        lowbit.array(X).quantize_uint8(0.02, 100),
        lowbit.quantize_uint8(X, 0.02, 100),
        lowbit.quantize_uint8(X.tolist(), 0.02, 100),
    ):
        assert isinstance(made, lowbit.QArray) and made.dtype.name == "uint8" and np.array_equal(made.ints, want)
    t = torch.from_numpy(X)
    for q in (lt.quantize_uint8(t, 0.02, 100), lowbit.quantize_uint8(t, 0.02, 100), lowbit.quantize_uint8(lt.quantize_int8(t), 0.02, 100)):
        assert isinstance(q, lt.QTensor) and q.quant_params == QuantParams("uint8", 0.02, 100)
    assert np.array_equal(lt.quantize_uint8(t, 0.02, 100).ints.numpy(), want)


def test_quantize_int8_takes_scale_and_zero_point_positionally() -> None:
    """`x.quantize_int8(scale, zero_point)` → `lowbit.quantize_int8`, `lowbit.torch.quantize_int8`, `lowbit.array(x).quantize_int8`"""
    want = np.clip(np.rint(X / np.float32(0.02)) - 5, -128, 127)
    for made in (lowbit.array(X).quantize_int8(0.02, -5), lowbit.quantize_int8(X, 0.02, -5)):
        assert np.array_equal(made.ints, want)
    assert np.array_equal(lowbit.quantize_int8(torch.from_numpy(X), 0.02, -5).ints.numpy(), want)
    assert np.array_equal(lowbit.quantize_int8(X).ints, lowbit.quantize_array(X, "int8").ints)
    per_row = lowbit.quantize_int8(X, np.full(6, 0.05, np.float32), granularity=PerAxis(0))
    assert per_row.quant_params.granularity == PerAxis(0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int4", "uint4", "binary"])
def test_astype_quantizes_and_never_wraps(dtype: str) -> None:
    """`array.astype("uint8")` → `lowbit.array(x).astype`"""
    x = lowbit.array(X * 1000)  # NumPy's own astype would wrap
    made = x.astype(dtype)
    assert isinstance(made, lowbit.QArray) and made.dtype.name == dtype
    assert np.array_equal(made.ints, lowbit.quantize_array(X * 1000, dtype).ints)
    assert made.astype("float32").dtype == np.float32
    assert x.astype("int8", scale=100.0).quant_params == QuantParams("int8", 100.0)


def test_astype_of_other_dtypes_is_numpys_and_refuses_to_wrap() -> None:
    """`array.astype` of a float array never wraps → `lowbit.array(x).astype`"""
    assert lowbit.array(X).astype(np.float64).dtype == np.float64
    assert np.array_equal(lowbit.array(X * 10).astype("int32"), (X * 10).astype(np.int32))
    assert lowbit.array(X).astype("float16", copy=False).dtype == np.float16
    assert lowbit.array(np.zeros((0, 3))).astype("int64").shape == (0, 3)
    for bad in ([1e10], [np.nan], [-np.inf]):
        with pytest.raises(LowbitError, match="they would wrap"):
            lowbit.array(bad).astype("int32")


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_original_dtype(source: str, tmp_path: Path) -> None:
    """`original_dtype` → `lowbit.QArray.original_dtype`, `lowbit.torch.QTensor.original_dtype`"""
    x = X.astype(source)
    q = lowbit.quantize_array(x, "int8")
    q.save(tmp_path / "q")
    for made in (
        q,
        q.T,
        q[1:],
        q.reshape(8, 6),
        q.astype("int4"),
        lowbit.load_array(tmp_path / "q"),
        lowbit.auto_quantize(x),
        copy.deepcopy(q),
    ):
        assert made.original_dtype.name == source
        assert made.astype(made.original_dtype).dtype == x.dtype
    assert lowbit.quantize_array([1, 2, 3]).original_dtype.name == "float32"
    t = lt.quantize(torch.from_numpy(x), "int8")
    kept = io.BytesIO()
    torch.save(t, kept)
    kept.seek(0)
    for same in (
        t,
        t.T,
        t[1:],
        t.reshape(8, 6),
        t.clone(),
        copy.deepcopy(t),
        t.astype("int4"),
        torch.load(kept),
        lt.QTensor.from_qarray(q),
    ):
        assert same.original_dtype == getattr(torch, source)
        assert same.astype(same.original_dtype).dtype == getattr(torch, source)
    assert t.qarray().original_dtype.name == source


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int4", "uint4"])
def test_zeros_full_and_empty(dtype: str) -> None:
    """`empty`, `full`, `zeros` of a shape, dtype and parameters → `lowbit.empty`, `lowbit.full`, `lowbit.zeros`, `lowbit.torch.zeros`"""
    own = QuantParams(dtype, 0.25, 3)
    for module in (lowbit, lt):
        for made, value in (
            (module.zeros((2, 3), dtype), 0.0),
            (module.full((2, 3), 0.75, dtype), 0.75),
            (module.full((2, 3), -2, dtype), -2),
        ):
            assert tuple(made.shape) == (2, 3) and made.quant_params.dtype.name == dtype
            assert made.tolist() == [[value] * 3] * 2
        assert module.zeros((2, 3), params=own).ints.tolist() == [[3] * 3] * 2
        assert module.full(2, 0.3, dtype, own).tolist() == [0.25, 0.25]
        assert module.empty((5, 3), dtype, own).quant_params == own and tuple(module.empty((0, 3)).shape) == (0, 3)
    rows = QuantParams(dtype, np.array([0.5, 1.0], np.float32), None, None, PerAxis(0))
    assert lowbit.full((2, 3), 1.0, params=rows).tolist() == [[1.0] * 3] * 2


def test_quant_params_by_name() -> None:
    """`QuantParams.int8_symmetric()`, `uint8_asymmetric()`, `int4_symmetric()` … → `lowbit.QuantParams.int8_symmetric`"""
    names = [
        "int8_symmetric", "int8_asymmetric", "uint8_symmetric", "uint8_asymmetric", "int4_symmetric", "uint4_asymmetric",
        "int16_symmetric", "binary_symmetric", "int8_logarithmic",
    ]  # fmt: skip
    for name in names:
        made = getattr(QuantParams, name)
        assert (made().dtype.name, made().scheme) == tuple(name.split("_")) and made(0.5).scale == np.float32(0.5)
        assert made(np.full(6, 0.5), granularity=PerAxis(0)).granularity == PerAxis(0)
        assert lowbit.quantize_array(X, params=made(0.5)).dtype.name == name.split("_")[0]
    assert QuantParams.uint8_asymmetric(0.1, 7) == QuantParams("uint8", 0.1, 7)


def wrong_arrays() -> dict[str, tuple[Any, str, str]]:
    x, t = lowbit.array(X), torch.from_numpy(X)
    return {
        "zero point alone": (lambda: x.quantize_uint8(None, 3), "zero_point= needs scale=", "give both"),
        "zero point outside": (lambda: lowbit.quantize_uint8(t, 0.1, -1), "zero point -1", ""),
        "scale below zero": (lambda: lowbit.quantize_int8(x, -0.1), "not a finite positive float32", ""),
        "dtype twice": (lambda: lowbit.quantize_int8(x, dtype="int4"), "quantize_int8 has its dtype", "lowbit.quantize_array(x, 'int4')"),
        "text": (lambda: lowbit.quantize_int8("abc"), "", ""),
        "no dtype": (lambda: x.astype("int5"), "'int5' is not one of lowbit's", "int4"),
        "copy of a quantized": (lambda: x.astype("int8", copy=False), "astype('int8') quantizes", "x.astype('int8')"),
        "order of a quantized": (lambda: x.astype("uint8", "C"), "astype('uint8') quantizes", "x.astype('uint8')"),
        "scale of a float": (lambda: x.astype("float64", scale=1.0), "scale= is for quantized dtypes", "x.quantize('int8', scale=…)"),
        "wraps": (lambda: (x * 1e12).astype("int32"), "do not fit int32, they would wrap", "np.clip(x, -2147483648, 2147483647)"),
        "shape": (lambda: lowbit.zeros("ab", "int8"), "shape 'ab' is none", "lowbit.zeros((2, 3), 'int8')"),
        "negative": (lambda: lowbit.zeros((2, -1), "int8"), "a size below 0", "sizes from 0 on"),
        "huge": (lambda: lowbit.empty((2**30, 2**30), "int8"), "more than 1,099,511,627,776 elements", "(2, 3)"),
        "float zeros": (lambda: lowbit.zeros(3, "float32"), "float32 is not a quantized dtype", "int8"),
        "nan": (lambda: lowbit.full(3, float("nan"), "int8"), "fill_value=nan, a finite number is needed", "lowbit.full((2, 3), 1.5"),
        "params": (lambda: lowbit.full(3, 1.0, "int8", 0.5), "params is 0.5, QuantParams are needed", "lowbit.QuantParams('int8'"),
        "two dtypes": (lambda: lowbit.zeros(3, "int8", QuantParams("int4", 1.0)), "dtype int8 with parameters of int4", "dtype='int4'"),
        "rows": (lambda: lowbit.zeros(3, params=QuantParams("int8", [1.0, 1.0], None, None, PerAxis(0))), "do not fit", "another axis"),
        "original": (lambda: lowbit.QArray([1], QuantParams("int8", 1.0), original_dtype="float31"), "'float31' is not one", "float32"),
        "named scale": (lambda: QuantParams.int8_symmetric(0.0), "not a finite positive float32", ""),
        "named zero point": (lambda: QuantParams.uint8_asymmetric(1.0, 256), "256", ""),
    }  # fmt: skip


@pytest.mark.parametrize("case", list(wrong_arrays()))
def test_wrong_calls_of_arrays_say_what_to_write(case: str) -> None:
    call, text, hint = wrong_arrays()[case]
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value).partition("Try: ")[2]
