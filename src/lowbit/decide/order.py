"""The order in which units become narrower: the least noise for the cost saved first. Pure arithmetic on measured figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Cost = float


class Option(NamedTuple):
    """A unit at some width: its cost, and the noise that it alone makes at the outputs, as a share of their signal."""

    cost: Cost
    noise: float


@dataclass(frozen=True)
class Move:
    """A unit becomes narrower; `price` is the noise for each unit of cost that it saves."""

    unit: str
    width: str
    price: float


def moves(options: Mapping[str, Mapping[str, Option]], start: str = "float") -> list[Move]:
    """The way from a network with one width everywhere (`start`) to the cheapest one, the lowest price first.

    Each unit follows the lower convex hull of its options, where prices only rise: so one order serves all units.

    >>> o = {"a": {"float": Option(4, 0), "int8": Option(1, 3)}, "b": {"float": Option(4, 0), "int8": Option(2, 1), "int4": Option(1, 9)}}
    >>> [(m.unit, m.width, m.price) for m in moves(o)]
    [('b', 'int8', 0.5), ('a', 'int8', 1.0), ('b', 'int4', 8.0)]
    """
    found: list[tuple[float, int, int, Move]] = []
    for place, (unit, widths) in enumerate(options.items()):
        now, step = widths[start], 0
        while True:
            cheaper = {w: o for w, o in widths.items() if o.cost < now.cost}
            if not cheaper:
                break
            width = min(cheaper, key=lambda w: ((cheaper[w].noise - now.noise) / (now.cost - cheaper[w].cost), cheaper[w].cost))
            price = (cheaper[width].noise - now.noise) / (now.cost - cheaper[width].cost)
            found.append((price, place, step, Move(unit, width, price)))
            now, step = cheaper[width], step + 1
    return [move for *_, move in sorted(found, key=lambda item: item[:3])]


def after(start: Mapping[str, str], taken: Sequence[Move]) -> dict[str, str]:
    """The choice of widths after these moves."""
    return {**start, **{m.unit: m.width for m in taken}}
