"""Kernels beside ONNX Runtime's and NumPy's, interleaved: GMAC/s, and how much of what this core can do in registers.

    python benchmarks/kernels.py [--families linear conv] [--only 512] [--seconds 0.5] [--threads 1] [--json F]

Cases stand in kernels_cases.py, a list for each family. The least of many repeats, one way after the other in turn, so that all of them
see the same machine; pin it (`taskset -c 1`) for one thread. ONNX Runtime's u8s8 products are not exact on AVX2 without VNNI: they
saturate. The peaks need a C compiler (`cc`); without one they are left out. A call of a session costs 1-2 µs, one of ONNX Runtime 5-10:
both are in the numbers. `of peak` is of the chain that the kernel consists of; for linear layers that is their method
(csrc/linear/avx2/weights_avx2.h), which depends on the weights.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHAINS = ("fma", "bytes", "words", "madd16", "maddubs_w", "maddubs_s8", "nibbles")


def machine() -> ctypes.CDLL | None:
    """kernels_peak.c; None without a C compiler or AVX2."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak.so"
        source = Path(__file__).with_name("kernels_peak.c")
        try:
            subprocess.run(["cc", "-O2", "-mavx2", "-mfma", "-shared", "-fPIC", source, "-o", library], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ctypes.CDLL(str(library))


def peaks() -> dict[str, float]:
    """GMAC/s of each chain, in registers."""
    from lowbit.kernels import native
    from lowbit.kernels.peak import peak

    found = machine()
    if found is None:
        return {}
    best = dict.fromkeys(CHAINS, 0.0)
    for _ in range(400):
        for name in CHAINS:
            run = getattr(found, name)
            run.restype, run.argtypes = ctypes.c_double, [ctypes.c_int64]
            start = time.perf_counter_ns()
            macs = run(2000)
            best[name] = max(best[name], macs / (time.perf_counter_ns() - start))
    if native.best("peak_s8").isa != "ref":
        best["dot4"] = peak("integer")
    return best


def bandwidth(size: int = 128 << 20) -> float | None:
    """GB/s that one core reads from memory, more of it than caches hold."""
    import numpy as np

    found = machine()
    if found is None:
        return None
    data = np.ones(size + 64, np.uint8)
    address = -(-data.ctypes.data // 64) * 64
    best = 0.0
    for _ in range(20):
        start = time.perf_counter_ns()
        found.reading(ctypes.c_void_p(address), ctypes.c_int64(size))
        best = max(best, size / (time.perf_counter_ns() - start))
    return best


def least(ways: dict[str, Any], seconds: float) -> dict[str, float]:
    """Seconds of each way, the least of those that fit into so many seconds, in turn."""
    best = dict.fromkeys(ways, float("inf"))
    end = time.perf_counter() + seconds * len(ways)
    while time.perf_counter() < end:
        for name, way in ways.items():
            for _ in range(3):
                start = time.perf_counter()
                way()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def measured(case: Any, seconds: float, threads: int, peak: dict[str, float]) -> dict[str, Any]:
    times = least(case.make(threads), seconds)
    speed = {name: case.macs / t * 1e-9 for name, t in times.items()}
    chain = case.chain(threads)
    return {
        "family": case.family, "name": case.name, "threads": threads, "chain": chain, "us": {n: t * 1e6 for n, t in times.items()},
        "gmacs": speed, "of_peak": speed["lowbit"] / (peak[chain] * threads) if chain in peak else None,
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    mine = row["gmacs"]["lowbit"]
    share = f"{row['of_peak']:4.0%} of {row['chain']}" if row["of_peak"] is not None else ""
    peers = "".join(f"{name:>12} {v:6.1f} (x{mine / v:4.2f})" for name, v in row["gmacs"].items() if name != "lowbit")
    return f"{row['family']:8}{row['name']:32}{mine:7.1f}  {share:16}{peers}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each way of each case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # read when NumPy is imported, so before the cases are
    from kernels_cases import FAMILIES

    if unknown := set(options.families or ()) - FAMILIES.keys():
        sys.exit(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    peak = peaks()
    print("peaks in registers, GMAC/s of one core: " + "  ".join(f"{n} {v:.1f}" for n, v in peak.items()))
    print(f"{'':40}{'GMAC/s':>7}")
    rows = []
    for family in options.families or FAMILIES:
        for case in FAMILIES[family]():
            if options.only is None or options.only in case.name:
                rows.append(measured(case, options.seconds, options.threads, peak))
                print(line(rows[-1]), flush=True)
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "system": platform.platform(), "peaks": peak}
        options.json.write_text(json.dumps({"machine": machine, "seconds": options.seconds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
