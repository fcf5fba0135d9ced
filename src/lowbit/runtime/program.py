"""The parts of a program: kernel calls that C runs in one go, and nodes that the interpreter runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit import _native
from lowbit.errors import InputError, ShapeError
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import evaluate
from lowbit.kernels import native
from lowbit.plan import Packed, Place, Plan, Target, build
from lowbit.plan.kernels.call import Calls
from lowbit.plan.plan import Check
from lowbit.types import Array


class Interpreted:
    """Nodes without kernels."""

    native = False

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, env: dict[str, Any]) -> None:
        env.update(evaluate(self.graph, {v.name: env[v.name] for v in self.graph.inputs}))


class Native:
    """A plan with its addresses, ready in C."""

    native = True

    def __init__(self, graph: Graph, target: Target, packed: Packed, batch: int | None = None, calls: Calls | None = None) -> None:
        """`batch`: the size of the first axis of inputs and outputs. The graph computes one slice of it; slices may overlap."""
        self.plan = build(graph, target, packed, calls=calls)
        self.threads = target.threads
        made = executable(self.plan, target.threads, batch)
        self._on, self._run = made.on, made.run
        self.inputs = tuple(v.name for v in self.plan.inputs)
        self.outputs = tuple(v.name for v in self.plan.outputs.values())
        self._shapes = tuple((whole_shape(v, batch), v.type.dtype.numpy) for v in self.plan.outputs.values())
        self.slices = 1 if batch is None else -(-batch // int(self.plan.inputs[0].shape[0]))

    def empty(self) -> tuple[Array, ...]:
        """Arrays for the outputs."""
        return tuple([np.empty(shape, dtype) for shape, dtype in self._shapes])

    def ran(self, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> bool:
        """Runs on the arrays in place. False, without running, if an array has not the layout that the plan needs."""
        for check in self.plan.checks:
            verify(inputs[check.index], check)
        try:
            return self._on(inputs, outputs)
        except MemoryError:
            raise self.no_memory() from None

    def no_memory(self) -> InputError:
        return InputError(f"no memory for an arena of {self.plan.arena_bytes:,} bytes")

    def run(self, env: dict[str, Any], timed: bool = False) -> tuple[int, ...] | None:
        """Computes its outputs into the environment; returns the nanoseconds of each step on request."""
        arrays, outputs = tuple([env[name] for name in self.inputs]), self.empty()
        times = None
        if timed or not self.ran(arrays, outputs):
            arrays = tuple([np.require(x, requirements=("C", "ALIGNED")) for x in arrays])
            for check in self.plan.checks:
                verify(arrays[check.index], check)
            try:
                times = self._run(tuple(map(address, arrays)), tuple(map(address, outputs)), timed)
            except MemoryError:
                raise self.no_memory() from None
        env.update(zip(self.outputs, outputs, strict=True))
        return times


def address(x: Array) -> int:
    return int(x.__array_interface__["data"][0])


Part = Native | Interpreted


def verify(x: Array, check: Check) -> None:
    """Raises the interpreter's InputError if an index lies outside its axis: kernels do not check."""
    if type(x) is np.ndarray and x.size and x.dtype.kind == "i" and (x.min() < -check.size or x.max() >= check.size):
        bad = int(x.max()) if x.max() >= check.size else int(x.min())
        raise InputError(f"index {bad} is outside an axis of {check.size} elements", where=check.where)


Record = tuple[Any, ...]  # a step as C takes it


def records(plan: Plan) -> tuple[tuple[Record, ...], list[Array]]:
    """The steps as C takes them, and the constants whose addresses they hold."""
    contracts = native.contracts()
    index = {(k.contract.name, k.isa): k.index for k in native.kernels()}
    for step in plan.steps:
        if step.items >= 1 << 31:
            what = f"{step.items:,} items of work, kernels count to {(1 << 31) - 1:,}"
            raise ShapeError(what, where=f"{step.op} {step.layer!r}", hint="smaller shapes, or a smaller batch")
    keep = [np.ascontiguousarray(c) for c in plan.constants]
    addresses = [c.ctypes.data for c in keep]
    steps = tuple(
        (
            index[step.contract, step.isa],
            contracts[step.contract].pack(step.params),
            tuple(
                (
                    int(s.place),
                    0 if s.place is Place.CONSTANT else s.index,
                    s.offset + (addresses[s.index] if s.place is Place.CONSTANT else 0),
                )
                for s in step.args
            ),
            step.items,
            step.parts,
            step.fused_items,
        )
        for step in plan.steps
    )
    return steps, keep


def executable(
    plan: Plan, threads: int, batch: int | None = None, made: tuple[tuple[Record, ...], list[Array]] | None = None
) -> _native.Plan:
    """The plan in C, run over slices of a batch if there is one. It keeps the constants alive whose addresses it holds.

    `made`: the result of `records`, or some of its last steps.
    """
    steps, keep = records(plan) if made is None else made
    inputs, outputs = (tuple(spec(v, batch) for v in values) for values in (plan.inputs, plan.outputs.values()))
    rows = 0 if batch is None else int(plan.inputs[0].shape[0])
    return _native.Plan(steps, inputs, outputs, plan.arena_bytes, plan.scratch_bytes, threads, rows, np.ndarray, keep)


def whole_shape(v: Value, batch: int | None) -> tuple[int, ...]:
    shape = tuple(int(d) for d in v.shape)
    return shape if batch is None else (batch, *shape[1:])


def spec(v: Value, batch: int | None = None) -> _native.Spec:
    """An array of this type in NumPy's array interface."""
    dtype = v.type.dtype.numpy
    return dtype.kind, dtype.itemsize, whole_shape(v, batch)
