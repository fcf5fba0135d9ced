"""The guard: quantizes, measures every layer and the outputs on samples that calibration never saw, and mends what is not good enough.

Good enough is `Goal`: the outputs' signal to noise ratio is above a floor, and the noise is well below that of plain min-max int8. Until
then it tries, cheapest first, each step measured and kept only if it helps:

    biases        stored biases take up the mean error
    clipping      ranges by least squared error or by percentile, everywhere or where it is measured to help
    smoothing     channels scaled into the weights (equalization at alpha 0.5), alpha searched
    rounding      weights rounded so that their errors cancel
    16-bit taps   values that no multiplication reads (residual sums, norms) are kept in 16 bits
    w8a16, w16a16 layers whose inputs (or weights) make the most noise at the outputs read (or have) 16 bits: any of them below
                  the floor, above it some of the multiplications, for they cost time
    float         at the end, if even that is not enough
    8 bits again  layers whose 16 bits turn out not to be needed; where they are needed for more than half of the multiplications, the
                  outputs may fall to `Goal.least` for it

Which taps and layers make the noise is measured, not guessed: each is rounded alone in the float network (`noise_shares`). Asymmetric
ranges per tensor are the recipe's default and need no step of their own. The same graph, data and recipe give the same bytes
on CPUs of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from lowbit.accuracy.brackets import Measured, Sample, decibels
from lowbit.accuracy.costs import mac_counts, without
from lowbit.accuracy.goal import Goal, Guarded, GuardStep
from lowbit.accuracy.held import HELD_BACK, split
from lowbit.accuracy.making import Islands, State, Workshop
from lowbit.accuracy.narrow import tries
from lowbit.accuracy.smooth import channel_peaks, seams, smoothed
from lowbit.accuracy.widen import floats, wider
from lowbit.accuracy.widths import Widths
from lowbit.blas import one_thread
from lowbit.ir.graph import Graph
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform

FAILURES = 3  # attempts at float that do not help, one after another
NEAR = 3.0  # dB below the goal: where small gains may be enough
LEAST = 0.1  # dB: what a step must gain to be kept
SLACK = 0.5  # dB below what was reached, where that is not the goal, that 8 bits again may cost
MATTERS = 0.1  # of the noise that weights must make to be rounded with care
Candidate = tuple[str, str, State]


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
    first: Sequence[QuantRule] = (),
) -> Guarded:
    """The graph quantized by the rules (those of a recipe: one) and mended until the goal is reached, or everything was tried.

    `first` are rules that match before the recipe's: the layers that they decide are left as they say.
    `executor` spreads calibration and measurements over processes or machines; the result is the same, bit for bit.
    """
    with one_thread():
        (recipe,) = rules
        return _Guard(Workshop(graph, samples, recipe, islands, executor, first), goal or Goal(), method, on_step).run()


class _Guard:
    def __init__(self, shop: Workshop, goal: Goal, method: str, on_step: Callable[[GuardStep], None] | None) -> None:
        self.shop, self.aim, self.method, self.on_step = shop, goal, method, on_step
        self.steps: list[GuardStep] = []
        self.few_bits = shop.recipe.weights in ("int4", "binary")

    def run(self) -> Guarded:
        shop = self.shop
        everywhere = frozenset(QuantizationTransform(shop.rules).taps(shop.source).observed)
        given = self.method != "minmax"
        self.state = State(shop.source, self.method if given else "mse", everywhere if given else frozenset())
        shop.best = self.state
        plain = self.measured = shop.measure(self.state)
        self.goal, self.must = self.aim.db(plain.db), self.aim.must(plain.db)
        for what, where, tried in self.candidates(everywhere) if plain.db < self.goal else ():
            self.attempt(what, where, tried, self.reached + LEAST)
            if self.reached >= self.goal:
                break
        self.narrow()
        names = {name: node.name or name for name, node in shop.source.producers.items()}
        return Guarded(
            shop.make(self.state), tuple(self.steps), plain.db, self.reached, plain.by_layer(names), self.measured.by_layer(names),
            shop.wide_share(self.state),
        )  # fmt: skip

    @property
    def reached(self) -> float:
        return self.measured.db

    def attempt(self, what: str, where: str, tried: State, wanted: float, narrows: bool = False) -> float:
        """Measures a state, tells of it, and goes on from it if it has the dB that are wanted of it."""
        found = self.shop.measure(tried)
        kept = found.db >= wanted
        layer, layer_db = found.weakest
        node = tried.graph.producers.get(layer)
        name = (node.name or layer) if node is not None else layer
        self.steps.append(GuardStep(what, where, self.reached, found.db, kept, name, layer_db, narrows))
        if self.on_step is not None:
            self.on_step(self.steps[-1])
        if kept:
            self.measured, self.state = found, tried
            self.shop.best = tried
        return found.db

    def candidates(self, everywhere: frozenset[str]) -> Iterator[Candidate]:
        """What to try next, given what was kept so far (`self.state`)."""
        shop = self.shop
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
        found = seams(shop.source, shop.own)
        if found:
            peaks = channel_peaks(shop.source, shop.calibration[: shop.effort.measured], found)
            for alpha in (0.5, 0.75):
                if self.state.graph is shop.source:
                    graph = shop.small(smoothed(shop.source, peaks, found, alpha))
                    what = "channels equalized into the weights" if alpha == 0.5 else f"channels smoothed into the weights, alpha {alpha}"
                    yield what, f"{len(found)} places", replace(self.state, graph=graph)
                    if self.state.graph is not graph:
                        shop.forget(graph)
        if not self.few_bits and self.weights_matter():
            yield "weights rounded so that their errors cancel", "all layers", replace(self.state, rounding=True)
        if not self.few_bits:  # whoever asks for few bits wants them: the best rounding, and no wider weights
            yield from self.wider()

    def within(self, db: float) -> bool:
        """Whether the goal is so near that a step which costs many runs and gains little is worth its time."""
        return self.goal - self.reached <= db

    def worth_clipping(self, everywhere: frozenset[str]) -> frozenset[str]:
        """The taps that make less noise at the outputs when they are clipped."""
        taps = QuantizationTransform(self.shop.rules).taps(self.shop.source)
        plain = replace(self.state, biases=False, rounding=False)
        noise = [self.shop.shares(replace(plain, clipped=c), "tap ") for c in (frozenset(), everywhere)]
        better = [k.split(" ", 1)[1] for k in noise[0] if noise[1][k] < noise[0][k]]
        return frozenset(m for name in better for m in taps.groups[name])

    def weights_matter(self) -> bool:
        shares = self.shop.shares(self.state)
        weights = sum(noise for unit, noise in shares.items() if unit.startswith("weights "))
        return weights >= MATTERS * sum(shares.values())

    def wider(self) -> Iterator[Candidate]:
        """16 bits where the noise comes from; float at the end.

        A step that does not help is not kept, but the next one is built on it: noises that hid each other have to go together.
        """
        allowed = 10 ** (-self.goal / 10)
        banned = set(self.shop.own)
        path = self.state
        for round_ in range(self.shop.effort.rounds if self.aim.bits16 else 0):
            most = self.aim.wide if self.reached >= self.aim.floor else 1.0
            chosen = wider(self.shop, path, allowed * (0.7 if round_ == 0 else 0.4 / round_), banned, most)
            if chosen is None:
                break
            what, widths = chosen
            tried = replace(path, widths=path.widths | widths)
            refused = self.shop.refused(self.state, tried)
            if refused:
                banned |= refused
                tried = replace(path, widths=without(path.graph, tried.widths, refused))
                if tried.widths == path.widths:
                    continue
            yield what, self.names(path, tried), tried
            # What helped when all was coarse may be in the way now: a clipped range, weights fitted to errors that are gone.
            if tried.clipped and self.reached < self.goal:
                yield "no clipping", "all taps", replace(tried, clipped=frozenset())
            if self.state.rounding and not self.few_bits:
                yield "weights rounded to nearest", "all layers", replace(self.state, rounding=False)
            path = self.state if self.state.widths == tried.widths else tried
        failures = 0
        while self.reached < self.must and failures < FAILURES:
            chosen_floats = floats(self.shop, path)
            if chosen_floats is None:
                return
            tried = replace(path, widths=path.widths | Widths(floats=chosen_floats))
            yield "float", self.names(path, tried), tried
            failures = 0 if self.state is tried else failures + 1
            path = tried

    def narrow(self) -> None:
        """8 bits again while the outputs hold; below the goal too, down to what they must have, where too much is wide."""
        held = self.goal if self.reached >= self.goal else self.reached - SLACK
        searching = tries(self.shop, self.state, held, min(self.must, held), self.aim.wide)
        tried = next(searching, None)
        while tried is not None:
            where = f"{tried.count} layers, {self.shop.wide_share(tried.state):.0%} of the multiplications read 16 bits"
            after = self.reached
            if tried.state is not self.state:
                after = self.attempt("8 bits again", where, tried.state, tried.wanted, narrows=True)
            try:
                tried = searching.send(after)
            except StopIteration:
                return

    def names(self, before: State, now: State) -> str:
        found = sorted(now.widths - before.widths)
        graph = now.graph
        shown = list(dict.fromkeys((graph.producers[n].name or n) if n in graph.producers else n for n in found))
        return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")


__all__ = ["HELD_BACK", "Goal", "GuardStep", "Guarded", "Measured", "decibels", "guard", "mac_counts", "split"]
