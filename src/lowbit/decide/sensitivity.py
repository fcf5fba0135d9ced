"""The noise of single roundings: each is made alone in the float network, and its effect on the outputs is measured.

The float network runs once with every value kept (`runtime/replay.py`). Then, from its end to its beginning, one value after another is
rounded in place, and only the nodes after it run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from lowbit.calibration.spread import spread
from lowbit.decide.brackets import Bracket, Pair
from lowbit.decide.parts import part_numbers
from lowbit.decide.points import Point, noise_at, rows_of
from lowbit.decide.quality import Sample
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import run_node
from lowbit.ops.nhwc import to_last
from lowbit.runtime.nodes import NodeRunner
from lowbit.runtime.replay import Replay
from lowbit.types import Array

PARTS = 8  # of the units, for workers
Unit = tuple[str, ...]  # brackets that round together, by the name of their dequantized value


def noise_shares(
    pair: Pair, sample: Sample, units: Mapping[str, Unit], points: Sequence[Point], each: Callable[[str], None] | None = None
) -> dict[str, float]:
    """For each unit the noise at the points, relative to their signal, if this unit alone rounds and the rest is float.

    Units are named "tap NAME" (a value that everybody reads rounded), "layer NAME" (one layer reads its input rounded) and "weights NAME"
    (a layer has rounded weights). `pair` is bound to the sample's shapes.
    """
    graph = pair.float
    keep = {b.of for b in pair.brackets.values() if not b.constant}
    layers = [graph.producers[name.split(" ", 1)[1]] for name in units if not name.startswith("tap ")]
    keep |= {o.name for n in layers for o in n.outputs if o.type.dtype.is_float}
    replay = Replay(graph, [*keep, *(p.value for p in points)])
    replay.run(sample)
    ends = _Ends.of(graph, replay, points)
    places = {name: _place(replay, pair, name, members) for name, members in units.items()}
    runner, found = NodeRunner(), dict.fromkeys(units, 0.0)
    for name in sorted(units, key=lambda n: places[n], reverse=True):
        kind, what = name.split(" ", 1)
        if each is not None:
            each(name)
        if kind == "tap":
            for real in _sources(pair, units[name]):
                found[name] += _tap(replay, pair, real, ends)
        else:
            found[name] += _layer(replay, pair, graph.producers[what], units[name], runner, ends)
    return found


def shares_by_workers(
    executor: Executor, graph: Graph, quantized: Graph, samples: Sequence[Sample], units: Mapping[str, Unit], points: Sequence[Point]
) -> Iterator[dict[str, float]]:
    """`noise_shares` of some units and one sample after another: the workers share the units. A unit's noise is the same beside others."""
    names = list(units)
    tasks = ((sample, {n: units[n] for n in names[i::PARTS]}, tuple(points)) for sample in samples for i in range(min(PARTS, len(names))))
    return spread(executor, (graph, quantized), _bound_shares, tasks)


def _bound_shares(graph: Graph, quantized: Graph, sample: Sample, units: Mapping[str, Unit], points: Sequence[Point]) -> dict[str, float]:
    """A worker's task."""
    return noise_shares(Pair.bound(graph, quantized, sample), sample, units, points)


def heard(quantized: Graph, brackets: Mapping[str, Bracket], nodes: Iterable[Node]) -> dict[str, Unit]:
    """For each layer a unit of the roundings that affect it: those of its inputs and of its weights."""
    found: dict[str, Unit] = {}
    for node in nodes:
        now = quantized.producers.get(node.output.name)
        read = tuple(v.name for v in now.inputs if v is not None and v.name in brackets) if now is not None else ()
        if read:
            found[f"layer {node.output.name}"] = read
    return found


def _sources(pair: Pair, members: Unit) -> list[str]:
    """The members that are no moved copies of another member: a reshape or slice of a rounded value rounds nothing more."""
    of = {pair.brackets[m].of for m in members}
    kept = []
    for m in members:
        node = pair.float.producers.get(pair.brackets[m].of)
        moved = False
        while node is not None and node.definition.moves and node.op != "concat" and node.inputs[0] is not None and not moved:
            moved = node.inputs[0].name in of
            node = pair.float.producers.get(node.inputs[0].name)
        kept += [] if moved else [m]
    return kept


def _place(replay: Replay, pair: Pair, name: str, members: Unit) -> tuple[int, int]:
    kind, what = name.split(" ", 1)
    changed = [pair.brackets[m].of for m in members] if kind == "tap" else [what]
    return min((replay.position(v) for v in changed if replay.has(v)), default=(0, 0))


def _tap(replay: Replay, pair: Pair, real: str, ends: _Ends) -> float:
    of = pair.brackets[real].of
    if not replay.has(of):
        return 0.0
    memory = replay.memory(of)
    before = memory.copy()
    np.copyto(memory, _rounded(pair, real, before, of in replay.last).reshape(-1))
    return ends.noise(replay, {of: before})


def _layer(replay: Replay, pair: Pair, node: Node, members: Unit, runner: NodeRunner, ends: _Ends) -> float:
    """Computes the layer with rounded weights or a rounded input, and everything after it."""
    now = pair.quantized.producers.get(node.output.name)
    if now is None or not replay.has(node.output.name):
        return 0.0
    inputs: list[Array | None] = []
    for v, w in zip(node.inputs, now.inputs, strict=False):
        if v is None:
            inputs.append(None)
            continue
        x = np.ascontiguousarray(replay.real_order(v.name)) if v.name not in pair.float.constants else pair.float.constants[v.name].data
        inputs.append(_rounded(pair, w.name, x, False) if w is not None and w.name in members else x)
    fixed = [i for i, v in enumerate(node.inputs) if v is not None and v.name in pair.float.constants]
    results = runner(node, inputs, fixed=fixed)
    runner.clear()  # packed weights of one layer at a time
    kept: dict[str, Array] = {}
    for o, made in zip(node.outputs, results, strict=True):  # a recurrence has several
        if replay.has(o.name) and made.dtype.kind == "f":
            kept[o.name] = replay.memory(o.name).copy()
            made = made.transpose(to_last(made.ndim)) if o.name in replay.last else made
            np.copyto(replay.memory(o.name), made.reshape(-1))
    return ends.noise(replay, kept)


def _rounded(pair: Pair, real: str, x: Array, last: bool) -> Array:
    """A value after a bracket: quantized and dequantized; for a constant, its stored integers dequantized."""
    bracket = pair.brackets[real]
    node = pair.quantized.producers[real]
    constants = pair.quantized.constants

    def data(v: object) -> Array | None:
        return None if v is None else constants[v.name].data  # type: ignore[attr-defined]

    if bracket.constant:
        return run_node(node, [data(v) for v in node.inputs])[0]
    stored = node.inputs[0]
    assert stored is not None
    first = pair.quantized.producers[stored.name]
    shape = [int(d) for d in stored.shape]
    order = tuple(to_last(len(shape))) if last else tuple(range(len(shape)))
    plain = x.reshape([shape[p] for p in order]).transpose(np.argsort(order))
    ints = run_node(first, [np.ascontiguousarray(plain), *(data(v) for v in first.inputs[1:])])[0]
    back = run_node(node, [ints, *(data(v) for v in node.inputs[1:])])[0]
    return back.transpose(order).reshape(x.shape)


@dataclass(frozen=True)
class _Ends:
    """The float network's values at the points, in memory order, and the numbers of the parts of joined outputs."""

    points: Sequence[Point]
    truth: Mapping[str, Array]
    numbers: Mapping[str, Array]

    @staticmethod
    def of(graph: Graph, replay: Replay, points: Sequence[Point]) -> _Ends:
        numbers = {p.value: part_numbers(graph, p.value, p.parts) for p in points if p.part is not None}
        numbers = {name: x.transpose(to_last(x.ndim)) if name in replay.last else x for name, x in numbers.items()}
        return _Ends(points, {p.value: np.array(replay.array(p.value)) for p in points}, numbers)

    def noise(self, replay: Replay, before: Mapping[str, Array]) -> float:
        """Noise ÷ signal at the worst point with some values changed; afterwards the values are restored.

        A point without signal has nothing to compare with.
        """
        replay.rerun(before)
        worst = 0.0
        for p in self.points:
            numbers = None if p.part is None else self.numbers[p.value]
            want, got = rows_of(_turned(p, replay), self.truth[p.value], replay.array(p.value), 1, numbers)
            signal, noise = noise_at(p, want.reshape(1, -1), got.reshape(1, -1))
            worst = max(worst, float(noise[0]) / float(signal[0]) if signal[0] > 0 else 0.0)
        for name, x in before.items():
            np.copyto(replay.memory(name), x)
        return worst


def _turned(p: Point, replay: Replay) -> Point:
    """The point for a value in channels-last layout."""
    if p.value not in replay.last or p.kind != "classes":
        return p
    rank = len(replay.types[p.value].shape)
    return replace(p, axis=list(to_last(rank)).index(p.axis))
