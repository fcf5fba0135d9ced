"""Rounds a matrix to a block format: by GPTQ where its inputs are known, else each weight to its nearest level."""

from __future__ import annotations

import numpy as np

from lowbit.frontends.gguf.file import RawTensor
from lowbit.llm.quantization.block import Moments
from lowbit.llm.quantization.encode import fit
from lowbit.llm.quantization.gptq import gptq
from lowbit.numerics import F32


def rounded(w: F32, name: str, moments: Moments | None) -> RawTensor:
    """The matrix w (N, K) in a format; `moments` are those of its inputs."""
    if name == "F16":
        return RawTensor(name, w.shape, np.clip(w, -65504, 65504).astype(np.float16).view(np.uint8))
    # Where inputs are not known, all columns count the same: weights that count by their size cost SmolLM2-135M 1 % of perplexity.
    squares = np.ones(w.shape[1], np.float32) if moments is None else moments.squares
    grid = fit(name, w, squares)
    return RawTensor(name, w.shape, grid.to_bytes(grid.round(w) if moments is None else gptq(w, moments.second, grid)))
