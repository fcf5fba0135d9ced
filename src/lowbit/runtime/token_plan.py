"""Plans that keep state between calls: a language model's tokens, whose keys and values stay where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lowbit import _native
from lowbit.errors import GraphError, InputError
from lowbit.ir.graph import Graph
from lowbit.plan import Packed, Place, Plan, Target, build
from lowbit.runtime.program import address, records, spec
from lowbit.types import Array


class TokenPlan:
    """A graph without symbols, compiled for one number of rows, run over and over on arrays of its own.

    states   arrays of the inputs that are outputs (by the input's name), written in place; plans may share them
    updates  input name → output name of each state
    packed   weights in the kernels' layout, which plans share

    Write into `inputs[name]`, call `run()`, read `outputs[name]`: the arrays stay the same.

    >>> plan = TokenPlan(graph, {"k": keys}, {"k": "k_out"}, threads=1, packed=packed)  # doctest: +SKIP
    """

    def __init__(
        self, graph: Graph, states: Mapping[str, Array], updates: Mapping[str, str], *, threads: int = 1, packed: Packed | None = None
    ) -> None:
        kept = set(updates.values())
        order = [name for name in graph.outputs if name not in kept] + [name for name in graph.outputs if name in kept]
        graph = replace(graph, outputs={name: graph.outputs[name] for name in order})
        self.plan: Plan = build(graph, Target(threads=threads), packed, updates)
        results = {name: v for name, v in graph.outputs.items() if name not in kept}
        _written_in_place(self.plan, kept)
        self.states = dict(states)
        self.inputs = {v.name: np.zeros(v.type.shape, v.type.dtype.numpy) for v in graph.inputs if v.name not in updates}
        self.outputs = {name: np.zeros(v.type.shape, v.type.dtype.numpy) for name, v in results.items()}
        for v in graph.inputs:
            if v.name in updates:
                _need(v.name, states.get(v.name), v.type.shape, v.type.dtype.numpy)
        steps, keep = records(self.plan)
        ins, outs = tuple(spec(v) for v in graph.inputs), tuple(spec(v) for v in results.values())
        self._native = _native.Plan(
            steps, ins, outs, self.plan.arena_bytes, self.plan.scratch_bytes, threads, 0, np.ndarray, [*keep, *states.values()]
        )
        self._in = tuple(address(self.states[v.name] if v.name in updates else self.inputs[v.name]) for v in graph.inputs)
        self._out = tuple(map(address, self.outputs.values()))

    def run(self) -> dict[str, Array]:
        """All steps, without the GIL. One call at a time."""
        self._native.run(self._in, self._out)
        return self.outputs

    def timed(self) -> tuple[int, ...]:
        """The same; nanoseconds of each step of `plan.steps`."""
        times = self._native.run(self._in, self._out, True)
        assert times is not None
        return times


def _written_in_place(plan: Plan, kept: set[str]) -> None:
    """A GraphError if a state is copied, or written elsewhere than where the caller holds it."""
    results = len(plan.outputs) - len(kept)
    for step in plan.steps:
        if any(s.place is Place.OUTPUT and s.index >= results for s in step.args) or (step.op == "identity" and step.layer in kept):
            raise GraphError(f"{step.layer} would be copied: a state is written over its input", hint="make it by cache_store")


def _need(name: str, given: Array | None, shape: tuple[object, ...], dtype: np.dtype[np.generic]) -> None:
    found = "none" if given is None else f"{given.dtype}{list(given.shape)}"
    if given is None or given.shape != shape or given.dtype != dtype or not given.flags.c_contiguous or not given.flags.writeable:
        raise InputError(f"{found} given, {dtype}{list(shape)} needed, contiguous and writable", where=f"state {name!r}")
