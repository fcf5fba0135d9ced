"""A Hugging Face folder as GGUF has it: the settings as fields, the order of rows, what is added to norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.errors import UnsupportedOp
from lowbit.frontends.gguf.header import Field
from lowbit.llm.architectures import Config, config_of
from lowbit.llm.quantization.vocabulary import vocabulary_fields
from lowbit.llm.rope import plain
from lowbit.llm.weights import Weights
from lowbit.numerics import F32

ARCHITECTURES = {"mistral": "llama"}  # by the name that GGUF has for them
WHOLE, REAL, TEXT = ("UINT32",), ("FLOAT32",), ("STRING",)


def fields_of_folder(w: Weights) -> tuple[dict[str, Field], Callable[[str, F32], F32], dict[str, F32]]:
    """The fields, how tensors change, and tensors that GGUF has beside the folder's."""
    c = config_of(w)
    name = ARCHITECTURES.get(c.architecture, c.architecture)
    rope, extra = _rope(w, c)
    settings = {**_sizes(w, c), **rope}
    fields = {"general.architecture": Field(name, TEXT), "general.name": Field(w.name, TEXT)}
    fields |= {f"{name}.{k}": Field(v, _type(v)) for k, v in settings.items()}
    fields |= vocabulary_fields(w)
    return fields, _change(name, c), extra


def _type(value: Any) -> tuple[str, ...]:
    return TEXT if isinstance(value, str) else REAL if isinstance(value, float) else WHOLE


def _sizes(w: Weights, c: Config) -> dict[str, Any]:
    found: dict[str, Any] = {
        "block_count": c.layers,
        "context_length": c.context,
        "embedding_length": c.width,
        "feed_forward_length": c.hidden,
        "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads,
        "attention.key_length": c.head,
        "attention.value_length": c.head,
        "attention.layer_norm_rms_epsilon": c.eps,
        "vocab_size": c.vocabulary,
    }
    windows = {x for x in c.windows if x}
    if windows:
        found["attention.sliding_window"] = windows.pop()
    if c.softcap:
        found["attn_logit_softcapping"] = c.softcap
    if c.logit_softcap:
        found["final_logit_softcapping"] = c.logit_softcap
    return found


def _rope(w: Weights, c: Config) -> tuple[dict[str, Any], dict[str, F32]]:
    """Fields of the rotations; Llama 3's are a tensor of each pair's divisor."""
    settings = w.settings.get("rope_parameters") or w.settings.get("rope_scaling") or {}
    settings = settings.get("full_attention", settings)
    kind = settings.get("rope_type", settings.get("type", "default"))
    base = float(settings.get("rope_theta") or w.settings.get("rope_theta") or 10000.0)
    found: dict[str, Any] = {"rope.dimension_count": c.rope.dims, "rope.freq_base": base}
    if kind == "default":
        return found, {}
    if kind == "llama3":
        return found, {"rope_freqs.weight": (plain(base, c.rope.dims) / c.rope.frequencies).astype(np.float32)}
    found |= {"rope.scaling.type": kind, "rope.scaling.factor": float(settings["factor"])}
    if kind == "yarn":
        if settings.get("attention_factor") is not None or settings.get("beta_fast", 32) != 32 or settings.get("beta_slow", 1) != 1:
            raise UnsupportedOp("yarn with factors of its own has no fields in GGUF", where=w.name)
        found["rope.scaling.original_context_length"] = int(settings.get("original_max_position_embeddings", c.context))
    return found, {}


def _change(architecture: str, c: Config) -> Callable[[str, F32], F32]:
    """Llama's queries and keys have neighbours in GGUF where the folder has halves; Gemma's norms have their 1 added."""

    def changed(name: str, x: F32) -> F32:
        part = name.split(".")[-2]
        if architecture == "llama" and part in ("attn_q", "attn_k"):
            heads = c.heads if part == "attn_q" else c.kv_heads
            return np.ascontiguousarray(x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape))
        if c.norm_offset and part.endswith("norm"):
            return x + np.float32(c.norm_offset)
        return x

    return changed
