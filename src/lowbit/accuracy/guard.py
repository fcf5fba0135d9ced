"""The guard: quantizes, measures on samples that calibration never saw, and mends what is not good enough, cheapest first.

Good enough is `Goal`: the outputs' signal to noise ratio is above a floor, and the noise is well below that of plain min-max int8. Until
then it tries, each step measured and kept only if it helps:

    biases        stored biases take up the mean error
    clipping      ranges by least squared error or by percentile, everywhere or where it is measured to help
    smoothing     channels scaled into the weights (equalization at alpha 0.5), alpha searched
    rounding      weights rounded so that their errors cancel
    16-bit taps   values that no multiplication reads (residual sums, norms) are kept in 16 bits
    w8a16, w16a16 layers whose inputs (or weights) make the most noise at the outputs read (or have) 16 bits: any of them below the floor,
                  above it a small share of the multiplications, for they cost time
    float         at the end, if even that is not enough

Which taps and layers make the noise is measured, not guessed: each is rounded alone in the float network (`noise_shares`). Asymmetric
ranges per tensor are the recipe's default and need no step of their own. The same graph, data and recipe give the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from lowbit.accuracy.brackets import Measured, Pair, Sample, decibels, measure, noise_shares, outputs
from lowbit.accuracy.layers import weighted_layers
from lowbit.accuracy.ranges import ClippedRecord
from lowbit.accuracy.rounding import better_weights
from lowbit.accuracy.smooth import channel_peaks, seams, smoothed
from lowbit.accuracy.widths import RECURRENT, Widths, inputs_of, multiplies, rule_for
from lowbit.blas import one_thread
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.run import calibrate
from lowbit.dims import substitute
from lowbit.errors import LowbitWarning
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import last_uses
from lowbit.ops.quant import QUANTIZABLE, is_clamp
from lowbit.progress import progress
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.types import Array

HELD_BACK = 4  # one sample in so many is measured with and not calibrated with
MEASURED = 8  # at most so many samples are measured with
SHARES = 2  # and so many when the noise of single taps is measured
ROUNDS = 5  # of widening
NEAR = 3.0  # dB below the goal: where small gains may be enough
WIDE = 0.4  # of the multiplications that may read 16 bits where the floor is reached: they take about twice the time
LEAST = 0.1  # dB: what a step must gain to be kept
MEMORY = 0.5  # of the network's own bytes that samples side by side may take
SMALL = 256 << 20  # or this, for small networks


@dataclass(frozen=True)
class Goal:
    """floor   the least signal to noise ratio of the outputs, in dB
    gain    how much better than plain min-max int8 the outputs must be, in dB
    enough  beyond this nothing is tried, in dB
    """

    floor: float = 30.0
    gain: float = 6.0
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
    method: str  # of the observers
    clipped: frozenset[str] = frozenset()  # taps with the observers' ranges; the others have all that was seen
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
    executor: Executor | None = None,
) -> Guarded:
    """The graph quantized by the rules and mended until the goal is reached, or everything was tried.

    `executor` spreads calibration and measurements over processes or machines; the result is the same, bit for bit.
    """
    with one_thread():
        return _Guard(graph, samples, rules, goal or Goal(), method, islands, on_step, executor).run()


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
        executor: Executor | None,
    ) -> None:
        self.executor = executor
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
        rule = rule_for(state.graph, plain.taps(state.graph), state.widths, self.rules[0])
        return QuantizationTransform([rule, *self.rules]) if rule is not None else plain

    def record(self, state: State) -> CalibrationRecord:
        key = id(state.graph), state.method
        if key not in self.records:
            self.records[key] = calibrate(
                state.graph, self.calibration, self.seen(state.graph), method=state.method, executor=self.executor
            )
        return ClippedRecord(self.records[key].taps, state.clipped)

    def seen(self, graph: Graph) -> list[str]:
        """What calibration looks at: every tap, and what a clamp hides that would be a tap if one of the two layers stayed float."""
        transform = QuantizationTransform(self.rules)
        static = {k for k, d in transform.decisions(graph).items() if d.mode == "static"}
        between = [
            n.output.name
            for n in graph.nodes
            if n.output.name in static and any(u.output.name in static and is_clamp(u.op) for u in graph.users.get(n.output.name, ()))
        ]
        return list(dict.fromkeys([*transform.taps(graph).observed, *between]))

    def apply(self, state: State) -> Graph:
        with warnings.catch_warnings():  # the widths' rule may leave nothing to the recipe's, and that is as it should be
            warnings.simplefilter("ignore", LowbitWarning)
            return self.transform(state).apply(state.graph, self.record(state))

    def make(self, state: State) -> Graph:
        quantized = self.apply(state)
        if state.biases or state.rounding:
            quantized = better_weights(
                state.graph, quantized, self.side_by_side, rounding=state.rounding, clip=state.clip, biases=state.biases
            )
        return quantized

    def measure(self, quantized: Graph) -> Measured:
        return measure(quantized, self.held, self.references, self.executor)

    def _side_by_side(self) -> list[Sample]:
        """Samples for rounding: all of calibration's that fit into memory beside each other."""
        live = max(1, peak_bytes(self.source, self.calibration[0]))
        room = max(SMALL, int(MEMORY * self.source.parameter_bytes))
        count = max(1, min(len(self.calibration), room // (2 * live)))
        step = len(self.calibration) / count
        return [self.calibration[int(i * step)] for i in range(count)]

    # --- the road ---

    def run(self) -> Guarded:
        everywhere = frozenset(QuantizationTransform(self.rules).taps(self.source).observed)
        given = self.method != "minmax"
        self.state = State(self.source, self.method if given else "mse", everywhere if given else frozenset())
        best = self.make(self.state)
        plain = self.reached = self.measure(best).db
        self.goal = self.aim.db(plain)
        for what, where, tried in self.candidates(everywhere) if plain < self.goal else ():
            quantized = self.make(tried)
            after = self.measure(quantized).db
            kept = after >= self.reached + LEAST
            self.tell(GuardStep(what, where, self.reached, after, kept))
            if kept:
                best, self.reached, self.state = quantized, after, tried
            if self.reached >= self.goal:
                break
        return Guarded(best, tuple(self.steps), plain, self.reached)

    def tell(self, step: GuardStep) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    def candidates(self, everywhere: frozenset[str]) -> Iterator[tuple[str, str, State]]:
        """What to try next, given what was kept so far (`self.state`)."""
        yield "biases take up the mean error", "all layers", replace(self.state, biases=True)
        if self.few_bits:
            yield "weights clipped and rounded so that their errors cancel", "all layers", replace(self.state, rounding=True, clip=True)
        if not self.state.clipped:
            yield "clipping by mse", "all taps", replace(self.state, clipped=everywhere)
        if not self.state.clipped:
            yield "clipping by percentile", "all taps", replace(self.state, method="percentile", clipped=everywhere)
        better = self.worth_clipping(everywhere) if self.within(NEAR) else frozenset()
        if better not in (self.state.clipped, frozenset()):
            yield f"clipping by {self.state.method} where it helps", f"{len(better)} taps", replace(self.state, clipped=better)
        found = seams(self.source)
        if found:
            peaks = channel_peaks(self.source, self.calibration[:MEASURED], found)
            for alpha in (0.5, 0.75):
                if self.state.graph is self.source:
                    graph = smoothed(self.source, peaks, found, alpha)
                    what = "channels equalized into the weights" if alpha == 0.5 else f"channels smoothed into the weights, alpha {alpha}"
                    yield what, f"{len(found)} places", replace(self.state, graph=graph)
        if not self.few_bits:
            yield "weights rounded so that their errors cancel", "all layers", replace(self.state, rounding=True)
        if not self.few_bits:  # whoever asks for few bits wants them: the best rounding, and no wider weights
            yield from self.wider()

    def within(self, db: float) -> bool:
        """Whether the goal is so near that a step which costs many runs and gains little is worth its time."""
        return self.goal - self.reached <= db

    def worth_clipping(self, everywhere: frozenset[str]) -> frozenset[str]:
        """The taps that make less noise at the outputs when they are clipped."""
        taps = QuantizationTransform(self.rules).taps(self.source)
        noise = [self.shares(replace(self.state, clipped=c, biases=False, rounding=False), "tap ") for c in (frozenset(), everywhere)]
        better = [k.split(" ", 1)[1] for k in noise[0] if noise[1][k] < noise[0][k]]
        return frozenset(m for name in better for m in taps.groups[name])

    def wider(self) -> Iterator[tuple[str, str, State]]:
        """16 bits where the noise comes from; float at the end.

        A step that does not help is not kept, but the next one is built on it: noises that hid each other have to go together.
        """
        allowed = 10 ** (-self.goal / 10)
        banned: set[str] = set()
        path = self.state
        for round_ in range(ROUNDS):
            chosen = self.choose(path, allowed * (0.7 if round_ == 0 else 0.4 / round_), banned)
            if chosen is None:
                break
            what, widths = chosen
            tried = replace(path, widths=path.widths | widths)
            refused = self.refused(tried)
            if refused:
                banned |= refused
                tried = replace(path, widths=without(path.graph, tried.widths, refused))
                if tried.widths == path.widths:
                    continue
            yield what, self.names(path, tried), tried
            # What helped when all was coarse may be in the way now: a clipped range, weights fitted to errors that are gone.
            if tried.clipped:
                yield "no clipping", "all taps", replace(tried, clipped=frozenset())
            if self.state.rounding and not self.few_bits:
                yield "weights rounded to nearest", "all layers", replace(self.state, rounding=False)
            path = self.state if self.state.widths == tried.widths else tried
        yield from self.floats(path)

    def floats(self, path: State) -> Iterator[tuple[str, str, State]]:
        """What makes the most noise stays float, as long as the outputs are below the floor: what multiplies nothing first."""
        failures = 0
        while self.reached < self.aim.floor and failures < ROUNDS:
            chosen = self.choose_float(path)
            if chosen is None:
                return
            tried = replace(path, widths=path.widths | Widths(floats=chosen))
            yield "float", self.names(path, tried), tried
            failures += self.state is not tried
            path = tried

    def choose_float(self, state: State) -> frozenset[str] | None:
        """The layers around the tap (or with the weights) of most noise for each multiplication that would be float."""
        graph, macs = state.graph, mac_counts(state.graph, self.held[0])
        taps = self.transform(state).taps(graph)
        every = max(1, sum(macs.values()))
        options: dict[frozenset[str], float] = {}
        for unit, noise in self.shares(state, wide=True).items():
            kind, name = unit.split(" ", 1)
            if kind == "tap":
                group = [name, *taps.groups.get(name, ())]
                nodes = frozenset(u.output.name for m in group for u in graph.users.get(m, ()))
                if not any(multiplies(graph.producers[k]) for k in nodes):
                    nodes = island(graph, nodes)
            else:
                nodes = frozenset({name})
            nodes -= state.widths.floats
            if nodes:
                options[nodes] = options.get(nodes, 0.0) + noise / (0.01 + sum(macs.get(k, 0) for k in nodes) / every)
        return max(options, key=lambda k: (options[k], sorted(k))) if options else None

    def refused(self, state: State) -> frozenset[str]:
        """Layers that would become integers in the state as it is, and no longer with these widths."""
        if self.islands is None:
            return frozenset()
        now, then = (self.islands(self.apply(s)) for s in (self.state, state))
        return then - now

    def shares(self, state: State, kind: str = "", wide: bool = False) -> dict[str, float]:
        """The noise of each tap (`tap NAME`), of each layer's input (`layer NAME`) and of its weights (`weights NAME`), alone."""
        quantized = self.make(state)
        units = {k: v for k, v in self.units(state, quantized, wide).items() if k.startswith(kind)}
        samples = self.held[:SHARES]
        done = iter(progress(range(len(units) * len(samples)), "guard: where the noise comes from"))

        def step(_: str) -> None:
            next(done, None)

        return noise_shares(state.graph, quantized, samples, units, step, self.executor)

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

    def choose(self, state: State, allowed: float, banned: set[str]) -> tuple[str, Widths] | None:
        """What to widen so that the rest of the noise is allowed: by noise for each multiplication that becomes wider."""
        graph, shares = state.graph, self.shares(state)
        taps = self.transform(state).taps(graph)
        macs = mac_counts(graph, self.held[0])
        every = max(1, sum(macs.values()))
        options: list[tuple[float, str, float, Widths, frozenset[str]]] = []
        for unit, noise in shares.items():
            kind, name = unit.split(" ", 1)
            if name in banned:
                continue
            if kind == "tap":
                group = set(taps.groups[name])
                readers = {u.output.name: u for m in taps.groups[name] for u in graph.users.get(m, ()) if u.output.name not in group}
                layers = frozenset(k for k, u in readers.items() if multiplies(u)) - banned
                others = any(not multiplies(u) for u in readers.values())
                makers = frozenset(
                    p.output.name for m in taps.groups[name] if (p := graph.producers.get(m)) is not None and p.op in RECURRENT
                )
                if makers:  # a state is read by its own maker
                    layers |= makers - banned
                    widths = Widths(taps=frozenset({name}) | inputs_of(graph, taps, layers), layers=layers)
                elif others and layers:
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
            wider = sum(macs.get(k, 0) for k in layers) / every
            cost = 0.01 + (4 * wider if kind == "weights" else wider)  # 16-bit weights take bytes too, and 64-bit sums
            options.append((noise / cost, unit, noise, widths, layers))
        left = sum(shares.values())
        picked = Widths()
        names: list[str] = []
        wide = set(state.widths.layers | state.widths.weights)
        budget = every * (WIDE if self.reached >= self.aim.floor else 1.0)
        for _, unit, noise, widths, layers in sorted(options, key=lambda o: (-o[0], o[1])):
            if left <= allowed or noise <= 0:
                break
            if layers and sum(macs.get(k, 0) for k in wide | layers) > budget:
                continue
            wide |= layers
            left -= noise
            picked |= widths
            names.append(unit)
        if not names:
            return None
        kinds = [("w8a16", picked.layers), ("16-bit weights", picked.weights), ("16-bit taps", picked.taps)]
        return ", ".join(k for k, v in kinds if v), picked

    def names(self, before: State, now: State) -> str:
        found = sorted(now.widths - before.widths)
        graph = now.graph
        shown = list(dict.fromkeys((graph.producers[n].name or n) if n in graph.producers else n for n in found))
        return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")


def island(graph: Graph, start: frozenset[str]) -> frozenset[str]:
    """The layers that multiply nothing and hang together with these: a chain of squares, sums and roots is float from end to end."""
    found, stack = set(start), sorted(start)
    while stack:
        node = graph.producers[stack.pop()]
        beside = [graph.producers.get(v.name) for v in node.inputs if v is not None]
        beside += [u for o in node.outputs for u in graph.users.get(o.name, ())]
        for n in beside:
            if n is not None and n.op in QUANTIZABLE and not multiplies(n) and n.output.name not in found:
                found.add(n.output.name)
                stack.append(n.output.name)
    return frozenset(found)


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
            found[node.output.name] = int(substitute(count, {}))
    return found


def peak_bytes(graph: Graph, sample: Sample) -> int:
    """The most bytes that values of the graph take at a time, constants apart."""
    pair = Pair.bound(graph, graph, sample)
    dead, live, now, most = last_uses(pair.float), dict[str, int](), 0, 0
    for i, node in enumerate(pair.float.nodes):
        for o in node.outputs:
            live[o.name] = int(substitute(o.type.nbytes, {}))
            now += live[o.name]
        most = max(most, now)
        for name in dead.get(i, ()):
            now -= live.pop(name, 0)
    return most


__all__ = ["Goal", "GuardStep", "Guarded", "decibels", "guard", "split"]
