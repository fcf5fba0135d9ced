"""Quantizes language models to GGUF files of few bits: lowbit.llm.quantize(folder, "model.gguf", bits=4.5, texts=…) (docs/llm.md)."""

from __future__ import annotations

from lowbit.llm.quantization.make import Made, quantize

__all__ = ["Made", "quantize"]
