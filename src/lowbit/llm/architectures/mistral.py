"""Mistral: Llama with a window over all layers (first versions), and heads that may be wider than width / heads."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    return read_config(w, neighbours=True, pattern=1)
