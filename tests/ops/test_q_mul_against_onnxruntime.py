"""Products of integers are ONNX Runtime's, on every pair of bytes: by the op, by kernels, and from a file of brackets to the output."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.ops.op import get_op
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

Three = tuple[float, float, float]
Zeros = tuple[int, int, int]
ISAS = [isa for isa in native.isas() if all(k.available for k in native.kernels() if k.isa == isa)]
CODES = {"int8": np.arange(-128, 128, dtype=np.int8), "uint8": np.arange(256, dtype=np.uint8)}
GATE: Three = (8.889662742614746, 2**-8, 8.889662742614746)  # p2o.Mul.170 of PP-OCRv4's detector: a value, a sigmoid, the value's grid


def pairs(dtype: str) -> tuple[Array, Array]:
    a, b = np.meshgrid(CODES[dtype], CODES[dtype])
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def ort(scales: Three, zeros: Zeros, dtype: str, a: Array, b: Array) -> Array:
    """The codes of com.microsoft.QLinearMul."""
    kind = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}[dtype]
    node = helper.make_node("QLinearMul", ["A", "sa", "za", "B", "sb", "zb", "sc", "zc"], ["C"], domain="com.microsoft")
    parts = [helper.make_tensor(f"s{n}", TensorProto.FLOAT, [], [s]) for n, s in zip("abc", scales, strict=True)]
    parts += [helper.make_tensor(f"z{n}", kind, [], [z]) for n, z in zip("abc", zeros, strict=True)]
    tensors = [helper.make_tensor_value_info(n, kind, [None, None]) for n in "ABC"]
    model = model_of([node], tensors[:2], tensors[2:], parts)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"A": a, "B": b})[0])


def model_of(nodes: list[onnx.NodeProto], inputs: list, outputs: list, parts: list) -> onnx.ModelProto:  # type: ignore[type-arg]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "mul", inputs, outputs, parts), opset_imports=opsets, ir_version=9)


def attrs_of(scales: Three, zeros: Zeros) -> dict[str, int | float | str]:
    sa, sb, sc = (np.float32(s) for s in scales)
    zero_points = dict(zip(("x_zero", "y_zero", "z_zero"), zeros, strict=True))
    return {**zero_points, "multiplier": float((sa * sb) / sc), "lo": -128, "hi": 127, "to": "int8"}


def drawn(n: int, least: int) -> list[tuple[Three, Zeros]]:
    """Scales of any size and zero points of int8 (least -128) or uint8 (0); every third result is on the left operand's grid."""
    rng, found = np.random.default_rng(7), list[tuple[Three, Zeros]]()
    for i in range(n):
        a, b, c = (float(np.float32(s)) for s in np.exp(rng.uniform(-6, 1, 3)))
        x, y, z = (int(v) for v in rng.integers(least, least + 256, 3))
        found.append(((a, b, c) if i % 3 else (a, 2.0 ** -int(rng.integers(1, 9)), a), (x, y, z)))
    return found


def exactly(scales: Three, zeros: Zeros, a: Array, b: Array) -> Array:
    """The product of the reals that the codes stand for, in steps of the result, plus zero point, rounded half to even: no float in it."""
    sa, sb, sc = (Fraction(float(np.float32(s))) for s in scales)
    products = (a.astype(int) - zeros[0]) * (b.astype(int) - zeros[1])
    codes = {int(p): round(int(p) * sa * sb / sc + zeros[2]) for p in np.unique(products)}  # Python's round is half to even
    return np.clip([codes[p] for p in products.ravel().tolist()], -128, 127).reshape(products.shape)


@pytest.mark.parametrize(("scales", "zeros"), [*((GATE, (z, -128, z)) for z in (-21, 0, 7, 64)), *drawn(12, -128)])
def test_a_product_has_the_bytes_of_qlinear_mul(scales: Three, zeros: Zeros) -> None:
    a, b = pairs("int8")
    assert np.array_equal(get_op("q_mul").run([a, b], attrs_of(scales, zeros))[0], ort(scales, zeros, "int8", a, b))


@pytest.mark.parametrize("isa", ISAS)
def test_kernels_have_the_bytes_of_qlinear_mul_repeated_or_not(isa: str) -> None:
    a, b = pairs("int8")
    for scales, zeros in [(GATE, (-21, -128, -21)), *drawn(3, -128)]:
        want = ort(scales, zeros, "int8", a, b)
        for left, right in [(a, b), (a[:1], b), (a[:1], b[:, :1]), (a[:, 3:4], b), (a[:, :43], b[:, :43])]:
            g = Builder()
            x, y = (g.input(n, TensorType(v.shape, "int8")) for n, v in (("x", left), ("y", right)))
            graph = g.finish({"z": g.add("q_mul", x, y, **attrs_of(scales, zeros))})
            feed = {"x": left, "y": right}
            got = Session(graph, isa=isa).run(feed)["z"]
            assert np.array_equal(got, run(graph, feed)["z"])
            if left.shape[1] != 1:
                assert np.array_equal(got, want[:, : got.shape[1]])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_file_of_brackets_around_a_product_gives_the_bytes_of_onnx_runtime(dtype: str) -> None:
    """Which makes one QLinearMul of them. uint8 is int8 inside: products of a gate are exact either way."""
    a, b = pairs(dtype)
    low = int(CODES[dtype][0])
    for scales, zeros in [
        (GATE, (low + 107, low, low + 107)),
        (GATE, (low + 90, low, low + 33)),
        *(drawn(6, -128) if dtype == "int8" else []),
    ]:
        kind = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}[dtype]
        parts = [helper.make_tensor(f"s{n}", TensorProto.FLOAT, [], [s]) for n, s in zip("abc", scales, strict=True)]
        parts += [helper.make_tensor(f"z{n}", kind, [], [z]) for n, z in zip("abc", zeros, strict=True)]
        nodes = [helper.make_node("DequantizeLinear", [n.upper(), f"s{n}", f"z{n}"], [f"real_{n}"]) for n in "ab"]
        nodes += [
            helper.make_node("Mul", ["real_a", "real_b"], ["real_c"]),
            helper.make_node("QuantizeLinear", ["real_c", "sc", "zc"], ["C"]),
        ]
        tensors = [helper.make_tensor_value_info(n, kind, [256, 256]) for n in "ABC"]
        model = model_of(nodes, tensors[:2], tensors[2:], parts)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        want = np.asarray(session.run(None, {"A": a, "B": b})[0])
        got = lowbit.compile(lowbit.load(model)).run({"A": a, "B": b})["C"]
        assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("zero", [-21, 0, 7, 64])
def test_a_product_with_a_gate_is_the_exact_one(zero: int) -> None:
    a, b = pairs("int8")
    zeros = (zero, -128, zero)
    assert np.array_equal(get_op("q_mul").run([a, b], attrs_of(GATE, zeros))[0], exactly(GATE, zeros, a, b))


def test_a_product_of_any_scales_is_the_exact_one_but_for_the_last_bit_of_a_float() -> None:
    a, b = pairs("int8")
    differ, cases = 0, [case for i, case in enumerate(drawn(12, -128)) if i % 3][:4]
    for scales, zeros in cases:
        got, exact = np.asarray(get_op("q_mul").run([a, b], attrs_of(scales, zeros))[0]).astype(int), exactly(scales, zeros, a, b)
        assert np.abs(got - exact).max() <= 1
        differ += int((got != exact).sum())
    assert differ <= 1e-4 * len(cases) * a.size
