"""Loading holds the network, calibrating less than 2.2 times its bytes, a quantize with data less than 4.5 times."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from lowbit.decide import candidates
from lowbit.decide.goal import Goal, Step
from lowbit.ir.build import Builder
from lowbit.ir.file import load, save
from lowbit.ir.graph import Graph
from lowbit.ops.op import get_op
from lowbit.pipeline import decided
from lowbit.types import TensorType

WIDTH, DEPTH = 2048, 6  # 100 MB of weights

SCRIPT = """
import sys
import numpy as np
import lowbit
from lowbit.calibration.run import calibrate as _  # what is imported on the way is not the network's
from threadpoolctl import threadpool_limits
with threadpool_limits(limits=1): np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

before = peak()
graph = lowbit.load(sys.argv[1])
loaded = peak() - before
data = ({"x": np.random.default_rng(i).standard_normal((4, int(sys.argv[2])), np.float32)} for i in range(4))
record = lowbit.calibrate(graph, data, method="mse")
print(loaded / graph.parameter_bytes, (peak() - before) / graph.parameter_bytes)
"""


def large(width: int = WIDTH, depth: int = DEPTH) -> Graph:
    b = Builder("large")
    h = b.input("x", TensorType((4, width), "float32"))
    for i in range(depth):
        w = np.random.default_rng(i).standard_normal((width, width), np.float32) * np.float32((2 / width) ** 0.5)
        h = b.add("relu", b.add("linear", h, b.constant(w, name=f"w{i}"), name=f"l{i}"), name=f"r{i}")
    return b.finish({"y": h})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_loading_and_calibrating_hold_less_than_twice_the_network(tmp_path: Path) -> None:
    path = tmp_path / "large.lowbit"
    save(large(), path)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path), str(WIDTH)], capture_output=True, text=True, check=True)
    loaded, calibrated = map(float, done.stdout.split())
    assert loaded < 1.3 and calibrated < 2.2  # the weights, and the weights as kernels want them


def test_a_guarded_quantize_holds_less_than_four_and_a_half_times_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        candidates, "SMALL", 0
    )  # as many weights as a test has time for are dealt with as if they were hundreds of megabytes
    graph = large(512, 24)
    data = [{"x": np.random.default_rng(i).standard_normal((4, 512), np.float32)} for i in range(8)]
    told: list[Step] = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        found = decided(graph, data, goal=Goal(enough=26.5), on_step=told.append)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    kept = " ".join(step.what for step in told if step.kept)
    assert "equalized" in kept and "errors cancel" in kept  # the steps that hold other weights beside the network's
    assert found.graph.parameter_bytes < peak < 3.5 * graph.parameter_bytes  # and the network itself, which the caller holds


def test_weights_are_made_real_without_a_second_copy() -> None:
    """A table of embeddings is the largest constant of a language model: with a copy beside it the guard passed twice the network."""
    table, scales = np.ones((4096, 256), np.int8), np.full(4096, 0.5, np.float32)
    tracemalloc.start()
    try:
        (real,) = get_op("dequantize_linear").run([table, scales, np.zeros(4096, np.int8)], {"axis": 0, "block_size": 0, "to": "float32"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert real.nbytes <= peak < 1.2 * real.nbytes


def test_files_are_safetensors_that_the_formats_own_library_reads(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    b = Builder()
    x = b.input("x", TensorType((3, 40), "float32"))
    w = np.random.default_rng(0).standard_normal((20, 40)).astype(np.float32)
    graph = b.finish({"y": b.add("linear", x, b.constant(w, name="w"), name="l")})
    path = tmp_path / "a.lowbit"
    save(graph, path)
    np.testing.assert_array_equal(load_file(path)["w"], w)
    first = path.read_bytes()
    assert first[8:9] == b"{" and int.from_bytes(first[:8], "little") % 8 == 0
    assert load(path) == graph == load(first)
    save(load(path), path)
    assert path.read_bytes() == first
