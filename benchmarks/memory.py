"""Memory that a session takes beside the graph it was given: its packed weights and its arena, and little more; and the time to compile it.

    python benchmarks/memory.py small.lowbit... [--threads 1] [--json F]

Each graph is loaded in a process of its own; "peak" is how far the process's resident memory rises while the session is compiled and runs
once. Goals: at most 20 MB beyond packed weights and arena, and ResNet-50 compiled in 3 s. Linux only (the kernel's own high-water mark).
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import lowbit
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.runtime.program import Native
from lowbit.runtime.session import Session

MB = 1 << 20


def resident(field: str) -> int:
    """Bytes, of /proc/self/status: VmRSS is now, VmHWM was the most."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def measured(graph: Graph, threads: int) -> dict[str, float]:
    """Bytes: how far memory rose, what packed weights and arena account for, and the rest; and seconds until the session had run once."""
    rng = np.random.default_rng(0)
    shapes = {v.name: (tuple(int(d) for d in v.shape), v.type.dtype.numpy) for v in graph.inputs}
    inputs = {n: rng.integers(0, 2, s).astype(d) for n, (s, d) in shapes.items()}
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    start = time.perf_counter()
    session = Session(lower(graph).graph, threads=threads)
    session.run(inputs)
    seconds = time.perf_counter() - start
    peak = resident("VmHWM") - before
    plans = [p.plan for program in session._programs.values() for p in program.parts if isinstance(p, Native)]
    packed = sum(p.constant_bytes for p in plans)
    arena = sum(p.arena_bytes + threads * p.scratch_bytes for p in plans)
    return {"peak": peak, "packed": packed, "arena": arena, "beyond": peak - packed - arena, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in the process of its own
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measured(lowbit.load(given.files[0]), given.threads)))
        return
    rows: list[dict[str, Any]] = []
    for file in given.files:
        command = [sys.executable, __file__, str(file), "--threads", str(given.threads), "--here"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append({"file": file.name, "threads": given.threads, **found})
        sizes = ", ".join(f"{what} {size / MB:.1f} MB" for what, size in found.items() if what != "seconds")
        print(f"{file.name}: {sizes}; compiled and run once in {found['seconds']:.2f} s")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
