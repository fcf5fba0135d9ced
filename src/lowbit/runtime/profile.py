"""Where the time of a session goes, kernel by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from lowbit.kernels.peak import peak
from lowbit.plan.plan import Step
from lowbit.runtime.program import Native, Part


@dataclass(frozen=True)
class Row:
    """One kernel call, or one node in the interpreter. `gmacs` are billions of multiply-adds a second, where there are any.

    `peak` is the highest rate of the session's threads (kernels/peak.py), `share` the part of it that the layer reaches: above 1 if a
    method saves multiplications. `bound` is the largest sum that any input can give with the layer's weights; it proves the kernel exact.
    """

    layer: str
    op: str
    kernel: str
    ms: float
    macs: int = 0
    bound: int | None = None
    peak: float | None = None
    value: str = ""  # the first output of the node that the call is for, as the session's graph names it

    @property
    def share(self) -> float | None:
        return self.gmacs / self.peak if self.gmacs is not None and self.peak else None

    @property
    def proof(self) -> str:
        """Why no sum overflows, for layers that sum integers."""
        return "" if self.bound is None else f"|sum| ≤ {self.bound:,} < 2^{max(self.bound, 1).bit_length()}"

    @property
    def gmacs(self) -> float | None:
        return self.macs / self.ms / 1e6 if self.macs and self.ms else None


@dataclass(frozen=True)
class Profile:
    """The rows in the order in which they run."""

    rows: tuple[Row, ...]

    @property
    def ms(self) -> float:
        return sum(r.ms for r in self.rows)

    def __str__(self) -> str:
        wide = max([len(r.layer) for r in self.rows] + [5])
        name = max([len(r.kernel) for r in self.rows] + [6])
        lines = [f"{'layer':{wide}}  {'kernel':{name}}  {'ms':>8}  {'%':>5}  GMAC/s  % of peak  proof"]
        total = self.ms or 1.0
        for r in self.rows:
            speed = "" if r.gmacs is None else f"{r.gmacs:.1f}"
            share = "" if r.share is None else f"{100 * r.share:.0f}"
            time = f"{r.ms:8.4f}  {100 * r.ms / total:5.1f}"
            lines.append(f"{r.layer:{wide}}  {r.kernel:{name}}  {time}  {speed:>6}  {share:>9}  {r.proof}".rstrip())
        return "\n".join([*lines, f"{'all':{wide}}  {'':{name}}  {self.ms:8.4f}"])


def profiled(parts: Sequence[Part], env: dict[str, Any], repeats: int) -> Profile:
    """The times of the steps: with one thread the shortest of each step in some runs, with several those of the fastest run.

    With several threads the shortest time of each step would mislead: if a thread is delayed, the others do its next steps.
    """
    rows: list[Row] = []
    for part in parts:
        if isinstance(part, Native):
            runs = [part.run(env, True) for _ in range(max(1, repeats))]
            measured = [r for r in runs if r is not None]
            times = [min(step) for step in zip(*measured, strict=True)] if part.threads == 1 else min(measured, key=sum)
            rows += [row(s, t / 1e6, part.threads, part.slices) for s, t in zip(part.plan.steps, times, strict=True)]
        else:
            start = perf_counter_ns()
            part.run(env)
            ms = (perf_counter_ns() - start) / 1e6
            ops = ", ".join(dict.fromkeys(n.op for n in part.graph.nodes))
            first = part.graph.nodes[0]
            rows.append(Row(first.name or first.output.name, ops, "interpreter", ms, value=part.graph.nodes[-1].output.name))
    return Profile(tuple(rows))


def row(step: Step, ms: float, threads: int, slices: int = 1) -> Row:
    """A step and its time, of all slices of a batch."""
    kind = "float" if "f32" in step.contract.split("_")[1:2] else "integer"
    most = peak(kind, step.isa) * threads if step.macs else None
    value = step.outputs[0].name if step.outputs else ""
    return Row(step.layer, step.op, step.kernel, ms, step.macs * slices, step.bound, most, value)
