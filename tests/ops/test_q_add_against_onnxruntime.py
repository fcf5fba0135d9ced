"""Sums of integers against ONNX Runtime's QLinearAdd, on every pair of bytes."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from lowbit.ops.op import get_op
from lowbit.types import Array

SIDES = tuple[float, int]


def qlinear_add(a: Array, b: Array, sides: tuple[SIDES, SIDES, SIDES]) -> Array:
    kind = TensorProto.INT8 if a.dtype == np.int8 else TensorProto.UINT8
    names = ("a", "b", "c")
    node = helper.make_node("QLinearAdd", ["A", "sa", "za", "B", "sb", "zb", "sc", "zc"], ["C"], domain="com.microsoft")
    scales = [helper.make_tensor(f"s{n}", TensorProto.FLOAT, [], [s]) for n, (s, _) in zip(names, sides, strict=True)]
    zeros = [helper.make_tensor(f"z{n}", kind, [], [z]) for n, (_, z) in zip(names, sides, strict=True)]
    tensors = [helper.make_tensor_value_info(n, kind, ["n"]) for n in "ABC"]
    graph = helper.make_graph([node], "add", tensors[:2], tensors[2:], scales + zeros)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"A": a, "B": b})[0])


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("scales", [(0.02, 0.02, 0.04), (0.01, 0.02, 0.04), (0.031, 0.0177, 0.0411)])
def test_every_sum_of_two_bytes_is_that_of_qlinear_add_but_for_the_last_bit_of_a_float(
    kind: str, scales: tuple[float, float, float]
) -> None:
    """The first two triples of scales make every other sum a tie: rounding before adding an odd zero point would fail a tenth of them."""
    info = np.iinfo(kind)
    every = np.arange(info.min, info.max + 1, dtype=kind)
    a, b = (x.ravel() for x in np.meshgrid(every, every))
    rng, differ = np.random.default_rng(1), 0
    for _ in range(4):
        za, zb, zc = (int(z) for z in rng.integers(info.min, info.max + 1, 3))
        sa, sb, sc = (np.float32(s) for s in scales)
        attrs = {
            "x_zero": za,
            "y_zero": zb,
            "z_zero": zc,
            "mx": float(sa / sc),
            "my": float(sb / sc),
            "lo": info.min,
            "hi": info.max,
            "to": kind,
        }
        (ours,) = get_op("q_add").run([a, b], attrs)
        theirs = qlinear_add(a, b, ((float(sa), za), (float(sb), zb), (float(sc), zc)))
        error = np.abs(ours.astype(int) - theirs.astype(int))
        assert error.max() <= 1
        differ += int((error != 0).sum())
    assert differ <= 1e-5 * 4 * a.size
