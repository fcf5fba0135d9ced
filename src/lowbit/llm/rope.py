"""Rotations of positions: the angle of pair i at position p is p · base^(-2i / dims), scaled as networks for longer texts ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import FormatError, UnsupportedOp
from lowbit.llm.weights import Weights
from lowbit.numerics import F32

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rope:
    """`frequencies` (dims / 2) are the angles of position 1; cos and sin are multiplied by `factor`."""

    dims: int
    frequencies: F64
    neighbours: bool = False
    factor: float = 1.0

    @property
    def style(self) -> str:
        return "neighbours" if self.neighbours else "halves"

    def angles(self, positions: NDArray[np.int32]) -> tuple[F32, F32]:
        """cos and sin (positions, dims / 2), computed in float64 and rounded once."""
        a = np.outer(positions.astype(np.float64), self.frequencies)
        return (np.cos(a) * self.factor).astype(np.float32), (np.sin(a) * self.factor).astype(np.float32)


def plain(base: float, dims: int) -> F64:
    return np.asarray(base ** (-np.arange(0, dims, 2) / dims))


def read_rope(w: Weights, head: int, context: int, *, neighbours: bool = False) -> Rope:
    """The rotations that a GGUF file's or a config.json's settings describe."""
    if w.folder is None:
        return _of_gguf(w, head, context, neighbours)
    settings = w.settings.get("rope_parameters") or w.settings.get("rope_scaling") or {}
    if not isinstance(settings, dict):
        raise FormatError("rope_parameters is no object", where=w.name)
    if isinstance(settings.get("full_attention"), dict):  # one for each kind of layer
        settings = settings["full_attention"]
    settings = {"rope_theta": w.settings.get("rope_theta"), "partial_rotary_factor": w.settings.get("partial_rotary_factor"), **settings}
    return of_settings(w, settings, head, context)


def of_settings(w: Weights, settings: dict[str, Any], head: int, context: int) -> Rope:
    """The rotations of a Hugging Face object: rope_type, rope_theta and what the type needs."""

    def number(key: str, otherwise: float | None = None) -> float:
        value = settings.get(key)
        value = otherwise if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
            raise FormatError(f"the rotations' setting {key!r} is {str(value)[:40]}, a number above 0 is needed", where=w.name)
        return float(value)

    dims = _even(w, int(head * number("partial_rotary_factor", 1.0)), head)
    base, kind = number("rope_theta", 10000.0), settings.get("rope_type", settings.get("type", "default"))
    f = plain(base, dims)
    if kind == "default":
        return Rope(dims, f)
    if kind == "linear":
        return Rope(dims, f / number("factor"))
    if kind == "llama3":
        original, factor = number("original_max_position_embeddings"), number("factor")
        low, high = number("low_freq_factor"), number("high_freq_factor")
        turns = original * f / (2 * np.pi)  # in the original length
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        return Rope(dims, f * smooth + f / factor * (1 - smooth))
    if kind == "yarn":
        original = number("original_max_position_embeddings", context)
        attention = settings.get("attention_factor")
        fast, slow = number("beta_fast", 32.0), number("beta_slow", 1.0)
        return yarn(f, dims, base, number("factor"), original, fast, slow, None if attention is None else number("attention_factor"))
    raise UnsupportedOp(f"rotations of type {str(kind)[:40]!r} are not known", where=w.name, hint="default, linear, llama3, yarn")


def yarn(f: F64, dims: int, base: float, factor: float, original: float, fast: float, slow: float, attention: float | None) -> Rope:
    """Slow pairs are interpolated, fast ones kept, with a ramp between those that turn `slow` and `fast` times in the original length."""

    def pair(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)
    scale = attention if attention is not None else 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return Rope(dims, f * (1 - ramp) + f / factor * ramp, factor=scale)


def _of_gguf(w: Weights, head: int, context: int, neighbours: bool) -> Rope:
    dims = _even(w, w.whole("rope.dimension_count", head, most=1 << 12), head)
    base, kind = w.number("rope.freq_base", 10000.0), w.settings.get("rope.scaling.type", "none")
    if not 0 < base < 1e18:
        raise FormatError(f"rope.freq_base is {base:g}, a number above 0 is needed", where=w.name)
    f = plain(base, dims)
    if "rope_freqs.weight" in w:  # llama 3: each pair's divisor
        divisors = w.vector("rope_freqs.weight", dims // 2).astype(np.float64)
        if not (np.isfinite(divisors).all() and (divisors > 0).all()):
            raise FormatError("rope_freqs.weight has a divisor that is not above 0", where=w.name)
        return Rope(dims, f / divisors, neighbours)
    if kind in ("none", ""):
        return Rope(dims, f, neighbours)
    factor = w.number("rope.scaling.factor", 1.0)
    if not 0 < factor < 1e9:
        raise FormatError(f"rope.scaling.factor is {factor:g}, a number above 0 is needed", where=w.name)
    if kind == "linear":
        return Rope(dims, f / factor, neighbours)
    if kind == "yarn":
        original = w.number("rope.scaling.original_context_length", float(context))
        made = yarn(f, dims, base, factor, original, 32.0, 1.0, None)
        return Rope(dims, made.frequencies, neighbours, made.factor)
    raise UnsupportedOp(f"rope scaling {str(kind)[:40]!r} is not known", where=w.name, hint="none, linear, yarn")


def _even(w: Weights, dims: int, head: int) -> int:
    if not 2 <= dims <= head or dims % 2:
        raise FormatError(f"{dims} of {head} features are rotated: an even number of them is needed", where=w.name)
    return dims
