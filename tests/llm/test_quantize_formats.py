"""Block formats that are written: bytes that mean what the grid says, scales of least squared error, GPTQ's smaller errors of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from lowbit.block_formats import block_format, dequantize
from lowbit.errors import QuantError
from lowbit.llm.quantization.budget import NOISE, Matrix, formats_under, least_bits
from lowbit.llm.quantization.encode import fit
from lowbit.llm.quantization.gptq import gptq, inverse_factor, output_error
from lowbit.llm.quantization.grid import LEVELS

gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")
RNG = np.random.default_rng(5)
BELL = (RNG.standard_normal((64, 1024)) * 0.03).astype(np.float32)
EQUAL = np.ones(1024, np.float32)


def relative(name: str, x: np.ndarray, weights: np.ndarray = EQUAL) -> float:
    grid = fit(name, x, weights)
    return float((weights * np.square(grid.real(grid.round(x)) - x)).sum() / (weights * np.square(x)).sum())


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("kind", ["bell", "heavy tails", "one sign", "zeros", "one outlier", "tiny"])
def test_the_bytes_are_the_numbers_of_the_grid(name: str, kind: str) -> None:
    x = {
        "bell": BELL,
        "heavy tails": (RNG.standard_t(3, BELL.shape) * 0.1).astype(np.float32),
        "one sign": np.abs(BELL) + np.float32(0.5),
        "zeros": np.zeros_like(BELL),
        "one outlier": np.where(np.arange(1024) == 700, np.float32(30), BELL).astype(np.float32),
        "tiny": BELL * np.float32(1e-6),
    }[kind]
    grid = fit(name, x, EQUAL)
    levels = grid.round(x)
    data = grid.to_bytes(levels)
    assert data.shape == (64, block_format(name).row_bytes(1024))
    assert np.array_equal(dequantize(name, data), grid.real(levels))
    theirs = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    assert np.array_equal(theirs, grid.real(levels))


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_the_error_is_below_that_of_scales_by_the_largest_weight(name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    plain = gguf.quants.dequantize(gguf.quants.quantize(BELL, kind), kind)
    theirs = float(np.square(plain - BELL).sum() / np.square(BELL).sum())
    assert relative(name, BELL) < (1.0 if name == "Q8_0" else 0.93) * theirs


@pytest.mark.parametrize("name", ["Q4_0", "IQ4_NL", "Q4_1", "Q4_K", "Q6_K"])
def test_columns_that_count_more_get_the_smaller_error(name: str) -> None:
    weights = np.where(np.arange(1024) % 16 == 3, np.float32(100), np.float32(1))
    heavy = np.arange(1024) % 16 == 3

    def error(w: np.ndarray) -> float:
        grid = fit(name, BELL, w)
        return float(np.square((grid.real(grid.round(BELL)) - BELL)[:, heavy]).sum())

    assert error(weights) < 0.9 * error(EQUAL)


def test_the_noise_of_formats_is_what_bell_shaped_weights_show() -> None:
    unit = relative("IQ4_NL", BELL)
    for name, noise in NOISE.items():
        if name != "F16":
            assert noise == pytest.approx(relative(name, BELL) / unit, rel=0.15), name


def test_what_no_format_holds_is_refused() -> None:
    with pytest.raises(QuantError, match="Q2_K is not written"):
        fit("Q2_K", BELL, EQUAL)
    with pytest.raises(QuantError, match="Q4_K: rows of 96 are no multiple of 256"):
        fit("Q4_K", BELL[:, :96], EQUAL[:96])


def correlated(k: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, k // 8)) @ rng.standard_normal((k // 8, k)) + 0.3 * rng.standard_normal((2000, k))
    return np.asarray(x.T @ x)


@pytest.mark.parametrize("name", ["IQ4_NL", "Q4_K", "Q5_1", "Q6_K"])
def test_gptq_makes_the_outputs_errors_smaller(name: str) -> None:
    h, w = correlated(256), BELL[:, :256]
    grid = fit(name, w, np.diag(h).astype(np.float32))
    levels = gptq(w, h, grid)
    assert np.array_equal(dequantize(name, grid.to_bytes(levels)), grid.real(levels))
    assert output_error(w, grid.real(levels), h) < 0.5 * output_error(w, grid.real(grid.round(w)), h)


def test_gptq_is_rounding_where_inputs_are_independent() -> None:
    w = BELL[:, :256]
    grid = fit("Q5_0", w, EQUAL[:256])
    assert np.array_equal(gptq(w, 3.0 * np.eye(256), grid), grid.round(w))


def test_the_factor_of_the_inverse() -> None:
    h = correlated(200)
    order = np.argsort(-np.diag(h))
    u = inverse_factor(h, order).astype(np.float64)
    damped = h[np.ix_(order, order)] + 0.01 * np.diag(h).mean() * np.eye(200)
    assert np.allclose(u.T @ u @ damped, np.eye(200), atol=1e-3) and np.array_equal(u, np.triu(u))


def test_a_channel_that_is_always_zero_does_no_harm() -> None:
    h = correlated(256)
    h[7] = h[:, 7] = 0
    w = BELL[:, :256]
    assert np.isfinite(gptq(w, h, fit("Q4_0", w, np.diag(h).astype(np.float32)))).all()


MATRICES = {"a": Matrix((256, 1024), 1.0), "b": Matrix((256, 1024), 5.0), "c": Matrix((64, 96), 1.0)}


@pytest.mark.parametrize("bits", [4.5, 4.6, 5.0, 6.0, 7.5, 8.5, 20.0])
def test_formats_keep_to_the_budget(bits: float) -> None:
    chosen = formats_under(MATRICES, bits)
    used = 8 * sum(m.nbytes(chosen[n]) for n, m in MATRICES.items()) / sum(m.shape[0] * m.shape[1] for m in MATRICES.values())
    assert min(bits, 8.5) - 1 < used <= bits
    assert MATRICES["b"].formats.index(chosen["b"]) >= MATRICES["a"].formats.index(chosen["a"])


def test_too_few_bits_are_refused() -> None:
    assert least_bits(MATRICES) == 4.5
    with pytest.raises(QuantError, match=r"4 bits a weight are asked for, 4.5 are the least that formats here have"):
        formats_under(MATRICES, 4.0)
