"""A Q/DQ graph beside the float graph it was made of: where its brackets are, and runs in which only some of them round.

Both graphs name their values alike, so a bracket that does not round hands on what came in, and a weight that does not round is the
float graph's constant. With all of them off, a run is that of the float graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count as counting
from itertools import islice

import numpy as np

from lowbit.calibration.run import need_finite
from lowbit.calibration.spread import spread
from lowbit.errors import LowbitError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.interp import check_inputs, evaluate, last_uses, run_node
from lowbit.ir.samples import count
from lowbit.progress import progress
from lowbit.types import Array

Sample = Mapping[str, Array]
Env = dict[str, Array]
QUANTIZES, DEQUANTIZES = ("quantize_linear", "quantize_rows"), ("dequantize_linear", "dequantize_rows")
BRACKETS = (*QUANTIZES, *DEQUANTIZES)


@dataclass(frozen=True)
class Bracket:
    """A rounding in a Q/DQ graph: of the value `of`, read from `real` on. Constants have no quantize node."""

    of: str
    real: str
    dtype: str
    constant: bool


def source_name(name: str, graph: Graph) -> str | None:
    """The constant of the float graph that a stored constant (`w:int8`) stands for."""
    stem = name.rsplit(":", 1)[0]
    return stem if stem in graph.constants else None


def late(graph: Graph) -> Graph:
    """The graph with every stored constant dequantized right before its first reader: a run holds the floats of one layer, not of all."""
    stored = {n.output.name: n for n in graph.nodes if n.op == "dequantize_linear" and n.inputs[0] and n.inputs[0].name in graph.constants}
    placed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.output.name not in stored:
            before = (stored[v.name] for v in node.inputs if v is not None and v.name in stored)
            placed.update((n.output.name, n) for n in (*before, node))
    return replace(graph, nodes=tuple({**placed, **stored}.values()))  # what nobody reads, outputs among it, comes last


@dataclass(frozen=True)
class Pair:
    """The float graph and its Q/DQ graph, without symbols."""

    float: Graph
    quantized: Graph

    @staticmethod
    def bound(graph: Graph, quantized: Graph, sample: Sample) -> Pair:
        """The pair at the sizes of a sample."""
        arrays, binding = check_inputs(graph, sample), dict[str, int]()
        for v in graph.inputs:
            binding_for(v.type, arrays[v.name].shape, binding)
        return Pair(bind(graph, binding), late(bind(quantized, binding)))

    @cached_property
    def brackets(self) -> dict[str, Bracket]:
        """Every rounding by the name of the dequantized value, in graph order."""
        found = {}
        for node in self.quantized.nodes:
            if node.op not in DEQUANTIZES or node.inputs[0] is None:
                continue
            stored = node.inputs[0]
            producer = self.quantized.producers.get(stored.name)
            if producer is not None and producer.op in QUANTIZES and producer.inputs[0] is not None:
                found[node.output.name] = Bracket(producer.inputs[0].name, node.output.name, stored.type.dtype.name, False)
            elif stored.name in self.quantized.constants and (source := source_name(stored.name, self.float)) is not None:
                found[node.output.name] = Bracket(source, node.output.name, stored.type.dtype.name, True)
        return found

    @cached_property
    def order(self) -> dict[str, int]:
        """The position of the node that defines a value."""
        return {o.name: i for i, n in enumerate(self.quantized.nodes) for o in n.outputs}

    def start(self, sample: Sample) -> Env:
        return {k: c.data for k, c in self.quantized.constants.items()} | dict(check_inputs(self.float, sample))

    def step(self, i: int, env: Env, active: Collection[str] | None) -> None:
        """Runs node `i`; brackets that are not among the active ones (None: all are) hand on what came in."""
        node = self.quantized.nodes[i]
        bracket = self.brackets.get(node.output.name)
        if active is not None and node.output.name not in active:
            if bracket is not None and bracket.constant:
                env[node.output.name] = self.float.constants[bracket.of].data
                offset = (
                    f"{bracket.of}:offset"  # of its blocks: a layer adds what it gives to the product of the rest, and the rest is all here
                )
                if offset in env:
                    env[offset] = np.zeros_like(env[offset])
                return
            if bracket is not None:
                env[node.output.name] = env[bracket.of]
                return
            if node.op in QUANTIZES:  # its dequantize looks past it; or it is rounded anyway when its dequantize is active
                users = self.quantized.users.get(node.output.name, ())
                if not any(u.output.name in active for u in users):
                    return
        for value, array in zip(node.outputs, run_node(node, [None if v is None else env[v.name] for v in node.inputs]), strict=True):
            env[value.name] = array

    @cached_property
    def _last(self) -> Mapping[int, list[str]]:
        """Like `last_uses`, with a bracket reading also what it rounds."""
        last = last_uses(self.quantized)
        when = {name: i for i, names in last.items() for name in names}
        for real, bracket in self.brackets.items():
            if not bracket.constant:
                when[bracket.of] = max(when.get(bracket.of, -1), self.order[real])
        dead: dict[int, list[str]] = {}
        for name, i in when.items():
            dead.setdefault(i, []).append(name)
        return dead

    def free(self, i: int, env: Env) -> None:
        keep = {v.name for v in self.quantized.outputs.values()}
        for name in self._last.get(i, ()):
            if name not in keep and name not in self.quantized.constants:
                env.pop(name, None)

    def rest(self, env: Env, first: int, active: Collection[str] | None) -> dict[str, Array]:
        """The outputs, from node `first` on; `env` is what is known before it, and is used up."""
        for i in range(first, len(self.quantized.nodes)):
            self.step(i, env, active)
            self.free(i, env)
        return {name: env[v.name] for name, v in self.quantized.outputs.items()}

    def run(self, sample: Sample, active: Collection[str] | None = None) -> dict[str, Array]:
        return self.rest(self.start(sample), 0, active)


@dataclass(frozen=True)
class Both:
    """Samples side by side through the Q/DQ graph, where everything rounds, and through the float graph, where nothing does."""

    pairs: Sequence[Pair]  # of one node order: sizes alone differ
    rounded: Sequence[Env]
    plain: Sequence[Env]

    @staticmethod
    def start(graph: Graph, quantized: Graph, samples: Sequence[Sample]) -> Both:
        pairs = [Pair.bound(graph, quantized, s) for s in samples]
        rounded, plain = ([p.start(s) for p, s in zip(pairs, samples, strict=True)] for _ in range(2))
        return Both(pairs, rounded, plain)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.pairs[0].quantized.nodes

    def step(self, i: int) -> None:
        """Runs node `i` in all of them; a weight becomes real once for all."""
        name = self.nodes[i].output.name
        bracket = self.pairs[0].brackets.get(name)
        constant = bracket is not None and bracket.constant
        for k, (pair, q, f) in enumerate(zip(self.pairs, self.rounded, self.plain, strict=True)):
            if constant and k:
                q[name], f[name] = self.rounded[0][name], self.plain[0][name]
            else:
                pair.step(i, q, None)
                pair.step(i, f, ())

    def free(self, i: int) -> None:
        for pair, q, f in zip(self.pairs, self.rounded, self.plain, strict=True):
            pair.free(i, q)
            pair.free(i, f)


def noise_of(reference: Mapping[str, Array], got: Mapping[str, Array]) -> tuple[dict[str, float], dict[str, float]]:
    """Σ reference² and Σ (reference - got)² of every float output. A network that has none: its elements, and how many of them differ."""
    signal, noise = {}, {}
    floats = any(r.dtype.kind == "f" for r in reference.values())
    for name, r in reference.items():
        if not floats:
            signal[name], noise[name] = float(r.size), float(np.count_nonzero(r != got[name]))
        elif r.dtype.kind == "f":
            signal[name], noise[name] = _squares(r.reshape(-1).astype(np.float64), got[name].reshape(-1).astype(np.float64))
    return signal, noise


def _squares(a: Array, b: Array) -> tuple[float, float]:
    with np.errstate(all="ignore"):
        off = a - b
        found = float(np.einsum("i,i", a, a)), float(np.einsum("i,i", off, off))
    if np.isfinite(found).all():
        return found
    off = np.where(a == b, 0.0, off)  # equal infinities differ by nothing
    finite = np.isfinite(a)
    off = np.where(np.isfinite(off), off, np.abs(np.where(finite, a, 1.0)))
    return float(np.sum(np.where(finite, a, 0.0) ** 2)), float(np.sum(off**2))


@dataclass(frozen=True)
class Measured:
    """Signal and noise over some samples: of each output, and of what each layer gives, by the name of the value."""

    signal: Mapping[str, float]
    noise: Mapping[str, float]
    layers: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def db(self) -> float:
        """The signal to noise ratio of the worst output, +inf where nothing differs."""
        return decibels(self.relative)

    @property
    def relative(self) -> float:
        """The largest noise of an output, as a share of its signal."""
        return max((n / max(self.signal[k], 1e-300) for k, n in self.noise.items()), default=0.0)

    @property
    def weakest(self) -> tuple[str, float]:
        """The value with the most noise for its signal, and its dB; what is all zeros says nothing."""
        found = {k: decibels(n / s) for k, (s, n) in self.layers.items() if s > 0}
        return min(found.items(), key=lambda item: (item[1], item[0]), default=("", float("inf")))

    def by_layer(self, names: Mapping[str, str]) -> dict[str, float]:
        """dB of each layer by its name, that of the worst of its values."""
        found: dict[str, float] = {}
        for value, (s, n) in self.layers.items():
            if s > 0 and value in names:
                found[names[value]] = min(found.get(names[value], float("inf")), decibels(n / s))
        return found


def decibels(relative: float) -> float:
    return float("inf") if relative == 0 else -10 * float(np.log10(relative))


def measure(
    graph: Graph,
    quantized: Graph,
    samples: Iterable[Sample],
    executor: Executor | None = None,
    side_by_side: int = 1,
    numbers: Iterable[int] | None = None,
) -> Measured:
    """The quantized graph's outputs and layers against the float graph's, on the samples; so many of them are in memory at a time.

    `numbers` are what errors call the samples.
    """
    called = zip(numbers if numbers is not None else counting(), samples, strict=False)
    signal: dict[str, float] = {}
    noise: dict[str, float] = {}
    layers: dict[str, tuple[float, float]] = {}
    graphs = graph, quantized
    if executor is not None:
        parts = (part for (part,) in spread(executor, graphs, measured, (([pair],) for pair in called)))
    else:
        parts = (part for group in groups(called, side_by_side) for part in measured(*graphs, group))
    for part in progress(parts, "guard: measuring", count(samples)):
        for k in part.signal:
            signal[k], noise[k] = signal.get(k, 0.0) + part.signal[k], noise.get(k, 0.0) + part.noise[k]
        for k, (s, n) in part.layers.items():
            before = layers.get(k, (0.0, 0.0))
            layers[k] = before[0] + s, before[1] + n
    return Measured(signal, noise, layers)


def groups(samples: Iterable[tuple[int, Sample]], size: int) -> Iterator[list[tuple[int, Sample]]]:
    rest = iter(samples)
    while group := list(islice(rest, size)):
        yield group


def measured(graph: Graph, quantized: Graph, called: Sequence[tuple[int, Sample]]) -> list[Measured]:
    """Each sample (behind its number) alone; through both graphs side by side, so that no more than one layer of each is held at a time."""
    both = Both.start(graph, quantized, [sample for _, sample in called])
    layers: list[dict[str, tuple[float, float]]] = [{} for _ in called]
    for i, node in enumerate(both.nodes):
        both.step(i)
        for o in node.outputs if node.op not in BRACKETS else ():
            if o.type.dtype.is_float and o.name in both.pairs[0].float.producers:
                for found, q, f in zip(layers, both.rounded, both.plain, strict=True):
                    s, n = noise_of({"": f[o.name]}, {"": q[o.name]})
                    found[o.name] = s[""], n[""]
        both.free(i)
    results = []
    for (number, sample), pair, found, q, f in zip(called, both.pairs, layers, both.rounded, both.plain, strict=True):
        ends = [{name: env[v.name] for name, v in pair.quantized.outputs.items()} for env in (f, q)]
        try:
            need_finite(pair.float, sample, ends[0])
        except LowbitError as e:
            raise e.at(f"batch {number}") from None
        results.append(Measured(*noise_of(*ends), found))
    return results


def outputs(graph: Graph, sample: Sample) -> dict[str, Array]:
    binding = dict[str, int]()
    arrays = check_inputs(graph, sample)
    for v in graph.inputs:
        binding_for(v.type, arrays[v.name].shape, binding)
    return evaluate(bind(graph, binding), arrays)


UNITS = 8  # that a worker gets at once
Unit = tuple[str, ...]  # brackets, by the name of their dequantized value, that round together


def noise_shares(
    graph: Graph,
    quantized: Graph,
    samples: Sequence[Sample],
    units: Mapping[str, Unit],
    each: Callable[[str], None] | None = None,
    executor: Executor | None = None,
) -> dict[str, float]:
    """For each unit the noise at the outputs, relative to their signal, if it alone rounds and all the rest is float."""
    total: dict[str, float] = dict.fromkeys(units, 0.0)
    if executor is None:
        for sample in samples:
            for unit, noise in noises(graph, quantized, sample, units, each).items():
                total[unit] += noise / len(samples)
        return total
    names = list(units)
    parts = [names[i : i + UNITS] for i in range(0, len(names), UNITS)]  # neighbours, which begin near each other
    tasks = ((sample, {name: units[name] for name in part}) for sample in samples for part in parts)
    for found in spread(executor, (graph, quantized), noises, tasks):
        for unit, noise in found.items():
            total[unit] += noise / len(samples)
            if each is not None:
                each(unit)
    return total


def noises(
    graph: Graph, quantized: Graph, sample: Sample, units: Mapping[str, Unit], each: Callable[[str], None] | None = None
) -> dict[str, float]:
    """The noise of each unit on one sample.

    One walk over the float graph; at each unit the way from there to the outputs is run once more, so the cost is half a run for each.
    """
    found = {}
    pair = Pair.bound(graph, quantized, sample)
    at: dict[int, list[str]] = {}
    for unit, members in units.items():
        at.setdefault(min(_first(pair, m) for m in members), []).append(unit)
    reference = pair.run(sample, ())
    env = pair.start(sample)
    for i in range(max(at, default=-1) + 1):
        for unit in at.get(i, ()):
            signal, noise = noise_of(reference, pair.rest(dict(env), i, set(units[unit])))
            found[unit] = Measured(signal, noise).relative
            if each is not None:
                each(unit)
        pair.step(i, env, ())
        pair.free(i, env)
    return found


def _first(pair: Pair, real: str) -> int:
    """Where a bracket begins: at its quantize node, or at its own if it is a constant's."""
    node: Node = pair.quantized.nodes[pair.order[real]]
    stored: Value | None = node.inputs[0]
    assert stored is not None
    return pair.order.get(stored.name, pair.order[real])
