"""Programs without floats make inputs and read outputs in fixed point, and the macros give what the header says."""

from __future__ import annotations

import ctypes
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import NO_UNIT, compile_all
from hypothesis import given
from hypothesis import strategies as st
from plan_networks import network

import lowbit
from lowbit.codegen.literals import ratio
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.numerics import quantize_with
from lowbit.types import TensorType

INT32 = np.iinfo(np.int32)
NUMBERS = sorted(
    {INT32.min, INT32.max, INT32.min + 1, *(s * (1 << n) + d for n in range(31) for s in (1, -1) for d in (-1, 0, 1))}
    | set(np.random.default_rng(0).integers(INT32.min, INT32.max, 3000).tolist())
    | set(np.random.default_rng(1).integers(-(8 << 16), 8 << 16, 3000).tolist())
)
PROBE = """
#include "model.h"
int32_t quantize(int32_t x);
int32_t dequantize(int32_t q);
int32_t to_q16(uint32_t bits);
uint32_t from_q16(int32_t x);
int32_t quantize(int32_t x) {
    return MODEL_IN_QUANTIZE_Q16(x);
}
int32_t dequantize(int32_t q) {
    return MODEL_OUT_MAP_DEQUANTIZE_Q16(q);
}
int32_t to_q16(uint32_t bits) {
    return MODEL_OUT_Y_TO_Q16(lb_f32_of_bits(bits));
}
uint32_t from_q16(int32_t x) {
    return lb_f32_bits(MODEL_OUT_Y_FROM_Q16(x));
}
"""


def nearest(value: Fraction) -> int:
    """In units of 1/65536: ties to even, as Python rounds fractions."""
    return min(max(round(value * 65536), INT32.min), INT32.max)


def probe(folder: Path) -> ctypes.CDLL:
    """The macros as functions, compiled for a machine without a floating-point unit."""
    (folder / "probe.c").write_text(PROBE)
    library = compile_all(folder, folder / "probe.so", flags=("-shared", "-fPIC", *NO_UNIT))
    code = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "<quantize>" in code and "%xmm" not in code
    found = ctypes.CDLL(str(library))
    found.from_q16.restype = ctypes.c_uint32
    return found


@pytest.fixture(scope="module")
def macros(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("fixed") / "c"
    lowbit.emit_c(network(), folder, no_float=True, measure=False)
    return probe(folder)


def test_quantizing_fixed_point_gives_the_integers_of_floats(macros: ctypes.CDLL) -> None:
    real = (np.array(NUMBERS, np.int32).astype(np.float32) / np.float32(65536)).astype(np.float32)
    want = quantize_with(real, np.float32(0.05), 3, "int8")
    assert [macros.quantize(x) for x in NUMBERS] == want.tolist()


def test_dequantizing_gives_the_nearest_fixed_point_number(macros: ctypes.CDLL) -> None:
    scale = Fraction(float(np.float32(0.05)))
    for q in range(-128, 128):
        assert macros.dequantize(q) == nearest(scale * (q - 3))


def test_reals_become_the_nearest_fixed_point_number_and_back(macros: ctypes.CDLL) -> None:
    bits = np.random.default_rng(2).integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32)
    near = np.random.default_rng(3).integers(110 << 23, 145 << 23, 3000, dtype=np.uint64).astype(np.uint32)  # about 1
    for b in (*bits, *near, *near | np.uint32(1 << 31)):
        v = float(b.view(np.float32))
        want = 0 if v != v else nearest(Fraction(v)) if abs(v) != float("inf") else INT32.max if v > 0 else INT32.min
        assert macros.to_q16(int(b)) == want
    assert macros.to_q16(0x7FC00000) == 0 and macros.to_q16(0x7F800000) == INT32.max and macros.to_q16(0xFF800000) == INT32.min
    for x in NUMBERS:
        assert macros.from_q16(x) == int((np.float32(np.int32(x)) * np.float32(2.0**-16)).view(np.uint32))
        if abs(x) <= 1 << 24:
            assert macros.to_q16(macros.from_q16(x)) == x


@given(st.floats(width=32, min_value=2.0**-149, allow_nan=False, allow_infinity=False))
def test_a_scale_is_a_ratio_with_a_power_of_two(scale: float) -> None:
    multiplier, shift = ratio(scale)
    assert Fraction(multiplier) / Fraction(2) ** shift == Fraction(scale) and 0 < multiplier < 1 << 24 and multiplier % 2


@pytest.mark.parametrize("scale", [2.0**-149, 1e-30, 2.0**-20, 3.0, 65536.0, 1e30])
def test_every_scale_does(scale: float, tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", TensorType((4,), "float32"))
    s, z = b.constant(np.float32(scale)), b.constant(np.int16(-7))
    q = b.add("quantize_linear", x, s, z, axis=0, block_size=0, to="int16")
    y = b.add("dequantize_linear", b.add("reshape", q, shape=(2, 2)), s, z, axis=0, block_size=0, to="float32")
    lowbit.emit_c(b.finish({"map": y, "y": x}), tmp_path / "c", no_float=True, measure=False)
    text = PROBE.replace("MODEL_IN_", "MODEL_OUT_MAP_")  # x is an output too, and so stays real
    (tmp_path / "c" / "probe.c").write_text(text)
    found = ctypes.CDLL(str(compile_all(tmp_path / "c", tmp_path / "probe.so", flags=("-shared", "-fPIC"))))
    exact = Fraction(float(np.float32(scale)))
    for v in (-32768, -300, -8, -7, -6, 0, 1, 500, 32767):
        assert found.dequantize(v) == nearest(exact * (v + 7))
    real = (np.array(NUMBERS[::50], np.int32).astype(np.float32) / np.float32(65536)).astype(np.float32)
    with np.errstate(over="ignore"):
        want = quantize_with(real, np.float32(scale), -7, "int16")
    assert [found.quantize(v) for v in NUMBERS[::50]] == want.tolist()


def header(g: Graph, **options: bool) -> str:
    return lowbit.emit_c(g, None, measure=False, **options).files["model.h"]  # type: ignore[arg-type]


def test_the_header_has_the_constants_and_says_what_they_mean() -> None:
    text = header(network(), no_float=True)
    assert "#define MODEL_IN_SCALE_MULTIPLIER 13421773u /* MODEL_IN_SCALE is MULTIPLIER / 2^SHIFT */" in text
    assert "#define MODEL_IN_SCALE_SHIFT (28)" in text and "Q15.16" in text and "lb_f32_less" in text
    assert "QUANTIZE(" not in text  # the macros of floats need floats
    plain = header(network())
    assert "MODEL_IN_QUANTIZE(x)" in plain and "Q16" not in plain and "lb_fixed.h" not in plain


def test_the_file_is_copied_only_where_it_is_included() -> None:
    assert "kernels/lb_fixed.h" in lowbit.emit_c(network(), None, no_float=True, measure=False).files
    assert "kernels/lb_fixed.h" not in lowbit.emit_c(network(), None, measure=False).files
