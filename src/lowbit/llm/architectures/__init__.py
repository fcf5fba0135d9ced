"""Architectures by name. Each is one file with `config`; the layers that they are made of are in layers.py."""

from __future__ import annotations

from lowbit.errors import UnsupportedOp
from lowbit.llm.architectures import gemma2, gemma3, llama, mistral, phi3, qwen2, qwen3
from lowbit.llm.architectures.config import Config
from lowbit.llm.weights import Weights

ARCHITECTURES = {m.__name__.rpartition(".")[2]: m for m in (llama, mistral, qwen2, qwen3, gemma2, gemma3, phi3)}


def config_of(weights: Weights) -> Config:
    """What the network's architecture says about it."""
    found = ARCHITECTURES.get(weights.architecture)
    if found is None:
        names = ", ".join(ARCHITECTURES)
        raise UnsupportedOp(f"the architecture {weights.architecture[:60]!r} is not known", where=weights.name, hint=f"one of {names}")
    return found.config(weights)


__all__ = ["ARCHITECTURES", "Config", "config_of"]
