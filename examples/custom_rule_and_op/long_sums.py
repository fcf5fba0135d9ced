"""A rule of your own: layers that add up many products keep 16-bit activations. Reports print its reason, with the number."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowbit import Node, QuantRule
from lowbit.quantization.rules import QuantNode


@dataclass(frozen=True)
class LongSumsRule(QuantRule):
    """Matches layers (by name, like every rule) whose outputs are sums of more than `limit` products."""

    dtype: str = "int16"
    limit: int = 64

    def matches(self, node: Node) -> bool:
        return super().matches(node) and products(node) > self.limit

    def create_quant_node(self, node: Node) -> QuantNode:
        return replace(super().create_quant_node(node), because=f"each output adds up {products(node)} products")


def products(node: Node) -> int:
    """How many products an output of a linear layer adds up; 0 for other ops."""
    weight = node.input(1)
    return int(weight.shape[1]) if node.op == "linear" and weight is not None else 0
