"""The parts of a program: kernel calls that C runs in one go, and nodes that the interpreter runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit import _native
from lowbit.errors import InputError
from lowbit.ir.graph import Graph
from lowbit.ir.interp import evaluate
from lowbit.plan import Place, Plan, Target, build
from lowbit.runtime import native
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

    def __init__(self, graph: Graph, target: Target, packed: dict[tuple[str, ...], Array]) -> None:
        self.plan = build(graph, target, packed)
        self.threads = target.threads
        self._run = executable(self.plan, target.threads).run
        self._inputs = tuple(v.name for v in self.plan.inputs)
        self._outputs = tuple((v.name, tuple(int(d) for d in v.shape), v.type.dtype.numpy) for v in self.plan.outputs.values())

    def run(self, env: dict[str, Any], timed: bool = False) -> tuple[int, ...] | None:
        """Computes its outputs into the environment; the nanoseconds of each step if they are asked for."""
        addresses = []
        for name in self._inputs:
            x = env[name]
            if not (x.flags.c_contiguous and x.flags.aligned):
                x = env[name] = np.array(x, order="C")
            addresses.append(x.__array_interface__["data"][0])
        outputs = []
        for name, shape, dtype in self._outputs:
            y = env[name] = np.empty(shape, dtype)
            outputs.append(y.__array_interface__["data"][0])
        try:
            return self._run(tuple(addresses), tuple(outputs), timed)
        except MemoryError:
            raise InputError(f"no memory for an arena of {self.plan.arena_bytes:,} bytes") from None


Part = Native | Interpreted


def executable(plan: Plan, threads: int) -> _native.Plan:
    """The plan in C. It keeps the constants alive whose addresses it holds."""
    contracts = native.contracts()
    index = {(k.contract.name, k.isa): k.index for k in native.kernels()}
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
        )
        for step in plan.steps
    )
    return _native.Plan(steps, len(plan.inputs), len(plan.outputs), plan.arena_bytes, plan.scratch_bytes, threads, keep)
