"""lowbit.search: the cheapest network whose score holds. Always returns: the best so far, and at the least the float network itself.

    float network         its score is what the others are held against
    calibration, once     every network below is made by rules from one record
    uniform networks      int8, int4, int16 everywhere: answers in the first seconds
    layers alone          the noise that each makes at the outputs at each width, on a few samples (docs/search.md)
    the way down          units become narrower, the least noise for what it saves first; how far the score holds is found by halving.
                          Then the same from 16 bits to int8
    refining              what lies beyond is tried in groups, which are halved where they fail; by time, bits that save none are given back

Every network is compiled, scored and timed as it would run.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lowbit.arguments import is_real, shown, whole
from lowbit.blas import one_thread
from lowbit.calibration.observers import make_observer
from lowbit.calibration.record import CalibrationRecord
from lowbit.calibration.run import calibrate
from lowbit.decide.brackets import Pair
from lowbit.decide.checks import need_executor, need_float
from lowbit.decide.cost import bytes_read, weight_bytes
from lowbit.decide.effort import Effort
from lowbit.decide.order import Move, Option, after, moves
from lowbit.decide.points import find_points
from lowbit.decide.quality import decibels
from lowbit.decide.scores import Metric, fastest, outputs_db, scored
from lowbit.decide.search.costs import node_work, unit_bits, unit_ms
from lowbit.decide.search.given import Samples, given_as, need_goal
from lowbit.decide.search.result import Point, SearchResult, cost_of, front, layers_of, mix
from lowbit.decide.search.rules import rules_for
from lowbit.decide.search.units import FLOAT, WIDTHS, Choice, find_units, uniform
from lowbit.decide.sensitivity import heard, noise_shares
from lowbit.errors import InputError, LowbitError, LowbitWarning
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.progress import progress
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import FloatRule, QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.report.text import decibels as said_db
from lowbit.runtime.beside import LARGE
from lowbit.runtime.profile import Profile
from lowbit.runtime.session import Session
from lowbit.runtime.timing import least_in_turns

COSTS = ("time", "bytes")
TRIALS, MINUTES = 40, 10.0
FINALISTS = 4  # whose times are measured again, in turns, before one is called the fastest
ROUNDS = 3
CALM, ATTEMPTS = 1.1, 3  # a machine on which the float network takes longer than so many times its best is busy: it is measured again


ROUNDING = 1e-12  # of scores: 0.912 - 0.005 is not quite 0.907


def compile(graph: Graph, threads: int | None) -> Session:
    return Session(lower(graph).graph, threads=threads)


class _Over(Exception):
    """A limit is reached; the text says which."""


@dataclass(frozen=True)
class Limits:
    """When to stop, and what to keep to."""

    least: float
    cost: str
    trials: int
    minutes: float


def search(
    graph: Graph,
    data: Iterable[Any],
    *,
    metric: Callable[[Session], Any] | None = None,
    max_drop: float | None = None,
    least_db: float | None = None,
    cost: str = "time",
    trials: int = TRIALS,
    minutes: float = MINUTES,
    widths: Sequence[str] = tuple(WIDTHS),
    test: Iterable[Any] | None = None,
    method: str = "minmax",
    threads: int | None = None,
    executor: Executor | None = None,
    on_trial: Callable[[Point], None] | None = None,
) -> SearchResult:
    """The cheapest network, each layer in a width of its own, whose score holds; always something, at the least the float network.

    metric    metric(session) gives a number, higher is better; it brings its own data, which should be other than `data`. Without one the
              score is the signal to noise ratio of the outputs in dB, on samples that calibration did not see
    max_drop  with a metric: how far the score may be below the float network's (0.005)
    least_db  without one: the least dB (30)
    cost      "time", measured here for one batch; or "bytes" of the weights, with which the same arguments give the same result
    trials    at most so many networks are measured; minutes: for about so long, looked at between them. An interrupt (Ctrl-C) returns too
    widths    those that a layer may have beside float: int16 (activations; weights of 8 bits), int8, int4 (weights; activations of 8 bits).
              A layer without weights has int8 where int4 is allowed: the result's note says so where int8 is not
    test      samples to measure with; without them one batch in four of `data` is held back from calibration
    executor  spreads calibration and the noise of the layers; the result is the same
    on_trial  is told each network that was measured
    """
    need_float(graph, "search")
    need_executor(executor)
    if metric is not None and not callable(metric):
        raise InputError(f"metric={shown(metric)} cannot be called", hint="metric=lambda session: accuracy(session), higher is better")
    if on_trial is not None and not callable(on_trial):
        raise InputError(f"on_trial={shown(on_trial)} cannot be called", hint="on_trial=print")
    if not isinstance(cost, str) or cost not in COSTS:
        raise InputError(f"cost={shown(cost)} is none", hint='cost="time" or cost="bytes"')
    drop, db = need_goal(metric is not None, max_drop, least_db)
    if not is_real(minutes) or minutes <= 0:
        raise InputError(f"minutes={shown(minutes)}, a positive number is needed")
    make_observer(method)  # an error where there is none, before the long part
    if isinstance(widths, str) or not isinstance(widths, Collection) or not all(isinstance(w, str) and w in WIDTHS for w in widths):
        raise InputError(f"widths={shown(widths)} are none", hint=f"some of {', '.join(WIDTHS)}")
    limits = Limits(db, cost, whole("trials", trials, 1), float(minutes))
    chosen = [w for w in ("int8", "int4", "int16") if w in widths]
    samples = Samples.of(graph, data, test)
    work = _Search(graph, samples, chosen, limits, method, threads, executor, on_trial)
    return work.run(metric, drop)


class _Search:
    def __init__(
        self, graph: Graph, samples: Samples, widths: Sequence[str], limits: Limits, method: str,
        threads: int | None, executor: Executor | None, on_trial: Callable[[Point], None] | None,
    ) -> None:  # fmt: skip
        self.graph, self.samples, self.widths, self.limits = graph, samples, widths, limits
        self.method, self.threads, self.executor, self.on_trial = method, threads, executor, on_trial
        self.end = time.monotonic() + 60 * limits.minutes
        self.units = find_units(graph)
        self.record = CalibrationRecord({})
        self.points: list[Point] = []
        self.choices: list[Choice] = []
        self.known: dict[tuple[str, ...], Point] = {}
        self.noise: dict[str, dict[str, float]] = {}  # unit → width → the noise that it alone makes
        self.profiles: dict[str, Profile] = {}
        self.uniform: dict[str, Graph] = {}
        self.best_graph = 0, graph  # and the number of its point
        self.settled: int | None = None
        self.last: tuple[Graph | None, Session | None] = None, None

    def run(self, metric: Callable[[Session], Any] | None, max_drop: float) -> SearchResult:
        self.floats: Choice = {u.name: FLOAT for u in self.units}
        self.work = node_work(self.graph, self.samples.held[0])
        session = self.reference = compile(self.graph, threads=self.threads)
        with given_as(self.samples.source):
            self.metric: Metric = outputs_db(session, self.samples.held) if metric is None else lambda s: scored(metric, s)
        score = math.inf if metric is None else self.metric(session)
        least = self.limits.least if metric is None else score - max_drop
        self.limits = replace(self.limits, least=least)
        self.profiles[FLOAT] = self.profile(session)
        (ms,) = self.least_ms([session])
        self.points.append(Point("float", score, weight_bytes(self.graph), ms, self.bits(self.floats), True, (FloatRule(".*"),)))
        self.choices.append(self.floats)
        self.known[tuple(self.floats.values())] = self.points[0]
        stopped = ""
        try:
            try:
                for point in progress(self.walk(), "searching", self.limits.trials):
                    if self.on_trial is not None:
                        self.on_trial(point)
            except _Over as e:
                stopped = str(e)
            if self.limits.cost == "time" and time.monotonic() < self.end:
                self.settle()
        except KeyboardInterrupt:
            stopped = "interrupted"
        return self.result(metric is None, stopped)

    def result(self, in_db: bool, stopped: str) -> SearchResult:
        at = self.best
        chosen, choice = self.points[at], self.choices[at]
        known, graph = self.best_graph
        if known != at:  # interrupted between the one and the other
            graph = self.graph if at == 0 else self.make(chosen.rules)
        if not any(p.accepted for p in self.points[1:]):
            why = "no quantized network with the score that is wanted was found" if self.units else "no layer has an integer form"
            warnings.warn(f"{why}: the float network is returned", LowbitWarning, stacklevel=4)
        names = {u.name: tuple(n.name or n.output.name for n in u.nodes) for u in self.units}
        layers = layers_of(names, choice, self.reasons(choice))
        on = f"on {self.samples.said}" if in_db else "by the metric"
        return SearchResult(
            graph, chosen, self.points[0].score, self.limits.least, self.limits.cost,
            front(self.points, self.limits.cost), tuple(self.points), layers, self.record, on, in_db, stopped,
            self.widened(choice),
        )  # fmt: skip

    def widened(self, choice: Choice) -> str:
        """What has eight bits though only four were allowed: there are no weights to store in them; "" where there is none of it."""
        names = [u.name for u in self.units if "int8" not in self.widths and choice[u.name] == "int8"]
        return f"int8, which widths= does not name, for what has no weights to store in int4: {', '.join(names)}" if names else ""

    @property
    def best(self) -> int:
        """The number of the cheapest point whose score holds."""
        if self.settled is not None:
            return self.settled
        accepted = [i for i, p in enumerate(self.points) if p.accepted]
        return min(accepted, key=lambda i: (*cost_of(self.points[i], self.limits.cost), -self.points[i].score))

    # -- one network -----------------------------------------------------------------------------------------------------

    def trial(self, choice: Choice) -> Iterator[Point]:
        """Measures a network, unless it is known; what is new is yielded."""
        key = tuple(choice[u.name] for u in self.units)
        if key in self.known:
            return
        if len(self.points) > self.limits.trials:
            raise _Over(f"trials={self.limits.trials} were made")
        self.need_time()
        self.last = None, None  # before there is another one: they are as large as the network
        what = mix(choice.values())
        rules = rules_for(self.graph, self.units, choice, self.reasons(choice))
        made, session, failed, score, ms = None, None, "", math.nan, math.nan
        try:
            made = self.make(rules)
            session = compile(made, threads=self.threads)
            (ms,) = self.timed([session])
            score = self.metric(session)
        except Exception as e:  # of one network among many: the others are not lost for it
            failed = str(e).partition("\n")[0].rstrip(".") if isinstance(e, LowbitError) else f"{type(e).__name__}: {e}"
            warnings.warn(f"{what} has no score: {failed}", LowbitWarning, stacklevel=2)
        size = weight_bytes(made) if made is not None else 0
        accepted = not failed and score >= self.limits.least - ROUNDING * max(1.0, abs(self.limits.least))
        point = self.known[key] = Point(what, score, size, ms, self.bits(choice), accepted, rules, failed)
        self.choices.append(choice)  # first: an interrupt between the two leaves no point without one
        self.points.append(point)
        if self.best == len(self.points) - 1 and made is not None:
            self.best_graph = self.best, made
        self.last = made, session
        yield point

    def make(self, rules: Sequence[QuantRule]) -> Graph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LowbitWarning)  # rules for layers that have no say are none of the user's
            return QuantizationTransform(rules).apply(self.graph, self.record)

    def need_time(self) -> None:
        if time.monotonic() > self.end:
            raise _Over(f"minutes={self.limits.minutes:g} were over")

    def bits(self, choice: Choice) -> int:
        return sum(unit_bits(u, choice[u.name], self.work) for u in self.units)

    def profile(self, session: Session) -> Profile:
        arrays = [self.samples.held[0][v.name] for v in self.graph.inputs]
        return session.profile(*arrays, repeats=5)

    # -- the search ------------------------------------------------------------------------------------------------------

    def walk(self) -> Iterator[Point]:
        """Every network that is measured, in order."""
        if not self.units or not self.widths:
            return
        taps = QuantizationTransform(recipe("int8")).every_tap(self.graph)
        with given_as("data"):
            self.record = calibrate(
                self.graph, self.samples.calibration, taps, method=self.method, executor=self.executor, numbers=self.samples.numbers
            )
        for width in self.widths:
            for point in self.trial(uniform(self.units, width)):
                yield point
                made, session = self.last
                if made is not None and session is not None and math.isfinite(point.ms):  # it runs, whatever the metric says
                    self.uniform[width], self.profiles[width] = made, self.profile(session)
                made = session = None  # the next trial lets go of the last one, and so must this
        self.measure_layers()
        path = moves(self.options())
        yield from self.halving(self.floats, path)
        wide = next((w for w in ("int16", FLOAT) if self.holds(uniform(self.units, w))), FLOAT)
        yield from self.halving(uniform(self.units, wide), self.to_int8(uniform(self.units, wide)))
        yield from self.refine(path)
        yield from self.refine(self.to_int8(self.choices[self.best]))
        if self.limits.cost == "time":
            yield from self.give_back()

    def measure_layers(self) -> None:
        """The noise of each unit alone, at each width."""
        held = self.samples.held[: Effort.of(sum(m for m, _ in self.work.values())).shares]
        self.noise = {}
        found: dict[str, dict[str, float]] = {u.name: {} for u in self.units}
        steps = iter(progress(range(len(self.uniform) * len(self.units) * len(held)), "search: what each layer makes of noise"))

        def each(_: str) -> None:
            next(steps, None)
            self.need_time()

        points = find_points(self.graph)
        with one_thread():
            for width, made in self.uniform.items():
                brackets = Pair(self.graph, made).brackets
                rounds = {u.name: heard(made, brackets, u.nodes) for u in self.units}
                layers = {k: v for by_layer in rounds.values() for k, v in by_layer.items()}
                noise = dict.fromkeys(layers, 0.0)
                for sample in held:
                    for layer, share in noise_shares(Pair.bound(self.graph, made, sample), sample, layers, points, each).items():
                        noise[layer] += share / len(held)
                for unit in self.units:
                    if width != "int4" or unit.weighted:
                        found[unit.name][width] = sum(noise[layer] for layer in rounds[unit.name])
        self.noise = found
        members = {u.name: [n.output.name for n in u.nodes] for u in self.units}
        self.sizes = {w: bytes_read(made, members) for w, made in self.uniform.items()}
        self.sizes[FLOAT] = bytes_read(self.graph, members)
        self.uniform = {}  # as large as the network, each

    def options(self) -> dict[str, dict[str, Option]]:
        """What each unit costs and breaks at each width.

        Bytes come first and bits of work break ties. Times are those of the layers' kernels; what multiplies nothing goes by its bits,
        for what it costs to leave the integers and come back is seen in no row of its own.
        """
        every = max(1, self.bits(self.floats))
        times = {w: unit_ms(self.units, p, self.work) for w, p in self.profiles.items()}
        whole_ms = self.points[0].ms

        def option(unit: str, index: int, width: str) -> Option:
            share = unit_bits(self.units[index], width, self.work) / every
            noise = 0.0 if width == FLOAT else self.noise[unit][width]
            if self.limits.cost == "bytes":
                return Option(self.sizes[width][unit] + share / 2, noise)
            return Option(times[width].get(unit, share * whole_ms), noise)

        return {u.name: {w: option(u.name, i, w) for w in (FLOAT, *self.noise[u.name])} for i, u in enumerate(self.units)}

    def halving(self, start: Choice, path: Sequence[Move]) -> Iterator[Point]:
        """As many moves from the start on as the score holds: the whole way first, then by halving."""
        low, high, count = 0, len(path), len(path)
        while low < high:
            choice = after(start, path[:count])
            yield from self.trial(choice)
            low, high = (count, high) if self.holds(choice) else (low, count - 1)
            count = (low + high + 1) // 2

    def holds(self, choice: Choice) -> bool:
        found = self.known.get(tuple(choice[u.name] for u in self.units))
        return found is not None and found.accepted

    def refine(self, path: Sequence[Move]) -> Iterator[Point]:
        """From the best on: what lies beyond is tried in groups, and a group that fails in halves."""
        options = self.options()
        now = dict(self.choices[self.best])
        rest = [m for m in path if options[m.unit][m.width].cost < options[m.unit][now[m.unit]].cost]
        queue, refused = [rest], set[str]()
        while queue:
            group = [m for m in queue.pop(0) if m.unit not in refused]
            tried = after(now, group)
            if tried == now:
                continue
            before = self.best
            yield from self.trial(tried)
            if self.holds(tried) and self.choices[self.best] == tried and self.best != before:
                now = dict(tried)
            elif len(group) > 1:
                half = len(group) // 2
                queue[:0] = [group[:half], group[half:]]
            else:
                refused.add(group[0].unit)  # what is narrower still would break more

    def to_int8(self, choice: Choice) -> list[Move]:
        """Units that go to int8, the least noise for the bits of work that it saves first: all of them narrow but those that need more."""
        found = []
        for unit in self.units if "int8" in self.noise[self.units[0].name] else ():
            now = choice[unit.name]
            bits = unit_bits(unit, now, self.work) - unit_bits(unit, "int8", self.work)
            if bits > 0:
                more = self.noise[unit.name]["int8"] - self.noise[unit.name].get(now, 0.0)
                found.append(Move(unit.name, "int8", more / bits))
        return sorted(found, key=lambda m: m.price)

    def give_back(self) -> Iterator[Point]:
        """Eight bits again for weights whose four save the least time: a profile's gain may be none, and then the better score wins."""
        now, options = dict(self.choices[self.best]), self.options()
        narrow = [u.name for u in self.units if now[u.name] == "int4" and "int8" in options[u.name]]
        narrow.sort(key=lambda u: options[u]["int8"].cost - options[u]["int4"].cost)
        for count in dict.fromkeys((len(narrow), len(narrow) // 2, len(narrow) // 4)):
            yield from self.trial({**now, **dict.fromkeys(narrow[:count], "int8")})

    def least_ms(self, sessions: Sequence[Session]) -> list[float]:
        return least_in_turns([partial(session.run, dict(self.samples.held[0])) for session in sessions])

    def timed(self, sessions: Sequence[Session]) -> list[float]:
        """The least time of each session in ms, in turns with the float network, which tells whether the machine is busy otherwise."""
        least = [math.inf] * len(sessions)
        for _ in range(ATTEMPTS):
            *times, reference = self.least_ms([*sessions, self.reference])
            least = [min(pair) for pair in zip(least, times, strict=True)]
            if reference < self.points[0].ms:
                self.points[0] = replace(self.points[0], ms=reference)
            if reference <= CALM * self.points[0].ms:
                break
        return least

    def settle(self) -> None:
        """Times of the fastest few again, in turns, so that no lucky run decides."""
        self.last = None, None
        order = sorted((i for i, p in enumerate(self.points) if p.accepted), key=lambda i: self.points[i].ms)[:FINALISTS]
        times: dict[int, list[float]] = {}
        for group in [order] if self.graph.parameter_bytes <= LARGE else [[i] for i in order]:
            rounds = self.rounds(group)
            times |= {i: [self.points[i].ms, *(r[k] for r in rounds)] for k, i in enumerate(group)}
        self.settled = fastest(times, {i: self.points[i].score for i in order})
        for i in order:
            self.points[i] = replace(self.points[i], ms=min(times[i]))

    def rounds(self, group: Sequence[int]) -> list[list[float]]:
        """The times of these points' networks, round by round, in turns with each other and with the float network."""
        graphs = [self.graph if i == 0 else self.make(self.points[i].rules) for i in group]
        sessions = [self.reference if i == 0 else compile(g, threads=self.threads) for i, g in zip(group, graphs, strict=True)]
        return [self.timed(sessions) for _ in range(ROUNDS)]

    def reasons(self, choice: Choice) -> Mapping[str, str]:
        """Why each unit is what it is."""
        found = {}
        for unit in self.units:
            width, noise = choice[unit.name], self.noise.get(unit.name, {})
            if not noise:
                found[unit.name] = f"search: {mix(choice.values())}"
                continue
            alone = [f"{said_db(decibels(noise[w]))} in {w}" for w in ("int16", "int8", "int4") if w in noise]
            found[unit.name] = f"search: {width}; it alone leaves the outputs at {', '.join(alone)}"
        return found
