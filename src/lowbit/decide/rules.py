"""The decision for each layer as rules that a user can read, change and give to `quantize`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lowbit.ir.graph import Graph, Node
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule, QuantNode, QuantRule


def rules_of(
    graph: Graph, groups: Mapping[str, Sequence[Node]], decide: Callable[[Node], QuantNode], because: Mapping[str, str]
) -> tuple[QuantRule, ...]:
    """Rules that give each layer what `decide` gave it: float, or static integers.

    Each group of layers has a reason of its own. Rules match by names, and by values where layers share a name.
    """
    same = Counter((_name(n), n.op) for n in graph.nodes)
    made: list[QuantRule] = []
    for group, members in groups.items():
        alike: dict[tuple[str, ...], list[Node]] = {}
        for node in members:
            alike.setdefault((node.op, *_decided(decide(node))), []).append(node)
        for (op, *kinds), nodes in alike.items():
            names = list(dict.fromkeys(map(_name, nodes)))
            inside = Counter(map(_name, nodes))
            shared = any(same[name, op] > inside[name] for name in names)
            pattern = f"^{re.escape(names[0])}$" if len(names) == 1 else f"^(?:{'|'.join(map(re.escape, names))})$"
            values = tuple(n.output.name for n in nodes) if shared else ()
            if not kinds:
                made.append(FloatRule(pattern, ops=(op,), because=because[group], values=values))
                continue
            activation, weights, output = kinds
            made.append(
                CalibratedQuantRule(
                    pattern, activation, weights, ops=(op,), because=because[group], values=values,
                    output=output if output != activation else None,
                )
            )  # fmt: skip
    return tuple(made)


def _decided(found: QuantNode) -> tuple[str, ...]:
    """The dtypes of input, weights and result; none for float."""
    if found.activation is None or found.weight is None or found.result is None:
        return ()
    return found.activation.name, found.weight.name, found.result.name


def _name(node: Node) -> str:
    return node.name or node.output.name
