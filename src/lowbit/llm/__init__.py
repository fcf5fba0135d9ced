"""Language models on the CPU, from GGUF files and Hugging Face folders: load, generate, stream, chat, embed, score (docs/llm.md)."""

from __future__ import annotations

from lowbit.llm.model import Model, Score, load
from lowbit.llm.quantization import quantize
from lowbit.llm.sampler import Sampling
from lowbit.llm.scheduler import Event, Scheduler, TokenSequence
from lowbit.llm.stream import Stream
from lowbit.llm.tokenizer import Tokenizer

__all__ = ["Event", "Model", "Sampling", "Scheduler", "Score", "Stream", "TokenSequence", "Tokenizer", "load", "quantize"]
