"""What an architecture says about a network: sizes, rotations, windows. Everything that differs between families is here."""

from __future__ import annotations

from dataclasses import dataclass

from lowbit.errors import FormatError
from lowbit.llm.rope import Rope, read_rope
from lowbit.llm.weights import Weights


@dataclass(frozen=True)
class Config:
    """Sizes of a decoder. Queries of `heads // kv_heads` heads share one head of keys and values."""

    architecture: str
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head: int  # features of a head
    vocabulary: int
    context: int  # the longest text it was trained for
    eps: float
    rope: Rope
    scale: float  # of the products of queries and keys
    windows: tuple[int, ...]  # for each layer: how many positions are seen, 0: all
    local_rope: Rope | None = None  # of layers with a window, where it is another
    activation: str = "silu"
    softcap: float = 0.0  # of attention's scores
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    norm_offset: float = 0.0  # added to the weights of norms


GEMMA_27B = (46, 62)  # layers of Gemma 2 and 3 of 27 B, whose GGUF files do not say that scores are scaled by width / heads


def read_config(
    w: Weights, *, neighbours: bool = False, pattern: int = 0, local_rope: Rope | None = None, activation: str = "silu", gemma: bool = False
) -> Config:
    """The settings that all architectures share.

    neighbours  GGUF's rotations turn neighbours (its rows were permuted for that), not halves
    pattern     every pattern-th layer sees all, the others a window (1: all have the window, if there is one)
    """
    heads, width, layers = w.whole("attention.head_count", most=1 << 12), w.whole("embedding_length"), w.whole("block_count", most=1 << 10)
    kv_heads, head = w.whole("attention.head_count_kv", heads, most=1 << 12), w.whole("attention.key_length", width // heads, most=1 << 12)
    if heads % kv_heads:
        raise FormatError(f"{heads} heads cannot share {kv_heads} heads of keys", where=w.name)
    if "token_embd.weight" not in w:
        raise FormatError("there is no tensor 'token_embd.weight'", where=w.name)
    context = w.whole("context_length", most=1 << 26)
    by_width = gemma and layers in GEMMA_27B and w.folder is None
    scalar = w.number("query_pre_attn_scalar", width / heads if by_width else float(head))
    return Config(
        architecture=w.architecture,
        layers=layers,
        width=width,
        hidden=w.whole("feed_forward_length"),
        heads=heads,
        kv_heads=kv_heads,
        head=head,
        vocabulary=w.tensors["token_embd.weight"].shape[0],
        context=context,
        eps=w.number("attention.layer_norm_rms_epsilon"),
        rope=read_rope(w, head, context, neighbours=neighbours and w.folder is None),
        scale=scalar**-0.5,
        windows=read_windows(w, layers, pattern),
        local_rope=local_rope,
        activation=activation,
        softcap=w.number("attn_logit_softcapping", 0.0),
        logit_softcap=w.number("final_logit_softcapping", 0.0),
        embedding_scale=width**0.5 if gemma else 1.0,
        norm_offset=1.0 if gemma and w.folder is not None else 0.0,  # GGUF's weights have it already
    )


def read_windows(w: Weights, layers: int, pattern: int) -> tuple[int, ...]:
    """The window of each layer: by its kind, where the settings list them, else by the pattern."""
    window = w.whole("attention.sliding_window", most=1 << 26) if pattern and w.settings.get("attention.sliding_window") else 0
    kinds = w.settings.get("layer_types")
    if isinstance(kinds, list):
        if len(kinds) != layers or not all(k in ("full_attention", "sliding_attention") for k in kinds):
            raise FormatError(
                f"layer_types names {len(kinds)} layers of full_attention and sliding_attention, {layers} needed", where=w.name
            )
        return tuple(window if k == "sliding_attention" else 0 for k in kinds)
    return tuple(window if pattern == 1 or (pattern and (i + 1) % pattern) else 0 for i in range(layers))
