"""Scales channels between layers: the float meaning stays, and one scale for a whole tensor fits all of its channels better.

A value that a convolution, linear layer or norm makes and only convolutions and linear layers read (a ReLU may stand between) may
have any channel divided by s > 0 in the layer that makes it and multiplied by s in the layers that read it:

    s_c = max|x_c|^alpha / max|w_c|^(1 - alpha)

alpha = 0.5 shares the range equally (cross-layer equalization). A larger alpha moves more of it into the weights (SmoothQuant), which
have a scale for each channel. Depthwise convolutions are both: they make one value and read another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowbit.decide.samples import Sample
from lowbit.ir.graph import SCALED, Constant, Graph, Node, Value, freeze
from lowbit.runtime.replay import NativeRun
from lowbit.types import Array

THROUGH = ("relu", "leaky_relu", "max_pool", "avg_pool", "identity")  # f(x / s) = f(x) / s for s > 0, channel by channel
MAKERS = {"conv": (1, 2), "linear": (1, 2), "layer_norm": (1, 2)}  # input positions that are divided along their first (last) axis
READERS = ("conv", "linear")
LIMIT = 64.0  # the largest factor of a channel, so that no weight becomes tiny compared with the others


@dataclass(frozen=True)
class Seam:
    """A value whose channels may be scaled: the node that makes it, and the nodes that read it."""

    value: str  # the value that the readers read
    maker: Node
    readers: tuple[Node, ...]
    axis: int


def seams(graph: Graph, leave: frozenset[str] = frozenset()) -> list[Seam]:
    """Every place of the graph where channels may be scaled; nodes whose results are in `leave` stay as they are."""
    outputs = {v.name for v in graph.outputs.values()}
    found = []
    for maker in graph.nodes:
        if maker.op not in MAKERS or not _owned(graph, maker, MAKERS[maker.op]) or maker.output.name in leave:
            continue
        value = maker.output
        while value.name not in outputs and len(users := graph.users.get(value.name, ())) == 1 and users[0].op in THROUGH:
            if users[0].output.name in leave:
                break
            value = users[0].output
        readers = graph.users.get(value.name, ())
        reads = [
            r.op in READERS
            and r.output.name not in leave
            and r.inputs[0] is not None
            and r.inputs[0].name == value.name
            and _owned(graph, r, (1,))
            and _whole(r)
            for r in readers
        ]
        only_data = all(sum(v is not None and v.name == value.name for v in r.inputs) == 1 for r in readers)
        axis = 1 if maker.op == "conv" else value.type.rank - 1
        fits = all(axis == (1 if r.op == "conv" else value.type.rank - 1) for r in readers)
        if readers and all(reads) and only_data and fits and value.name not in outputs and isinstance(value.shape[axis], int):
            found.append(Seam(value.name, maker, readers, axis))
    return found


def _owned(graph: Graph, node: Node, positions: tuple[int, ...]) -> bool:
    """Whether the first of these inputs is a constant, the others are constants or absent, and no other node reads them."""
    for k, i in enumerate(positions):
        v = node.input(i)
        if v is None and k:
            continue
        if v is None or v.name not in graph.constants or len(graph.users[v.name]) != 1:
            return False
    return True


def _whole(node: Node) -> bool:
    """Ungrouped, or depthwise: then the weight's columns are the input's channels."""
    if node.op != "conv" or node.attrs["groups"] == 1:
        return True
    w = node.inputs[1]
    return w is not None and w.shape[1] == 1 and w.shape[0] == node.attrs["groups"]


def channel_peaks(graph: Graph, samples: Sequence[Sample], found: Sequence[Seam]) -> dict[str, Array]:
    """The largest magnitude in each channel of every seam's value over the samples."""
    peaks: dict[str, Array] = {}
    axes = {s.value: s.axis for s in found}

    def see(v: Value, x: Array) -> None:
        axis = axes[v.name]
        peak = np.abs(x).max(axis=tuple(i for i in range(x.ndim) if i != axis), initial=0.0)
        peaks[v.name] = np.maximum(peaks[v.name], peak) if v.name in peaks else peak

    run = NativeRun(graph, axes, ordered=axes)
    for sample in samples:
        run(sample, see)
    return peaks


class Scaled(Constant):
    """A constant times factors along its axes, computed at each read, so that the weights of a large network are not held twice."""

    def __init__(self, of: Constant, factors: Array) -> None:
        object.__setattr__(self, "value", of.value)
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "factors", factors)

    of: Constant
    factors: Array

    @property
    def data(self) -> Array:
        x = self.of.data
        return freeze((x * self.factors).astype(x.dtype))


def solid(graph: Graph) -> Graph:
    """The graph with every scaled constant computed."""
    constants = {k: Constant(c.value, c.data) if isinstance(c, Scaled) else c for k, c in graph.constants.items()}
    return replace(graph, constants=constants)


def smoothed(graph: Graph, peaks: Mapping[str, Array], found: Sequence[Seam], alpha: float) -> Graph:
    """The graph with the channels of each seam scaled: equal to the old one up to float rounding."""
    constants, notes = dict(graph.constants), dict(graph.notes)

    def scale(value: Value, factors: Array, axis: int) -> None:
        constants[value.name] = Scaled(constants[value.name], _along(factors, axis, value.type.rank).astype(np.float32))

    for seam in found:
        factors = scales(constants, seam, peaks[seam.value].astype(np.float64), alpha)
        for k, i in enumerate(MAKERS[seam.maker.op]):
            if (v := seam.maker.input(i)) is not None:
                scale(v, 1 / factors, 0 if k or seam.maker.op != "layer_norm" else v.type.rank - 1)
        for reader in seam.readers:
            v = reader.inputs[1]
            assert v is not None
            scale(v, factors, _input_axis(reader))
        _note(notes, graph, seam, factors)
    return replace(graph, constants=constants, notes=notes)


def _note(notes: dict[str, str], graph: Graph, seam: Seam, factors: Array) -> None:
    """Notes the divisors of the channels of the values from the maker to the readers, multiplied by earlier ones."""
    value = seam.maker.output
    while True:
        key = f"{SCALED}{value.name}"
        before = json.loads(notes[key])[1] if key in notes else [0] * len(factors)
        notes[key] = json.dumps([seam.axis, [int(a + b) for a, b in zip(before, np.log2(factors), strict=True)]])
        if value.name == seam.value:
            return
        value = graph.users[value.name][0].output


def scales(constants: Mapping[str, Constant], seam: Seam, peak: Array, alpha: float) -> Array:
    """s for each channel by the formula, within a factor of LIMIT of the geometric mean; 1 for dead channels."""
    weight = np.zeros(len(peak))
    for reader in seam.readers:
        v, axis = reader.inputs[1], _input_axis(reader)
        assert v is not None
        data = constants[v.name].data
        weight = np.maximum(weight, np.abs(data).max(axis=tuple(i for i in range(data.ndim) if i != axis)))
    alive = (peak > 0) & (weight > 0)
    if not alive.any():
        return np.ones(len(peak))
    log = np.zeros(len(peak))
    log[alive] = alpha * np.log2(peak[alive]) - (1 - alpha) * np.log2(weight[alive])
    log[alive] -= log[alive].mean()
    # Powers of two: dividing by them is exact, so the smoothed network has the same bits wherever nothing underflows.
    return np.where(alive, 2.0 ** np.rint(np.clip(log, -np.log2(LIMIT), np.log2(LIMIT))), 1.0)


def _input_axis(node: Node) -> int:
    depthwise = node.op == "conv" and node.attrs["groups"] != 1
    return 0 if depthwise else 1


def _along(factors: Array, axis: int, ndim: int) -> Array:
    return factors.reshape([-1 if i == axis else 1 for i in range(ndim)])
