"""What a call of a session costs beside its kernels: an empty graph and a linear layer 1×16, in C and from Python, in microseconds.

    python benchmarks/session.py [--threads 1] [--json F]

"C" is the compiled plan on addresses, which Python's own call is part of; "Python" is `session(x)`, and with out= into an array that is
there already; "run" is `session.run({name: x})`. The least of many repeats. Goals: 5 µs in C, 15 µs from Python.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.runtime.session import Session
from lowbit.types import TensorType


def empty() -> Graph:
    b = Builder("empty")
    x = b.input("x", TensorType((1, 16), "float32"))
    return b.finish({"y": x})


def linear() -> Graph:
    """float32 in and out, the linear layer in int8."""
    b = Builder("linear")
    x = b.input("x", TensorType((1, 16), "float32"))
    w = b.constant(np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16), "w")
    graph = b.finish({"y": b.add("linear", x, w)})
    return lowbit.quantize(graph, [{"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)}], guard=False)


def least(call: Callable[[], object], repeats: int = 4000) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter_ns()
        call()
        best = min(best, time.perf_counter_ns() - start)
    return best / 1e3


def plan_alone(session: Session, x: Any, out: Any) -> float:
    assert session._direct is not None
    run, inputs, outputs = session._direct._run, (x.ctypes.data,), (out.ctypes.data,)
    return least(lambda: run(inputs, outputs))


def measure(graph: Graph, threads: int) -> dict[str, float]:
    session: Session = lowbit.compile(graph, threads=threads)
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    out = np.empty_like(session(x))
    inputs, given = {"x": x}, {"y": out}
    return {
        **({"C": plan_alone(session, x, out)} if session._direct is not None else {}),
        "Python": least(lambda: session(x)),
        "Python, out=": least(lambda: session(x, out=out)),
        "run": least(lambda: session.run(inputs)),
        "run, out=": least(lambda: session.run(inputs, out=given)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: dict[str, Any] = {"empty": measure(empty(), args.threads), "linear 1x16": measure(linear(), args.threads)}
    for name, row in rows.items():
        print(f"{name:12} " + "   ".join(f"{k} {v:.2f}" for k, v in row.items()) + "   µs")
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
