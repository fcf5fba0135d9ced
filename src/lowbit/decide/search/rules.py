"""A choice of widths as rules: what `quantize` takes, and a rules file holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from lowbit.decide.search.units import FLOAT, WIDTHS, Choice, Unit, results
from lowbit.ir.graph import Graph, Node
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule, QuantRule


def rules_for(graph: Graph, units: Sequence[Unit], choice: Choice, because: Mapping[str, str]) -> tuple[QuantRule, ...]:
    """Rules that give each unit its width, with its reason. They match by names, and by values where layers share a name."""
    kept = results(graph, units, choice)
    same = Counter((_name(n), n.op) for n in graph.nodes)
    made: list[QuantRule] = []
    for unit in units:
        groups: dict[tuple[str, str], list[Node]] = {}
        for node in unit.nodes:
            groups.setdefault((node.op, kept.get(node.output.name, "")), []).append(node)
        for (op, output), nodes in groups.items():
            names = list(dict.fromkeys(map(_name, nodes)))
            inside = Counter(map(_name, nodes))
            shared = any(same[name, op] > inside[name] for name in names)
            pattern = f"^{re.escape(names[0])}$" if len(names) == 1 else f"^(?:{'|'.join(map(re.escape, names))})$"
            values = tuple(n.output.name for n in nodes) if shared else ()
            why = because[unit.name]
            if choice[unit.name] == FLOAT:
                made.append(FloatRule(pattern, ops=(op,), because=why, values=values))
                continue
            width = WIDTHS[choice[unit.name]]
            made.append(
                CalibratedQuantRule(
                    pattern, width.activation, width.weights, width.granularity,  # type: ignore[arg-type]
                    ops=(op,), because=why, values=values, output=output if output != width.activation else None,
                )
            )  # fmt: skip
    return tuple(made)


def _name(node: Node) -> str:
    return node.name or node.output.name
