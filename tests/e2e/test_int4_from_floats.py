"""What four bits cost weights that were never rounded before: the two language models of examples/. Fetches Penn Treebank once."""

from __future__ import annotations

import pytest
import torch

import lowbit
from examples.common.networks import networks
from examples.results import float_graph, runner

BATCHES = 4  # of the test set; docs/llm.md has the whole of it


@pytest.mark.parametrize("name", ["transformer_ptb", "lstm_ptb"])
def test_blocks_of_32_cost_three_percent_of_perplexity_at_most(name: str) -> None:
    torch.set_num_threads(1)
    (net,) = networks([name])
    graph = float_graph(net)
    small = lowbit.quantize(graph, recipe="int4-weights")
    assert sum(n.op == "dequantize_linear" for n in small.nodes) > 3  # it is no float network
    score, rounded = (net.score(runner(g)[1], net.test()[:BATCHES]) for g in (graph, small))
    assert rounded != score and rounded < 1.03 * score
