"""Every network of the zoo, simplified, computes what it computed: by each pass alone and by all together."""

from __future__ import annotations

import numpy as np
import pytest

from lowbit.frontends.torch import load_torch
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.passes import PASSES, simplify
from zoo import ZOO, Entry

# what is left where a network used to have it: op -> how many
EXPECTED = {
    "resnet18": {"conv": 20, "batch_norm": 0, "mul": 0},
    "resnet50": {"conv": 53, "batch_norm": 0, "mul": 0},
    "mobilenetv2": {"conv": 52, "clip": 35, "batch_norm": 0, "relu6": 0},
    "unet": {"conv_transpose": 3, "batch_norm": 0},
    "transformer": {"attention": 2, "softmax": 0, "matmul": 0, "layer_norm": 5},
    "gpt": {"attention": 2, "softmax": 0, "trilu": 0, "gelu": 2},
    "vit": {"attention": 2, "softmax": 0, "gelu": 2},
}


@pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO)
def test_simplifying_keeps_the_answer(entry: Entry) -> None:
    model = entry.make()
    graph = load_torch(model, entry.example(), dynamic=entry.dynamic)
    step = graph
    for p in PASSES:
        step = verify(p(step))
    after = verify(simplify(graph))
    assert simplify(after) is after
    assert len(after) < len(graph)
    layers = {n.name for n in after if n.definition.macs is not None}
    assert entry.layer in layers and layers <= {path for path, _ in model.named_modules()}, "layers are called by their module path"
    left = [n.op for n in after]
    for op, count in EXPECTED.get(entry.name, {}).items():
        assert left.count(op) == count, op
    data = {k: v.numpy() for k, v in entry.example(1).items()}
    (want,), (got,) = run(graph, data).values(), run(after, data).values()
    assert np.abs(got - want).max() <= 1e-5 * np.ptp(want)
