"""Qwen 3: norms on each head's queries and keys (the file has them), no biases."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    return read_config(w, pattern=1 if isinstance(w.settings.get("layer_types"), list) else 0)
