"""A table of words that is also the head's weight is stored once, in few bits as in floats."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import lowbit
from zoo.sequence import GPT, RNNLanguageModel


@pytest.mark.parametrize("model", [RNNLanguageModel("lstm", 300, 64, 64, 2, tied=True), GPT(300, 16, 64, 4, 1)], ids=["lstm", "gpt"])
def test_a_tied_table_is_stored_once(model: nn.Module) -> None:
    graph = lowbit.load(model.eval(), inputs=(torch.zeros(2, 16, dtype=torch.int64),))
    data = [np.random.default_rng(i).integers(0, 300, (2, 16)) for i in range(4)]
    small = lowbit.quantize(graph, data, guard=False)
    tables = [str(c.value.type) for c in small.constants.values() if c.value.type.shape == (300, 64)]
    assert tables == ["int8[300, 64]"]
