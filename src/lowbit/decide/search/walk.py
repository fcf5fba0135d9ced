"""lowbit.search: the cheapest network whose score holds. It always returns the best network so far, at least the float network.

    float network         the others are compared with its score
    uniform networks      int8, int4, int16 everywhere: answers in the first seconds
    repairs               of int8 everywhere, if its score does not hold: ranges, biases, channels, rounding; they cost no time
    single layers         the noise that each makes at the outputs at each width, on a few samples (docs/search.md)
    narrowing             units become narrower, the least noise for the cost saved first; bisection finds how far the score holds.
                          Then the same from 16 bits to int8
    repairs               of the best so far, if there were none before
    refining              further moves are tried in groups, failing groups in halves; by time, bits that save none are given back

It uses the engine of `quantize` in another order: candidates, quality, noise, times and repairs are the same code. Every network is scored
and timed as it would run.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowbit.arguments import is_real, shown, whole
from lowbit.blas import one_thread
from lowbit.calibration.observers import make_observer
from lowbit.calibration.record import CalibrationRecord
from lowbit.decide.brackets import Pair
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.checks import need_executor, need_float
from lowbit.decide.cost import Stopwatch, bytes_read, weight_bytes
from lowbit.decide.decision import Trial
from lowbit.decide.engine import Engine
from lowbit.decide.front import Tried
from lowbit.decide.goal import Goal
from lowbit.decide.limits import Deadline, Limits, Over
from lowbit.decide.order import Move, Option, after, moves
from lowbit.decide.quality import Quantized, decibels
from lowbit.decide.ranges import ClippedRecord
from lowbit.decide.repairs import Repair
from lowbit.decide.rules import rules_of
from lowbit.decide.scores import fastest, scored
from lowbit.decide.search.costs import node_work, unit_bits
from lowbit.decide.search.given import Given, given_as, need_goal
from lowbit.decide.search.result import Point, SearchResult, cost_of, front, layers_of, mix
from lowbit.decide.search.units import FLOAT, WIDTHS, Choice, find_units, uniform, width_of, widths_of
from lowbit.decide.sensitivity import heard
from lowbit.decide.widths import Widths
from lowbit.errors import InputError, LowbitError, LowbitWarning, warn
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.passes.widen_halves import widen_halves
from lowbit.progress import progress
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import FloatRule, QuantRule
from lowbit.quantization.taps import Taps
from lowbit.quantization.transform import QuantizationTransform
from lowbit.report.text import decibels as said_db
from lowbit.runtime.network_times import LARGE
from lowbit.runtime.session import Session

COSTS = ("time", "bytes")
TRIALS, MINUTES = 40, 10.0
FINALISTS = 4  # whose times are measured again, in turns, before one is called the fastest
ROUNDS = 3
ROUNDING = 1e-12  # of scores in floats: 0.912 - 0.005 is not quite 0.907


@dataclass(frozen=True)
class Wanted:
    """The score that a network must have, the cost to minimize, and how many networks are tried."""

    least: float
    cost: str
    trials: int


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
    """The cheapest network whose score holds, with a width for each layer; at least the float network.

    metric    metric(session) gives a number, higher is better; it brings its own data, which should differ from `data`. Without one the
              score is the signal to noise ratio of the outputs in dB of the worst tenth of samples that calibration did not see
    max_drop  with a metric: how far the score may be below the float network's (0.005)
    least_db  without one: the least dB (30)
    cost      "time", measured here for one batch; or "bytes" of the weights, with which the same arguments give the same result
    trials    at most this many networks are measured; minutes: checked between networks. An interrupt (Ctrl-C) returns the best so far, too
    widths    those that a layer may have beside float: int16 (activations; weights of 8 bits), int8, int4 (weights; activations of 8 bits).
              A layer without weights has int8 where int4 is allowed: the result's note says so where int8 is not
    test      samples to measure with; without them one batch in three of `data` is held back from calibration
    executor  spreads calibration; the result is the same
    on_trial  is called with each measured network

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (16, 4)).graph()
    >>> data = [{"x": np.random.default_rng(i).standard_normal((8, 16)).astype(np.float32)} for i in range(4)]
    >>> lowbit.search(g, data).graph.nodes != ()
    True
    """
    need_float(graph, "search")
    graph = widen_halves(graph)
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
    make_observer(method)  # raises if there is none, before the long part
    if isinstance(widths, str) or not isinstance(widths, Collection) or not all(isinstance(w, str) and w in WIDTHS for w in widths):
        raise InputError(f"widths={shown(widths)} are none", hint=f"some of {', '.join(WIDTHS)}")
    wanted = Wanted(db, cost, whole("trials", trials, 1))
    deadline = Deadline(float(minutes))
    chosen = [w for w in ("int8", "int4", "int16") if w in widths]
    given = Given.of(graph, data, test, metric is not None)
    with one_thread():
        return _Search(graph, given, chosen, wanted, deadline, method, metric, drop, threads, executor, on_trial).run_search()


class _Search(Engine):
    def __init__(
        self, graph: Graph, given: Given, widths: Sequence[str], wanted: Wanted, deadline: Deadline, method: str,
        metric: Callable[[Session], Any] | None, drop: float, threads: int | None, executor: Executor | None,
        on_trial: Callable[[Point], None] | None,
    ) -> None:  # fmt: skip
        self.graph, self.given, self.widths, self.threads, self.on_trial = graph, given, widths, threads, on_trial
        (rule,) = recipe("int8")
        goal = Goal(worst=wanted.least, answers=wanted.least, wanted=math.inf, enough=math.inf)  # every repair is tried
        score = None if metric is None else (lambda made: scored(metric, Session(lower(made).graph, threads=threads)))
        with given_as(given.source):
            super().__init__(CandidateMaker(graph, given.data.fit, rule, executor), given.data, goal, method, score, drop, None,
                             Limits(), deadline)  # fmt: skip
        self.wanted = wanted if self.least_score is None else replace(wanted, least=self.least_score)
        self.units = find_units(graph)
        self.floats: Choice = {u.name: FLOAT for u in self.units}
        self.work = node_work(graph, given.data.timed)
        plain = self.method != "minmax"
        self.base = Candidate(graph, method if plain else "mse", self.everywhere if plain else frozenset())  # widths are applied to it
        self.record = CalibrationRecord({})
        self.points: list[Point] = []
        self.candidates: list[Candidate] = []
        self.choices: list[Choice] = []
        self.known: dict[tuple[object, ...], tuple[Trial | None, int]] = {}  # by the candidate's key
        self.noise: dict[str, dict[str, float]] = {}  # unit → width → the noise that it alone makes
        self.unit_ms: dict[str, dict[str, float]] = {}  # width → unit → milliseconds
        self.best_graph = 0, graph  # and the number of its point
        self.settled: int | None = None
        self.bar = iter(progress(range(wanted.trials), "searching"))

    @cached_property
    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.graph, self.given.data.timed, self.threads)

    def run_search(self) -> SearchResult:
        self.stopwatch.least([])
        score = math.inf if self.float_score is None else self.float_score
        ms, size = self.stopwatch.reference_ms, weight_bytes(self.graph)
        self.points.append(Point("float", score, size, ms, self.bits(self.floats), True, (FloatRule(".*"),)))
        self.candidates.append(self.candidate(self.floats))
        self.choices.append(self.floats)
        self.known[self.candidates[0].key] = None, 0
        self.measured.append(Tried("float", math.inf, math.inf, self.graph.parameter_bytes, self.float_score))
        stopped = ""
        try:
            try:
                self.walk()
            except Over as e:
                stopped = str(e)
            if self.wanted.cost == "time" and not self.deadline.over:
                self.settle()
        except KeyboardInterrupt:
            stopped = "interrupted"
        return self.result(stopped)

    # -- one network -----------------------------------------------------------------------------------------------------

    def candidate(self, choice: Choice) -> Candidate:
        """A choice of widths on top of the repairs so far. Four-bit weights are always clipped and rounded by least squares."""
        widths = widths_of(self.graph, self.plain_taps, self.units, choice)
        care = bool(widths.fours)
        base = self.base
        return replace(base, widths=widths, rounding=care or base.rounding, clip=care or base.clip, biases=care or base.biases)

    @cached_property
    def plain_taps(self) -> Taps:
        return QuantizationTransform(self.maker.rules).taps(self.graph)

    def tried(self, candidate: Candidate, what: str, where: str, repairs: tuple[Repair, ...] = ()) -> Trial | None:
        """Measures a candidate, which becomes a point of the search; None if there is no score."""
        if candidate.key in self.known:
            return self.known[candidate.key][0]
        if len(self.points) > self.wanted.trials:
            raise Over(f"trials={self.wanted.trials} were made")
        self.deadline.check()
        next(self.bar, None)
        decide = self.maker.transform(candidate).matcher.decide
        choice = {u.name: width_of(self.graph, u, decide) for u in self.units}
        repaired = candidate.repaired(self.graph)
        better = [r for r in repaired if r not in ("rounding", "biases") or not candidate.widths.fours]
        name = mix(choice.values()) + (f" with better {', '.join(better)}" if better else "")
        rules = rules_of(self.graph, {u.name: u.nodes for u in self.units}, decide, self.reasons(choice))
        trial, failed, score, ms, size = None, "", math.nan, math.nan, 0
        try:
            made = self.maker.made(candidate)
            size = weight_bytes(made.graph)
            (ms,) = self.stopwatch.least([made.integer])
            trial = self.measure(candidate)
            self.last = trial.quality
            score = trial.quality.worst_db if trial.score is None else trial.score
        except Over:
            raise
        except Exception as e:  # one network among many: the others are kept
            failed = str(e).partition("\n")[0].rstrip(".") if isinstance(e, LowbitError) else f"{type(e).__name__}: {e}"
            warn(f"{name} has no score: {failed}")
        accepted = not failed and score >= self.wanted.least - ROUNDING * max(1.0, abs(self.wanted.least))
        point = Point(name, score, size, ms, self.bits(choice), accepted, rules, failed, repaired)
        self.candidates.append(candidate)  # first: an interrupt between the two leaves no point without one
        self.choices.append(choice)
        self.points.append(point)
        at = len(self.points) - 1
        self.known[candidate.key] = trial, at
        self.points[0] = replace(self.points[0], ms=self.stopwatch.reference_ms)
        if self.at == at and trial is not None:
            self.best_graph = at, self.maker.make(candidate)
        if self.on_trial is not None:
            self.on_trial(point)
        return trial

    def holds(self, choice: Choice) -> bool:
        """Measures a choice of widths: whether its score holds."""
        candidate = self.candidate(choice)
        self.tried(candidate, "", "")
        return self.points[self.known[candidate.key][1]].accepted

    @property
    def at(self) -> int:
        """The number of the cheapest point whose score holds."""
        if self.settled is not None:
            return self.settled
        accepted = [i for i, p in enumerate(self.points) if p.accepted]
        return min(accepted, key=lambda i: (*cost_of(self.points[i], self.wanted.cost), -self.points[i].score))

    def bits(self, choice: Choice) -> int:
        return sum(unit_bits(u, choice[u.name], self.work) for u in self.units)

    # -- the order of steps ----------------------------------------------------------------------------------------------

    def walk(self) -> None:
        if not self.units or not self.widths:
            return
        with given_as("data"):
            self.record = self.maker.record(self.base)
        for width in self.widths:
            self.holds(uniform(self.units, width))
        narrow = uniform(self.units, "int8" if "int8" in self.widths else self.widths[0])
        repaired = not self.holds(narrow) and self.repair_choice(narrow)
        self.measure_layers()
        path = moves(self.options())
        self.halving(self.floats, path)
        wide = next((w for w in ("int16", FLOAT) if w == FLOAT or (w in self.widths and self.holds(uniform(self.units, w)))), FLOAT)
        self.halving(uniform(self.units, wide), self.to_int8(uniform(self.units, wide)))
        if not repaired and self.at != 0:
            self.repair_choice(self.choices[self.at])
        self.refine(path)
        self.refine(self.to_int8(self.choices[self.at]))
        if self.wanted.cost == "time":
            self.give_back()

    def repair_choice(self, choice: Choice) -> bool:
        """Tries the repairs that cost no time on a choice of widths; those that help stay for all later networks."""
        candidate = self.candidate(choice)
        trial = self.tried(candidate, "", "")
        if trial is None:
            return False
        self.best, self.maker.best = trial, candidate
        for what, where, tried in self.free_repairs(self.everywhere):
            self.attempt(what, where, tried)
        found = self.best.candidate
        self.base = replace(found, widths=Widths())
        return found.key != candidate.key

    def measure_layers(self) -> None:
        """The noise of each unit alone, at each width; its bytes, and its milliseconds where they count."""
        members = {u.name: [n.output.name for n in u.nodes] for u in self.units}
        found: dict[str, dict[str, float]] = {u.name: {} for u in self.units}
        sizes = {FLOAT: bytes_read(self.graph, members)}
        times = {FLOAT: self.stopwatch.layers()} if self.wanted.cost == "time" else {}
        for width in self.widths:
            candidate = replace(self.candidate(uniform(self.units, width)), rounding=False, clip=False, biases=False)
            try:
                made = Quantized(self.maker.plain(candidate), candidate.graph)
                times |= {width: self.stopwatch.layers(made)} if self.wanted.cost == "time" else {}
            except LowbitError:
                continue  # it was reported when it was tried
            brackets = Pair(candidate.graph, made.graph).brackets
            rounds = {u.name: heard(made.graph, brackets, u.nodes) for u in self.units}
            noise = self.noise_of(candidate, made.graph, {k: v for by_layer in rounds.values() for k, v in by_layer.items()})
            sizes[width] = bytes_read(made.graph, members)
            for unit in self.units:
                if width != "int4" or unit.weighted:
                    found[unit.name][width] = sum(noise[layer] for layer in rounds[unit.name])
        self.noise, self.sizes = found, sizes
        self.unit_ms = {w: {u: sum(ms.get(k, 0.0) for k in nodes) for u, nodes in members.items()} for w, ms in times.items()}

    def options(self) -> dict[str, dict[str, Option]]:
        """The cost and the noise of each unit at each width.

        Bytes come first and bits of work break ties. Times are those of the layers' kernels. Units without multiplications count by bits,
        because no row of the profile has the cost of leaving integers and coming back.
        """
        every = max(1, self.bits(self.floats))

        def option(index: int, width: str) -> Option:
            unit = self.units[index]
            share = unit_bits(unit, width, self.work) / every
            noise = 0.0 if width == FLOAT else self.noise[unit.name][width]
            if self.wanted.cost == "bytes":
                return Option(self.sizes[width][unit.name] + share / 2, noise)
            return Option(self.unit_ms[width][unit.name] if unit.multiplies else share * self.points[0].ms, noise)

        return {u.name: {w: option(i, w) for w in (FLOAT, *self.noise[u.name])} for i, u in enumerate(self.units)}

    def halving(self, start: Choice, path: Sequence[Move]) -> None:
        """The most moves from the start for which the score holds: all moves first, then bisection."""
        low, high, count = 0, len(path), len(path)
        while low < high:
            low, high = (count, high) if self.holds(after(start, path[:count])) else (low, count - 1)
            count = (low + high + 1) // 2

    def refine(self, path: Sequence[Move]) -> None:
        """Continues from the best: further moves are tried in groups, and a group that fails in halves."""
        options = self.options()
        now = dict(self.choices[self.at])
        rest = [m for m in path if options[m.unit][m.width].cost < options[m.unit][now[m.unit]].cost]
        queue, refused = [rest], set[str]()
        while queue:
            group = [m for m in queue.pop(0) if m.unit not in refused]
            tried = after(now, group)
            if tried == now:
                continue
            before = self.at
            if self.holds(tried) and self.at != before and self.candidates[self.at].key == self.candidate(tried).key:
                now = dict(tried)
            elif len(group) > 1:
                half = len(group) // 2
                queue[:0] = [group[:half], group[half:]]
            else:
                refused.add(group[0].unit)  # narrower widths would lose more

    def to_int8(self, choice: Choice) -> list[Move]:
        """Moves units to int8, the least noise for the bits of work saved first; units that need more bits stay wider."""
        found = []
        for unit in self.units if "int8" in self.noise[self.units[0].name] else ():
            now = choice[unit.name]
            bits = unit_bits(unit, now, self.work) - unit_bits(unit, "int8", self.work)
            if bits > 0:
                more = self.noise[unit.name]["int8"] - self.noise[unit.name].get(now, 0.0)
                found.append(Move(unit.name, "int8", more / bits))
        return sorted(found, key=lambda m: m.price)

    def give_back(self) -> None:
        """Gives eight bits back to weights whose four bits save the least time: if the time stays, the better score wins."""
        now, options = dict(self.choices[self.at]), self.options()
        narrow = [u.name for u in self.units if now[u.name] == "int4" and "int8" in options[u.name]]
        narrow.sort(key=lambda u: options[u]["int8"].cost - options[u]["int4"].cost)
        for count in dict.fromkeys((len(narrow), len(narrow) // 2, len(narrow) // 4)):
            self.holds({**now, **dict.fromkeys(narrow[:count], "int8")})

    def settle(self) -> None:
        """Times the fastest few again, in turns, so that no lucky run decides."""
        order = sorted((i for i, p in enumerate(self.points) if p.accepted), key=lambda i: self.points[i].ms)[:FINALISTS]
        times: dict[int, list[float]] = {}
        for group in [order] if self.graph.parameter_bytes <= LARGE else [[i] for i in order]:
            graphs = [self.graph if i == 0 else self.maker.made(self.candidates[i]).integer for i in group]
            rounds = [self.stopwatch.least(graphs) for _ in range(ROUNDS)]
            times |= {i: [self.points[i].ms, *(r[k] for r in rounds)] for k, i in enumerate(group)}
        self.settled = fastest(times, {i: self.points[i].score for i in order})
        for i in order:
            self.points[i] = replace(self.points[i], ms=min(times[i]))

    # -- the result ------------------------------------------------------------------------------------------------------

    def result(self, stopped: str) -> SearchResult:
        at = self.at
        chosen, choice, candidate = self.points[at], self.choices[at], self.candidates[at]
        known, graph = self.best_graph
        if known != at:  # it became the best by its last times, or an interrupt came in between
            graph = self.graph if at == 0 else self.maker.make(candidate)
        if not any(p.accepted for p in self.points[1:]):
            why = "no quantized network with the score that is wanted was found" if self.units else "no layer has an integer form"
            warn(f"{why}: the float network is returned")
        names = {u.name: tuple(n.name or n.output.name for n in u.nodes) for u in self.units}
        layers = layers_of(names, choice, self.reasons(choice))
        record = self.record
        if at and isinstance(record, ClippedRecord):
            record = (record if candidate.method == self.base.method else record.read_by(candidate.method)).at(candidate.clipped)
            graph = replace(graph, notes={**graph.notes, **self.ruled(chosen.rules, record).notes})
        return SearchResult(
            graph, chosen, self.points[0].score, self.wanted.least, self.wanted.cost,
            front(self.points, self.wanted.cost), tuple(self.points), layers, record,
            f"on {self.given.said}" if self.metric is None else "by the metric", self.metric is None, stopped, self.widened(choice),
        )  # fmt: skip

    def ruled(self, rules: Sequence[QuantRule], record: CalibrationRecord) -> Graph:
        """The network by its rules alone; its notes have their reasons."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LowbitWarning)  # rules for layers without an effect are not the user's
            return QuantizationTransform(rules).apply(self.graph, record)

    def widened(self, choice: Choice) -> str:
        """The units that have eight bits though only four were allowed, because they have no weights; "" if there are none."""
        names = [u.name for u in self.units if "int8" not in self.widths and choice[u.name] == "int8"]
        return f"int8, which widths= does not name, for what has no weights to store in int4: {', '.join(names)}" if names else ""

    def reasons(self, choice: Choice) -> Mapping[str, str]:
        """The reason for each unit's width."""
        found = {}
        for unit in self.units:
            width, noise = choice[unit.name], self.noise.get(unit.name, {})
            if not noise:
                found[unit.name] = f"search: {mix(choice.values())}"
                continue
            alone = [f"{said_db(decibels(noise[w]))} in {w}" for w in ("int16", "int8", "int4") if w in noise]
            found[unit.name] = f"search: {width}; it alone leaves the outputs at {', '.join(alone)}"
        return found
