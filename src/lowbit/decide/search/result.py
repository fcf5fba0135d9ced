"""The result of a search: every network that it measured, their front, and the best one with its reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowbit.calibration.record import CalibrationRecord
from lowbit.decide.front import front as front_of
from lowbit.ir.graph import Graph
from lowbit.quantization.rules import QuantRule
from lowbit.report.text import counted, decibels, plain


@dataclass(frozen=True)
class Point:
    """A measured network: its description, its score, the bytes of its weights (with their scales) and the time of a run.

    `rules` make it from the float network (`quantize(g, best.record, rules=point.rules)`). `ms` depends on the machine's state: points that
    differ in it alone are equal. `repairs` are in its constants and in no rule. `failed` says why there is no score.
    """

    what: str
    score: float
    bytes: int
    ms: float = field(compare=False)
    bits: int  # of work: they break ties of bytes, see docs/search.md
    accepted: bool
    rules: tuple[QuantRule, ...] = field(repr=False)
    failed: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layer:
    """A layer (or several that share one width), its width and the reason."""

    name: str
    layers: tuple[str, ...]
    width: str
    because: str

    @property
    def why(self) -> str:
        """The reason, for tables with a column of the width."""
        return self.because.removeprefix("search: ").removeprefix(f"{self.width}; ")


def mix(widths: Iterable[str]) -> str:
    """ "9 int8, 2 int16": how many units have each width."""
    found = Counter(widths)
    if len(found) == 1:
        return f"{next(iter(found))} everywhere"
    return ", ".join(f"{found[w]} {w}" for w in ("int8", "int4", "int16", "float") if w in found)


def cost_of(point: Point, cost: str) -> tuple[float, float]:
    return (point.ms, 0.0) if cost == "time" else (float(point.bytes), float(point.bits))


def front(points: Iterable[Point], cost: str) -> tuple[Point, ...]:
    """The points that no other beats, the cheapest first: in score, time and bytes, or in score, bytes and bits of work.

    The first of equal points stays.
    """
    scored = [p for p in points if not p.failed]

    def goods(p: Point) -> tuple[float, float, float]:
        return p.score, *((-p.ms, -p.bytes) if cost == "time" else (-p.bytes, -p.bits))

    return tuple(sorted(front_of(scored, goods), key=lambda p: (*cost_of(p, cost), -p.score)))


@dataclass(frozen=True)
class SearchResult:
    """The best network, and every network that was measured.

    graph, rules   the best: the cheapest whose score is at least `least`; the float network itself if there is no other
    record         the calibration record: quantize(g, record, rules=rules) gives the graph again; if weights, biases or channels were
                   repaired, the same nodes with other constants
    repairs        repairs that cost no time (ranges, channels, rounding, biases), as in `quantize`
    pareto         points that no other beats (see `front`), the cheapest first
    trials         every point, in the order in which they were measured; the first is the float network
    note           the units with a width that was not asked for, and why; "" if there are none
    stopped        why the search ended early: an interrupt, or a limit; "" if it did not

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (16, 4)).graph()
    >>> data = [{"x": np.random.default_rng(i).standard_normal((8, 16)).astype(np.float32)} for i in range(4)]
    >>> len(lowbit.search(g, data).rules) > 0
    True
    """

    graph: Graph
    chosen: Point
    float_score: float
    least: float
    cost: str
    pareto: tuple[Point, ...]
    trials: tuple[Point, ...]
    layers: tuple[Layer, ...]
    record: CalibrationRecord = field(repr=False)
    measured_on: str
    in_db: bool
    stopped: str = ""
    note: str = ""

    @property
    def score(self) -> float:
        """The score of the chosen network."""
        return self.chosen.score

    @property
    def rules(self) -> tuple[QuantRule, ...]:
        """The rules that give the chosen network again."""
        return self.chosen.rules

    @property
    def repairs(self) -> tuple[str, ...]:
        """The repairs that cost no time: ranges, channels, rounding, biases."""
        return self.chosen.repairs

    @property
    def is_float(self) -> bool:
        """Whether no quantized network was good enough."""
        return self.chosen is self.trials[0]

    def save_rules(self, path: Any) -> None:
        """Writes the rules as TOML, for `lowbit quantize --rules`."""
        from lowbit.quantization.rules_file import save_rules

        save_rules(self.rules, path)

    def said(self, score: float) -> str:
        """A score as text: in dB, or as a number."""
        return decibels(score) if self.in_db else f"{score:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; rules are left to `save_rules`."""

        def told(p: Point) -> dict[str, Any]:
            return {
                "what": p.what,
                "score": p.score,
                "bytes": p.bytes,
                "ms": p.ms,
                "accepted": p.accepted,
                "failed": p.failed,
                "repairs": list(p.repairs),
            }

        values: dict[str, Any] = plain(
            {
                "score": self.score, "float_score": self.float_score, "least": self.least, "unit": "dB" if self.in_db else "metric",
                "cost": self.cost, "chosen": told(self.chosen), "is_float": self.is_float, "repairs": list(self.repairs),
                "stopped": self.stopped, "note": self.note,
                "measured_on": self.measured_on, "pareto": [told(p) for p in self.pareto], "trials": [told(p) for p in self.trials],
                "layers": [{"name": a.name, "layers": list(a.layers), "width": a.width, "because": a.because} for a in self.layers],
            }
        )  # fmt: skip
        return values

    @property
    def summary(self) -> str:
        """The chosen network in one or two lines."""
        first, now = self.trials[0], self.chosen
        in_float = "" if self.in_db else f"float {self.said(self.float_score)}, "  # which has no noise
        score = f"score {self.said(now.score)} ({in_float}at least {self.said(self.least)} wanted)"
        if self.is_float:
            tried = [p for p in self.trials[1:] if not p.failed]
            near = max(tried, key=lambda p: p.score, default=None)
            nearest = f"; the nearest was {near.what} with {self.said(near.score)}" if near is not None else ""
            reason = f"no other network with a score of {self.said(self.least)} was found{nearest}"
            if near is not None and any(p.accepted for p in tried):
                reason = f"no network with that score costs less {self.cost}"
            if not self.layers:
                reason = "no layer has an integer form"
            text = f"the float network itself: {reason}"
        else:
            saved = f"{first.bytes:,} → {now.bytes:,} bytes, {first.ms:.3g} → {now.ms:.3g} ms"
            text = f"{now.what}; {score}; {saved}"
        failed = sum(bool(p.failed) for p in self.trials)
        told = f"{counted(len(self.trials) - 1 - failed, 'network')} scored {self.measured_on}"
        told += f", {failed} without a score" if failed else ""
        ended = f"; ended before it was through: {self.stopped}" if self.stopped else ""
        return f"{text}\n{told}{ended}" + (f"\nnote: {self.note}" if self.note else "")

    def __str__(self) -> str:
        wide = max([len(a.name) for a in self.layers] + [5])
        rows = [f"{a.name:{wide}}  {a.width:6}  {a.why}" for a in self.layers]
        named = max([len(p.what) for p in self.pareto] + [5])
        table = [f"{'front':{named}}  {'score':>10}  {'bytes':>12}  {'ms':>9}"]
        table += [
            f"{p.what:{named}}  {self.said(p.score):>10}  {p.bytes:12,}  {p.ms:9.4f}{'  ← chosen' if p is self.chosen else ''}"
            for p in self.pareto
        ]
        return "\n".join([self.summary, "", f"{'layer':{wide}}  width   why", *rows, "", *table])


def layers_of(names: Mapping[str, tuple[str, ...]], choice: Mapping[str, str], because: Mapping[str, str]) -> tuple[Layer, ...]:
    return tuple(Layer(name, layers, choice[name], because[name]) for name, layers in names.items())
