"""Streams values through every observer: seconds, values per second and peak memory; then 4 merged workers against one.

    python benchmarks/observers.py [--values 1e9] [--methods minmax,mse] [--workers 4]

The data is one block of 2^22 normal values, shown again and again, each time scaled by another power of two (so ends and widths move).
Each method runs in a process of its own, whose peak resident size is measured. Writes JSON to stdout.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np

from lowbit.calibration import METHODS, Observer, make_observer

BLOCK = 1 << 22
REFERENCE_DTYPES = ("int8", "uint8", "int4")


def blocks(values: int) -> list[int]:
    return [BLOCK] * (values // BLOCK) + ([values % BLOCK] if values % BLOCK else [])


def stream(observer: Observer, sizes: list[int], first: int) -> float:
    """Seconds spent in `observe`; block i is the same whichever observer sees it."""
    base = np.random.default_rng(0).standard_normal(BLOCK, np.float32)
    spent, x = 0.0, np.empty_like(base)
    for i, size in enumerate(sizes, first):
        np.multiply(base, np.float32(2.0 ** (i * 7 % 5 - 2)), out=x)
        start = time.perf_counter()
        observer.observe(x[:size])
        spent += time.perf_counter() - start
    return spent


def run(method: str, values: int, workers: int) -> dict[str, object]:
    sizes = blocks(values)
    one = make_observer(method)
    seconds = stream(one, sizes, 0)
    start = time.perf_counter()
    params = [one.params(d).to_dict() for d in REFERENCE_DTYPES]
    choosing = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row: dict[str, object] = {"method": method, "values": one.count, "seconds": round(seconds, 2)}
    row |= {"million_per_second": round(one.count / seconds / 1e6), "params_seconds": round(choosing, 3), "peak_mb": peak}
    if workers > 1:
        cuts = [len(sizes) * w // workers for w in range(workers + 1)]
        merged: Observer = make_observer(method)
        for a, b in pairwise(cuts):
            part = make_observer(method)
            stream(part, sizes[a:b], a)
            merged = merged + part
        row["merged_is_one"] = merged == one and [merged.params(d).to_dict() for d in REFERENCE_DTYPES] == params
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=float, default=1e9)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--workers", type=int, default=0, help="also merge so many observers of parts, and compare (takes as long again)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(args.one, int(args.values), args.workers)))
        return
    rows = []
    for method in args.methods.split(","):
        command = [sys.executable, __file__, "--one", method, "--values", str(args.values), "--workers", str(args.workers)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(rows[-1], file=sys.stderr)
    idle = int(subprocess.run([sys.executable, "-c", IDLE], check=True, capture_output=True, text=True).stdout)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__, "threads": 1, "repeats": 1}
    print(json.dumps({**machine, "import_mb": idle, "rows": rows}, indent=1))


IDLE = "import resource, lowbit.calibration; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"

if __name__ == "__main__":
    main()
