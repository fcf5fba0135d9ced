"""What benchmarks/kernels.py measures: a list of cases for each family. A new family is one more function in FAMILIES.

A case names the ways to compute the same thing. `lowbit` is a session of one integer op, called with arrays that are there; peers are
ONNX Runtime's op and NumPy's float32 product of the same sizes. Weights are random: normal ones are what fresh networks have, Laplace ones
are closer to trained layers, uniform ones the hardest. Activations are normal, the largest of thousands at the end of the range, as
calibration leaves them; uniform ones ("even x") are the hardest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.runtime.session import Session
from lowbit.types import TensorType

Way = Callable[[], object]
METHODS = ("madd16", "maddubs_w", "nibbles", "plain", "maddubs_u8", "maddubs_s8", "gemv", "gemv_u8")  # csrc/linear/avx2/weights_avx2.h


@dataclass(frozen=True)
class Case:
    """`make(threads)` gives the ways by name; "lowbit" is one. `chain(session)` names the chain of kernels_peak.c that it consists of."""

    family: str
    name: str
    macs: int
    make: Callable[[int], dict[str, Way]]
    chain: Callable[[int], str] = lambda _threads: ""


def weights(n: int, k: int, kind: str) -> NDArray[np.int8]:
    rng = np.random.default_rng(n * k)
    draw = {"normal": rng.standard_normal, "laplace": lambda size: rng.laplace(size=size), "uniform": lambda size: rng.uniform(-1, 1, size)}
    w = draw[kind]((n, k))
    return np.rint(w / np.abs(w).max(axis=1, keepdims=True) * 127).astype(np.int8)


def activations(*shape: int, even: bool = False) -> NDArray[np.int8]:
    rng = np.random.default_rng(1)
    if even:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return np.clip(np.rint(rng.normal(COMMON["x_zero"], 30, shape)), -128, 127).astype(np.int8)


COMMON: dict[str, Any] = {"x_zero": 3, "y_zero": 1, "lo": -128, "hi": 127, "to": "int8"}


def session_way(graph: Graph, x: NDArray[Any], threads: int) -> Way:
    session = Session(graph, threads=threads)
    session(x)
    if session.backend != "native":
        raise SystemExit(f"{graph.name}: the session is {session.backend}, not native")
    return partial(session, x)


def ort_way(node: Any, constants: dict[str, NDArray[Any]], x: NDArray[Any], threads: int) -> Way | None:
    """ONNX Runtime's op on an input "x"; None where it is not installed."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    kinds = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
    inputs = [helper.make_tensor_value_info("x", kinds[x.dtype.name], x.shape)]
    outputs = [helper.make_tensor_value_info("y", kinds[x.dtype.name], None)]
    given = [numpy_helper.from_array(v, name) for name, v in constants.items()]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs, given), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return partial(session.run, None, {"x": x})


def peers_of_linear(m: int, k: int, w: NDArray[np.int8], threads: int) -> dict[str, Way]:
    from onnx import helper

    n = len(w)
    x = activations(m, k).view(np.uint8)
    b = np.ascontiguousarray(w.T)
    one, scale, zero = np.float32(0.02), np.full(n, 0.01, np.float32), np.zeros(n, np.int8)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    values = [np.array(one), np.array(131, np.uint8), b, scale, zero, np.array(one), np.array(128, np.uint8)]
    way = ort_way(helper.make_node("QLinearMatMul", names, ["y"]), dict(zip(names[1:], values, strict=True)), x, threads)
    a32, b32, out = activations(m, k).astype(np.float32), b.astype(np.float32), np.empty((m, n), np.float32)
    return ({"ort u8s8": way} if way else {}) | {"numpy f32": partial(np.matmul, a32, b32, out=out)}


def linear(m: int, n: int, k: int, kind: str, even: bool = False) -> Case:
    def graph() -> Graph:
        b = Builder(f"linear {m}x{n}x{k}")
        x = b.input("x", TensorType((m, k), "int8"))
        w = b.constant(weights(n, k, kind), "w")
        multiplier = b.constant(np.full(n, 1e-4, np.float32), "m")
        return b.finish({"y": b.add("q_linear", x, w, multiplier, b.constant(np.zeros(n, np.int32), "b"), **COMMON, bound=255 * 128 * k)})

    def make(threads: int) -> dict[str, Way]:
        mine = session_way(graph(), activations(m, k, even=even), threads)
        return {"lowbit": mine} | peers_of_linear(m, k, weights(n, k, kind), threads)

    def chain(_threads: int) -> str:
        from lowbit.kernels import native
        from lowbit.plan.kernels.products import DOT4, activations_of, pack

        isa = native.best("linear_s8").isa
        if isa != "avx2":
            return "dot4" if isa in DOT4 else ""
        method = METHODS[int(pack(isa, weights(n, k, kind)[None], m, activations_of(graph().nodes[0]))[:4].view(np.int32)[0])]
        return "madd16" if method == "maddubs_s8" and even else method  # Strassen then, by madd16

    return Case("linear", f"{m}x{n}x{k} {kind}{', even x' if even else ''}", m * n * k, make, chain)


def conv(size: int, in_c: int, out_c: int, kernel: int, stride: int, kind: str) -> Case:
    pad, out = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1
    w = weights(out_c, in_c * kernel * kernel, kind).reshape(out_c, in_c, kernel, kernel)
    window = {"stride": (stride, stride), "pads": (pad,) * 4, "dilation": (1, 1), "groups": 1}

    def graph() -> Graph:
        b = Builder("conv")
        x = b.input("x", TensorType((1, size, size, in_c), "int8"))
        wv, m = b.constant(w, "w"), b.constant(np.full(out_c, 1e-4, np.float32), "m")
        bias = b.constant(np.zeros(out_c, np.int32), "b")
        return b.finish({"y": b.add("q_conv_nhwc", x, wv, m, bias, **window, **COMMON, bound=255 * 128 * w[0].size)})

    def make(threads: int) -> dict[str, Way]:
        from onnx import helper

        x = activations(1, in_c, size, size).view(np.uint8)
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
        values = [np.array(np.float32(0.02)), np.array(131, np.uint8), w, np.full(out_c, 0.01, np.float32), np.zeros(out_c, np.int8)]
        values += [np.array(np.float32(0.02)), np.array(128, np.uint8)]
        node = helper.make_node("QLinearConv", names, ["y"], pads=[pad] * 4, strides=[stride] * 2)
        way = ort_way(node, dict(zip(names[1:], values, strict=True)), x, threads)
        return {"lowbit": session_way(graph(), activations(1, size, size, in_c), threads)} | ({"ort u8s8": way} if way else {})

    name = f"{kernel}x{kernel}/{stride} {size}²x{in_c}->{out_c} {kind}"
    return Case("conv", name, out * out * out_c * w[0].size, make)


def linears() -> list[Case]:
    sizes = [(1, 1024, 1024), (1, 512, 784), (64, 512, 512), (128, 1536, 384), (128, 384, 1536), (3136, 64, 576), (196, 256, 2304)]
    small = [(49, 512, 4608), (3136, 256, 64), (196, 1024, 256), (784, 144, 24)]
    return [linear(*s, kind) for s in sizes + small for kind in ("normal", "laplace")] + [
        linear(64, 512, 512, "uniform"),
        linear(64, 512, 512, "uniform", even=True),
    ]


def convs() -> list[Case]:
    shapes = [
        (56, 64, 64, 3, 1),
        (28, 128, 128, 3, 1),
        (14, 256, 256, 3, 1),
        (7, 512, 512, 3, 1),
        (56, 128, 128, 3, 2),
        (56, 64, 256, 1, 1),
    ]
    return [conv(*s, "normal") for s in shapes]


FAMILIES: dict[str, Callable[[], list[Case]]] = {"linear": linears, "conv": convs}
