"""The cost of candidates: measured milliseconds of whole sessions, and of each layer by the profile of a session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lowbit.decide.brackets import BRACKETS
from lowbit.decide.quality import Quantized
from lowbit.decide.samples import Sample
from lowbit.decide.widths import Widths, multiplies
from lowbit.ir.graph import Graph, Node
from lowbit.ops.quant import is_clamp
from lowbit.runtime.network_times import LARGE
from lowbit.runtime.session import Session
from lowbit.runtime.timing import least_in_turns

REPEATS = 8  # runs of a profile
CALM, ATTEMPTS = 1.1, 3  # a float network that takes longer than this many times its best shows a busy machine: it is measured again


@dataclass(frozen=True)
class Times:
    """Least milliseconds of a batch on one thread, measured in turns: of a candidate, and of the float network."""

    made: float
    reference: float

    @property
    def ratio(self) -> float:
        return self.made / self.reference


class Stopwatch:
    """Times candidates in turns with the float network, on one thread: other work on the machine then matters least."""

    def __init__(self, graph: Graph, sample: Sample, threads: int | None = 1) -> None:
        self.graph, self.sample, self.threads = graph, dict(sample), threads
        self._kept = Session(graph, threads=threads) if graph.parameter_bytes <= LARGE else None
        self.reference_ms = math.inf  # the shortest time of the float network
        self._order = [v.name for v in graph.inputs]

    @property
    def reference(self) -> Session:
        """The float network. Between measurements no second copy of the weights of a large network is held."""
        return self._kept or Session(self.graph, threads=self.threads)

    def times(self, integer: Graph) -> Times:
        """Of an integer graph."""
        sessions = Session(integer, threads=self.threads), self.reference
        return Times(*least_in_turns([partial(s.run, self.sample) for s in sessions], one_thread=self.threads == 1))

    def least(self, integers: Sequence[Graph]) -> list[float]:
        """The shortest milliseconds of some networks, in turns with the float network, whose time shows whether the machine is busy."""
        reference = self.reference
        sessions = [*(Session(g, threads=self.threads) for g in integers), reference]
        least = [math.inf] * len(integers)
        for _ in range(ATTEMPTS):
            *times, theirs = least_in_turns([partial(s.run, self.sample) for s in sessions])
            least = [min(pair) for pair in zip(least, times, strict=True)]
            self.reference_ms = min(self.reference_ms, theirs)
            if theirs <= CALM * self.reference_ms:
                break
        return least

    def arena_bytes(self, integer: Graph) -> int:
        """Bytes that a session of an integer graph needs beside the weights, for the batch."""
        return Session(integer, threads=1).arena_bytes(*(self.sample[name] for name in self._order))

    def _layer(self, node: Node) -> str:
        """The node, or the layer that a clamp is fused into."""
        first = node.input(0)
        before = self.graph.producers.get(first.name) if first is not None else None
        return before.output.name if before is not None and is_clamp(node.op) and multiplies(before) else node.output.name

    def layers(self, made: Quantized | None = None) -> dict[str, float]:
        """Milliseconds of each node of the float graph, by its first output, in a quantized form or in the float network."""
        session = self.reference if made is None else Session(made.integer, threads=self.threads)
        profile = session.profile(*(self.sample[name] for name in self._order), repeats=REPEATS)
        names = {} if made is None else {seen.name: value for value, seen in made.seen.items()}
        found: dict[str, float] = {}
        for row in profile.rows:
            node = self.graph.producers.get(names.get(row.value, row.value))
            if node is not None:
                key = self._layer(node)
                found[key] = found.get(key, 0.0) + row.ms
        return found


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights and their scales. Single numbers such as an activation's scale are not counted: no choice changes them."""
    return sum(c.value.type.nbytes for c in graph.constants.values() if c.data.size > 1)


def bytes_read(quantized: Graph, layers: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The bytes of the weights of groups of layers (by first outputs). Weights that several groups share count for the first."""
    counted: set[str] = set()
    found = {}
    for name, outputs in layers.items():
        read: set[str] = set()
        stack = list(outputs)
        while stack:
            node = quantized.producers.get(stack.pop())
            for v in node.inputs if node is not None else ():
                before = quantized.producers.get(v.name) if v is not None else None
                if v is not None and v.name in quantized.constants:
                    read.add(v.name)
                elif before is not None and before.op in BRACKETS:
                    stack.append(before.output.name)
        fresh = {c for c in read - counted if quantized.constants[c].data.size > 1}
        found[name] = sum(quantized.constants[c].value.type.nbytes for c in fresh)
        counted |= fresh
    return found


def counted(graph: Graph, macs: Mapping[str, int]) -> LayerCosts:
    """Costs without a clock: multiplications times the bits that they read. Used where accuracy may cost any time."""
    work = {n.output.name: 1e-6 * macs.get(n.output.name, 0) + 1e-9 for n in graph.nodes}
    times = {bits: {name: bits * w for name, w in work.items()} for bits in (8, 12, 16, 32)}
    return LayerCosts(times[32], times[8], times[16], times[12])


@dataclass(frozen=True)
class LayerCosts:
    """Milliseconds of each node, by first output: in float, in int8, with 16-bit inputs, and with inputs quantized per row."""

    real: Mapping[str, float]
    int8: Mapping[str, float]
    int16: Mapping[str, float]
    rows: Mapping[str, float]

    @property
    def whole(self) -> float:
        """Milliseconds of the float network."""
        return sum(self.real.values())

    def more(self, widths: Widths) -> float:
        """The additional time of the widths over int8; a node in several of them counts once."""
        done: set[str] = set()
        total = 0.0
        for nodes, times in (
            (widths.floats, self.real),
            (widths.rows, self.rows),
            (widths.layers | widths.weights | widths.taps, self.int16),
        ):
            for key in nodes - done:
                total += times.get(key, 0.0) - self.int8.get(key, 0.0)
            done |= nodes
        return total
