"""Float kernels beside NumPy's sgemm: GMAC/s of linear layers, convolutions and attention, interleaved in one process.

    python benchmarks/float_kernels.py [--json F] [--repeats N]

NumPy multiplies matrices of the same size (for a convolution: of its rows and columns, without the work of making them).
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.kernels import native
from lowbit.runtime.session import Session
from lowbit.types import TensorType

LINEAR = [(1, 1024, 1024), (64, 512, 512), (128, 384, 1536), (128, 1536, 384), (1024, 1024, 1024)]  # rows, n, k
CONV = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (224, 3, 64, 7, 2), (56, 64, 256, 1, 1)]


def random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def linear(rows: int, n: int, k: int) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((rows, k), "float32"))
    return b.finish({"y": b.add("linear", x, b.constant(random(n, k), name="w"), b.constant(random(n), name="b"))})


def conv(size: int, channels: int, out: int, kernel: int, stride: int) -> Graph:
    b, pad = Builder(), kernel // 2
    x = b.input("x", TensorType((1, channels, size, size), "float32"))
    w = b.constant(random(out, channels, kernel, kernel), name="w")
    return b.finish({"y": b.add("conv", x, w, stride=(stride,) * 2, pads=(pad,) * 4, dilation=(1, 1), groups=1)})


def cases() -> list[tuple[str, Graph, tuple[int, int, int]]]:
    """What it is, the graph, and rows, columns and depth of the product that NumPy does."""
    found = [(f"linear {m}x{n}x{k}", linear(m, n, k), (m, n, k)) for m, n, k in LINEAR]
    for size, channels, out, kernel, stride in CONV:
        name = f"conv {kernel}x{kernel}/{stride} {size}x{size}x{channels} -> {out}"
        found.append((name, conv(size, channels, out, kernel, stride), ((size // stride) ** 2, out, channels * kernel * kernel)))
    return found


def seconds_in_kernels(session: Session, x: Any) -> float:
    """The time in the kernel that multiplies: turning the image is not its work."""
    return sum(r.ms for r in session.profile(x, repeats=1).rows if r.macs) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    rows = []
    for name, graph, (m, n, k) in cases():
        session, x = Session(graph, threads=1), random(*(int(d) for d in graph.inputs[0].shape))
        a, b = random(m, k), random(k, n)
        best = [np.inf, np.inf]
        for _ in range(options.repeats):
            best[0] = min(best[0], seconds_in_kernels(session, x))
            start = perf_counter()
            a @ b
            best[1] = min(best[1], perf_counter() - start)
        gmacs = [m * n * k / t / 1e9 for t in best]
        rows.append({"case": name, "gmacs": gmacs[0], "numpy_gmacs": gmacs[1], "ratio": best[0] / best[1]})
        print(f"{name:32} {gmacs[0]:6.1f} GMAC/s, NumPy {gmacs[1]:6.1f}, time ratio {best[0] / best[1]:.2f}")
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "isa": native.best("linear_f32").isa, "threads": 1}
        options.json.write_text(json.dumps({"machine": machine, "repeats": options.repeats, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
