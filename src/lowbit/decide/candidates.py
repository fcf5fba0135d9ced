"""A candidate is a way to quantize a network; the maker turns it into a Q/DQ graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lowbit.calibration.run import calibrate
from lowbit.decide.batches import Joined
from lowbit.decide.brackets import Pair
from lowbit.decide.effort import Effort, mac_counts
from lowbit.decide.quality import Quantized
from lowbit.decide.ranges import ClippedRecord
from lowbit.decide.rounding import better_weights
from lowbit.decide.samples import Sample
from lowbit.decide.smooth import solid
from lowbit.decide.weights import all_weights, weighted_layers
from lowbit.decide.widths import Widths, rule_for
from lowbit.errors import LowbitWarning
from lowbit.ir.graph import SCALED, Constant, Graph, freeze
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quantization.rules import QuantRule, RuleMatcher
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array

SMALL = 64 << 20  # bytes of weights: of networks up to this size the integer graph of the best candidate is kept, of others the Q/DQ graph
MOST = 24  # batches that weights of few bits are rounded for


@dataclass(frozen=True)
class Candidate:
    """Everything that a Q/DQ graph is made of."""

    graph: Graph  # the float network, or one with channels scaled between its layers
    method: str  # of the observers
    clipped: frozenset[str] = frozenset()  # taps with the observers' ranges; the others have all that was seen
    widths: Widths = field(default_factory=Widths)
    biases: bool = False  # stored biases take up the mean error
    rounding: bool = False  # weights are rounded so that their errors cancel
    clip: bool = False  # weights' scales may clip the largest
    anew: bool = False  # biases are fitted to this candidate, not taken over from the one before it
    faster: frozenset[str] = frozenset()  # the layers that are float because that takes less time

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.graph), self.method, self.clipped, self.widths, self.biases, self.rounding, self.clip, self.anew, self.faster

    def repaired(self, source: Graph) -> tuple[str, ...]:
        """What was repaired that costs no time: ranges, channels that were scaled, the rounding of weights, biases."""
        done = {"ranges": bool(self.clipped), "channels": self.graph is not source, "rounding": self.rounding, "biases": self.biases}
        return tuple(name for name, so in done.items() if so)

    def said(self, source: Graph, recipe: QuantRule) -> str:
        """What it is, on a line: the recipe's bits, what was repaired, how many layers have other widths."""
        bits = recipe.dtype if recipe.weights in (None, recipe.dtype) else f"{recipe.dtype}, {recipe.weights} weights"
        repaired = self.repaired(source)
        text = f"{bits} with better {', '.join(repaired)}" if repaired else bits
        return "; ".join([text, *(f"{what} ({len(names)})" for what, names in self.widths.named)])


class CandidateMaker:
    """Makes candidates of one network.

    `recipe` is the rule whose layers are decided about; `first` are the user's rules, which match before it: what they decide stays so.
    `own` are the values that those layers make.
    """

    def __init__(
        self, graph: Graph, fit: Joined, recipe: QuantRule, executor: Executor | None, first: Sequence[QuantRule] = (),
        macs: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.source, self.recipe, self.first, self.executor, self.fit = graph, recipe, list(first), executor, fit
        self.rules = [*first, recipe]
        self.few_bits = recipe.weights in ("int4", "binary")
        decides = RuleMatcher(first).rule_for
        self.own = frozenset(o.name for n in graph.nodes if n.op in QUANTIZABLE and decides(n) is not None for o in n.outputs)
        self.macs = mac_counts(graph, fit[0]) if macs is None else macs
        self.all_macs = max(1, sum(self.macs.values()))
        self.effort = Effort.of(self.all_macs)
        self._records: dict[tuple[int, str], ClippedRecord] = {}
        self._alive: dict[int, Graph] = {}  # candidates are known by the ids of their float graphs
        self._made: dict[tuple[object, ...], Quantized] = {}
        self._means: dict[int, dict[str, NDArray[np.float64]]] = {}  # of layers, by the ids of their float graphs
        self.best: Candidate | None = None  # its graph is kept

    def compact(self, graph: Graph) -> Graph:
        """The graph with its scaled constants computed once, if there is room for a second network."""
        return solid(graph) if graph.parameter_bytes <= SMALL else graph

    def transform(self, candidate: Candidate) -> QuantizationTransform:
        plain = QuantizationTransform(self.rules)
        rule = rule_for(candidate.graph, plain.taps(candidate.graph), candidate.widths, self.recipe, self.own, candidate.faster)
        return QuantizationTransform([*self.first, rule, self.recipe]) if rule is not None else plain

    def record(self, candidate: Candidate) -> ClippedRecord:
        self._alive[id(candidate.graph)] = candidate.graph
        key = id(candidate.graph), candidate.method
        if key not in self._records:
            known = next((r for (graph, _), r in self._records.items() if graph == id(candidate.graph) and r.reads(candidate.method)), None)
            best = self.best and (id(self.best.graph), self.best.method)
            self._records = {k: v for k, v in self._records.items() if k in (best, (id(self.source), candidate.method))}
            self._records[key] = self._seen(candidate) if known is None else known.read_by(candidate.method)
        return self._records[key].at(candidate.clipped)

    def _seen(self, candidate: Candidate) -> ClippedRecord:
        """The record of the candidate's float graph. Of a graph with scaled channels, only the values that were scaled are seen anew."""
        taps = QuantizationTransform(self.rules).every_tap(candidate.graph)
        numbers = self.fit.numbers
        before = self._records.get((id(self.source), candidate.method))
        known = unscaled(candidate.graph, before, taps) if before is not None and candidate.graph is not self.source else frozenset[str]()
        new = [t for t in taps if t not in known]
        found = calibrate(candidate.graph, self.fit, new, method=candidate.method, executor=self.executor, numbers=numbers).taps
        return ClippedRecord(found) if before is None or not known else before.with_others(found, known)

    def forget(self, graph: Graph) -> None:
        """Lets go of a float graph whose candidates are not tried any more: it is as large as the network."""
        self._alive.pop(id(graph), None)
        self._means.pop(id(graph), None)
        self._records = {k: v for k, v in self._records.items() if k[0] != id(graph)}
        self._made = {k: v for k, v in self._made.items() if k[0] != id(graph)}

    def make(self, candidate: Candidate) -> Graph:
        """The Q/DQ graph."""
        return self.made(candidate).graph

    def made(self, candidate: Candidate) -> Quantized:
        """The Q/DQ graph with what is made of it. Those of the last candidate and of the best one are kept."""
        key = candidate.key
        if key not in self._made:
            small = self.source.parameter_bytes <= SMALL
            best = {k: v for k, v in self._made.items() if self.best is not None and k == self.best.key}
            self._made = best if small else {k: Quantized(v.graph, self.source) for k, v in best.items()}
            quantized = self.plain(candidate)
            near = self._near(candidate)
            if near is not None:
                quantized = with_weights_of(quantized, near.graph)
                quantized = with_scales_of(candidate.graph, quantized, near.graph) if candidate.clip else quantized
            elif candidate.biases or candidate.rounding:
                quantized = better_weights(
                    candidate.graph, quantized, self._side_by_side(),
                    rounding=candidate.rounding, clip=candidate.clip, biases=candidate.biases, undo=self.few_bits, leave=self.own,
                    means=self._means.setdefault(id(candidate.graph), {}),
                )  # fmt: skip
            self._made[key] = Quantized(quantized, self.source)
        return self._made[key]

    def _near(self, candidate: Candidate) -> Quantized | None:
        """The best candidate, if it differs in widths alone and its weights were rounded with care: they are taken over, not made again.

        Weights of few bits make good the errors of the layers before them, and are made anew for others.
        """
        if self.few_bits or self.best is None or candidate.anew or not (candidate.biases or candidate.rounding):
            return None
        if candidate.widths.fours != self.best.widths.fours:
            return None  # weights that become four bits are rounded with care, and none of theirs are there yet
        same = replace(self.best, widths=candidate.widths, faster=candidate.faster)
        return self._made.get(self.best.key) if same.key == candidate.key else None

    def plain_bytes(self, candidate: Candidate) -> int:
        """The bytes of the candidate's stored parameters, which are the same however weights are rounded."""
        return self.plain(candidate).parameter_bytes

    def plain(self, candidate: Candidate) -> Graph:
        """The Q/DQ graph with every weight and bias rounded to the nearest."""
        with warnings.catch_warnings():  # the widths' rule may leave nothing to the recipe's, and that is as it should be
            warnings.simplefilter("ignore", LowbitWarning)
            made = self.transform(candidate).apply(candidate.graph, self.record(candidate))
        theirs, remarks = (t.matcher.remarks(candidate.graph) for t in (self.transform(candidate), QuantizationTransform(self.rules)))
        return solid(replace(made, notes={**{k: v for k, v in made.notes.items() if k not in theirs}, **remarks}))

    def _side_by_side(self) -> list[Sample]:
        """Batches that weights are rounded for."""
        return self.fit.some(min(4 * self.effort.rounded, MOST) if self.few_bits else self.effort.rounded)

    def weight_share(self, layer: str) -> float:
        """The share of the network's constants that a layer reads."""
        node = self.source.producers[layer]
        read = sum(v.type.nbytes for v in node.inputs if v is not None and v.name in self.source.constants)
        return read / max(1, self.source.parameter_bytes)

    def units(self, candidate: Candidate) -> dict[str, tuple[str, ...]]:
        """The roundings of a candidate that can be made better one by one (see `sensitivity`)."""
        graph, quantized = candidate.graph, self.make(candidate)
        taps = self.transform(candidate).taps(graph)
        pair = Pair(graph, quantized)
        units: dict[str, tuple[str, ...]] = {}
        chained = {b.real for b in pair.brackets.values() if b.of in pair.brackets}  # a second bracket: 16 bits read as 8
        for real, bracket in pair.brackets.items():
            if bracket.constant:
                continue
            if real in chained:
                for user in (u for u in quantized.users.get(real, ()) if u.output.name in graph.producers):
                    units[f"layer {user.output.name}"] = (*units.get(f"layer {user.output.name}", ()), real)
            elif bracket.of in taps.groups:
                root = taps.groups[bracket.of][0]
                units[f"tap {root}"] = (*units.get(f"tap {root}", ()), real)
        for layer in weighted_layers(graph, quantized):
            if layer.node.output.name in graph.producers:
                units[f"weights {layer.node.output.name}"] = all_weights(quantized, layer.node)
        return units


def unscaled(graph: Graph, record: ClippedRecord, taps: Iterable[str]) -> frozenset[str]:
    """The taps of a graph with scaled channels that hold what they held before: scales are powers of two, so that no bit is another."""
    return frozenset(t for t in taps if t in record.taps and f"{SCALED}{t}" not in graph.notes)


def with_weights_of(quantized: Graph, other: Graph) -> Graph:
    """The Q/DQ graph with the integers of another one wherever both have the same constant on the same grid."""
    changed = {}
    for name, c in quantized.constants.items():
        theirs, grids = other.constants.get(name), [g.constants.get(f"{name}:scale") for g in (quantized, other)]
        if theirs is None or theirs.value != c.value or grids[0] is None or grids[1] is None:
            continue
        if c.data.dtype.kind == "i" and grids[0].data.shape == grids[1].data.shape and np.array_equal(grids[0].data, grids[1].data):
            changed[name] = theirs
    return replace(quantized, constants={**quantized.constants, **changed})


def with_scales_of(graph: Graph, quantized: Graph, other: Graph) -> Graph:
    """The Q/DQ graph with the clipped weights of another one, their scales, and biases on the grid of these scales.

    `graph` is the float graph. Layers whose weights have another dtype there are left as they are.
    """
    changed: dict[str, Constant] = {}

    def put(name: str, data: Array) -> None:
        changed[name] = Constant(quantized.constants[name].value, freeze(data))

    for layer in weighted_layers(graph, quantized):
        theirs = other.constants.get(layer.stored)
        scale, wanted = quantized.constants[layer.scale].data, other.constants.get(layer.scale)
        if theirs is None or wanted is None or theirs.value != quantized.constants[layer.stored].value or wanted.data.shape != scale.shape:
            continue
        changed[layer.stored], changed[layer.scale] = theirs, wanted
        names = [v.name for v in layer.bias.inputs[:2] if v is not None] if layer.bias is not None else []
        if len(names) == 2 and all(n in other.constants for n in names):
            before = quantized.constants[names[1]].data
            grid = (before * (wanted.data / scale).reshape(-1)).astype(np.float32).reshape(before.shape)
            real = other.constants[names[0]].data * other.constants[names[1]].data.astype(np.float64)
            put(names[1], grid)
            put(names[0], np.clip(np.rint(real / grid), -(2**31) + 1, 2**31 - 1).astype(np.int32))
    return replace(quantized, constants={**quantized.constants, **changed})
