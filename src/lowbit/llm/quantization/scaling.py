"""Scales of channels, as AWQ has them: columns of large inputs are made larger, so that rounding costs them less.

A layer's columns are multiplied by s, and whatever makes its input gives 1 / s of it: the norm before, or the layer before. The network
computes the same. s is a power of the input's mean magnitudes; the power is the one of least error of the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from lowbit.llm.architectures import Config
from lowbit.llm.quantization.block import READERS, Moments
from lowbit.llm.quantization.encode import fit
from lowbit.llm.quantization.gptq import output_error
from lowbit.numerics import F32

POWERS = (0.0, 0.15, 0.3, 0.45, 0.6)
ROWS = 192  # of each matrix that the error is measured on
LEAST, MOST = 1 / 16, 16.0  # of a scale


def scale_block(block: MutableMapping[str, F32], i: int, c: Config, formats: Mapping[str, str], moments: Mapping[str, Moments]) -> None:
    """Scales the channels of block i's tensors in place, and with them the moments of their inputs."""
    for group, layers in READERS.items():
        names = [f"blk.{i}.{layer}.weight" for layer in layers if f"blk.{i}.{layer}.weight" in block]
        shared = (c.kv_heads, c.heads // c.kv_heads, c.head) if group == "output" else None
        s = best_scales([(block[n], formats[n]) for n in names], moments[group], shared)
        if s is not None:
            for name in names:
                block[name] = block[name] * s
            _divide_input(block, f"blk.{i}", group, s, shared)
            moments[group].divide(s)


def best_scales(layers: Sequence[tuple[F32, str]], moments: Moments, shared: tuple[int, int, int] | None = None) -> F32 | None:
    """Scales (K,) of the input's channels, or None where the plain ones are as good.

    shared: (heads of values, heads that read each, features): the heads that read the same values have the same scales.
    """
    h = moments.second / max(moments.rows, 1)
    some = [(w[:: max(1, len(w) // ROWS)][:ROWS], name) for w, name in layers]
    least, found = np.inf, None
    for power in POWERS:
        s = _scales(moments.means, power, shared)
        hs = h / np.outer(s, s)
        squares, error = np.diag(hs).astype(np.float32), 0.0
        for w, name in some:
            grid = fit(name, w * s, squares)
            error += output_error(w * s, grid.real(grid.round(w * s)), hs)
        if error < least * (0.99 if power else 1):
            least, found = error, s if power else None
    return found


def _scales(means: F32, power: float, shared: tuple[int, int, int] | None) -> F32:
    if shared is not None:
        heads = means.reshape(shared)
        means = np.broadcast_to(heads.mean(axis=1, keepdims=True), shared).reshape(-1)
    s = np.maximum(means, 1e-8) ** power
    return np.asarray(np.clip(s / np.exp(np.log(s).mean()), LEAST, MOST), np.float32)


def _divide_input(block: MutableMapping[str, F32], name: str, group: str, s: F32, shared: tuple[int, int, int] | None) -> None:
    """Divides what makes the input: a norm's weights, the rows of `up`, or the rows of the values."""
    if group in ("attention", "feed_forward"):
        norm = f"{name}.{'attn' if group == 'attention' else 'ffn'}_norm.weight"
        block[norm] = block[norm] / s
        return
    if shared is not None:
        s = np.ascontiguousarray(s.reshape(shared)[:, 0].reshape(-1))
        layer = "attn_v" if f"{name}.attn_v.weight" in block else "attn_qkv"
    else:
        layer = "ffn_up"
    for part in ("weight", "bias"):
        full = f"{name}.{layer}.{part}"
        if full in block:  # the last rows, where several layers are the rows of one matrix
            w = block[full].copy()
            w[-len(s) :] /= s[:, None] if w.ndim == 2 else s
            block[full] = w
