"""Gemma 3: as Gemma 2 with norms on queries and keys for soft caps; every sixth layer sees all, the others have rotations of their own."""

from lowbit.llm.architectures.config import Config, read_config
from lowbit.llm.rope import Rope, of_settings, plain
from lowbit.llm.weights import Weights


def config(w: Weights) -> Config:
    head = w.whole("attention.key_length", 256, most=1 << 12)
    local = Rope(head, plain(w.number("rope_local_base_freq", 10000.0), head))
    parameters = w.settings.get("rope_parameters")
    if isinstance(parameters, dict) and isinstance(parameters.get("sliding_attention"), dict):
        local = of_settings(w, parameters["sliding_attention"], head, 1)
    pattern = w.whole("sliding_window_pattern", 6, most=1 << 10)
    return read_config(w, pattern=pattern, activation="gelu", gemma=True, local_rope=local)
