"""Measurements of operations as an SVG picture: bars of milliseconds, a group for each operation and size."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from lowbit.recommend.ops import OpRow

ROW, LEFT, WIDTH, RIGHT = 16, 300, 420, 110  # pixels
COLOURS = {"lowbit": "#2a6fbb", "numpy": "#8a8a8a", "torch": "#d9702a", "ort": "#5a9e4b"}


def svg(rows: Sequence[OpRow]) -> str:
    """The picture. Bars of a group are relative to its longest; the number says the milliseconds."""
    y, parts = 24, []
    for (op, size), group in groupby(rows, key=lambda r: (r.op, r.size)):
        found = sorted(group, key=lambda r: r.ms)
        longest = max(r.ms for r in found) or 1.0
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{escape(op)}, size {size:,}</text>')
        y += ROW + 2
        for r in found:
            bar = max(1.0, WIDTH * r.ms / longest)
            name = f"{r.engine} {r.dtype} {r.scheme} {r.granularity}".replace(" none none", "")
            parts.append(f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{escape(name)}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y - 10}" width="{bar:.1f}" height="11" fill="{COLOURS.get(r.engine, "#999")}"/>')
            parts.append(f'<text x="{LEFT + bar + 4:.1f}" y="{y}">{r.ms:.3g} ms</text>')
            y += ROW
        y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{y}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="100%" height="{y}" fill="white"/>', *parts, "</svg>"]) + "\n"
