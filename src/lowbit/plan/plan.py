"""The data types of a plan: kernel calls in order, on one arena, constants, inputs and outputs. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from lowbit.ir.graph import Value
from lowbit.types import Array

ALIGNMENT = 64
Param = int | float | tuple[int, ...]


class Place(IntEnum):
    """Where an argument is. The numbers are those of bindings/plan.h."""

    ARENA = 0
    CONSTANT = 1
    INPUT = 2
    OUTPUT = 3
    SCRATCH = 4


@dataclass(frozen=True)
class Slot:
    """An argument: `offset` bytes into the arena, or into constant, input or output number `index`; `size` bytes long."""

    place: Place
    index: int = 0
    offset: int = 0
    size: int = 0


@dataclass(frozen=True)
class Step:
    """One kernel call. Its items may be done in up to `parts` parts at the same time."""

    layer: str
    op: str
    contract: str
    isa: str
    params: Mapping[str, Param]
    args: tuple[Slot, ...]
    items: int
    parts: int
    macs: int = 0
    inputs: tuple[Value, ...] = ()  # of the node, without constants
    outputs: tuple[Value, ...] = ()
    bound: int | None = None  # the largest sum of any input, where the node proves one
    fused_items: int = 0  # not 0: an elementwise step fused to the step before it, with this many items per item of that step

    @property
    def kernel(self) -> str:
        return f"{self.contract}__{self.isa}"


@dataclass(frozen=True)
class Check:
    """Every element of input number `index` must be an index of an axis of `size` elements; `where` is the node that uses it."""

    index: int
    size: int
    where: str


@dataclass(frozen=True)
class Plan:
    """A graph without symbols, ready to be executed or printed."""

    inputs: tuple[Value, ...]
    outputs: Mapping[str, Value]
    steps: tuple[Step, ...]
    constants: tuple[Array, ...]
    arena_bytes: int
    scratch_bytes: int  # for each thread
    least_bytes: int  # of any arena: what is alive at the fullest step
    input_slots: tuple[Slot, ...] = ()  # where inputs and outputs are, if they are in the arena
    output_slots: tuple[Slot, ...] = ()
    checks: tuple[Check, ...] = ()
    live_bytes: int = 0  # as least_bytes, of tensors alone: without scratch memory
    fullest: int = 0  # the step where least_bytes are alive

    @property
    def constant_bytes(self) -> int:
        return sum(c.nbytes for c in self.constants)


@dataclass(frozen=True)
class Target:
    """The machine that a plan is made for: an instruction set (None: the best of this machine) and a number of threads.

    isas              for other machines: instruction sets, best first, of which each contract takes the first that has a source
    alignment         of buffers in the arena
    scratch_in_arena  scratch is a buffer of its step, not memory of its own; one thread only
    io_in_arena       inputs and outputs are buffers of the arena too: inputs make room after their last reader
    """

    isa: str | None = None
    threads: int = 1
    isas: tuple[str, ...] | None = None
    alignment: int = ALIGNMENT
    scratch_in_arena: bool = False
    io_in_arena: bool = False
