"""auto_tune(workload): every candidate is made, run and measured; the fastest that keeps the requirements is chosen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lowbit.arguments import shown
from lowbit.decide.limits import Needs
from lowbit.dims import Sym
from lowbit.errors import InputError, LowbitError, LowbitWarning
from lowbit.hardware import Hardware
from lowbit.ir.bind import bind
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.samples import as_samples
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.pipeline import emit_c, quantize
from lowbit.progress import progress
from lowbit.quantization.recipes import ROWS, WEIGHTED
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, QuantRule, WeightOnlyRule
from lowbit.recommend.workload import Workload
from lowbit.runtime.session import Session
from lowbit.runtime.timing import NOTICEABLE, least_in_turns
from lowbit.types import Array

BLOCKS = (32, 64, 128)
SAMPLES = 4  # batches of random numbers, where no data are given


@dataclass(frozen=True)
class Choice:
    """A way to quantize: what `lowbit quantize` and rules call it."""

    recipe: str  # what `lowbit quantize --recipe` takes; "" where only rules say it
    dtype: str  # activations × weights
    scheme: str
    granularity: str
    block_size: int | None
    rules: tuple[QuantRule, ...]


def choices() -> tuple[Choice, ...]:
    """Every way that is tried, float first."""
    tensor = CalibratedQuantRule(".*", "int8", granularity="tensor", because="int8, a scale per tensor")
    symmetric = CalibratedQuantRule(".*", "int8", scheme="symmetric", because="int8, symmetric activations")
    rows4 = DynamicQuantRule(".*", "int8", "int4", 32, ops=ROWS)
    static: Callable[..., CalibratedQuantRule] = partial(CalibratedQuantRule, ".*")
    found = [
        Choice("", "float32", "none", "none", None, ()),
        Choice("int8", "int8 × int8", "asymmetric", "channel", None, (static("int8"),)),
        Choice("", "int8 × int8", "asymmetric", "tensor", None, (tensor,)),
        Choice("", "int8 × int8", "symmetric", "channel", None, (symmetric,)),
        Choice("uint8", "uint8 × uint8", "asymmetric", "channel", None, (static("uint8", "uint8"),)),
        Choice("int8-dynamic", "int8 by rows × int8", "symmetric", "channel", None, (DynamicQuantRule(".*", ops=WEIGHTED),)),
        Choice("w4a8", "int8 × int4", "asymmetric", "channel", None, (static("int8", "int4"),)),
        *(Choice("w4a8-block" if b == 32 else "", "int8 × int4", "asymmetric", "block", b, (static("int8", "int4", b),)) for b in BLOCKS),
        Choice("w4a8-dynamic", "int8 by rows × int4", "symmetric", "block", 32, (rows4,)),
        Choice("int4-weights", "float32 × int4", "offset", "block", 32, (WeightOnlyRule(".*", "int4", ops=WEIGHTED),)),
        Choice("int16", "int16 × int8", "symmetric", "channel", None, (static("int16", "int8"),)),
    ]  # fmt: skip
    return tuple(found)


@dataclass(frozen=True)
class Candidate:
    """A way to quantize and what it gave. None: not measured; `refused` says why where nothing was."""

    choice: Choice
    ms: float | None = None  # least of a call on one thread
    nbytes: int | None = None  # of the parameters; of a chip its flash
    ram: int | None = None
    db: float | None = None  # signal to noise of the outputs; infinite: equal to float's
    changed: float | None = None  # share of answers that are others than float's
    refused: str = ""
    unmet: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        return not self.refused and not self.unmet

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        made = {k: v for k, v in asdict(replace(self, choice=replace(self.choice, rules=()))).items() if k != "choice"}
        words = {k: getattr(self.choice, k) for k in ("recipe", "dtype", "scheme", "granularity", "block_size")}
        return {**words, **made, "unmet": list(self.unmet)}


class Recommendation(NamedTuple):
    """One thing to choose, and the measurement that says so."""

    what: str
    value: Any
    because: str


@dataclass(frozen=True)
class Tuning:
    """What was chosen, what was tried and what each gave. `random`: the inputs were random numbers."""

    workload: Workload
    chosen: Candidate
    tried: tuple[Candidate, ...]
    threads: int
    by_threads: Mapping[int, float]
    random: bool

    @property
    def met(self) -> bool:
        """Whether the chosen candidate keeps every requirement."""
        return self.chosen.met

    def recommendations(self) -> tuple[Recommendation, ...]:
        """dtype, scheme, granularity, block size and threads, each with the measurement behind it."""
        chosen, words = self.chosen.choice, _said(self.chosen)
        fastest = min((c for c in self.tried if c.ms is not None), key=lambda c: c.ms or 0.0, default=self.chosen)
        why = words if self.chosen is fastest else f"{words}; {fastest.choice.dtype} has {_said(fastest)}"
        if self.chosen.unmet:
            why += f"; NOT MET: {'; '.join(self.chosen.unmet)}"
        return (
            Recommendation("dtype", chosen.dtype, why),
            Recommendation("scheme", chosen.scheme, self._beside("scheme")),
            Recommendation("granularity", chosen.granularity, self._beside("granularity")),
            Recommendation("block_size", chosen.block_size, self._beside("block_size")),
            Recommendation("threads", self.threads, self._threads()),
        )

    def _threads(self) -> str:
        if not self.by_threads:
            return f"{self.workload.target} is not this machine: generated C runs on one thread"
        return ", ".join(f"{n} thread{'s' * (n > 1)} {ms:.3g} ms" for n, ms in self.by_threads.items())

    def _beside(self, field: str) -> str:
        """The measured candidates that differ from the chosen one in this alone."""
        mine = self.chosen.choice
        others = [c for c in self.tried if c.choice.dtype == mine.dtype and getattr(c.choice, field) != getattr(mine, field)]
        told = [f"{getattr(c.choice, field)}: {_said(c)}" for c in others if c.db is not None]
        return f"{getattr(mine, field)}: {_said(self.chosen)}" + ("; " + "; ".join(told) if told else "; nothing else to choose for it")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        rows = [{"what": r.what, "value": r.value, "because": r.because} for r in self.recommendations()]
        return {
            "target": self.workload.target, "chosen": self.chosen.to_dict(), "met": self.met, "tried": [c.to_dict() for c in self.tried],
            "threads": self.threads, "ms_by_threads": dict(self.by_threads), "random_inputs": self.random, "recommendations": rows,
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [f"{r.what}: {r.value} ({r.because})" for r in self.recommendations()]
        return "\n".join(rows)


def _said(c: Candidate) -> str:
    parts = [
        None if c.ms is None else f"{c.ms:.3g} ms",
        None if c.nbytes is None else f"{c.nbytes:,} bytes",
        None if c.ram is None else f"{c.ram:,} bytes of RAM",
        None if c.db is None else "equal to float" if math.isinf(c.db) else f"{c.db:.1f} dB",
    ]
    return c.refused or ", ".join(p for p in parts if p)


def auto_tune(workload: Workload | Graph, data: Iterable[Any] | None = None, *, threads: int | None = None) -> Tuning:
    """The best way to quantize a workload, by measurement: what was chosen, what was tried, what each gave.

    data     batches for a network, as `lowbit.quantize` takes them; without them (and for ops) random normal numbers
    threads  the most that may be tried (all cores of the process)

    >>> made = auto_tune(Workload("linear", (64, 32)))
    >>> made.chosen in made.tried, made.met
    (True, True)
    """
    work = Workload.of(workload) if isinstance(workload, Graph) else workload
    if not isinstance(work, Workload):
        raise InputError(f"{shown(workload)} given, a Workload or a Graph is needed", hint="lowbit.Workload('linear', (256, 128), batch=8)")
    graph = work.graph()
    samples = list(as_samples(graph, data)) if data is not None else random_samples(graph, work.batch)
    if not samples:
        raise InputError("there is no data to measure with", hint="data=[{name: array}, …], or none for random numbers")
    tried = measured(work, graph, samples)
    chosen = best(work, tried)
    by_threads = {} if work.target != "host" else threads_tried(made_by(graph, chosen.choice, samples), samples[0], threads)
    enough = [n for n, ms in by_threads.items() if ms <= NOTICEABLE * min(by_threads.values())]
    count = min(enough, default=1)  # more threads than help are no choice
    return Tuning(work, chosen, tried, count, by_threads, data is None)


def random_samples(graph: Graph, batch: int) -> list[dict[str, Array]]:
    """Normal numbers for every input; open dimensions are the batch."""
    rng, found = np.random.default_rng(0), []
    for v in graph.inputs:
        if not v.type.dtype.is_float:
            hint = "data=[{name: array}, …] (--data samples.npz)"
            raise InputError(f"input {v.name!r} is {v.type.dtype}: random numbers say nothing of it", where=graph.name, hint=hint)
    for _ in range(SAMPLES):
        sizes = {v.name: tuple(batch if isinstance(d, Sym) else int(d) for d in v.shape) for v in graph.inputs}
        found.append({n: rng.standard_normal(s).astype(np.float32) for n, s in sizes.items()})
    return found


def made_by(graph: Graph, choice: Choice, samples: list[dict[str, Array]]) -> Graph:
    """The integer graph of a choice."""
    if not choice.rules:
        return graph
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowbitWarning)
        return lower(quantize(graph, samples, rules=choice.rules)).graph


def measured(work: Workload, graph: Graph, samples: list[dict[str, Array]]) -> tuple[Candidate, ...]:
    """What each choice gave; a candidate is forgotten before the next one is made."""
    want = [run(graph, s) for s in samples]
    found: list[Candidate] = []
    seen: set[str] = set()
    for choice in progress(choices(), "trying"):
        try:
            made = made_by(graph, choice, samples)
            key = str(made)
            if key in seen:
                continue  # another way to say the same: a network without weights, blocks that are channels
            seen.add(key)
            c = quality(Candidate(choice), made, samples, want)
            found.append(judged(work, on_host(c, made, samples[0]) if work.target == "host" else on_chip(work, c, made)))
        except LowbitError as e:
            found.append(Candidate(choice, refused=e.message))
    return tuple(found)


def on_host(c: Candidate, made: Graph, sample: dict[str, Array]) -> Candidate:
    """Milliseconds on one thread, and bytes."""
    session = Session(made, threads=1)
    (ms,) = least_in_turns([partial(session.run, sample)], one_thread=True)
    return replace(c, ms=ms, nbytes=made.parameter_bytes, ram=session.arena_bytes(*(sample[v.name] for v in made.inputs)))


def quality(c: Candidate, made: Graph, samples: list[dict[str, Array]], want: list[dict[str, Array]]) -> Candidate:
    """The outputs' signal to noise ratio, the worst of them, and how many answers are others."""
    session = Session(made, threads=1)
    got = [session.run(s) for s in samples]
    names = [n for n, y in want[0].items() if y.dtype.kind == "f"]
    worst, changed, rows = math.inf, 0, 0
    for n in names:
        a, b = (np.concatenate([np.ravel(y[n]) for y in ys]) for ys in (want, got))
        worst = min(worst, math.inf if np.array_equal(a, b) or not c.choice.rules else sqnr_db(a, b))
        if want[0][n].ndim >= 2 and want[0][n].shape[-1] > 1:
            pairs = [(np.argmax(x[n], -1), np.argmax(y[n], -1)) for x, y in zip(want, got, strict=True)]
            changed, rows = changed + sum(int(np.sum(x != y)) for x, y in pairs), rows + sum(x.size for x, _ in pairs)
    return replace(c, db=worst, changed=changed / rows if rows else None)


def on_chip(work: Workload, c: Candidate, made: Graph) -> Candidate:
    """Flash and RAM of the generated C; a chip's milliseconds cannot be measured here."""
    try:
        sizes = {s: work.batch for s in made.symbols}
        emitted = emit_c(bind(made, sizes), None, target=work.target, measure=False)
    except LowbitError as e:
        return replace(c, refused=e.message, db=None)
    return replace(c, nbytes=emitted.flash_bytes or emitted.weight_bytes, ram=emitted.ram_bytes)


def judged(work: Workload, c: Candidate) -> Candidate:
    """The candidate with what it does not keep."""
    if c.refused:
        return c
    unmet = list(work.limits.unmet(Needs(c.ms, c.nbytes, c.ram)))
    if work.max_ms is not None and c.ms is None:
        unmet.append(f"max_ms is {work.max_ms:g}, and the time of {work.target} cannot be measured here")
    if c.db is not None and c.db < work.least_db:
        unmet.append(f"the outputs have {c.db:.1f} dB, {work.least_db:g} are wanted")
    if work.max_drop is not None and c.changed is not None and c.changed > work.max_drop:
        unmet.append(f"{100 * c.changed:.2g} % of the answers change, max_drop is {work.max_drop:g}")
    return replace(c, unmet=tuple(unmet))


def excess(work: Workload, c: Candidate) -> float:
    """How far a candidate is beyond the requirements: the largest need as a multiple of its limit; ten dB too few count as twice."""
    short = 0.0 if c.db is None else max(0.0, work.least_db - c.db) / 10
    return max(work.limits.excess(Needs(c.ms, c.nbytes, c.ram)), 1.0 + short)


def best(work: Workload, tried: Iterable[Candidate]) -> Candidate:
    """Of those that keep the requirements the fastest (on a chip the smallest); of times that are alike the better one.

    Where none keeps them, the one that is nearest.
    """
    usable = [c for c in tried if not c.refused]
    if not usable:
        raise InputError("no candidate can be made of it: " + "; ".join(c.refused for c in tried)[:300], hint="lowbit inspect MODEL")
    met = [c for c in usable if c.met]
    if not met:
        return min(usable, key=lambda c: (excess(work, c), -(c.db or 0.0)))
    cost: Callable[[Candidate], float] = lambda c: c.ms if c.ms is not None else float((c.nbytes or 0) + (c.ram or 0))  # noqa: E731
    least = min(map(cost, met))
    return max((c for c in met if cost(c) <= 1.05 * least), key=lambda c: (min(c.db or 0.0, 60.0), -(c.nbytes or 0)))


def threads_tried(made: Graph, sample: dict[str, Array], most: int | None) -> dict[int, float]:
    """Milliseconds of a call by the number of threads."""
    cores = Hardware.detect().threads if most is None else most
    counts = sorted({1, *(n for n in (2, 4, 8, 16, 32) if n < cores), cores})
    times = least_in_turns([partial(Session(made, threads=n).run, sample) for n in counts])
    return dict(zip(counts, times, strict=True))
