"""A Hugging Face folder as a GGUF file: the names, row orders and offsets that llama.cpp's files have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.llm.weights import Weights, open_weights
from lowbit.types import Array

SIZES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
}


def neighbours(w: Array, heads: int) -> Array:
    """Rows of halves (a₀ a₁ … b₀ b₁ …) of each head as neighbours (a₀ b₀ a₁ b₁ …)."""
    return np.ascontiguousarray(w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape))


def write_gguf(
    folder: Path,
    path: Path,
    *,
    kind: str = "F32",
    architecture: str | None = None,
    more: dict[str, Any] | None = None,
    floats_of: Weights | None = None,
) -> None:
    """`kind`: the format of matrices. `more`: further fields of the architecture. `floats_of`: the numbers of another file of it."""
    import gguf

    config = json.loads((folder / "config.json").read_text())
    weights = open_weights(folder)
    name = architecture or weights.architecture
    writer = gguf.GGUFWriter(path, name)
    for key, theirs in SIZES.items():
        if config.get(theirs) is not None:
            writer.add_uint32(f"{name}.{key}", config[theirs])
    writer.add_float32(f"{name}.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key):
            writer.add_float32(f"{name}.{key}", config[key])
    rope = config.get("rope_parameters", {})
    writer.add_float32(f"{name}.rope.freq_base", rope.get("full_attention", rope).get("rope_theta", 10000.0))
    for key, value in (more or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(f"{name}.{key}", value)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(tokenizer["vocab"], key=tokenizer["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t.startswith("<|") else 1 for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["merges"]])
    writer.add_eos_token_id(1)
    for tensor, t in weights.tensors.items():
        real = np.array(t.dequantize() if floats_of is None else floats_of.tensors[tensor].dequantize())
        part = tensor.split(".")[-2]
        if name == "llama" and part in ("attn_q", "attn_k"):
            real = neighbours(real, config["num_attention_heads"] if part == "attn_q" else config["num_key_value_heads"])
        if name.startswith("gemma") and part.endswith("norm"):
            real = real + np.float32(1)
        if real.ndim == 2 and kind != "F32":
            real = gguf.quants.quantize(real, gguf.GGMLQuantizationType[kind])
            writer.add_tensor(tensor, real, raw_dtype=gguf.GGMLQuantizationType[kind])
        else:
            writer.add_tensor(tensor, real)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
