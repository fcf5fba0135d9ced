"""A session takes its packed weights, its arena and little more: no wide copies while it packs, no second copy of the weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

from lowbit.ir.build import Builder
from lowbit.kernels import native
from lowbit.plan.kernels.products import DOT4
from lowbit.types import TensorType


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's high-water mark of memory")
def test_a_session_takes_its_packed_weights_its_arena_and_at_most_20_megabytes(tmp_path: Path) -> None:
    b = Builder("wide")
    rng = np.random.default_rng(0)
    y = b.input("x", TensorType((1, 512, 8, 8), "int8"))
    for name in ("a", "b", "c"):  # each 2.4 MB in 8 bits, 19 MB as tiles, 85 MB as wide tiles
        w = b.constant(rng.integers(-40, 40, (512, 512, 3, 3)).astype(np.int8), name=f"{name}.w")
        m = b.constant(np.full(512, 1e-4, np.float32), name=f"{name}.m")
        clamp = {"x_zero": 0, "y_zero": 0, "lo": -128, "hi": 127, "to": "int8", "bound": 1 << 25}
        y = b.add("q_conv", y, w, m, name=name, stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1, **clamp)
    w = b.constant(rng.integers(-128, 128, (20_000, 512)).astype(np.int8), name="head.w")
    m = b.constant(np.full(20_000, 1e-4, np.float32), name="head.m")
    mean = b.add("q_reduce_mean", y, axes=(2, 3), keepdims=False, x_zero=0, y_zero=0, multiplier=1.0, lo=-128, hi=127, to="int8")
    y = b.add("q_linear", mean, w, m, name="head", x_zero=0, y_zero=0, lo=0, hi=0, to="float32", bound=1 << 24)
    path = tmp_path / "wide.lowbit"
    b.finish({"y": y}).save(path)
    command = [sys.executable, ROOT / "benchmarks" / "memory.py", path, "--here"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    bytes_alone = native.best("linear_s8").isa in DOT4  # what VNNI multiplies; elsewhere they are packed wider
    assert found["packed"] > (15 if bytes_alone else 20) << 20
    assert found["beyond"] < 20 << 20, found
