"""What the guard is after, and what it tells: goals, steps, results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowbit.ir.graph import Graph


@dataclass(frozen=True)
class Goal:
    """floor   the least signal to noise ratio of the outputs, in dB
    gain    how much better than plain min-max int8 the outputs must be, in dB
    enough  beyond this nothing is tried, in dB
    least   how far the outputs may fall so that layers read 8 bits again, where more than the share `wide` of the multiplications reads 16
            (they take about twice the time); below it layers may stay float
    wide    that share, and the most that is wide for anything above the floor
    bits16  whether layers may have 16 bits at all: a function of 16 bits is a table of 128 KB in C
    """

    floor: float = 30.0
    gain: float = 6.0
    enough: float = 60.0
    least: float = 25.0
    wide: float = 0.5
    bits16: bool = True

    def db(self, plain: float) -> float:
        return min(max(self.floor, plain + self.gain), self.enough)

    def must(self, plain: float) -> float:
        """What the outputs shall have at any cost."""
        return min(max(self.least, plain + self.gain), self.floor, self.enough)


@dataclass(frozen=True)
class GuardStep:
    """What was tried, where, the outputs' dB before and after on held-back samples, and whether it was kept.

    `layer` is the layer whose result was the noisiest after it, `layer_db` its signal to noise ratio. A step that `narrows` gives up dB
    for time, and is kept if the outputs stay good enough.
    """

    what: str
    where: str
    before: float
    after: float
    kept: bool
    layer: str = ""
    layer_db: float = float("inf")
    narrows: bool = False

    def __str__(self) -> str:
        weakest = f", weakest layer {self.layer} {self.layer_db:.1f} dB" if self.layer else ""
        return f"{self.what} ({self.where}): {self.before:.1f} → {self.after:.1f} dB{weakest}, {'kept' if self.kept else 'not kept'}"


@dataclass(frozen=True)
class Times:
    """Milliseconds that a batch took where it was measured: of the network that was made, and of the float one."""

    made: float
    float: float


@dataclass(frozen=True)
class Guarded:
    """The Q/DQ graph, what was done, and dB on held-back samples, of plain quantization and now: of the outputs, and of each layer."""

    graph: Graph
    steps: tuple[GuardStep, ...]
    plain: float
    reached: float
    plain_layers: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, float] = field(default_factory=dict)
    wide: float = 0.0  # the share of the multiplications that read 16 bits
    alone: bool = False  # one sample is all there was: nothing could be held back
    times: Times | None = field(default=None, compare=False)  # where layers have 16 bits and the network is not too large to measure

    @property
    def told(self) -> dict[str, str]:
        """What the report says: each step, and the result."""
        said = {f"guard {i + 1}": str(step) for i, step in enumerate(self.steps)}
        weakest = sorted(self.layers.items(), key=lambda item: (item[1], item[0]))[:3]
        shown = ", ".join(f"{name} {db:.1f} dB" for name, db in weakest if db < float("inf"))
        wide = (
            f"; {self.wide:.0%} of the multiplications read 16 bits, which takes longer than 8 (wide=False, --no-wide: none do)"
            if self.wide
            else ""
        )
        on = "the one batch there is, which is calibrated with, too" if self.alone else "batches held back from calibration"
        found = f"outputs {self.plain:.1f} → {self.reached:.1f} dB on {on}{wide}"
        return {**said, "guard": found + (f"; weakest layers: {shown}" if shown else "")}
