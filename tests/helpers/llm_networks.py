"""Small random language models: as Hugging Face folders made by transformers, and run by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate
from lowbit.types import Array

VOCABULARY = 320
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1,
    "tie_word_embeddings": False, "initializer_range": 0.2,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, tied, biases": ("Llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    "llama 3.1": ("Llama", {"rope_parameters": {**LLAMA3, "rope_theta": 5e5}}),
    "llama, linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    "mistral": ("Mistral", {"sliding_window": 20, "head_dim": 32}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2, yarn": ("Qwen2", {"rope_parameters": {**YARN, "rope_theta": 1e6}}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "gemma2": ("Gemma2", {"head_dim": 32, "sliding_window": 24, "query_pre_attn_scalar": 32}),
    "gemma3": ("Gemma3Text", {
        "head_dim": 32, "sliding_window": 24, "query_pre_attn_scalar": 32, "num_hidden_layers": 6,
        "rope_parameters": GEMMA3_ROPE,
    }),
    "phi3": ("Phi3", {"sliding_window": 40}),
}  # fmt: skip


@cache
def tokenizer_json() -> str:
    """A byte-level vocabulary: ids 0 and 1 begin and end texts, then the bytes and some pairs."""
    import tokenizers as t

    core = t.Tokenizer(t.models.BPE())
    core.pre_tokenizer, core.decoder = t.pre_tokenizers.ByteLevel(add_prefix_space=False), t.decoders.ByteLevel()
    alphabet = t.pre_tokenizers.ByteLevel.alphabet()
    special = ["<|im_start|>", "<|im_end|>"]
    trainer = t.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(["the then there other another hello hollow yellow mellow fellow follow below"] * 4, trainer)
    return str(core.to_str())


def made(name: str) -> Any:
    """The transformers network, random and always the same."""
    import torch
    import transformers

    kind, options = NETWORKS[name]
    torch.manual_seed(3)
    config = getattr(transformers, f"{kind}Config")(**{**COMMON, **options})
    config._attn_implementation = "eager"
    causal = {"Gemma3Text": "Gemma3ForCausalLM"}.get(kind, f"{kind}ForCausalLM")
    model = getattr(transformers, causal)(config).eval().float()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "norm" in n or n.endswith("bias"):
                p.add_(torch.randn(p.shape) * 0.2)
    return model


def saved(name: str, folder: Path, dtype: str = "float32") -> Any:
    """The network with the numbers that were saved, in float32."""
    import torch
    import transformers

    made(name).to(getattr(torch, dtype)).save_pretrained(str(folder))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    return transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="eager").eval()


class InterpretedPlan:
    """TokenPlan's interface, run by the interpreter."""

    def __init__(self, graph: Graph, states: Mapping[str, Array], updates: Mapping[str, str], **_: Any) -> None:
        self.graph, self.states, self.updates = graph, states, updates
        self.inputs = {v.name: np.zeros(v.type.shape, v.type.dtype.numpy) for v in graph.inputs if v.name not in updates}  # type: ignore[arg-type]
        self.outputs: dict[str, Array] = {}

    def run(self) -> dict[str, Array]:
        names = {v.name for v in self.graph.inputs}
        outputs = evaluate(self.graph, {**self.inputs, **{n: self.states[n] for n in self.updates if n in names}})
        for name, out in self.updates.items():
            self.states[name][...] = outputs.pop(out)
        self.outputs = outputs
        return outputs
