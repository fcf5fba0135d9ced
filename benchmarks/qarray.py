"""`qa @ qb` against NumPy's float32 matmul, interleaved in one run: GMAC/s and the ratio.

    python benchmarks/qarray.py [--threads 1,2] [--repeats 40] [--json F]

"int8" is `qa @ qb` from Python, packing of both sides and scaling included; "kernel" is the product alone, on one thread, with a right side
that is packed already. Each number of threads runs in a process of its own, pinned to as many CPUs, which OpenBLAS and lowbit both use
in full; "int8, 1 thread" stays on one of them. Times are the least of all repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SHAPES = [(64, 512, 512), (128, 384, 1536), (1024, 1024, 1024), (3136, 64, 576), (196, 256, 2304), (49, 512, 4608)]  # M, N, K


def least(ways: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The least seconds that each way took, in turns."""
    best = [float("inf")] * len(ways)
    for _ in range(repeats):
        for i, way in enumerate(ways):
            start = time.perf_counter()
            way()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def measure(threads: int, repeats: int) -> dict[str, Any]:
    """One number of threads: the machine as it is now, and a row for each shape."""
    import numpy as np

    from lowbit.hardware.machine import Hardware
    from lowbit.kernels import native
    from lowbit.qarray import quantize_array

    def with_threads(n: int, call: Callable[[], object]) -> Callable[[], object]:
        def way() -> object:
            os.environ["LOWBIT_THREADS"] = str(n)
            return call()

        return way

    def row(m: int, n: int, k: int) -> dict[str, float]:
        a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
        qa, qb = quantize_array(a, "int8"), quantize_array(b, "int8")
        ways = {
            "numpy_f32": lambda: a @ b,
            "int8": with_threads(threads, lambda: qa @ qb),
            "int8_one_thread": with_threads(1, lambda: qa @ qb),
            "kernel": kernel_alone(qa.ints, qb.ints),
        }
        seconds = least(list(ways.values()), repeats)
        return {"m": m, "n": n, "k": k} | {name: 1e-9 * m * n * k / s for name, s in zip(ways, seconds)}

    rng = np.random.default_rng(0)
    rows = [row(*shape) for shape in SHAPES]
    hw = Hardware.detect()
    machine = {"cpu": hw.cpu, "isa": native.best("gemm_s8_f32").isa, "cpus": hw.usable_cpus, "load": hw.load, "numpy": np.__version__}
    return {"threads": threads, "repeats": repeats, "machine": machine, "rows": rows}


def kernel_alone(a: Any, b: Any) -> Callable[[], object]:
    """The float32 product with b packed beforehand."""
    import numpy as np

    from lowbit.kernels import native

    (m, k), n = a.shape, b.shape[1]
    sizes = np.zeros(2, np.int64)
    native.best("gemm_s8_sizes")({"m": m, "k": k, "n": n, "segment": k}, sizes)
    blocks = [np.empty(int(size) + 64, np.uint8) for size in sizes]
    packed, scratch = (block[-block.ctypes.data % 64 :] for block in blocks)
    za, zb, sa, sb = np.zeros(m, np.int32), np.zeros(n, np.int32), np.ones(m, np.float32), np.ones(n, np.float32)
    out = np.empty((m, n), np.float32)
    strides = {"row_stride": n, "column_stride": 1, "b_unsigned": 0}
    native.best("gemm_s8_pack")(strides | {"k": k, "n": n, "segment": k}, b, zb, packed)
    params = {"a_stride": k, "out_stride": n, "m": m, "k": k, "n": n, "segment": k, "a_unsigned": 0, "start": -0.0}
    kernel = native.best("gemm_s8_f32")
    return lambda: kernel(params, a, za, sa, packed, sb, out, scratch)


def run_pinned(threads: int, repeats: int) -> dict[str, Any]:
    """`measure` in a process that has that many CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    if len(cpus) < threads:
        sys.exit(f"{threads} threads, but this process may use {len(cpus)} CPUs")
    env = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--measure", str(threads), "--repeats", str(repeats)]
    out = subprocess.run(
        command, env=env, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus)
    ).stdout
    return dict(json.loads(out))


def show(run: dict[str, Any]) -> None:
    machine = ", ".join(f"{name} {value}" for name, value in run["machine"].items())
    print(f"\n{run['threads']} thread(s), best of {run['repeats']}, {machine}")
    print(f"{'M,N,K':>16} {'NumPy f32':>10} {'int8':>8} {'ratio':>6} {'1 thread':>9} {'ratio':>6} {'kernel':>8}   GMAC/s")
    for r in run["rows"]:
        shape, f32 = f"{r['m']},{r['n']},{r['k']}", r["numpy_f32"]
        one = r["int8_one_thread"]
        print(f"{shape:>16} {f32:10.1f} {r['int8']:8.1f} {r['int8'] / f32:6.2f} {one:9.1f} {one / f32:6.2f} {r['kernel']:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.repeats)))
        return
    runs = []
    for threads in args.threads.split(","):
        runs.append(run_pinned(int(threads), args.repeats))
        show(runs[-1])
    if args.json:
        args.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
