"""Phi 3: Llama whose queries, keys and values are rows of one matrix, as are gate and up of the feed-forward (split without a copy)."""

from lowbit.errors import UnsupportedOp
from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    if "rope_factors_long.weight" in w:
        raise UnsupportedOp("rotations with factors for long texts are not known", where=w.name, hint="the 4k version of the network")
    return read_config(w, pattern=1)
