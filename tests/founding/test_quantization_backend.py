"""The quantization backend with many dtypes, hardware, tuning and recommendations."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import lowbit
from lowbit import LowbitError, QuantizationSystem, QuantParams, Workload
from lowbit.cli import main
from lowbit.ir.build import Builder
from lowbit.recommend.ops import bench_ops
from lowbit.recommend.tune import Tuning
from lowbit.types import TensorType

RNG = np.random.default_rng(0)
ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(lowbit.__file__).parent / "demo"


def mlp() -> lowbit.Graph:
    rng, b = np.random.default_rng(0), Builder("mlp")
    y = b.input("x", TensorType((4, 32), "float32"))
    for i, (k, n) in enumerate(((32, 64), (64, 10))):
        y = b.add("linear", y, b.constant((rng.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)), None, name=f"fc{i}")
        y = b.add("relu", y) if i == 0 else y
    return b.finish({"y": y})


@pytest.fixture(scope="module")
def tuned() -> Tuning:
    return QuantizationSystem().auto_tune(Workload("linear", (128, 64), batch=8))


def test_quantization_system_quantizes_and_multiplies() -> None:
    """`QuantizationSystem(device)`: `quantize`, `dequantize`, `qmatmul` → `lowbit.QuantizationSystem`"""
    system = QuantizationSystem("cpu")
    a, b = RNG.standard_normal((5, 16)).astype(np.float32), RNG.standard_normal((16, 3)).astype(np.float32)
    qa, qb = system.quantize(a), system.quantize(b, "uint8")
    assert np.array_equal(system.dequantize(qa), lowbit.quantize_array(a).dequantize())
    assert np.array_equal(system.qmatmul(qa, qb), qa @ qb)
    assert np.array_equal(system.qmatmul(a, b), qa @ lowbit.quantize_array(b))
    assert lowbit.sqnr_db(a @ b, system.qmatmul(a, b)) > 30
    assert np.array_equal(system.quantize(a, "uint8", 0.02, 128).ints, lowbit.quantize_uint8(a, 0.02, 128).ints)


def test_hardware_features() -> None:
    """`hardware_features` → `lowbit.QuantizationSystem.hardware_features`"""
    system = QuantizationSystem()
    assert system.hardware_features == lowbit.Hardware.detect().isas_on_this_cpu and "ref" in system.hardware_features
    assert QuantizationSystem(system.hardware).hardware_features == system.hardware_features and "ref" in repr(system)


def test_calibrate_from_samples_and_create_quantized_tensor() -> None:
    """`calibrate_from_samples`, `create_quantized_tensor` → `lowbit.QuantizationSystem.create_quantized_tensor`"""
    system = QuantizationSystem()
    samples = [RNG.standard_normal(50) for _ in range(4)]
    params = system.calibrate_from_samples(samples, "uint8", "percentile")
    assert params == lowbit.calibrate_from_samples(samples, "uint8", "percentile")
    made = system.create_quantized_tensor(samples[0], params=params)
    assert made.quant_params == params and np.array_equal(made.ints, lowbit.quantize_array(samples[0], params=params).ints)
    empty = system.create_quantized_tensor((2, 3), "int4")
    assert empty.shape == (2, 3) and empty.dtype.name == "int4" and not empty.dequantize().any()


def test_auto_tune_tells_what_it_chose_tried_and_what_each_gave(tuned: Tuning) -> None:
    """`auto_tune(workload)` → `lowbit.auto_tune`"""
    assert tuned.chosen in tuned.tried and tuned.met and len(tuned.tried) >= 10
    measured = [c for c in tuned.tried if not c.refused]
    assert all(c.ms is not None and c.ms > 0 and c.nbytes and c.db is not None for c in measured)
    by_dtype = {c.choice.dtype: c for c in reversed(tuned.tried)}
    assert math.isinf(by_dtype["float32"].db or 0) and 30 < (by_dtype["int8 × int8"].db or 0) < 60
    assert 8 * (by_dtype["int8 × int4"].nbytes or 0) < 2 * (by_dtype["float32"].nbytes or 0)
    met = [c for c in measured if c.met]
    assert (tuned.chosen.ms or 0) <= 1.05 * min(c.ms or 0 for c in met)
    assert tuned.threads in tuned.by_threads and json.dumps(tuned.to_dict()).count("refused") == len(tuned.tried) + 1


def test_get_recommendations_have_their_measurement(tuned: Tuning) -> None:
    """`get_recommendations(workload)` → `lowbit.QuantizationSystem.get_recommendations`"""
    rows = QuantizationSystem().get_recommendations(mlp())
    assert [r.what for r in rows] == ["dtype", "scheme", "granularity", "block_size", "threads"]
    assert all("ms" in r.because for r in rows) and "dtype: " in str(tuned)


def test_requirements_decide() -> None:
    """A Workload with requirements (latency, bytes, RAM, accuracy, target) → `lowbit.Workload`"""
    small = lowbit.auto_tune(Workload("linear", (128, 64), max_bytes=6000, least_db=10))
    assert small.met and (small.chosen.nbytes or 0) <= 6000 and "int4" in small.chosen.choice.dtype
    exact = lowbit.auto_tune(Workload("linear", (128, 64), least_db=100))
    assert exact.met and exact.chosen.choice.dtype == "float32"
    none = lowbit.auto_tune(Workload("linear", (128, 64), max_bytes=10))
    assert not none.met and "max_bytes is 10" in none.chosen.unmet[0]
    strict = lowbit.auto_tune(Workload.of(mlp(), max_drop=0.0))
    assert strict.met and strict.chosen.changed == 0
    late = lowbit.auto_tune(Workload("linear", (128, 64), max_ms=1e-9))
    assert not late.met and "max_ms" in "; ".join(late.chosen.unmet)


def test_a_chip_is_a_target() -> None:
    """A chip as target → `lowbit.Workload`"""
    work = Workload("conv", (8, 12, 12, 8, 3), target="cortex-m4")
    free = lowbit.auto_tune(work)
    least = min(c.ram for c in free.tried if c.ram is not None)
    made = lowbit.auto_tune(replace(work, max_ram=least))
    assert made.met and made.chosen.ms is None and made.chosen.ram == least and "int" in made.chosen.choice.dtype
    assert free.tried[0].choice.dtype == "float32" and (free.tried[0].ram or 0) > least
    timed = lowbit.auto_tune(Workload("linear", (16, 8), target="cortex-m4", max_ms=1.0))
    assert not timed.met and "the time of cortex-m4 cannot be measured here" in timed.chosen.unmet[0]


def test_a_graph_gives_its_own_workload() -> None:
    """A Graph gives its own workload → `lowbit.Workload.of`"""
    g = mlp()
    data = [{"x": RNG.standard_normal((4, 32)).astype(np.float32)} for _ in range(3)]
    made = lowbit.auto_tune(g, data)
    assert not made.random and made.workload.graph() is g and made.met
    assert Workload("conv", (3, 8, 8, 4, 3), batch=2).macs == 2 * 36 * 4 * 27


def test_benchmark_operations() -> None:
    """`benchmark_operations()` → `lowbit.QuantizationSystem.benchmark_operations`, `lowbit.bench_ops`"""
    sizes = {"quantize": 640, "dequantize": 640, "matmul": 32, "linear": 32, "conv": 4}
    system = QuantizationSystem()
    for op, n in sizes.items():
        rows = system.benchmark_operations([op], sizes=[n])
        assert {r.op for r in rows} == {op} and all(r.ms > 0 and r.nbytes > 0 and r.peak >= 0 for r in rows)
        engines = {r.engine for r in rows}
        assert "lowbit" in engines and engines - {"lowbit"}
        assert len({(r.dtype, r.scheme, r.granularity) for r in rows if r.engine == "lowbit"}) >= 5


def test_performance_hints_and_optimal_block_size() -> None:
    """`performance_hints()`, `optimal_block_size()` → `lowbit.QuantizationSystem.optimal_block_size`"""
    system = QuantizationSystem()
    hints = system.performance_hints(0)
    assert hints == system.hardware.hints(None) and all(h.because for _, h in hints)
    assert system.optimal_block_size(0) == hints.block_size.value and system.optimal_block_size() in (32, 64, 128)


def test_lowbit_recommend(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lowbit recommend MODEL` → `lowbit recommend`"""
    monkeypatch.chdir(tmp_path)
    mlp().save("m.lowbit")
    np.savez("d.npz", x=RNG.standard_normal((64, 32)).astype(np.float32))
    assert main(["recommend", "m.lowbit"]) == 0
    text = capsys.readouterr().out
    assert "dtype:" in text and "block_size:" in text and "random numbers" in text and "next" in text
    assert main(["recommend", "m.lowbit", "--data", "d.npz", "--json", "--max-bytes", "100"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert not made["met"] and not made["random_inputs"] and made["tried"][0]["dtype"] == "float32"
    assert main(["recommend", "m.lowbit", "--target", "cortex-m4", "--max-ram", "4k"]) == 0
    assert "cortex-m4 is not this machine" in capsys.readouterr().out


def test_lowbit_bench_ops(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`lowbit bench --ops` → `lowbit bench --ops`"""
    picture = tmp_path / "ops.svg"
    assert main(["bench", "--ops", "matmul", "conv", "--sizes", "16", "--svg", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "numpy" in text and "int8 × int4" in text and "peak" in text
    bars = ElementTree.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + len(bench_ops(["matmul", "conv"], sizes=[16]))
    assert main(["bench", "--json", "--sizes", "64", "--ops", "quantize"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"op", "engine", "dtype", "scheme", "granularity", "size", "ms", "nbytes", "peak"} == set(rows[0])


WRONG: dict[str, tuple[Any, str, str]] = {
    "device": (lambda: QuantizationSystem("tpu"), "device='tpu' does not exist", 'QuantizationSystem("cpu")'),
    "no array": (lambda: QuantizationSystem().dequantize(3), "3 given, a quantized array is needed", "system.quantize(x, 'int8')"),
    "scalar": (lambda: QuantizationSystem().qmatmul(1.0, [1.0]), "a is one number, a matrix is needed", "system.qmatmul(a, b)"),
    "two dtypes": (lambda: QuantizationSystem().create_quantized_tensor((2,), "int8", QuantParams("int4", 1.0)), "parameters of int4", ""),
    "workload": (lambda: lowbit.auto_tune("conv"), "'conv' given, a Workload or a Graph is needed", "lowbit.Workload('linear'"),
    "op": (lambda: Workload("pool", (1,)), "op='pool' is no workload", "Workload.of(graph)"),
    "shape": (lambda: Workload("linear", (3,)), "shape=(3,), (inputs, outputs) is needed for linear", "Workload('linear', (64, 32))"),
    "zero": (lambda: Workload("linear", (3, 0)), "(inputs, outputs) is needed", "Workload('linear'"),
    "kernel": (lambda: Workload("conv", (3, 4, 4, 8, 5)), "a kernel of 5 is larger than the image (4, 4)", "Workload('conv'"),
    "batch": (lambda: Workload("linear", (3, 3), batch=0), "batch=0, a whole number from 1 on is needed", "batch=1"),
    "target": (lambda: Workload("linear", (3, 3), target="mars"), "target='mars' does not exist", "cortex-m4"),
    "ms": (lambda: Workload("linear", (3, 3), max_ms=-1), "max_ms=-1, a positive number is needed", "max_ms=5.0"),
    "bytes": (lambda: Workload("linear", (3, 3), max_bytes=1.5), "max_bytes=1.5", "max_bytes=256 * 1024"),
    "drop": (lambda: Workload("linear", (3, 3), max_drop=2), "max_drop=2, a share from 0 to 1 is needed", "max_drop=0.01"),
    "db": (lambda: Workload("linear", (3, 3), least_db="high"), "least_db='high', a number of dB is needed", "least_db=30"),
    "network": (lambda: Workload("network"), "op='network' and a graph belong together", "Workload.of(graph)"),
    "requirement": (lambda: Workload.of(mlp(), max_watts=3), "max_watts= is no requirement", "max_ms"),
    "no data": (lambda: lowbit.auto_tune(mlp(), []), "there is no data to measure with", "data=[{name: array}"),
    "no op": (lambda: bench_ops(["pool"]), "there is no operation 'pool'", "quantize, dequantize, matmul"),
    "size": (lambda: bench_ops(["matmul"], sizes=[0]), "size 0, a whole number", "sizes=[64, 256]"),
    "engine": (lambda: bench_ops(["matmul"], against=["mkl"]), "'mkl' is not known", "numpy"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_calls_of_the_backend_say_what_to_write(case: str) -> None:
    call, text, hint = WRONG[case]
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bench"], "no network is named"),
        (["bench", "m.lowbit", "--ops"], "networks and --ops are two benchmarks"),
        (["bench", "m.lowbit", "--sizes", "3"], "--sizes is for single operations"),
        (["bench", "--ops", "conv", "--svg", "a.png"], "a picture is written as .svg"),
    ],
)
def test_wrong_command_lines_of_bench(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.fixture
def ptx() -> Any:
    pytest.importorskip("triton", reason="the extra gpu is not installed: Triton's wheel has 290 MB, which the checks do not fetch")
    from lowbit.torch.gpu import ptx as found

    return found


@pytest.mark.parametrize("capability", [61, 70, 75])
def test_dp4a_products(ptx: Any, capability: int) -> None:
    """GPU: DP4A products (sm_61 to sm_75) → `docs/gpu.md`, `matmul`"""
    assert "dp4a.s32.s32" in ptx.instructions(ptx.ptx("matmul_dp4a", capability))


def test_tensor_core_products(ptx: Any) -> None:
    """GPU: int8 and int4 tensor-core products → `docs/gpu.md`, `matmul_s4`"""
    assert any(i.startswith("mma.sync") and "s8.s8" in i for i in ptx.instructions(ptx.ptx("matmul_s8", 80)))
    assert any(i.startswith("mma.sync") and "s4.s4" in i for i in ptx.instructions(ptx.ptx("matmul_s4", 80)))


def test_static_convolutions_as_integers_on_a_gpu(ptx: Any) -> None:
    """GPU: static convolutions as integers → `docs/gpu.md`, `conv_integers`"""
    assert any(i.startswith("mma.sync") and "s8.s8" in i for i in ptx.instructions(ptx.ptx("conv_static", 80)))


def test_the_gpu_benchmark_says_plainly_that_no_gpu_was_there(tmp_path: Path) -> None:
    """GPU: speed and peak memory of float, dynamic, static → `python benchmarks/gpu.py`"""
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    run = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--json", str(tmp_path / "gpu.json")]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    found = json.loads((tmp_path / "gpu.json").read_text())
    if torch.cuda.is_available():
        assert {r["way"] for r in found["rows"]} == {"float", "dynamic", "static"} and all(r["ms"] > 0 for r in found["rows"])
    else:
        assert said.startswith("no GPU was there") and found == {"gpu": None, "torch": torch.__version__, "rows": []}
