"""Gemma 2: soft caps, norms before and after each half of a block, every second layer sees all, embeddings times √width."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    return read_config(w, pattern=2, activation="gelu", gemma=True)
