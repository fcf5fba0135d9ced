"""Warns of unsuitable data: NaN, only zeros, or another scale than the calibration data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import InputError, warn
from lowbit.ir.graph import Graph
from lowbit.ir.samples import says_something, warn_of_zeros
from lowbit.types import Array

CLIPPED = 0.05  # share of an input's numbers outside its range: beyond this, the data do not match the calibration
STEPS = 8  # share of an input's range that data must use: below this, they are on a smaller scale


@dataclass
class _Range:
    """The range of an input's integers, and the range of the data."""

    least: float
    most: float
    step: float
    outside: int = 0
    seen: int = 0
    low: float = np.inf
    high: float = -np.inf

    def add(self, x: Array) -> None:
        self.outside += int(np.count_nonzero((x < self.least - self.step) | (x > self.most + self.step)))
        self.seen += x.size
        self.low, self.high = min(self.low, float(x.min(initial=np.inf))), max(self.high, float(x.max(initial=-np.inf)))

    def said(self, name: str) -> str:
        """The problem with the data of this input; "" if there is none."""
        own = f"{self.least:.3g} … {self.most:.3g}, which the network was calibrated for"
        given = f"the data go from {self.low:.3g} to {self.high:.3g}"
        if self.seen and self.outside > CLIPPED * self.seen:
            return f"input {name!r}: {self.outside / self.seen:.0%} of the numbers lie outside {own} ({given}): scaled as they were then?"
        if self.seen and self.low < self.high and self.high - self.low < STEPS * self.step < self.most - self.least:
            return f"input {name!r}: {given}, a small part of {own}: scaled as they were then?"
        return ""


class DataWatch:
    """Checks each batch that a network is measured on, and warns at the end."""

    def __init__(self, graph: Graph, calibrated: Iterable[Mapping[str, Array]] | None = None) -> None:
        """`graph`: the integer graph or the Q/DQ graph. For a float graph the calibration data give the ranges."""
        self._graph = graph
        self._ranges = input_ranges(graph) if calibrated is None else ranges_of(graph, calibrated)
        self._something = False

    def add(self, sample: Mapping[str, Array]) -> None:
        self._something = self._something or says_something(self._graph, sample)
        for name, seen in self._ranges.items():
            seen.add(sample[name])

    def warn(self) -> None:
        if not self._something:
            warn_of_zeros("no figure that is measured on them means anything")
        for name, seen in self._ranges.items():
            text = seen.said(name)
            if text and self._something:
                warn(text)


def need_no_nan(sample: Mapping[str, Array]) -> None:
    """Raises if an input holds NaN: integers have none, so a quantized network would treat it as a number."""
    for name, x in sample.items():
        if x.dtype.kind == "f" and np.isnan(x).any():
            several = x.ndim > 0 and len(x) > 1
            at = f"; the first is in row {np.flatnonzero(np.isnan(x.reshape(len(x), -1)).any(axis=1))[0]}" if several else ""
            raise InputError(f"it holds NaN{at}", where=f"input {name!r}", hint="data without NaN")


def ranges_of(graph: Graph, samples: Iterable[Mapping[str, Array]]) -> dict[str, _Range]:
    """The 8-bit range of each float input of the samples."""
    found = {v.name: _Range(np.inf, -np.inf, 0.0) for v in graph.inputs if v.type.dtype.is_float}
    for sample in samples:
        for name, r in found.items():
            r.least, r.most = min(r.least, float(sample[name].min(initial=np.inf))), max(r.most, float(sample[name].max(initial=-np.inf)))
    for r in found.values():
        r.step = (r.most - r.least) / 255
    return {name: r for name, r in found.items() if r.least < r.most}


def input_ranges(graph: Graph) -> dict[str, _Range]:
    """The range of each float input that is quantized with one scale."""
    found: dict[str, _Range] = {}
    inputs = {v.name for v in graph.inputs}
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if node.op != "quantize_linear" or x is None or x.name not in inputs or x.name in found:
            continue
        given = [graph.constants.get(v.name) if v is not None else None for v in node.inputs[1:]]
        if any(c is None or c.data.size != 1 for c in given):
            continue
        d = dtype(str(node.attrs["to"]))
        scale, zero = (float(c.data.reshape(-1)[0]) if c is not None else 0.0 for c in (*given, None)[:2])
        if scale > 0 and d.min is not None and d.max is not None:
            found[x.name] = _Range((d.min - zero) * scale, (d.max - zero) * scale, scale)
    return found
