"""Checks that no step of a plan touches memory outside its arguments, before anything runs.

Two laws. Every argument lies inside its place: the arena, a constant, an input or an output. And a kernel whose parameters hold offsets and
strides stays inside each argument. `REACH` says for such a contract which elements it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowbit.errors import GraphError
from lowbit.plan.plan import Param, Place, Plan, Slot

Reach = tuple[int, int, int]  # position of an argument, its lowest and its highest element that the kernel touches


def _copy(params: Mapping[str, Param]) -> Iterator[Reach]:
    p: Any = params
    if 0 in p["shape"]:
        return
    for position, offset, strides in ((0, p["x_offset"], p["x_stride"]), (1, p["out_offset"], p["out_stride"])):
        ends = [(n - 1) * s for n, s in zip(p["shape"], strides, strict=True)]
        yield position, offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)


REACH: dict[str, tuple[Callable[[Mapping[str, Param]], Iterator[Reach]], int]] = {  # contract → touched elements, bytes of an element
    "copy_b8": (_copy, 1),
    "copy_b16": (_copy, 2),
    "copy_b32": (_copy, 4),
    "copy_b64": (_copy, 8),
}


def check_bounds(plan: Plan) -> None:
    """Raises a GraphError for the first step that would read or write outside its arguments: a defect of lowbit, never a wrong input."""
    inputs, outputs = list(plan.inputs), list(plan.outputs.values())

    def room(slot: Slot) -> int:
        if slot.place is Place.ARENA:
            return plan.arena_bytes
        if slot.place is Place.CONSTANT:
            return plan.constants[slot.index].nbytes
        if slot.place is Place.SCRATCH:
            return plan.scratch_bytes
        value = (inputs if slot.place is Place.INPUT else outputs)[slot.index]
        return int(value.type.size) * value.type.dtype.numpy.itemsize

    for step in plan.steps:
        for k, slot in enumerate(step.args):
            have = room(slot)
            if slot.offset < 0 or slot.offset + slot.size > have:
                found = f"bytes {slot.offset} to {slot.offset + slot.size} of {have} ({slot.place.name.lower()})"
                raise _outside(step.layer, step.kernel, k, found)
        if step.contract not in REACH:
            continue
        reach, item = REACH[step.contract]
        for k, low, high in reach(step.params):
            if low < 0 or (high + 1) * item > step.args[k].size:
                raise _outside(step.layer, step.kernel, k, f"elements {low} to {high} of {step.args[k].size // item}")


def _outside(layer: str, kernel: str, argument: int, found: str) -> GraphError:
    text = f"{kernel} would touch memory outside its argument {argument}: {found}; nothing was run"
    return GraphError(text, where=layer, hint="report the network: this is a defect of lowbit")
