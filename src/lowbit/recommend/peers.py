"""The same operations in NumPy, torch and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lowbit.types import Array

if TYPE_CHECKING:
    from lowbit.recommend.ops import Way


def peers(op: str, n: int, engines: Sequence[str]) -> Iterator[Way]:
    """What the engines have for an operation: float32, and uint8 where quantizing is the operation."""
    known: dict[str, Callable[[str, int], Iterator[Way]]] = {"numpy": in_numpy, "torch": in_torch, "ort": in_ort}
    for engine in engines:
        yield from known[engine](op, n)


def operands(op: str, n: int) -> tuple[Array, ...]:
    """What lowbit's ways compute with, in float."""
    from lowbit.recommend.ops import ROWS, numbers

    if op in ("quantize", "dequantize"):
        columns = 64 if n % 64 == 0 else 1
        return (numbers(n // columns, columns),)
    if op == "matmul":
        return numbers(n, n), numbers(n, n) + 1
    return (numbers(ROWS, n), numbers(n, n)) if op == "linear" else (numbers(1, n, 32, 32), numbers(n, n, 3, 3))


def way(engine: str, dtype: str, nbytes: int, run: Callable[[], object], peak: int | None = None) -> Way:
    from lowbit.recommend.ops import Way

    quantized = dtype != "float32"
    return Way(engine, dtype, "asymmetric" if quantized else "none", "tensor" if quantized else "none", nbytes, run, peak)


SCALE, ZERO = np.float32(0.03), 128


def in_numpy(op: str, n: int) -> Iterator[Way]:
    xs = operands(op, n)
    if op == "quantize":
        x = xs[0]
        yield way("numpy", "uint8", x.nbytes, lambda: np.clip(np.rint(x / SCALE) + ZERO, 0, 255).astype(np.uint8))
    elif op == "dequantize":
        q = np.clip(np.rint(xs[0] / SCALE) + ZERO, 0, 255).astype(np.uint8)
        yield way("numpy", "uint8", q.nbytes, lambda: (q.astype(np.float32) - ZERO) * SCALE)
    elif op in ("matmul", "linear"):
        a, b = xs
        right = b if op == "matmul" else b.T
        yield way("numpy", "float32", a.nbytes + b.nbytes, lambda: a @ right)


def in_torch(op: str, n: int) -> Iterator[Way]:
    import torch

    threads = torch.get_num_threads()
    xs = [torch.from_numpy(x) for x in operands(op, n)]
    sizes = sum(x.numel() * 4 for x in xs)

    def alone(f: Callable[[], Any]) -> Callable[[], Any]:
        """On one thread, as lowbit's sessions here."""

        def run() -> Any:
            torch.set_num_threads(1)
            try:
                with torch.no_grad():
                    return f()
            finally:
                torch.set_num_threads(threads)

        return run

    def peak(f: Callable[[], Any]) -> int:
        """Bytes of its result: torch's own allocator is not seen."""
        y = f()
        return int(y.numel()) * int(y.element_size())

    runs: dict[str, Callable[[], Any]] = {
        "quantize": partial(torch.fake_quantize_per_tensor_affine, xs[0], float(SCALE), ZERO, 0, 255),
        "matmul": lambda: xs[0] @ xs[1],
        "linear": lambda: torch.nn.functional.linear(xs[0], xs[1]),
        "conv": lambda: torch.nn.functional.conv2d(xs[0], xs[1]),
    }
    if op in runs:
        kind = "uint8 (fake)" if op == "quantize" else "float32"
        yield way("torch", kind, sizes, alone(runs[op]), peak(runs[op]))


def in_ort(op: str, n: int) -> Iterator[Way]:
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    xs = operands(op, n)
    feed = xs[0] if op != "dequantize" else np.clip(np.rint(xs[0] / SCALE) + ZERO, 0, 255).astype(np.uint8)
    right: Array | None = None if len(xs) == 1 else np.ascontiguousarray(xs[1].T if op == "linear" else xs[1])
    parameters = [("s", np.asarray(SCALE)), ("z", np.asarray(ZERO, np.uint8))]
    constants = parameters if right is None else [("w", right)]
    name = {"quantize": "QuantizeLinear", "dequantize": "DequantizeLinear", "conv": "Conv"}.get(op, "MatMul")
    kind = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}
    made = helper.make_graph(
        [helper.make_node(name, ["x", *(c for c, _ in constants)], ["y"])],
        "op",
        [helper.make_tensor_value_info("x", kind[str(feed.dtype)], feed.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8 if op == "quantize" else TensorProto.FLOAT, None)],
        [numpy_helper.from_array(c, label) for label, c in constants],
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    nbytes = feed.nbytes + (0 if right is None else right.nbytes)
    out = session.run(None, {"x": feed})[0].nbytes  # its allocator is not seen: its result
    yield way("ort", "uint8" if right is None else "float32", nbytes, partial(session.run, None, {"x": feed}), out)
