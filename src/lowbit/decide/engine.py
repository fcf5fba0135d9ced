"""The engine that decides how a network is quantized: by measured quality and measured time, on the integers that run.

    plain rules       the recipe as it is, with the ranges that were seen
    free repairs      ranges by least squared error, biases that take up the mean error, channels scaled between layers, weights rounded
                      so that their errors cancel: they cost no time when the network runs
    broken layers     a layer below LAYER dB is repaired, whatever the outputs show
    costly repairs    float for a few operations, 16 bits, float: in the order of noise taken away for each millisecond
    float for speed   layers that take longer in integers than in float, conversions included, stay float
    limits            what is too slow or too large becomes narrower again, and weights get four bits (`fewer`)

Each candidate is measured on samples that nothing was fitted to, and kept only if it is better. A balanced network never takes longer than
FASTER of the float one's time where the plain rules take less, and never longer than the float one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from lowbit.blas import one_thread
from lowbit.calibration.observers import make_observer
from lowbit.decide.all_layers import by_rows, dynamic_widths, sixteen_bits, sixteen_for_float, without_sixteen_bits
from lowbit.decide.batches import Data
from lowbit.decide.brackets import Pair
from lowbit.decide.broken_layers import repair_broken_layers
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.cost import LayerCosts, Stopwatch, Times, counted
from lowbit.decide.decision import Decision as Decision
from lowbit.decide.decision import Trial
from lowbit.decide.effort import Effort, mac_counts
from lowbit.decide.faster import NOTICED, SMALL, all_float, float_for_speed
from lowbit.decide.few_bits import few_bit_repairs
from lowbit.decide.fewer import keep_to_limits
from lowbit.decide.front import Tried
from lowbit.decide.goal import CHEAP, FASTER, LAYER, Goal, Step, reaches
from lowbit.decide.limits import Deadline, Limits, Needs, Over
from lowbit.decide.quality import Quality, Ruler, layer_decibels
from lowbit.decide.repairs import EIGHTS, Repair, enough, few_weights, find_repairs, in_order, together, within
from lowbit.decide.samples import Sample, split
from lowbit.decide.scores import BadScore
from lowbit.decide.sensitivity import noise_shares, shares_by_workers
from lowbit.decide.smooth import channel_peaks, seams, smoothed
from lowbit.decide.unneeded import give_up, take_back
from lowbit.decide.widths import Widths, multiplies
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph
from lowbit.progress import progress
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform

ROUNDS = 3  # of looking where the noise comes from, and repairing: after the first, from what the repairs have left
GAIN = 0.2  # dB of the worst tenth that a repair must gain to be kept
LUCK = 1.0  # dB of the worst tenth that may be lost where the others gain: of few rows that is chance
TRIES = 4  # candidates with 8 bits for some layers: each is rounded anew
BROKEN = 20.0  # dB of the worst tenth below which what was fitted to the errors is wrong when some of them go away
FREE = 0.005  # of the float network's time: a repair that costs less costs nothing
SAFETY = 0.6  # of the noise that the goal allows is aimed at: the noise of single roundings is not quite their sum
MATTERS = 0.1  # of the noise that weights must make to be rounded with care
Attempt = tuple[str, str, Candidate]
Metric = Callable[[Graph], float]  # of a Q/DQ graph or a float one: higher is better


def decide(
    graph: Graph,
    samples: Sequence[Sample],
    recipe: QuantRule,
    *,
    goal: Goal | None = None,
    method: str = "minmax",
    metric: Metric | None = None,
    max_drop: float = 0.005,
    on_step: Callable[[Step], None] | None = None,
    executor: Executor | None = None,
    first: Sequence[QuantRule] = (),
    limits: Limits | None = None,
) -> Decision:
    """The graph quantized by a recipe's rule, repaired until the goal is reached or nothing helps within the time it may take.

    `first` are rules that match before the recipe's: the layers that they decide are left as they say. `metric` decides in the place of
    the outputs' noise, if there is one: the score may fall by `max_drop`. What keeps to the `limits` goes before what is better.
    """
    deadline = Deadline(None if limits is None else limits.minutes)
    with one_thread():
        macs = mac_counts(graph, samples[0])
        effort = Effort.of(sum(macs.values()))
        data = Data.of(graph, split(samples, effort.decided, effort.reported), sum(macs.values()), effort.decided)
        maker = CandidateMaker(graph, data.fit, recipe, executor, first, macs)
        return Engine(maker, data, goal or Goal(), method, metric, max_drop, on_step, limits, deadline).run()


class Engine:
    def __init__(
        self, maker: CandidateMaker, data: Data, goal: Goal, method: str, metric: Metric | None, max_drop: float,
        on_step: Callable[[Step], None] | None, limits: Limits | None = None, deadline: Deadline | None = None,
    ) -> None:  # fmt: skip
        self.few_bits = maker.few_bits
        self.beside = frozenset[str]()  # layers that have 8 bits only while others are decided about
        self.wide_share = EIGHTS  # of the weights that may have more than few bits
        self.maker, self.data, self.goal, self.method, self.metric, self.on_step = maker, data, goal, method, metric, on_step
        make_observer(method)  # an error where there is none, before the long part
        self.limits, self.deadline = limits or Limits(), deadline or Deadline(None)
        self.steps: list[Step] = []
        self.measured: list[Tried] = []
        self.last: Quality | None = None  # of what was tried last
        self._shares: tuple[object, dict[str, float]] = None, {}
        self.ruler = Ruler(maker.source, data.decide, data.numbers, data.fitted)
        self.float_score = None if metric is None else metric(maker.source)
        self.least_score = None if self.float_score is None else self.float_score - max_drop

    # -- the road ------------------------------------------------------------------------------------------------------------

    def run(self) -> Decision:
        source = self.maker.source
        everywhere = self.everywhere
        given = self.method != "minmax"
        start = Candidate(source, self.method if given else "mse", everywhere if given else frozenset())
        self.maker.best = start
        self.measured.append(Tried("float", math.inf, math.inf, source.parameter_bytes, self.float_score))
        self.best = self.plain = self.measure(start)
        plain = self.best.quality
        self.plain_times = self.times(self.best)
        stopped = ""
        try:
            if self.few_bits:
                few_bit_repairs(self, everywhere)
            else:
                for what, where, tried in progress(self.free_repairs(everywhere), "deciding"):
                    self.attempt(what, where, tried)
                by_rows(self)
                repair_broken_layers(self)
                before = self.best
                self.costly_repairs()
                without_sixteen_bits(self, before)
                sixteen_bits(self)
                sixteen_for_float(self)
                take_back(self)
            float_for_speed(self)
            all_float(self)
            keep_to_limits(self)
        except Over as e:
            stopped = str(e)
            if self.beside:  # the best so far has 8 bits only to decide about others
                self.best = self.plain
            now = self.best.quality.worst_db
            self.tell(Step(f"{stopped}: the best so far is returned", "the whole network", now, now, True))
        return self.decision(plain, stopped)

    @cached_property
    def everywhere(self) -> frozenset[str]:
        """Every value whose range is learned."""
        return frozenset(QuantizationTransform(self.maker.rules).taps(self.maker.source).observed)

    def decision(self, plain: Quality, stopped: str = "") -> Decision:
        made = self.maker.made(self.best.candidate)
        report = Ruler(self.maker.source, self.data.report, self.data.report.numbers)
        quality = report.measure(made)
        layers = layer_decibels(made, self.data.report.some(self.maker.effort.shares))
        quality = replace(quality, layers=layers)
        times = self.times(self.best)
        unmet = []
        if self.least_score is not None and self.best.score is not None and not reaches(self.best.score, self.least_score):
            unmet.append(f"the score is {self.best.score:.6g}, {self.least_score:.6g} is the least")
        if self.metric is None and (lacking := self.goal.lacks(quality, margin=False)):
            unmet.append(lacking)
        if self.metric is None and (broken := sorted((db, name) for name, db in layers.items() if db < LAYER)):
            worst = ", ".join(f"{self.layer_names([name])} {db:.1f} dB" for db, name in broken[:3])
            more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
            unmet.append(f"layers have less than {LAYER:g} dB: {worst}{more}")
        if self.promises_speed and times.reference >= SMALL and times.ratio > 1 / NOTICED:
            unmet.append(f"it takes {times.ratio:.2f} of the float network's time")
        unmet += self.limits.unmet(self.needs(self.best))
        self.measured[self.best.number] = replace(self.measured[self.best.number], chosen=True)
        return Decision(
            made.graph, quality, plain, times, tuple(self.steps), self.best.candidate.widths, self.maker.macs, self.data.said,
            self.best.score, self.float_score, "; ".join(unmet), tuple(self.measured), stopped, self.best.candidate.faster,
        )  # fmt: skip

    # -- measuring -----------------------------------------------------------------------------------------------------------

    def measure(self, candidate: Candidate) -> Trial:
        if len(self.measured) > 1:  # there is always a network to return
            self.deadline.check()
        made = self.maker.made(candidate)
        score = None if self.metric is None else self.metric(made.graph)
        quality = self.ruler.measure(made)
        what = candidate.said(self.maker.source, self.maker.recipe)
        self.measured.append(Tried(what, quality.db, quality.worst_db, made.graph.parameter_bytes, score))
        return Trial(candidate, quality, score, number=len(self.measured) - 1)

    def tried(self, candidate: Candidate, what: str, where: str, repairs: tuple[Repair, ...] = ()) -> Trial | None:
        """What was measured of a candidate; None, and it is told, where it cannot be made. A metric that fails is the user's to know."""
        try:
            trial = self.measure(candidate)
        except BadScore:
            raise
        except LowbitError as e:
            self.tell(Step(f"{what}: {e.message}", where, self.best.quality.worst_db, -math.inf, False))
            return None
        trial.repairs = repairs
        self.last = trial.quality
        return trial

    @cached_property
    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.maker.source, self.data.timed)

    def times(self, trial: Trial) -> Times:
        if trial.times is None:
            trial.times = self.stopwatch.times(self.maker.made(trial.candidate).integer)
            self.measured[trial.number] = replace(self.measured[trial.number], ms=trial.times.made)
            least = min(trial.times.reference, self.measured[0].ms or math.inf)
            self.measured[0] = replace(self.measured[0], ms=least)
        return trial.times

    def needs(self, trial: Trial) -> Needs:
        """What a network needs of what is limited."""
        limits = self.limits
        return Needs(
            self.times(trial).made if limits.ms is not None else None,
            self.measured[trial.number].bytes if limits.nbytes is not None else None,
            self.stopwatch.arena_bytes(self.maker.made(trial.candidate).integer) if limits.ram is not None else None,
        )

    @property
    def good(self) -> bool:
        return self.is_good(self.best)

    def is_good(self, trial: Trial) -> bool:
        """Whether the score is not below what it may be; without a metric, whether the outputs are as the goal wants them."""
        if self.least_score is not None and trial.score is not None:
            return reaches(trial.score, self.least_score)
        return self.goal.good(trial.quality)

    @property
    def cap(self) -> float:
        """The largest share of the float network's time that a repair may lead to."""
        most = math.inf if self.limits.ms is None else self.limits.ms / self.plain_times.reference
        if self.goal.slower:
            return most
        return min(most, FASTER if self.plain_times.ratio < FASTER else 1.0)

    @property
    def by_clock(self) -> bool:
        """Whether times decide; else multiplications are counted, and the same data gives the same bytes."""
        return not self.goal.slower or self.limits.ms is not None

    @property
    def promises_speed(self) -> bool:
        """Whether the network shall not be slower than the float one."""
        return not self.goal.slower and not self.goal.small

    def better(self, tried: Trial, gain: float = GAIN) -> bool:
        if self.metric is not None and tried.score is not None and self.best.score is not None and tried.score != self.best.score:
            return tried.score > self.best.score
        new, old = tried.quality, self.best.quality
        worse = min(old.worst_db, self.goal.enough) - new.worst_db, min(old.db, self.goal.enough) - new.db
        gained = new.db >= old.db + gain or new.worst_db >= old.worst_db + gain
        overfitted = new.unseen_db < min(old.unseen_db, self.goal.enough) - gain
        return gained and worse[0] <= LUCK and worse[1] <= gain and not overfitted

    def attempt(self, what: str, where: str, candidate: Candidate, cap: float | None = None) -> bool:
        """Measures a candidate, tells of it, and goes on from it if it is better.

        `cap`: where it costs time, the share of the float network's that it may take.
        """
        repairs = self.best.repairs if candidate.widths == self.best.candidate.widths else ()
        tried = self.tried(candidate, what, where, repairs)
        if tried is None:
            return False
        kept = self.better(tried)
        ratio = None
        if kept and cap is not None and not math.isinf(cap):
            ratio = self.times(tried).ratio
            kept = ratio <= max(cap, self.times(self.best).ratio)
        self.tell(Step(what, where, self.best.quality.worst_db, tried.quality.worst_db, kept, ratio, tried.score))
        if kept:
            self.best, self.maker.best = tried, candidate
        return kept

    def tell(self, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    # -- repairs that cost nothing -------------------------------------------------------------------------------------------

    def free_repairs(self, everywhere: frozenset[str]) -> Iterator[Attempt]:
        """What to try next, given what was kept so far; ends when the outputs have enough."""
        for make in (self.clipping(everywhere), self.biases, self.smoothing, self.rounding):
            for attempt in make():
                if self.best.quality.worst_db >= self.goal.enough:
                    return
                yield attempt

    def clipping(self, everywhere: frozenset[str]) -> Callable[[], Iterator[Attempt]]:
        def attempts() -> Iterator[Attempt]:
            if self.best.candidate.clipped:
                return  # the user named a method
            yield "ranges by least squared error", "all values", replace(self.best.candidate, clipped=everywhere)
            if not self.best.candidate.clipped:
                yield "ranges by percentile", "all values", replace(self.best.candidate, method="percentile", clipped=everywhere)

        return attempts

    def biases(self) -> Iterator[Attempt]:
        if not self.best.candidate.biases:
            yield "biases take up the mean error", "all layers", replace(self.best.candidate, biases=True)

    def smoothing(self) -> Iterator[Attempt]:
        if self.best.quality.worst_db >= self.goal.wanted and self.good:
            return
        source = self.maker.source
        found = seams(source, self.maker.own)
        if not found:
            return
        peaks = channel_peaks(source, self.data.fit.some(self.maker.effort.rounded), found)
        for alpha in (0.5, 0.75):
            if self.best.candidate.graph is source:
                graph = self.maker.compact(smoothed(source, peaks, found, alpha))
                what = "channels equalized into the weights" if alpha == 0.5 else f"channels smoothed into the weights, alpha {alpha}"
                before = self.best
                yield what, f"{len(found)} places", replace(self.best.candidate, graph=graph)
                if self.best.candidate.graph is not graph:
                    self.maker.forget(graph)
                    if self.last is not None and self.last.db < before.quality.db:
                        return  # the other one moves the channels even further

    def rounding(self) -> Iterator[Attempt]:
        broken = self.best.quality.worst_db < BROKEN and not self.goal.slower  # by more than the rounding of weights
        if broken or (self.good and not self.goal.slower) or not self.weights_matter():
            return
        yield "weights rounded so that their errors cancel", "all layers", replace(self.best.candidate, rounding=True)

    def weights_matter(self) -> bool:
        shares = self.shares()
        weights = sum(noise for unit, noise in shares.items() if unit.startswith("weights "))
        return weights >= MATTERS * sum(shares.values())

    # -- where the noise comes from, and what its repair costs ---------------------------------------------------------------

    def shares(self) -> dict[str, float]:
        """The noise of each rounding of the best candidate, alone; weights that make good other errors are not as they are alone."""
        candidate = self.best.candidate
        candidate = replace(candidate, rounding=False, biases=False, clip=False) if candidate.clip else candidate
        if self._shares[0] == candidate.key:
            return self._shares[1]
        self._shares = candidate.key, self.noise_of(candidate, self.maker.make(candidate), self.maker.units(candidate))
        return self._shares[1]

    def noise_of(self, candidate: Candidate, quantized: Graph, units: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The noise of each unit of a candidate, alone (see `sensitivity`)."""
        samples = self.data.decide[: 1 if len(self.data.fit) < self.data.fit.given else self.maker.effort.shares]
        total = dict.fromkeys(units, 0.0)
        if self.maker.executor is not None and units:
            points = self.ruler.points
            for part in shares_by_workers(self.maker.executor, candidate.graph, quantized, samples, units, points):
                self.deadline.check()
                total.update((unit, total[unit] + noise / len(samples)) for unit, noise in part.items())
            return total
        steps = iter(progress(range(len(units) * len(samples)), "where the noise comes from"))

        def each(_: str) -> None:
            next(steps, None)
            self.deadline.check()

        for sample in samples:
            pair = Pair.bound(candidate.graph, quantized, sample)
            for unit, noise in noise_shares(pair, sample, units, self.ruler.points, each).items():
                total[unit] += noise / len(samples)
        return total

    @cached_property
    def costs(self) -> LayerCosts:
        """Milliseconds of every layer in each width, from the profiles of networks that have it everywhere."""
        if not self.by_clock:
            return counted(self.maker.source, self.maker.macs)
        plain = Candidate(self.maker.source, self.best.candidate.method)
        int8 = self.stopwatch.layers(self.maker.made(plain))
        graph, layers = plain.graph, frozenset(n.output.name for n in plain.graph.nodes if multiplies(n)) - self.maker.own
        taps = self.maker.transform(plain).taps(graph)
        every = Widths(taps=frozenset(taps.taps), layers=layers)
        try:
            int16 = self.stopwatch.layers(self.maker.made(replace(plain, widths=every)))
        except LowbitError:
            int16 = {name: 2 * ms for name, ms in int8.items()}
        rows, dynamic = dynamic_widths(self.maker), dict[str, float]()
        if rows is not None:
            with suppress(LowbitError):
                dynamic = self.stopwatch.layers(self.maker.made(replace(plain, widths=rows)))
        return LayerCosts(self.stopwatch.layers(), int8, int16, dynamic)

    @property
    def free_ms(self) -> float:
        """Milliseconds below which a repair costs nothing."""
        return FREE * (self.costs.whole if not self.by_clock else self.times(self.best).reference)

    # -- repairs that cost time ----------------------------------------------------------------------------------------------

    def costly_repairs(self) -> None:
        """As many repairs as the outputs need, those that take away the most noise for each millisecond first.

        First what is needed, within the time that a network may take; then what is wanted, as long as it is cheap.
        """
        start = self.best
        for _ in range(ROUNDS):
            before = self.best
            if self.good:
                break
            self.repair(self.goal.needed(before.quality), self.cap, wanted=False)
            if self.best is before:
                break
        for _ in range(ROUNDS):
            before = self.best
            if self.good and (before.quality.worst_db >= self.goal.wanted or self.goal.sure(before.quality)):
                break
            cheap = self.cap if self.goal.slower else min(self.cap, CHEAP)  # accuracy reads no clock
            if self.good and not self.goal.slower and self.times(before).ratio > cheap:
                break
            self.repair(self.goal.wanted, cheap, wanted=True)
            if self.best is before:
                break
        give_up(self, start)
        for make in (self.clipping(self.everywhere), self.biases):  # fitted anew to what the repairs have left
            for what, where, tried in make():
                if self.best.candidate.widths != Widths() and self.best.quality.worst_db < self.goal.wanted:
                    self.attempt(what, where, replace(tried, widths=self.best.candidate.widths))

    def repair(self, target: float, cap: float, wanted: bool) -> None:
        """Finds by doubling and halving how many repairs reach the target within a share of the float network's time.

        The target is what is `wanted` for itself, or a guess of what the outputs need to be good.
        """
        start, shares, before = self.unfitted(self.best), self.shares(), self.best.repairs
        if start.clip:  # what activations need they have by now, and layers of 8 bits are as wide as this recipe gets
            eights = start.widths.eights
            shares = {u: noise for u, noise in shares.items() if u.startswith("weights ") and u.removeprefix("weights ") not in eights}
        every = sum(shares.values())
        bits16 = self.goal.bits16 and not self.best.candidate.clip
        repairs = find_repairs(self.maker, start, shares, self.costs, bits16, bits16 and self.goal.slower)
        ordered = self.affordable(repairs, start.widths, self.budget(cap))
        if not ordered:
            return
        now = 10 ** (-self.best.quality.worst_db / 10)  # the shares are of other samples: only their proportions count
        count = enough(ordered, every, every * SAFETY * min(1.0, 10 ** (-target / 10) / now))
        low, high = 0, len(ordered) + 1  # so many do not do; so many do, or take too long
        for _ in range(TRIES if self.best.candidate.clip else self.maker.effort.rounds):
            chosen = ordered[:count]
            candidate = replace(start, widths=start.widths | together(chosen))
            reached, slow = self.try_repairs(chosen, candidate, target if wanted else -math.inf, cap, before)
            low, high = (low, count) if reached or slow else (count, high)
            if high - low <= 1:
                return
            doubled = 2 * count if high > len(ordered) else high
            count = max(low + 1, min((low + high) // 2, doubled, len(ordered)))

    def affordable(self, repairs: Sequence[Repair], now: Widths, budget: float) -> list[Repair]:
        """The repairs within the budget of time that leave few bits few, those with the largest gain for each millisecond first."""
        ordered = within(in_order(repairs, self.free_ms), self.costs, budget)
        if not self.few_bits:
            return ordered
        wide = now.floats | now.eights - self.beside
        return few_weights(ordered, lambda r: r.widths.eights | r.widths.floats, wide, self.maker.weight_share, self.wide_share)

    def unfitted(self, trial: Trial) -> Candidate:
        """The candidate; where it is broken, what was fitted to its errors is fitted anew: they go away with the repairs."""
        broken = trial.quality.worst_db < BROKEN and not self.few_bits
        return replace(trial.candidate, rounding=False, anew=True) if broken else trial.candidate

    def try_repairs(
        self, chosen: Sequence[Repair], candidate: Candidate, target: float, cap: float, kept_before: Sequence[Repair]
    ) -> tuple[bool, bool]:
        """Whether the target is reached, and whether the network takes too long; the candidate is kept if it is better, or as good with
        fewer repairs."""
        before = self.best
        tried = self.tried(candidate, self.said(chosen), self.names(chosen), (*kept_before, *chosen))
        if tried is None:
            return False, False
        reached = tried.quality.worst_db >= target and self.is_good(tried)
        ratio = None if math.isinf(cap) else self.times(tried).ratio
        slow = ratio is not None and ratio > max(cap, self.times(before).ratio)
        fewer = reached and candidate.widths != before.candidate.widths and not candidate.widths - before.candidate.widths
        kept = not slow and (self.better(tried) or fewer)
        self.tell(Step(self.said(chosen), self.names(chosen), before.quality.worst_db, tried.quality.worst_db, kept, ratio, tried.score))
        if kept:
            self.best, self.maker.best = tried, candidate
        return reached, slow

    def budget(self, cap: float) -> float:
        """Milliseconds until the network takes a share of the float one's time."""
        times = self.times(self.best)
        return math.inf if math.isinf(cap) else max(FREE, cap - times.ratio) * times.reference

    def said(self, chosen: Sequence[Repair]) -> str:
        kinds: dict[str, int] = {}
        for r in chosen:
            kinds[r.what] = kinds.get(r.what, 0) + 1
        return ", ".join(f"{what} ({count})" for what, count in kinds.items())

    def names(self, chosen: Sequence[Repair]) -> str:
        return self.layer_names(r.unit.split(" ", 1)[1] for r in chosen)

    def layer_names(self, values: Iterable[str]) -> str:
        """The layers that make these values, the first six of them by name."""
        graph, found = self.best.candidate.graph, dict.fromkeys(values)
        shown = list(dict.fromkeys((graph.producers[n].name or n) if n in graph.producers else n for n in found))
        return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
