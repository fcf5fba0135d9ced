"""Dtypes and schemes, all the way down."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import codegen_tools
import numpy as np
import pytest

import lowbit
from lowbit import CalibratedQuantRule, DynamicQuantRule, QuantRule
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.lower import lower
from lowbit.quantization.recipes import recipe
from lowbit.runtime.session import Session
from lowbit.types import TensorType

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(1).standard_normal((2, 3, 9, 9)).astype(np.float32)


def network() -> lowbit.Graph:
    """Convolutions with a residual sum, a pool, and a head of 64 inputs."""
    rng, b = np.random.default_rng(0), Builder("net")

    def weight(*shape: int) -> Any:
        return b.constant((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    geometry: dict[str, Any] = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    x = b.input("x", TensorType(X.shape, "float32"))
    h = b.add("relu", b.add("conv", x, weight(64, 3, 3, 3), None, name="stem", **geometry), name="act")
    y = b.add("add", h, b.add("conv", h, weight(64, 64, 3, 3), b.constant(np.ones(64, np.float32)), name="body", **geometry), name="sum")
    pooled = b.add("reduce_mean", y, axes=(2, 3), keepdims=False, name="pool")
    return b.finish({"y": b.add("linear", pooled, weight(10, 64), b.constant(np.ones(10, np.float32)), name="head")})


def exact_everywhere(rule: QuantRule, tmp_path: Path, *, least_db: float) -> lowbit.Graph:
    """The integer graph; interpreter, session and generated C (as it comes by default, and with real ends) have the same bits."""
    g = network()
    q = lowbit.quantize(g, [{"x": X}], rules=[rule])
    integer = lower(q).graph
    want = run(integer, {"x": X})["y"]
    session = lowbit.compile(q)
    assert session.backend == "native" and np.array_equal(session(X), want)
    lowbit.emit_c(q, tmp_path / "default", measure=False)
    codegen_tools.selftest(tmp_path / "default", tmp_path / "selftest")
    emitted = lowbit.emit_c(q, tmp_path / "c", float_io=True, measure=False)
    (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([X], [((2, 10), np.float32)])
    assert np.array_equal(from_c, want)
    assert lowbit.sqnr_db(run(g, {"x": X})["y"], want) > least_db
    return integer


def test_uint16_activations(tmp_path: Path) -> None:
    """uint16 activations → `lowbit.CalibratedQuantRule`"""
    integer = exact_everywhere(CalibratedQuantRule(".*", "uint16"), tmp_path, least_db=38)
    assert {"q_conv", "q_linear", "q_add"} <= {n.op for n in integer.nodes}


def test_4_bit_activations_w4a4_with_default_emit_c(tmp_path: Path) -> None:
    """4-bit activations, `w4a4` → `lowbit.emit_c`"""
    integer = exact_everywhere(CalibratedQuantRule(".*", "int4", "int4"), tmp_path, least_db=3)
    assert "int4" in {v.type.dtype.name for v in integer.values.values()}


def test_binary_weights(tmp_path: Path) -> None:
    """Binary weights → `lowbit.CalibratedQuantRule`"""
    exact_everywhere(CalibratedQuantRule(".*", "int8", "binary"), tmp_path, least_db=0)


@pytest.mark.parametrize("isa", [None, "ref", "avx2"])
def test_binary_activations(tmp_path: Path, isa: str | None) -> None:
    """Binary activations for linear and conv (XNOR and popcount), recipe `binary` → `lowbit.CalibratedQuantRule`"""
    (rule,) = recipe("binary")
    integer = exact_everywhere(rule, tmp_path, least_db=5)
    read = {n.output.name: n.inputs[0].type.dtype.name for n in integer.nodes if n.op in ("q_conv", "q_linear") and n.inputs[0] is not None}
    assert set(read.values()) == {"binary"} and len(read) == 3
    session = Session(integer, isa=isa)
    assert np.array_equal(session(X), run(integer, {"x": X})["y"])
    counted = [r.kernel.partition("__")[0] for r in session.profile(X, repeats=1).rows if "conv_b1" in r.kernel]
    assert counted == ["conv_b1_s8", "conv_b1_s8", "conv_b1_f32"]
    assert any("lb_conv_b1_s8__ref(" in f.read_text() for f in (tmp_path / "c").rglob("*.c"))


def test_logarithmic_weights(tmp_path: Path) -> None:
    """Logarithmic weights (sign and power of two: shifts), recipe `log-weights` → `lowbit.CalibratedQuantRule`"""
    (rule,) = recipe("log-weights")
    integer = exact_everywhere(rule, tmp_path, least_db=12)
    weights = [integer.constant(n.inputs[1]) for n in integer.nodes if n.op in ("q_conv", "q_linear")]
    assert all(w is not None and set(np.abs(w).reshape(-1).tolist()) <= {0, 1, 2, 4, 8, 16, 32, 64} for w in weights)
    session = Session(integer, isa="ref")
    assert np.array_equal(session(X), run(integer, {"x": X})["y"])
    kernels = [r.kernel for r in session.profile(X, repeats=1).rows]
    assert kernels.count("conv_shift_s8__ref") == 2 and kernels.count("conv_log_f32__ref") == 1


@pytest.mark.skipif(shutil.which("riscv64-unknown-elf-gcc") is None, reason="riscv64-unknown-elf-gcc is not installed")
def test_c_of_logarithmic_weights_has_no_multiplier(tmp_path: Path) -> None:
    """C without a multiplication, for a chip without a multiplier → `lowbit.emit_c`"""
    q = lowbit.quantize(network(), [{"x": X}], recipe="log-weights")
    emitted = lowbit.emit_c(q, tmp_path, measure=False)
    assert 64 * 64 * 9 // 2 < emitted.weight_bytes < 64 * 64 * 9  # four bits each
    (kernel,) = (f for f in tmp_path.rglob("*.c") if "void lb_conv_shift_s8__ref(" in f.read_text())
    flags = ["--specs=picolibc.specs", "-march=rv32i", "-mabi=ilp32", "-O2", "-c", "-o", str(tmp_path / "kernel.o")]
    subprocess.run(["riscv64-unknown-elf-gcc", *flags, str(kernel)], check=True, cwd=kernel.parent)
    undefined = subprocess.run(["riscv64-unknown-elf-nm", "-u", str(tmp_path / "kernel.o")], capture_output=True, text=True, check=True)
    assert undefined.stdout.split() == []  # RV32I multiplies by calling __mulsi3 or __mulsf3


@pytest.mark.skipif("avx2" not in native.isas_on_this_cpu(), reason="without AVX2 sessions leave int8 blocks to the interpreter")
@pytest.mark.parametrize("rule", [CalibratedQuantRule, DynamicQuantRule])
@pytest.mark.parametrize(("k", "n", "rows", "block"), [(64, 8, 2, 32), (100, 7, 3, 32), (33, 5, 1, 16), (17, 3, 4, 64), (256, 12, 5, 128)])
def test_block_wise_int8_natively(rule: Any, k: int, n: int, rows: int, block: int) -> None:
    """Block-wise int8 natively → `lowbit.CalibratedQuantRule`"""
    rng, b = np.random.default_rng(k), Builder("net")
    x = rng.standard_normal((rows, k)).astype(np.float32)
    weight = b.constant((rng.standard_normal((n, k)) * np.linspace(0.01, 3, k)).astype(np.float32))
    g = b.finish(
        {"y": b.add("linear", b.input("x", TensorType((rows, k), "float32")), weight, b.constant(np.ones(n, np.float32)), name="fc")}
    )
    q = lowbit.quantize(g, [{"x": x}], rules=[rule(".*", "int8", "int8", block)])
    session = lowbit.compile(q)
    assert session.backend == "native"
    for data in (x, np.full_like(x, 100), -x):
        assert np.array_equal(session(data), run(lower(q).graph, {"x": data})["y"])
    plain = lowbit.quantize(g, [{"x": x}], rules=[rule(".*", "int8", "int8")])
    want = run(g, {"x": x})["y"]
    assert lowbit.sqnr_db(want, session(x)) >= lowbit.sqnr_db(want, lowbit.compile(plain)(x)) - 1


def test_the_table_of_dtypes_is_what_the_code_does() -> None:
    """A table of every dtype × scheme × place → `docs/dtypes.md`"""
    page = runpy.run_path(str(ROOT / "tools" / "gen_dtypes_doc.py"))["page"]()
    assert (ROOT / "docs" / "dtypes.md").read_text() == page, "run: make docs"
