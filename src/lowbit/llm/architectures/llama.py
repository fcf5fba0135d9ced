"""Llama 1 to 3, SmolLM: the plain decoder. In GGUF, Mistral 7B is one as well."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    return read_config(w, neighbours=True, pattern=1)
