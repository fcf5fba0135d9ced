"""Calibration of whole graphs: the same record from any number of workers, in the memory of the model, or an error that names the layer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.calibration import METHODS
from lowbit.calibration import spread as spread_module
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.run import CHUNK_SAMPLES, calibrate, chunks
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, InputError, LowbitError, ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType


def mlp() -> Graph:
    rng = np.random.default_rng(0)
    b = Builder("mlp")
    x = b.input("x", TensorType((symbol("batch"), 8), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((16, 8)).astype(np.float32)), name="fc1"), name="act")
    root = b.add("sqrt", b.add("linear", h, b.constant(np.abs(rng.standard_normal((4, 16))).astype(np.float32)), name="fc2"), name="root")
    return b.finish({"y": root})


def samples(n: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((3, 8)).astype(np.float32)} for _ in range(n)]


def bits(record: CalibrationRecord) -> str:
    return json.dumps(record.to_dict(), sort_keys=True)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2 * CHUNK_SAMPLES + 3])
def test_processes_give_the_record_of_one_process_bit_for_bit(pool: Executor, method: str, count: int) -> None:
    g = mlp()
    assert bits(calibrate(g, samples(count), method=method, executor=pool)) == bits(calibrate(g, samples(count), method=method))


def test_a_dask_cluster_gives_the_record_of_one_process_bit_for_bit() -> None:
    import distributed

    g = mlp()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True)
    with cluster, distributed.Client(cluster) as client:
        for method in ("minmax", "entropy"):
            there = calibrate(g, samples(20), method=method, executor=client.get_executor())
            assert bits(there) == bits(calibrate(g, samples(20), method=method))


class Inline(Executor):
    """Runs each task when it is submitted, as if on another machine: the shared disk is not there."""

    def __init__(self) -> None:
        self.bytes_sent: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        shipped, data, function, task = args
        self.bytes_sent.append(0 if data is None else sum(map(len, data)))
        future: Future[Any] = Future()
        future.set_result(fn(spread_module.Shipped(tuple(p + ".elsewhere" for p in shipped.paths), shipped.modules), data, function, task))
        return future


def test_a_worker_that_sees_no_shared_disk_gets_the_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_module, "_held", None)
    elsewhere = Inline()
    record = calibrate(mlp(), samples(40 * CHUNK_SAMPLES), executor=elsewhere)
    assert bits(record) == bits(calibrate(mlp(), samples(40 * CHUNK_SAMPLES)))
    # tasks that were sent before the first answer come back without a result; from then on the worker holds the graph
    assert sum(n > 0 for n in elsewhere.bytes_sent) <= spread_module.IN_FLIGHT * 64
    assert elsewhere.bytes_sent[-1] == 0


def test_the_graph_does_not_travel_with_the_samples(pool: Executor) -> None:
    sent: list[int] = []

    class Counting(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            import pickle

            sent.append(len(pickle.dumps((fn, args))))
            return pool.submit(fn, *args)

    rng = np.random.default_rng(0)
    b = Builder("wide")
    x = b.input("x", TensorType((1, 8), "float32"))
    g = b.finish({"y": b.add("linear", x, b.constant(rng.standard_normal((100_000, 8)).astype(np.float32)), name="fc")})
    calibrate(g, [{"x": np.ones((1, 8), np.float32)}] * 9, executor=Counting())
    assert len(sent) == 2
    assert max(sent) < 5_000 < g.parameter_bytes


def test_chunks_are_small_in_number_and_in_bytes() -> None:
    few = list(chunks(samples(CHUNK_SAMPLES + 1)))
    assert [(first, len(held)) for first, held in few] == [(0, CHUNK_SAMPLES), (CHUNK_SAMPLES, 1)]
    large = [{"x": np.zeros(1 << 20, np.float32)}] * 3
    assert [(first, len(held)) for first, held in chunks(large)] == [(0, 1), (1, 1), (2, 1)]


def test_an_interrupt_cancels_what_has_not_begun() -> None:
    futures: list[Future[Any]] = []

    class Never(Executor):
        _max_workers = 8

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            futures.append(Future())
            return futures[-1]

    def data() -> Iterator[dict[str, Array]]:
        yield from samples(3 * CHUNK_SAMPLES)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(mlp(), data(), executor=Never())
    assert len(futures) == 3
    assert all(f.cancelled() for f in futures)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (np.full((1, 8), -np.inf, np.float32), "batch 11: input 'x'"),
        (np.full((1, 8), 3e38, np.float32), "batch 11: linear 'fc1'"),
    ],
)
def test_values_that_are_not_finite_name_sample_and_layer(pool: Executor, processes: bool, bad: Array, named: str) -> None:
    data = samples(20)
    data[11] = {"x": bad}
    with pytest.raises(CalibrationError) as e:
        calibrate(mlp(), data, executor=pool if processes else None)
    assert str(e.value).startswith(named)
    assert "MinMaxObserver" not in str(e.value)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ([], CalibrationError, "there is no data to calibrate with"),
        ([{"z": np.zeros((1, 8), np.float32)}], InputError, "batch 0: mlp: input 'x' is missing"),
        ([{"x": np.zeros((1, 8))}], InputError, "batch 0: input 'x': float64 given, float32 needed"),
        ([{"x": np.zeros((1, 7), np.float32)}], ShapeError, "batch 0: input 'x'"),
        ([(np.zeros((1, 8), np.float32),) * 2], CalibrationError, "batch 0: 2 arrays given, the network has 1 input"),
        ([{"x": np.zeros((0, 8), np.float32)}], CalibrationError, "batch 0: input 'x' of shape (0, 8) has no elements"),
        (
            [{"x": np.ones((n, 8), np.float32)} for n in (4, 4, 0)],
            CalibrationError,
            "batch 2: input 'x' of shape (0, 8) has no elements.\n  Try: leave empty batches out",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(pool: Executor, data: list[Any], kind: type[LowbitError], text: str) -> None:
    for executor in (None, pool):
        with pytest.raises(kind) as e:
            lowbit.quantize(mlp(), data, executor=executor)
        assert text in str(e.value)


def test_samples_may_be_mappings_tuples_or_arrays_from_any_iterable() -> None:
    arrays = [s["x"] for s in samples(4)]
    records = [calibrate(mlp(), d) for d in (samples(4), [(a,) for a in arrays], np.stack(arrays), iter(arrays))]
    assert len({bits(r) for r in records}) == 1


def test_records_add_up_save_and_load(tmp_path: Path) -> None:
    g = mlp()
    whole, parts = calibrate(g, samples(6)), calibrate(g, samples(6)[:2]) + calibrate(g, samples(6)[2:])
    assert bits(whole) == bits(parts)
    whole.save(tmp_path / "r.json")
    assert bits(CalibrationRecord.load(tmp_path / "r.json")) == bits(whole)


def test_threads_work_as_well() -> None:
    with ThreadPoolExecutor(2) as threads:
        assert bits(calibrate(mlp(), samples(30), executor=threads)) == bits(calibrate(mlp(), samples(30)))


MEMORY = """
import resource, sys
import numpy as np, lowbit
from lowbit.ir.build import Builder
from lowbit.types import TensorType

b = Builder()
x = b.input("x", TensorType((4, 1024), "float32"))
rng = np.random.default_rng(0)
for i in range(12):
    x = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((1024, 1024), np.float32)), name=f"fc{i}"))
g = b.finish({"y": x})
data = [np.full((4, 1024), 1e-3 * i, np.float32) for i in range(4)]
def calibrate():
    return lowbit.calibrate(g, data, method=sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
tiny = Builder()
small = tiny.finish({"y": tiny.add("relu", tiny.input("x", TensorType((1,), "float32")))})
lowbit.calibrate(small, [np.ones(1, np.float32)], method=sys.argv[1])  # imports
before = peak()
calibrate()
print(g.parameter_bytes, peak() - before)
"""


@pytest.mark.parametrize("method", ["minmax", "adaptive"])
def test_calibration_holds_less_than_the_model_again(method: str) -> None:
    """50 MB of weights: what calibration adds to the model in memory is less than the model, so both hold less than twice of it."""
    done = subprocess.run([sys.executable, "-c", MEMORY, method], capture_output=True, text=True, check=True)
    model, more = map(int, done.stdout.split())
    assert model > 50_000_000
    assert more < model


THREADS = """
import hashlib, sys
import numpy as np, lowbit
from lowbit.ir.build import Builder
from lowbit.types import TensorType
rng = np.random.default_rng(0)
b = Builder()
x = b.input("x", TensorType((64, 768), "float32"))
for wide, narrow in ((3072, 768), (768, 3072)):
    x = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((wide, narrow), np.float32))))
g = b.finish({"y": x})
data = [rng.standard_normal((64, 768), np.float32) for _ in range(2)]
record = lowbit.calibrate(g, data, method="minmax").to_dict()
print(hashlib.sha256(repr(record).encode()).hexdigest())
"""


def test_the_record_does_not_depend_on_how_many_threads_blas_has() -> None:
    """Products this large are shared out among threads, and then added up in another order."""

    def record(threads: int) -> str:
        env = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        return subprocess.run([sys.executable, "-c", THREADS], env=env, capture_output=True, text=True, check=True).stdout

    assert record(1) == record(4)


def test_what_the_hint_about_values_that_are_not_finite_says_can_be_done() -> None:
    bad = samples(2)
    name = next(iter(bad[0]))
    bad[1][name] = bad[1][name].copy()
    bad[1][name].reshape(-1)[0] = np.nan
    with pytest.raises(LowbitError, match="ignore_nonfinite=True"):
        lowbit.calibrate(mlp(), bad)
    assert len(lowbit.calibrate(mlp(), bad, ignore_nonfinite=True)) > 0
