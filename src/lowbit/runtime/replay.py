"""A network run natively with every value kept, and run again from any value on.

A session reuses memory and fuses steps, so only its outputs are visible. Here every value has its own memory. So each value can be read,
and when one of them is changed, only the steps after it run again. The kernels are those of a session, one after another: integers have its
bits, float sums may differ from the interpreter's in their last bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowbit import _native
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph
from lowbit.ir.interp import OnValue, bound_to, check_inputs, run_node
from lowbit.kernels import native
from lowbit.kernels import threads as threads_of
from lowbit.ops.nhwc import to_first
from lowbit.plan import Packed, Plan, Target, build, real_weights, segments
from lowbit.plan.build import view_offset
from lowbit.plan.fuse import fuse
from lowbit.plan.layout import laid_out
from lowbit.plan.nibbles import in_bytes
from lowbit.plan.plan import Place
from lowbit.plan.tables import join_tables
from lowbit.runtime.program import Record, address, executable, records, verify
from lowbit.types import Array


@dataclass(frozen=True)
class _Native:
    """The plan of a part of the graph; `starts` has for each value the first step that reads it."""

    plan: Plan
    starts: Mapping[str, int]
    made: tuple[tuple[Record, ...], list[Array]]
    suffixes: dict[int, _native.Plan]


class Replay:
    """One network for inputs of one set of shapes.

    `keep` are values that must be visible or changeable; values between them may be fused into the kernel before them.
    """

    def __init__(self, graph: Graph, keep: Collection[str] = (), *, threads: int | None = None, packed: Packed | None = None) -> None:
        """`graph` has no symbols. `packed` keeps packed weights, if several networks with equal constants are replayed."""
        self.graph = graph
        target = Target(None, threads_of.count(threads))
        ready, self.last = laid_out(in_bytes(real_weights(graph)))
        seen = {name: ready.values[name] for name in keep if name in ready.values and name not in ready.constants}
        ends = {f"output {name}": v for name, v in ready.outputs.items()}
        ready = fuse(join_tables(replace(ready, outputs={**ends, **seen})))
        self._ends = {name.removeprefix("output "): v.name for name, v in ready.outputs.items() if name in ends}
        made = {o.name: o for n in ready.nodes if view_offset(n) is None for o in n.outputs}
        self.views = {n.output.name: n for n in ready.nodes if view_offset(n) is not None}
        every = replace(ready, outputs={name: v for name, v in made.items()})
        self.types = dict(ready.values)
        self._parts: list[_Native | Graph] = []
        self._of: dict[str, int] = {}  # value → the part that makes it
        packed = packed if packed is not None else Packed()
        for part in segments(_with_views_read(every, self.views), target, packed):
            for node in part.graph.nodes:
                self._of.update((o.name, len(self._parts)) for o in node.outputs)
            self._parts.append(_planned(part.graph, target, packed) if part.native else part.graph)
        self.constants = {name: c.data for name, c in ready.constants.items()}
        self.threads = target.threads
        self.values: dict[str, Array] = {}

    # -- looking -----------------------------------------------------------------------------------------------------------

    def outputs(self) -> dict[str, Array]:
        return {name: self.array(held) for name, held in self._ends.items()}

    def has(self, name: str) -> bool:
        return name in self.types

    def array(self, name: str) -> Array:
        """The value as it is in memory. Images may be in channels-last layout: `real_order` transposes them back."""
        if name in self.values:
            return self.values[name]
        if name in self.constants:
            return self.constants[name]
        node = self.views[name]
        (found,) = run_node(node, [None if v is None else self.array(v.name) for v in node.inputs])
        return found

    def real_order(self, name: str) -> Array:
        """The value with the axes in the graph's order."""
        x = self.array(name)
        return x.transpose(to_first(x.ndim)) if name in self.last else x

    def memory(self, name: str) -> Array:
        """The elements of a value in memory order, as a flat view; writing to it changes the value for all readers."""
        size, offset = int(self.types[name].type.size), 0
        while name in self.views:
            node = self.views[name]
            before = node.inputs[0]
            assert before is not None
            offset += view_offset(node) or 0
            name = before.name
        flat = self.values[name].reshape(-1)
        start = offset // flat.itemsize
        return flat[start : start + size]

    # -- running -----------------------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs everything; the outputs by name. They are overwritten by the next run."""
        for name, x in check_inputs(self.graph, inputs).items():
            self.values[name] = np.array(x, order="C")  # a copy: values may be changed, and the array is the caller's
        for i in range(len(self._parts)):
            self._run(i, 0)
        return self.outputs()

    def rerun(self, changed: Iterable[str]) -> dict[str, Array]:
        """Runs the steps after the first of some values that were changed in place (`memory`)."""
        begins = [self._first_reader(name) for name in changed]
        part, step = min(begins)
        for i in range(part, len(self._parts)):
            self._run(i, step if i == part else 0)
        return self.outputs()

    def position(self, name: str) -> tuple[int, int]:
        """The position of the first reader of a value; larger is later. Changing values in falling order keeps earlier ones intact."""
        return self._first_reader(name)

    def _first_reader(self, name: str) -> tuple[int, int]:
        aliases = {name}
        while name in self.views:
            before = self.views[name].inputs[0]
            assert before is not None
            name = before.name
            aliases.add(name)
        for v, node in self.views.items():  # nodes are in order: views of views are found
            if node.inputs[0] is not None and node.inputs[0].name in aliases:
                aliases.add(v)
        found = []
        for i, part in enumerate(self._parts):
            if isinstance(part, _Native):
                steps = [part.starts[a] for a in aliases if a in part.starts]
                found += [(i, min(steps))] if steps else []
            else:
                reads = (k for k, n in enumerate(part.nodes) if any(v is not None and v.name in aliases for v in n.inputs))
                found += [(i, k) for k in reads][:1]
        return min(found, default=(len(self._parts), 0))

    def _run(self, i: int, first: int) -> None:
        part = self._parts[i]
        if not isinstance(part, _Native):
            for node in part.nodes[first:]:
                if node.output.name in self.views:
                    continue
                read = [None if v is None else self.array(v.name) for v in node.inputs]
                for o, x in zip(node.outputs, run_node(node, read), strict=True):
                    self._store(o.name, x)
            return
        if first not in part.suffixes:
            steps, keep = part.made
            part.suffixes[first] = executable(part.plan, self.threads, made=(steps[first:], keep))
        plan = part.plan
        for v in plan.outputs.values():
            if v.name not in self.values:
                self.values[v.name] = np.empty([int(d) for d in v.shape], v.type.dtype.numpy)
        inputs = [np.require(self.array(v.name), requirements=("C", "ALIGNED")) for v in plan.inputs]
        if not first:
            for check in plan.checks:
                verify(inputs[check.index], check)
        outputs = [self.values[v.name] for v in plan.outputs.values()]
        try:
            part.suffixes[first].run(tuple(map(address, inputs)), tuple(map(address, outputs)), False)
        except MemoryError:
            raise LowbitError(f"no memory for an arena of {plan.arena_bytes:,} bytes") from None

    def _store(self, name: str, x: Array) -> None:
        if name in self.values:
            np.copyto(self.values[name], x)
        else:
            self.values[name] = np.array(x, order="C")


def _with_views_read(graph: Graph, views: Mapping[str, Any]) -> Graph:
    """The graph without views that no node reads: a plan does not need them."""
    wanted = {v.name for v in graph.outputs.values()}
    kept: list[Any] = []
    read: set[str] = set(wanted)
    for node in reversed(graph.nodes):
        if node.output.name not in views or node.output.name in read:
            kept.append(node)
            read.update(v.name for v in node.inputs if v is not None)
    return replace(graph, nodes=tuple(reversed(kept)))


def _planned(graph: Graph, target: Target, packed: Packed) -> _Native:
    plan = build(graph, target, packed)
    plan = replace(plan, steps=tuple(replace(s, fused_items=0) for s in plan.steps))
    inputs, outputs = [v.name for v in plan.inputs], [v.name for v in plan.outputs.values()]
    contracts, starts = native.contracts(), dict[str, int]()
    for i, step in enumerate(plan.steps):
        for argument, slot in zip(contracts[step.contract].args, step.args, strict=True):
            if argument.is_input and slot.place in (Place.INPUT, Place.OUTPUT):
                starts.setdefault((inputs if slot.place is Place.INPUT else outputs)[slot.index], i)
    return _Native(plan, starts, records(plan), {})


class NativeRun:
    """`interp.run` by kernels: `on_value` gets the values named in `keep`, in graph order, as they are in memory.

    Images are channels last there, which does not matter to an observer of a whole tensor; values in `ordered` have the graph's axes.
    """

    def __init__(self, graph: Graph, keep: Collection[str], ordered: Collection[str] = ()) -> None:
        self.graph, self.ordered = graph, frozenset(ordered)
        wanted = set(keep)
        self.keep = [v for name, v in graph.values.items() if name in wanted and name in graph.producers]
        self._last: tuple[object, Replay] | None = None

    def __call__(self, inputs: Mapping[str, Array], on_value: OnValue) -> dict[str, Array]:
        arrays = check_inputs(self.graph, inputs)
        shapes = tuple(x.shape for x in arrays.values())
        if self._last is None or self._last[0] != shapes:
            self._last = None  # it holds every value: freed before the next one is made
            self._last = shapes, Replay(bound_to(self.graph, arrays), [v.name for v in self.keep])
        replay = self._last[1]
        outputs = replay.run(arrays)
        for v in self.keep:
            if replay.has(v.name):
                on_value(v, replay.real_order(v.name) if v.name in self.ordered else replay.array(v.name))
        return outputs
