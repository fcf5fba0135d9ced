"""Qwen 2 and 2.5: biases on queries, keys and values (the file has them). Windows only where `layer_types` says so."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    return read_config(w, pattern=1 if isinstance(w.settings.get("layer_types"), list) else 0)
