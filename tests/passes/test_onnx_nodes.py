"""onnx's own node tests as graphs for the passes: every op with its odd shapes, types and attributes goes through unharmed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_nodes
import pytest

from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.passes import PASSES, simplify

NAMES = sorted(set(onnx_nodes.names()) - set(onnx_nodes.unsupported()))


@pytest.mark.parametrize("name", NAMES)
def test_simplifying_a_node_test_keeps_its_answer(name: str) -> None:
    model = onnx.load(onnx_nodes.FOLDER / name / "model.onnx")
    inputs = onnx_nodes.Tensors(onnx_nodes.FOLDER / name / "test_data_set_0", "input")
    graph = onnx_nodes.load(model, inputs)
    step = graph
    for p in PASSES:
        step = verify(p(step))
    after = verify(simplify(graph))
    assert simplify(after) is after
    names = {v.name for v in graph.inputs}
    data = {v.name: inputs[i] for i, v in enumerate(model.graph.input) if v.name in names}
    got = run(after, data)
    for key, want in run(graph, data).items():
        assert got[key].dtype == want.dtype and got[key].shape == want.shape
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got[key], want)
        elif want.dtype.itemsize >= 4:
            np.testing.assert_allclose(got[key], want, rtol=1e-5, atol=1e-5)
        else:  # float16 and smaller: one op rounds once where several round each time
            np.testing.assert_allclose(got[key].astype(np.float32), want.astype(np.float32), rtol=1e-2, atol=1e-2)
