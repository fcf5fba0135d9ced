"""A Hugging Face folder: config.json's settings and safetensors' tensors under the names of GGUF. Tensors are mapped, not copied."""

from __future__ import annotations

import json
import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.errors import FormatError, UnsupportedOp
from lowbit.frontends.gguf.file import RawTensor
from lowbit.llm.tokenizer.folder import read_json
from lowbit.llm.weights import Weights

MOST_HEADER = 64 << 20
SIZES = {"F32": 4, "F16": 2, "BF16": 2}

SETTINGS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}  # the others keep their names
MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
# Gemma has a norm before and one after each half of a block.
GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def open_folder(folder: Path) -> Weights:
    config = read_json(folder / "config.json", needed=True)
    architecture = config.get("model_type")
    if not isinstance(architecture, str):
        raise FormatError("config.json says no model_type", where=str(folder))
    if config.get("quantization_config"):
        raise UnsupportedOp(
            "the weights were quantized by another library", where=str(folder), hint="the folder of float weights, or a .gguf file"
        )
    settings = {SETTINGS.get(k, k): v for k, v in config.items()}
    modules = MODULES | GEMMA if architecture.startswith("gemma") else MODULES
    tensors = {_renamed(name, modules): t for name, t in _tensors(folder).items() if not name.endswith("rotary_emb.inv_freq")}
    if config.get("tie_word_embeddings", False) or (architecture.startswith("gemma") and "tie_word_embeddings" not in config):
        tensors.pop("output.weight", None)
    return Weights(folder.name, architecture.removesuffix("_text"), settings, tensors, folder=folder)


def _renamed(name: str, modules: dict[str, str]) -> str:
    module, _, kind = name.rpartition(".")
    if module in TOP:
        return f"{TOP[module]}.{kind}"
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", module)
    if found is not None and found[2] in modules:
        return f"blk.{found[1]}.{modules[found[2]]}.{kind}"
    return name  # nobody asks for it, and the error names it


def _tensors(folder: Path) -> dict[str, RawTensor]:
    files = sorted(p for p in folder.glob("*.safetensors") if p.is_file())
    index = read_json(folder / "model.safetensors.index.json").get("weight_map")
    if isinstance(index, dict):
        files = sorted({folder / Path(str(f)).name for f in index.values()})
    elif (folder / "model.safetensors") in files:
        files = [folder / "model.safetensors"]
    if not files:
        raise FormatError("there are no .safetensors files", where=str(folder), hint="model.save_pretrained(folder)")
    found: dict[str, RawTensor] = {}
    for file in files:
        if not file.is_file():
            raise FormatError("there is no such file, and the index names it", where=str(file))
        for name, t in mapped_safetensors(file).items():
            if name in found:
                raise FormatError(f"two files have a tensor {name!r}", where=str(folder))
            found[name] = t
    return found


def mapped_safetensors(path: Path) -> dict[str, RawTensor]:
    """The tensors of a safetensors file: 8 bytes of length, a JSON header, data."""
    size = path.stat().st_size

    def damaged(what: str) -> FormatError:
        return FormatError(f"not a safetensors file, or a damaged one: {what}", where=path.name, hint="download the file again")

    data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    length = int.from_bytes(data[:8].tobytes(), "little")
    if size < 8 or length > min(size - 8, MOST_HEADER):
        raise damaged(f"a header of {length:,} bytes in a file of {size:,}")
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as e:
        raise damaged(f"the header is not JSON ({str(e)[:100]})") from None
    if not isinstance(header, dict):
        raise damaged("the header is no JSON object")
    header.pop("__metadata__", None)
    tensors: dict[str, RawTensor] = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _begin(item[1])):
        found: dict[str, Any] = entry if isinstance(entry, dict) else {}
        kind, shape, place = found.get("dtype"), found.get("shape"), found.get("data_offsets")
        if kind not in SIZES:
            raise UnsupportedOp(
                f"tensors of kind {str(kind)[:20]} are not read", where=f"{path.name}: tensor {name!r}", hint="F32, F16, BF16"
            )
        if not _wholes(shape) or not _wholes(place) or shape is None or place is None or not 1 <= len(shape) <= 4 or len(place) != 2:
            raise damaged(f"tensor {name!r} has the shape {str(shape)[:60]} at {str(place)[:60]}")
        if place[1] - place[0] != prod(shape) * SIZES[kind] or place[0] < end or 8 + length + place[1] > size:
            raise damaged(f"tensor {name!r} of shape {tuple(shape)} does not fit into bytes {place[0]:,} to {place[1]:,}")
        end = place[1]
        raw = np.asarray(data[8 + length + place[0] : 8 + length + place[1]])
        tensors[name] = RawTensor(kind, tuple(shape), raw.reshape(*shape[:-1], shape[-1] * SIZES[kind]))
    return tensors


def _wholes(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in value)


def _begin(entry: Any) -> int:
    place = entry.get("data_offsets") if isinstance(entry, dict) else None
    return place[0] if _wholes(place) and place else 0
