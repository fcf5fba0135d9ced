"""Products of integers against exact rational numbers, and against ONNX Runtime's QLinearMul, on every pair of bytes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from lowbit.ops.op import get_op
from lowbit.types import Array

EVERY = np.arange(-128, 128, dtype=np.int8)
A, B = (x.ravel() for x in np.meshgrid(EVERY, EVERY))


def ours(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> Array:
    sa, sb, sc = (np.float32(s) for s in scales)
    attrs = {"x_zero": zeros[0], "y_zero": zeros[1], "z_zero": zeros[2], "multiplier": float((sa * sb) / sc)}
    return np.asarray(get_op("q_mul").run([A, B], {**attrs, "lo": -128, "hi": 127, "to": "int8"})[0]).astype(int)


def qlinear_mul(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> Array:
    node = helper.make_node("QLinearMul", ["A", "sa", "za", "B", "sb", "zb", "sc", "zc"], ["C"], domain="com.microsoft")
    parts = [helper.make_tensor(f"s{n}", TensorProto.FLOAT, [], [s]) for n, s in zip("abc", scales, strict=True)]
    parts += [helper.make_tensor(f"z{n}", TensorProto.INT8, [], [z]) for n, z in zip("abc", zeros, strict=True)]
    tensors = [helper.make_tensor_value_info(n, TensorProto.INT8, ["n"]) for n in "ABC"]
    graph = helper.make_graph([node], "mul", tensors[:2], tensors[2:], parts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"A": A, "B": B})[0]).astype(int)


def exactly(scales: tuple[float, float, float], zeros: tuple[int, int, int], *, zero_inside: bool) -> tuple[Array, Array]:
    """The product of the reals that the bytes stand for, in steps of the result, rounded half to even: no float anywhere. And its ties.

    zero_inside: the zero point is added before rounding, else behind it, as ONNX defines QuantizeLinear. Ties alone can tell.
    """
    step = Fraction(float(np.float32(scales[0]))) * Fraction(float(np.float32(scales[1]))) / Fraction(float(np.float32(scales[2])))
    products = (A.astype(int) - zeros[0]) * (B.astype(int) - zeros[1])
    inside, behind = (zeros[2], 0) if zero_inside else (0, zeros[2])
    codes = {int(p): round(int(p) * step + inside) + behind for p in np.unique(products)}  # Python's round is half to even
    ties = {int(p): (int(p) * step).denominator == 2 for p in codes}
    return np.clip([codes[p] for p in products.tolist()], -128, 127), np.array([ties[p] for p in products.tolist()])


@pytest.mark.parametrize("zero", [-21, 0, 7, 64])
def test_a_product_with_a_gate_is_the_exact_one_and_ties_are_where_onnx_runtime_rounds_otherwise(zero: int) -> None:
    """A gate (sigmoid, 1/256) times a value on the grid of the result: p2o.Mul.170 of PP-OCRv4's detector, whose zero point is -21."""
    scales, zeros = (8.889662742614746, 2**-8, 8.889662742614746), (zero, -128, zero)
    exact, ties = exactly(scales, zeros, zero_inside=False)
    assert np.array_equal(ours(scales, zeros), exact)
    other, _ = exactly(scales, zeros, zero_inside=True)
    theirs = qlinear_mul(scales, zeros)
    assert np.array_equal(theirs, other)
    differ = theirs != exact
    assert np.array_equal(differ, ties & (exact != other)) and np.abs(theirs - exact).max() <= 1
    assert differ.any() == bool(zero % 2)  # an even zero point leaves even numbers even: then both are the same


def test_a_product_of_any_scales_is_the_exact_one_but_for_the_last_bit_of_a_float() -> None:
    rng, differ, of = np.random.default_rng(0), 0, 0
    for _ in range(4):
        a, b, c = (float(np.float32(s)) for s in rng.uniform(0.003, 0.05, 3))
        scales, zeros = (a, b, c), tuple(int(z) for z in rng.integers(-128, 128, 3))
        assert len(zeros) == 3
        exact, _ = exactly(scales, zeros, zero_inside=False)
        got = ours(scales, zeros)
        assert np.abs(got - exact).max() <= 1
        differ, of = differ + int((got != exact).sum()), of + got.size
    assert differ <= 1e-4 * of
