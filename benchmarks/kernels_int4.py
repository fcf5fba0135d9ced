"""Linear layers with 4-bit weights and with dynamic activations, beside NumPy's sgemm and the same layers of ONNX Runtime and PyTorch.

    python benchmarks/kernels_int4.py [--shapes 128,384,1536 …] [--threads 1] [--json F]

Layers are (rows, inputs, outputs); all take float rows, or int8 rows where the name says "static". Interleaved in one process, the least
of many rounds; GMAC/s, and the ratio to sgemm. NumPy takes as many threads as the process
has cores: pin it. Weights of 1×4096×4096 rotate through eight copies, so that they come from DRAM: for lowbit's, the bytes of weights and
scales a second, and how much that is of what one core reads (needs a C compiler).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from kernels import bandwidth

SHAPES = "1,4096,4096 1,1024,1024 64,512,512 128,384,384 128,384,1536 128,1536,384 128,512,2048 1024,1024,1024"
CACHED = 1 << 22  # weights that a cache might hold
Runs = dict[str, list[Callable[[], object]]]  # copies of a layer, run in turn


def lowbit_layer(k: int, n: int, rows: int, kind: str, threads: int, seed: int) -> Callable[[], object]:
    from lowbit.ir.build import Builder
    from lowbit.runtime.session import Session
    from lowbit.types import TensorType

    rng = np.random.default_rng(seed)
    b = Builder(kind)
    bits, block = ("int4", 32) if "block" in kind else ("int4" if "w4" in kind else "int8", 0)
    top = 7 if bits == "int4" else 127
    w = b.constant(np.clip(np.rint(rng.normal(size=(n, k)) * top / 3), -top, top).astype(np.int8), "w", dtype=bits)
    scale = b.constant(np.full((n, k // block if block else 1), 1e-3, np.float32), "scale")
    if "static" in kind:
        x = b.input("x", TensorType((rows, k), "int8"))
        end = {"x_zero": 3, "y_zero": 0, "lo": -128, "hi": 127, "to": "int8"}
        if block:
            y = b.add("q_linear_blocks", x, w, scale, block=block, y_scale=0.1, bound=255 * 8 * block, **end)
        else:
            y = b.add("q_linear", x, w, b.constant(np.full(n, 1e-4, np.float32), "m"), bound=255 * 128 * k, **end)
        feed: Any = rng.integers(-128, 128, (rows, k)).astype(np.int8)
    else:
        q, s = b.add_node("quantize_rows", b.input("x", TensorType((rows, k), "float32")))
        y = b.add("q_linear_rows", q, s, w, scale, block=block, bound=127 * 128 * k)
        feed = rng.normal(size=(rows, k)).astype(np.float32)
    session = Session(b.finish({"y": y}), threads=threads)
    assert session.backend == "native"
    return lambda: session(feed)


def ort_layer(k: int, n: int, rows: int, kind: str, threads: int, seed: int) -> Callable[[], object]:
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper as nh

    rng = np.random.default_rng(seed)
    if kind == "MatMulNBits":
        weights = [
            nh.from_array(rng.integers(0, 256, (n, k // 32, 16)).astype(np.uint8), "w"),
            nh.from_array(np.full(n * (k // 32), 1e-3, np.float32), "s"),
        ]
        nodes = [
            h.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=4, block_size=32, accuracy_level=4)
        ]
    else:
        weights = [nh.from_array(rng.integers(-127, 128, (k, n)).astype(np.int8), "w"), nh.from_array(np.full(n, 1e-3, np.float32), "s")]
        nodes = [
            h.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
            h.make_node("MatMulInteger", ["q", "w", "xz"], ["acc"]),
            h.make_node("Cast", ["acc"], ["real"], to=T.FLOAT),
            h.make_node("Mul", ["xs", "s"], ["m"]),
            h.make_node("Mul", ["real", "m"], ["y"]),
        ]
    graph = h.make_graph(
        nodes, kind, [h.make_tensor_value_info("x", T.FLOAT, [rows, k])], [h.make_tensor_value_info("y", T.FLOAT, [rows, n])], weights
    )
    opsets = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    model = onnx.ModelProto.SerializeToString(h.make_model(graph, opset_imports=opsets, ir_version=10))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {"x": rng.normal(size=(rows, k)).astype(np.float32)}
    return lambda: session.run(None, feed)


def torch_layer(k: int, n: int, rows: int, threads: int) -> Callable[[], object]:
    import warnings

    import torch

    torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(k, n)), {torch.nn.Linear}, torch.qint8)
    x = torch.randn(rows, k)

    def call() -> object:
        with torch.inference_mode():
            return layer(x)

    return call


def sgemm(k: int, n: int, rows: int, seed: int) -> Callable[[], object]:
    rng = np.random.default_rng(seed)
    x, w, out = rng.normal(size=(rows, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32), np.empty((rows, n), np.float32)
    return lambda: np.matmul(x, w, out=out)


def layers(rows: int, k: int, n: int, threads: int) -> Runs:
    copies = 8 if rows == 1 and k * n > CACHED else 1
    mine = ("w4 static", "w4 static block", "w4 dynamic", "w4 dynamic block", "int8 dynamic")
    runs: Runs = {f"lowbit {kind}": [lowbit_layer(k, n, rows, kind, threads, i) for i in range(copies)] for kind in mine}
    runs["numpy sgemm"] = [sgemm(k, n, rows, i) for i in range(copies)]
    for kind in ("MatMulNBits", "MatMulInteger"):
        runs[f"ort {kind}"] = [ort_layer(k, n, rows, kind, threads, i) for i in range(copies)]
    runs["torch dynamic"] = [torch_layer(k, n, rows, threads) for _ in range(copies)]
    return runs


def measure(runs: Runs, seconds: float) -> dict[str, float]:
    """Seconds of each, the least of rounds that last about `seconds` in all."""
    best = dict.fromkeys(runs, float("inf"))
    end, i = time.perf_counter() + seconds, 0
    while i < 5 or time.perf_counter() < end:
        for name, copies in runs.items():
            start = time.perf_counter()
            copies[i % len(copies)]()
            best[name] = min(best[name], time.perf_counter() - start)
        i += 1
    return best


def weight_bytes(k: int, n: int, layer: str) -> int | None:
    """Bytes of packed weights and their scales; None where they are not known."""
    if not layer.startswith("lowbit"):
        return None
    return k * n // 2 + 4 * n * (k // 32 if "block" in layer else 1) if "w4" in layer else k * n + 4 * n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=SHAPES.split(), help="rows,inputs,outputs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each shape")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    out: list[dict[str, Any]] = []
    reading = bandwidth()
    if reading:
        print(f"one core reads {reading:.1f} GB/s from memory")
    for shape in args.shapes:
        rows, k, n = map(int, shape.split(","))
        best = measure(layers(rows, k, n, args.threads), args.seconds)
        base = best["numpy sgemm"]
        for name, seconds in best.items():
            gmacs = rows * k * n / seconds / 1e9
            size = weight_bytes(k, n, name) if rows == 1 and k * n > CACHED else None
            speed = size / seconds / 1e9 if size else None
            read = f"  {speed:5.1f} GB/s, {speed / reading:4.0%} of reading" if speed and reading else ""
            print(
                f"{rows:5} {k:5} {n:5}  {name:26} {seconds * 1e3:8.3f} ms {gmacs:7.1f} GMAC/s  {base / seconds:5.2f} × sgemm{read}",
                flush=True,
            )
            row = {
                "rows": rows,
                "k": k,
                "n": n,
                "layer": name,
                "threads": args.threads,
                "ms": seconds * 1e3,
                "gmacs": gmacs,
                "gbytes": speed,
            }
            out.append(row)
    if args.json:
        args.json.write_text(json.dumps({"reading": reading, "rows": out}, indent=1))


if __name__ == "__main__":
    main()
