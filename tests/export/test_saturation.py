"""Exported files give lowbit's results on CPUs whose u8·s8 products saturate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.errors import InputError
from lowbit.export.onnx.saturation import layers, safe_weights, saturating
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType


def network(wide: bool = True) -> Graph:
    """Three convolutions of positive values; with `wide`, normal weights, of which some neighbours add up to more than 128 steps."""
    rng = np.random.default_rng(0)
    b = Builder("wide")
    h = b.input("x", TensorType((1, 16, 12, 12), "float32"))
    for i in range(3):
        w = rng.standard_normal((16, 16, 3, 3)) / 8
        if not wide:  # one large weight in each channel makes all others small in steps
            w[:, 0, 0, 0], w[:, 1, 0, 0], w[:, 0, 0, 1] = 5, -0.1, -0.1
        weight = b.constant(w.astype(np.float32), name=f"w{i}")
        h = b.add("relu", b.add("conv", h, weight, name=f"conv{i}", stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1))
    return b.finish({"y": h})


def samples() -> list[Array]:
    return [(1 - 0.2 * np.random.default_rng(i).random((1, 16, 12, 12))).astype(np.float32) for i in range(4)]


def quantized(wide: bool = True) -> Graph:
    return lowbit.quantize(network(wide), samples(), guard=False)


def test_two_neighbours_of_one_sign_beyond_128_can_saturate() -> None:
    found = next(iter(layers(quantized())))

    def row(*codes: int) -> bool:
        from dataclasses import replace

        return bool(saturating(replace(found, codes=np.array([codes], np.int8)))[0])

    assert row(64, 65) and row(-64, -65) and row(0, 127, 2)
    assert not row(64, 64) and not row(127, -127) and not row(127, 0, 127)
    assert 255 * 128 <= 32767 < 255 * 129


def test_uint8_weights_change_no_bit() -> None:
    q = quantized()
    made = safe_weights(q, True)
    assert made.layers == ("conv0", "conv1", "conv2")
    assert {c.data.dtype.name for name, c in made.graph.constants.items() if name.endswith(".uint8")} == {"uint8"}
    for x in samples():
        assert np.array_equal(lowbit.compile(made.graph)(x), lowbit.compile(q)(x))


def test_seven_bits_are_no_more_than_64() -> None:
    q = quantized()
    made = safe_weights(q, "7-bit")
    assert made.layers == ("conv0", "conv1", "conv2") and not any(saturating(w).any() for w in layers(made.graph))
    x = samples()[0]
    a, b = lowbit.compile(made.graph)(x), lowbit.compile(q)(x)
    assert 0 < np.linalg.norm(a - b) < 0.05 * np.linalg.norm(b)


def test_layers_that_cannot_saturate_stay_as_they_are(tmp_path: Path) -> None:
    q = quantized(wide=False)
    assert safe_weights(q, True).graph is q
    assert lowbit.export_onnx(q, tmp_path / "q.onnx").safety == ""


ORT = """
import sys, numpy as np, onnxruntime as ort
for name in sys.argv[2:]:
    session = ort.InferenceSession(name, providers=["CPUExecutionProvider"])
    np.save(name + ".npy", session.run(None, {"x": np.load(sys.argv[1])})[0])
"""


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="a CPU with AVX2 and without VNNI is emulated by qemu-x86_64 (qemu-user)")
def test_on_a_cpu_without_vnni_only_safe_files_are_right(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX Runtime")
    q, x = quantized(), samples()[0]
    np.save(tmp_path / "x.npy", x)
    wanted = {}
    for name, safe in (("plain", False), ("uint8", True), ("seven", "7-bit")):
        lowbit.export_onnx(q, tmp_path / f"{name}.onnx", safe=safe, check=False)  # type: ignore[arg-type]
        wanted[name] = lowbit.compile(safe_weights(q, safe).graph)(x)  # type: ignore[arg-type]
    files = [str(tmp_path / f"{name}.onnx") for name in wanted]
    command = ["qemu-x86_64", "-cpu", "Haswell-noTSX", sys.executable, "-c", ORT, str(tmp_path / "x.npy"), *files]
    subprocess.run(command, check=True, timeout=300, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    error = {name: float(np.abs(np.load(f"{tmp_path}/{name}.onnx.npy") - y).max()) for name, y in wanted.items()}
    step = float(np.abs(wanted["plain"]).max()) / 255
    assert error["plain"] > 2 * step and error["uint8"] < 0.01 * step and error["seven"] < 0.01 * step


def test_the_command_says_which_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quantized().save(tmp_path / "q.lowbit")
    assert main(["export", str(tmp_path / "q.lowbit"), "-o", str(tmp_path / "q.onnx")]) == 0
    assert "safe     weights as uint8: the same results on every CPU (conv0, conv1, conv2)" in capsys.readouterr().out
    assert main(["export", str(tmp_path / "q.lowbit"), "-o", str(tmp_path / "q.onnx"), "--safe", "no"]) == 0
    assert "safe" not in capsys.readouterr().out
    with pytest.raises(InputError, match="safe='maybe' does not exist"):
        lowbit.export_onnx(quantized(), tmp_path / "q.onnx", safe="maybe")  # type: ignore[arg-type]
