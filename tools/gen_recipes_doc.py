"""Writes the table of recipes in docs/quantize.md from the code: `make docs`. A test keeps it fresh."""

from __future__ import annotations

from pathlib import Path

from lowbit.pipeline import GUARDED
from lowbit.quantization.recipes import RECIPES
from lowbit.quantization.rules import QuantRule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "quantize.md"
BEGIN, END = "<!-- recipes: made by `make docs` -->\n", "<!-- end of recipes -->\n"
RANGES = {"static": "{}, ranges from data", "dynamic": "{}, a scale for each row, at run time", "weights": "float"}


def row(name: str, rule: QuantRule) -> str:
    weights = (rule.dtype if rule.mode == "weights" else getattr(rule, "weights", None)) or rule.dtype
    if rule.weight_scheme == "logarithmic":
        weights = "int4, 0 or a sign and a power of two"
    blocks = f"a scale for {rule.granularity} inputs" if isinstance(rule.granularity, int) else f"a scale for each {rule.granularity}"
    layers = ", ".join(rule.ops) or "all that have an integer form"
    needs = "data or a record" if rule.mode == "static" else "nothing"
    decides = "yes, with data" if name in GUARDED else "no"
    return f"| `{name}` | {RANGES[rule.mode].format(rule.dtype)} | {weights}, {blocks} | {layers} | {needs} | {decides} |"


def table() -> str:
    head = "| recipe | activations | weights | layers | needs | measures and repairs |"
    return "\n".join([head, "|---" * 6 + "|", *(row(name, rule) for name, made in RECIPES.items() for rule in made())]) + "\n"


def page() -> str:
    """docs/quantize.md with the table as the code has it now."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return head + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
