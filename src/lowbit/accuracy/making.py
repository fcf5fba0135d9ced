"""A way to quantize (`State`) made into a Q/DQ graph and measured: the workshop of the guard, which decides what is tried."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowbit.accuracy.brackets import Measured, Pair, Sample, measure, noise_shares
from lowbit.accuracy.costs import Effort, mac_counts, peak_bytes
from lowbit.accuracy.held import split
from lowbit.accuracy.layers import weighted_layers
from lowbit.accuracy.ranges import ClippedRecord
from lowbit.accuracy.rounding import better_weights
from lowbit.accuracy.smooth import solid
from lowbit.accuracy.widths import Widths, rule_for
from lowbit.calibration.run import calibrate
from lowbit.errors import LowbitWarning
from lowbit.ir.file import load, save
from lowbit.ir.graph import Graph
from lowbit.ops.quant import QUANTIZABLE
from lowbit.progress import progress
from lowbit.quantization.rules import QuantRule, RuleMatcher
from lowbit.quantization.transform import QuantizationTransform

MEMORY = 0.15  # of the network's own bytes that samples side by side may take
SMALL = 64 << 20  # or this, for small networks; of those two Q/DQ graphs are in memory at a time

Islands = Callable[[Graph], frozenset[str]]  # the layers (by first output) of a Q/DQ graph that would not become integers


@dataclass(frozen=True)
class State:
    """A way to quantize: everything a Q/DQ graph is made of."""

    graph: Graph
    method: str  # of the observers
    clipped: frozenset[str] = frozenset()  # taps with the observers' ranges; the others have all that was seen
    widths: Widths = field(default_factory=Widths)
    biases: bool = False
    rounding: bool = False
    clip: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.graph), self.method, self.clipped, self.widths, self.biases, self.rounding, self.clip


class Aside:
    """One graph in a file, by its key."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def put(self, key: tuple[object, ...], graph: Graph) -> None:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="lowbit-graph-")
        save(graph, Path(self._folder.name) / "graph.lowbit")
        self._key = key

    def get(self, key: tuple[object, ...]) -> Graph | None:
        if self._folder is None or key != self._key:
            return None
        return load(Path(self._folder.name) / "graph.lowbit")


class Workshop:
    """Makes and measures states of one network.

    `recipe` is the rule whose layers are looked after; `first` are the user's, which match before it: what they decide stays so. `own` are
    the values that those layers make.
    """

    def __init__(
        self,
        graph: Graph,
        samples: Sequence[Sample],
        recipe: QuantRule,
        islands: Islands | None,
        executor: Executor | None,
        first: Sequence[QuantRule] = (),
    ) -> None:
        self.source, self.recipe, self.first, self.rules, self.islands, self.executor = (
            graph, recipe, list(first), [*first, recipe], islands, executor,
        )  # fmt: skip
        decides = RuleMatcher(first).rule_for
        self.own = frozenset(o.name for n in graph.nodes if n.op in QUANTIZABLE and decides(n) is not None for o in n.outputs)
        self.macs = mac_counts(graph, samples[0])
        self.every = max(1, sum(self.macs.values()))
        self.effort = Effort.of(self.every)
        self.calibration, self.held = split(samples, self.effort.measured)
        live = max(1, peak_bytes(graph, self.calibration[0]))
        self.room = max(1, max(SMALL, int(MEMORY * graph.parameter_bytes)) // (2 * live))  # samples that fit into memory beside each other
        self.side_by_side = self._side_by_side()
        self._records: dict[tuple[int, str], ClippedRecord] = {}
        self._graphs: dict[int, Graph] = {}  # kept alive, because states are known by their ids
        self.best: State | None = None  # what the guard would go back to
        self._last: dict[tuple[object, ...], Graph] = {}
        self._aside = Aside()
        self._shares: dict[tuple[object, ...], dict[str, float]] = {}

    def transform(self, state: State) -> QuantizationTransform:
        plain = QuantizationTransform(self.rules)
        rule = rule_for(state.graph, plain.taps(state.graph), state.widths, self.recipe, self.own)
        return QuantizationTransform([*self.first, rule, self.recipe]) if rule is not None else plain

    def record(self, state: State) -> ClippedRecord:
        self._graphs[id(state.graph)] = state.graph
        key = id(state.graph), state.method
        best = self.best and (id(self.best.graph), self.best.method)
        self._records = {k: v for k, v in self._records.items() if k in (key, best)}
        if key not in self._records:
            seen = calibrate(
                state.graph,
                self.calibration,
                QuantizationTransform(self.rules).every_tap(state.graph),
                method=state.method,
                executor=self.executor,
                numbers=self.calibration.numbers,
            )
            self._records[key] = ClippedRecord(seen.taps)
        return self._records[key].at(state.clipped)

    def forget(self, graph: Graph) -> None:
        """Lets go of a graph whose states are not tried any more: it is as large as the network."""
        self._graphs.pop(id(graph), None)
        self._records = {k: v for k, v in self._records.items() if k[0] != id(graph)}
        self._last = {k: v for k, v in self._last.items() if k[0] != id(graph)}
        self._shares = {k: v for k, v in self._shares.items() if k[0] != id(graph)}

    def apply(self, state: State) -> Graph:
        with warnings.catch_warnings():  # the widths' rule may leave nothing to the recipe's, and that is as it should be
            warnings.simplefilter("ignore", LowbitWarning)
            made = self.transform(state).apply(state.graph, self.record(state))
        theirs, remarks = (t.matcher.remarks(state.graph) for t in (self.transform(state), QuantizationTransform(self.rules)))
        return solid(replace(made, notes={**{k: v for k, v in made.notes.items() if k not in theirs}, **remarks}))

    def make(self, state: State) -> Graph:
        key = state.key
        if key not in self._last:
            self._set_aside()
            quantized = self._aside.get(key)
            if quantized is None:
                quantized = self.apply(state)
                if state.biases or state.rounding:
                    quantized = better_weights(
                        state.graph, quantized, self.side_by_side,
                        rounding=state.rounding, clip=state.clip, biases=state.biases, leave=self.own,
                    )  # fmt: skip
            self._last[key] = quantized
        return self._last[key]

    def _set_aside(self) -> None:
        """Lets go of every Q/DQ graph but the best; that one too, into a file, if two are much beside a network of that size."""
        best = {k: v for k, v in self._last.items() if self.best is not None and k == self.best.key}
        self._last = {}
        if self.source.parameter_bytes > SMALL:
            for k, v in best.items():
                self._aside.put(k, v)
        else:
            self._last = best

    def small(self, graph: Graph) -> Graph:
        """The graph with its scaled constants computed once, if there is room for a second network."""
        return solid(graph) if graph.parameter_bytes <= SMALL else graph

    def measure(self, state: State) -> Measured:
        return measure(state.graph, self.make(state), self.held, self.executor, self.room, self.held.numbers)

    def _side_by_side(self) -> list[Sample]:
        """Samples for rounding: those of calibration's that fit into memory beside each other, and that there is time for."""
        count = max(1, min(len(self.calibration), self.room, self.effort.side_by_side))
        step = len(self.calibration) / count
        return [self.calibration[int(i * step)] for i in range(count)]

    def refused(self, now: State, then: State) -> frozenset[str]:
        """Layers that become integers in the one state and would not in the other."""
        if self.islands is None:
            return frozenset()
        a, b = (self.islands(self.apply(s)) for s in (now, then))
        return b - a

    def wide_share(self, state: State) -> float:
        """The share of the multiplications that read 16 bits."""
        return sum(self.macs.get(k, 0) for k in state.widths.layers | state.widths.weights) / self.every

    def shares(self, state: State, kind: str = "", wide: bool = False) -> dict[str, float]:
        """The noise of each tap (`tap NAME`), of each layer's input (`layer NAME`) and of its weights (`weights NAME`), alone."""
        key = (*state.key, kind, wide)
        if key not in self._shares:
            quantized = self.make(state)
            units = {k: v for k, v in self.units(state, quantized, wide).items() if k.startswith(kind)}
            samples = self.held[: self.effort.shares]
            done = iter(progress(range(len(units) * len(samples)), "guard: where the noise comes from"))

            def step(_: str) -> None:
                next(done, None)

            self._shares[key] = noise_shares(state.graph, quantized, samples, units, step, self.executor)
        return self._shares[key]

    def units(self, state: State, quantized: Graph, wide: bool) -> dict[str, tuple[str, ...]]:
        """The roundings to measure; with `wide` those to 16 bits too."""
        graph = state.graph
        taps = self.transform(state).taps(graph)
        pair = Pair(graph, quantized)
        units: dict[str, tuple[str, ...]] = {}
        chained = {b.real for b in pair.brackets.values() if b.of in pair.brackets}  # a second bracket: 16 bits read as 8
        for real, bracket in pair.brackets.items():
            if bracket.constant or (bracket.dtype == "int16" and not wide):
                continue
            if real in chained:
                for user in quantized.users.get(real, ()):
                    units[f"layer {user.output.name}"] = (*units.get(f"layer {user.output.name}", ()), real)
            elif bracket.of in taps.groups:
                root = taps.groups[bracket.of][0]
                units[f"tap {root}"] = (*units.get(f"tap {root}", ()), real)
        for layer in weighted_layers(graph, quantized):
            stored = quantized.constants[layer.stored].value.type.dtype
            if stored.bits <= 8:
                units[f"weights {layer.node.output.name}"] = (layer.weight.output.name,)
        return units
