"""The guard: quantizes, measures on samples that calibration never saw, and mends what is not good enough, cheapest first.

Good enough is `Goal`: the outputs' signal to noise ratio is above a floor, and the noise is well below that of plain min-max int8. Until
then it tries, each step measured and kept only if it helps:

    clipping      ranges by least squared error, or by percentile
    biases        stored biases take up the mean error
    smoothing     channels scaled into the weights (equalization at alpha 0.5), alpha searched
    rounding      weights rounded so that their errors cancel
    16-bit taps   values that no multiplication reads (residual sums, norms) are kept in 16 bits
    w8a16, w16a16 layers whose inputs (or weights) make the most noise at the outputs read (or have) 16 bits
    float         at the end, if even that is not enough

Which taps and layers make the noise is measured, not guessed: each is rounded alone in the float network (`noise_shares`). Asymmetric
ranges per tensor are the recipe's default and need no step of their own. The same graph, data and recipe give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowbit.accuracy.brackets import Measured, Pair, Sample, decibels, measure, noise_shares, outputs
from lowbit.accuracy.layers import weighted_layers
from lowbit.accuracy.rounding import better_weights
from lowbit.accuracy.smooth import channel_peaks, seams, smoothed
from lowbit.accuracy.widths import RECURRENT, Widths, inputs_of, multiplies, rule_for
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.run import calibrate
from lowbit.dims import substitute
from lowbit.ir.graph import Graph, Node
from lowbit.progress import progress
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array

HELD_BACK = 4  # one sample in so many is measured with and not calibrated with
MEASURED = 8  # at most so many samples are measured with
SHARES = 2  # and so many when the noise of single taps is measured
ROUNDS = 5  # of widening
LEAST = 0.1  # dB: what a step must gain to be kept
MEMORY = 0.5  # of the network's own bytes that samples side by side may take
SMALL = 64 << 20  # or this, for small networks


@dataclass(frozen=True)
class Goal:
    """floor   the least signal to noise ratio of the outputs, in dB
    gain    how much better than plain min-max int8 the outputs must be, in dB
    enough  beyond this nothing is tried, in dB
    """

    floor: float = 30.0
    gain: float = 4.0
    enough: float = 60.0

    def db(self, plain: float) -> float:
        return min(max(self.floor, plain + self.gain), self.enough)


@dataclass(frozen=True)
class GuardStep:
    """What was tried, where, the outputs' dB before and after on held-back samples, and whether it was kept."""

    what: str
    where: str
    before: float
    after: float
    kept: bool

    def __str__(self) -> str:
        return f"{self.what} ({self.where}): {self.before:.1f} → {self.after:.1f} dB, {'kept' if self.kept else 'not kept'}"


@dataclass(frozen=True)
class Guarded:
    """The Q/DQ graph, what was done, and the outputs' dB on held-back samples: of plain quantization, and now."""

    graph: Graph
    steps: tuple[GuardStep, ...]
    plain: float
    reached: float


Islands = Callable[[Graph], frozenset[str]]  # the layers (by first output) of a Q/DQ graph that would not become integers


@dataclass(frozen=True)
class State:
    """A way to quantize: everything a Q/DQ graph is made of."""

    graph: Graph
    record: CalibrationRecord
    method: str = "minmax"
    widths: Widths = field(default_factory=Widths)
    biases: bool = False
    rounding: bool = False
    clip: bool = False


def split(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Samples to calibrate with and samples to measure with. One sample alone has to be both."""
    held = list(samples[HELD_BACK - 1 :: HELD_BACK]) or list(samples[-1:] if len(samples) > 1 else samples)
    rest = [s for i, s in enumerate(samples) if i % HELD_BACK != HELD_BACK - 1]
    if len(samples) < HELD_BACK:
        rest = list(samples[:-1]) or list(samples)
    step = -(-len(held) // MEASURED)
    return rest, held[::step]


def guard(
    graph: Graph,
    samples: Sequence[Sample],
    rules: Sequence[QuantRule],
    *,
    goal: Goal | None = None,
    method: str = "minmax",
    islands: Islands | None = None,
    on_step: Callable[[GuardStep], None] | None = None,
) -> Guarded:
    """The graph quantized by the rules and mended until the goal is reached, or everything was tried."""
    return _Guard(graph, samples, rules, goal or Goal(), method, islands, on_step).run()


class _Guard:
    def __init__(
        self,
        graph: Graph,
        samples: Sequence[Sample],
        rules: Sequence[QuantRule],
        goal: Goal,
        method: str,
        islands: Islands | None,
        on_step: Callable[[GuardStep], None] | None,
    ) -> None:
        self.rules, self.aim, self.method, self.islands, self.on_step = list(rules), goal, method, islands, on_step
        self.source = graph
        self.calibration, self.held = split(samples)
        self.references: list[Mapping[str, Array]] = [outputs(graph, s) for s in self.held]
        self.steps: list[GuardStep] = []
        self.few_bits = any(r.weights in ("int4", "binary") for r in self.rules)
        self.side_by_side = self._side_by_side()
        self.records: dict[tuple[int, str], CalibrationRecord] = {}

    # --- making and measuring ---

    def transform(self, state: State) -> QuantizationTransform:
        plain = QuantizationTransform(self.rules)
        base = self.rules[0]
        rule = rule_for(state.graph, plain.taps(state.graph), state.widths, base)
        return QuantizationTransform([rule, *self.rules]) if rule is not None else plain

    def record(self, graph: Graph, method: str) -> CalibrationRecord:
        key = id(graph), method
        if key not in self.records:
            taps = QuantizationTransform(self.rules).taps(graph).observed
            self.records[key] = calibrate(graph, self.calibration, taps, method=method)
        return self.records[key]

    def make(self, state: State) -> Graph:
        quantized = self.transform(state).apply(state.graph, state.record)
        if state.biases or state.rounding:
            quantized = better_weights(
                state.graph, quantized, self.side_by_side, rounding=state.rounding, clip=state.clip, biases=state.biases
            )
        return quantized

    def measure(self, quantized: Graph) -> Measured:
        return measure(self.source, quantized, self.held, self.references)

    def _side_by_side(self) -> list[Sample]:
        """Samples for rounding: all of calibration's that fit into memory beside each other."""
        live = max(1, peak_bytes(self.source, self.calibration[0]))
        room = max(SMALL, int(MEMORY * self.source.parameter_bytes))
        count = max(1, min(len(self.calibration), room // (2 * live)))
        step = len(self.calibration) / count
        return [self.calibration[int(i * step)] for i in range(count)]

    # --- the road ---

    def run(self) -> Guarded:
        state = State(self.source, self.record(self.source, self.method), self.method)
        best = self.make(state)
        plain = reached = self.measure(best).db
        self.goal = self.aim.db(plain)
        for what, where, tried in self.candidates(state):
            quantized = self.make(tried)
            after = self.measure(quantized).db
            kept = after >= reached + LEAST
            self.tell(GuardStep(what, where, reached, after, kept))
            if kept:
                best, reached, self.state = quantized, after, tried
            if reached >= self.goal:
                break
        return Guarded(best, tuple(self.steps), plain, reached)

    def tell(self, step: GuardStep) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    def candidates(self, start: State) -> Iterator[tuple[str, str, State]]:
        """What to try next, given what was kept so far (`self.state`)."""
        self.state = start
        yield "biases take up the mean error", "all layers", replace(self.state, biases=True)
        if self.few_bits:
            yield "weights clipped and rounded so that their errors cancel", "all layers", replace(self.state, rounding=True, clip=True)
        for method in ("mse", "percentile"):
            if self.state.method == self.method != method:
                record = self.record(self.state.graph, method)
                yield f"clipping by {method}", "all taps", replace(self.state, record=record, method=method)
        found = seams(self.source)
        if found:
            peaks = channel_peaks(self.source, self.calibration[:MEASURED], found)
            for alpha in (0.5, 0.75):
                if self.state.graph is self.source:
                    graph = smoothed(self.source, peaks, found, alpha)
                    record = self.record(graph, self.state.method)
                    what = "channels equalized into the weights" if alpha == 0.5 else f"channels smoothed into the weights, alpha {alpha}"
                    yield what, f"{len(found)} places", replace(self.state, graph=graph, record=record)
        if not self.few_bits:
            yield "weights rounded so that their errors cancel", "all layers", replace(self.state, rounding=True)
        yield from self.wider()

    def wider(self) -> Iterator[tuple[str, str, State]]:
        """16 bits where the noise comes from; float at the end."""
        allowed = 10 ** (-self.goal / 10)
        banned: set[str] = set()
        for round_ in range(ROUNDS):
            shares = self.shares()
            spare = allowed * (0.7 if round_ == 0 else 0.4 / round_)
            chosen = self.choose(shares, spare, banned)
            if chosen is None:
                break
            what, widths = chosen
            tried = replace(self.state, widths=self.state.widths | widths)
            refused = self.refused(tried)
            if refused:
                banned |= refused
                tried = replace(self.state, widths=without(self.state.graph, self.state.widths | widths, refused))
                if tried.widths == self.state.widths:
                    continue
            before = self.state
            yield what, self.names(tried.widths, before.widths), tried
            if self.state is before:  # it did not help: no way on
                break
        if self.islands is not None:
            yield from self.floats()

    def floats(self) -> Iterator[tuple[str, str, State]]:
        """The layers with the most noise stay float, one after another."""
        for _ in range(ROUNDS):
            shares = {k.split(" ", 1)[1]: v for k, v in self.shares().items() if k.startswith("weights ")}
            left = {k: v for k, v in shares.items() if k not in self.state.widths.floats}
            if not left:
                return
            worst = max(left, key=lambda k: left[k])
            before = self.state
            yield "float", worst, replace(self.state, widths=self.state.widths | Widths(floats=frozenset({worst})))
            if self.state is before:
                return

    def refused(self, state: State) -> frozenset[str]:
        """Layers that would become integers in the state as it is, and no longer with these widths."""
        if self.islands is None:
            return frozenset()
        now, then = (self.islands(self.transform(s).apply(s.graph, s.record)) for s in (self.state, state))
        return then - now

    def shares(self) -> dict[str, float]:
        """The noise of each tap (`tap NAME`), of each layer's input (`layer NAME`) and of its weights (`weights NAME`), alone."""
        graph, quantized = self.state.graph, self.make(self.state)
        units = self.units(quantized)
        done = iter(progress(range(len(units) * min(SHARES, len(self.held))), "guard: where the noise comes from"))
        return noise_shares(graph, quantized, self.held[:SHARES], units, lambda _: next(done, None) and None)

    def units(self, quantized: Graph) -> dict[str, tuple[str, ...]]:
        graph = self.state.graph
        taps = self.transform(self.state).taps(graph)
        pair = Pair(graph, quantized)
        units: dict[str, tuple[str, ...]] = {}
        chained = {b.real for b in pair.brackets.values() if b.of in pair.brackets}  # a second bracket: 16 bits read as 8
        for real, bracket in pair.brackets.items():
            if bracket.constant or bracket.dtype == "int16":
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

    def choose(self, shares: Mapping[str, float], allowed: float, banned: set[str]) -> tuple[str, Widths] | None:
        """What to widen so that the rest of the noise is allowed: by noise for each multiplication that becomes wider."""
        graph = self.state.graph
        taps = self.transform(self.state).taps(graph)
        macs = mac_counts(graph, self.held[0])
        every = max(1, sum(macs.values()))
        options: list[tuple[float, str, float, Widths]] = []
        for unit, noise in shares.items():
            kind, name = unit.split(" ", 1)
            if name in banned:
                continue
            if kind == "tap":
                readers = {u.output.name: u for m in taps.groups[name] for u in graph.users.get(m, ())}
                layers = frozenset(k for k, u in readers.items() if multiplies(u) and u.op not in RECURRENT) - banned
                others = any(not multiplies(u) for u in readers.values())
                if others and layers:
                    widths = Widths(taps=frozenset({name}))  # the layers go on reading 8 bits
                    layers = frozenset()
                elif layers or others:
                    widths = Widths(taps=frozenset({name}) | inputs_of(graph, taps, layers), layers=layers)
                else:
                    continue
            elif kind == "layer":
                layers = frozenset({name})
                widths = Widths(taps=inputs_of(graph, taps, layers), layers=layers)
            else:
                layers = frozenset({name})
                widths = Widths(weights=layers)
            cost = 0.01 + sum(macs.get(k, 0) for k in layers) / every
            options.append((noise / cost, unit, noise, widths))
        left = sum(shares.values())
        picked = Widths()
        names: list[str] = []
        for _, unit, noise, widths in sorted(options, key=lambda o: (-o[0], o[1])):
            if left <= allowed or noise <= 0:
                break
            left -= noise
            picked |= widths
            names.append(unit)
        if not names:
            return None
        kinds = [("w8a16", picked.layers), ("16-bit weights", picked.weights), ("16-bit taps", picked.taps)]
        return ", ".join(k for k, v in kinds if v), picked

    def names(self, now: Widths, before: Widths) -> str:
        found = sorted((now.layers | now.weights | now.taps) - (before.layers | before.weights | before.taps))
        graph = self.state.graph
        shown = list(dict.fromkeys((graph.producers[n].name or n) if n in graph.producers else n for n in found))
        return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")


def without(graph: Graph, widths: Widths, refused: frozenset[str]) -> Widths:
    """The widths with nothing wide at the refused layers: neither they nor the taps they read and make."""
    nodes: list[Node] = [graph.producers[k] for k in refused if k in graph.producers]
    beside = {v.name for n in nodes for v in (*n.inputs, *n.outputs) if v is not None}
    return Widths(widths.taps - beside, widths.layers - refused, widths.weights - refused, widths.floats)


def mac_counts(graph: Graph, sample: Sample) -> dict[str, int]:
    """Multiplications of each node that counts them, by first output, at the sizes of a sample."""
    pair = Pair.bound(graph, graph, sample)
    found = {}
    for node in pair.float.nodes:
        if node.definition.macs is not None:
            count = node.definition.macs(*(None if v is None else v.type for v in node.inputs), **node.attrs)
            found[node.output.name] = int(substitute(count, {}))  # type: ignore[arg-type]
    return found


def peak_bytes(graph: Graph, sample: Sample) -> int:
    """The most bytes that values of the graph take at a time, constants apart."""
    pair = Pair.bound(graph, graph, sample)
    from lowbit.ir.interp import last_uses

    dead, live, now, most = last_uses(pair.float), dict[str, int](), 0, 0
    for i, node in enumerate(pair.float.nodes):
        for o in node.outputs:
            live[o.name] = int(substitute(o.type.nbytes, {}))  # type: ignore[arg-type]
            now += live[o.name]
        most = max(most, now)
        for name in dead.get(i, ()):
            now -= live.pop(name, 0)
    return most


__all__ = ["Goal", "GuardStep", "Guarded", "decibels", "guard", "split"]
