"""Recipes: named lists of rules."""

from __future__ import annotations

from collections.abc import Callable

from lowbit.errors import QuantError
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, QuantRule, WeightOnlyRule

Rules = list[QuantRule]

# Ops whose weights are worth storing in few bits, and whose activations can be quantized row by row.
WEIGHTED = ("conv", "conv_transpose", "linear", "matmul", "lstm", "gru")
ROWS = ("linear", "matmul", "lstm", "gru")


def _static(activations: str, weights: str, name: str) -> Rules:
    return [CalibratedQuantRule(".*", activations, weights, because=f"recipe {name}")]


RECIPES: dict[str, Callable[[], Rules]] = {
    "int8": lambda: _static("int8", "int8", "int8"),
    "uint8": lambda: _static("uint8", "uint8", "uint8"),
    "int16": lambda: _static("int16", "int8", "int16"),
    "int16-w16": lambda: _static("int16", "int16", "int16-w16"),
    "w4a8": lambda: _static("int8", "int4", "w4a8"),
    "w4a4": lambda: _static("int4", "int4", "w4a4"),
    "binary": lambda: _static("binary", "binary", "binary"),
    "w1a8": lambda: _static("int8", "binary", "w1a8"),
    "log-weights": lambda: [CalibratedQuantRule(".*", "int8", weight_scheme="logarithmic", because="recipe log-weights")],
    "w4a8-block": lambda: [CalibratedQuantRule(".*", "int8", "int4", 32, because="recipe w4a8-block")],
    "w4a8-dynamic": lambda: [DynamicQuantRule(".*", "int8", "int4", 32, ops=ROWS, because="recipe w4a8-dynamic")],
    "int8-dynamic": lambda: [DynamicQuantRule(".*", "int8", ops=WEIGHTED, because="recipe int8-dynamic")],
    "int4-weights": lambda: [WeightOnlyRule(".*", "int4", ops=WEIGHTED, because="recipe int4-weights")],
    "binary-weights": lambda: [WeightOnlyRule(".*", "binary", granularity="channel", ops=WEIGHTED, because="recipe binary-weights")],
}


MIXED = "mixed"  # a width for each layer, as lowbit.search finds them


def recipe(name: str) -> Rules:
    """The rules of a recipe."""
    if isinstance(name, str) and name == MIXED:
        raise QuantError(
            "recipe mixed has no rules beforehand: they are found for one network and its data",
            hint="lowbit.search(g, data).rules (lowbit search MODEL --data … --rules-out mixed.toml), then rules= (--rules mixed.toml)",
        )
    if not isinstance(name, str) or name not in RECIPES:
        raise QuantError(f"there is no recipe {name!r}", hint="one of " + ", ".join(RECIPES))
    return RECIPES[name]()
