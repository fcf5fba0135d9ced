"""Measures the ways in which each layer of a graph can be computed on this machine, and remembers the fastest in the user's cache.

The cost model of plan/kernels/ is right for most layers; caches, cores and clock rates decide the rest. A way never changes a result.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.errors import LowbitError
from lowbit.files import cache_folder, write_whole
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import last_uses
from lowbit.plan import Packed, Target
from lowbit.plan.build import build, kernel_calls, view_offset
from lowbit.plan.choices import Answers, Choices, Option, signature
from lowbit.plan.kernels import Context
from lowbit.plan.segments import part, segments
from lowbit.progress import progress
from lowbit.runtime import native, sources
from lowbit.runtime.program import Interpreted, Native
from lowbit.types import Array

ROUNDS = 15  # in which all ways of a layer run in turn; the least time of each counts
PLAIN, TUNED = "by the cost model", "as measured"
METHOD = 2  # of measuring: answers of another one are not taken
BETTER = 0.97  # a way must be this much faster than the cost model's to be taken: less is noise
Values = dict[str, Array]
CLEARED = 4 << 20  # bytes touched between runs: in a network the layers before have taken the caches


def tuned(graph: Graph, target: Target) -> Target:
    """The target with the ways that are fastest here for every layer of a physical graph without symbols.

    Layers that were measured before, in any process, are not measured again. Kernels skip what activations near their zero point let them
    skip, so that layers are measured on what the layers before them make of made-up inputs. What was found is kept if the whole network is
    faster by it: single layers do not show what they do to the caches of their neighbours.
    """
    path = cache_file(target)
    known: dict[str, Answers] = read(path)
    first: dict[str, Node] = {}
    for node in graph.nodes:
        name = signature(node)
        if view_offset(node) is None and name not in known and name not in first and kernel_calls(node, Context(graph, target)) is not None:
            first[name] = node
    try:
        if first:
            given = made_up(graph)
            for name, node, inputs in flow(graph, target, given, first):
                known[name] = fastest(part(graph, [node], {o.name for o in node.outputs}), name, target, inputs)
            new = {name: known[name] for name in first}
            if any(new.values()) and not faster(graph, target, replace(target, choices=Choices(known)), given):
                known |= {name: {} for name in new}
    finally:  # what is measured is kept when the user has seen enough
        if first:
            remember(path, {name: known[name] for name in first if name in known})
    return replace(target, choices=Choices(known))


def made_up(graph: Graph) -> Values:
    """Inputs of a graph."""
    rng = np.random.default_rng(0)
    return {v.name: example(v.type.dtype.numpy, tuple(int(d) for d in v.shape), rng) for v in graph.inputs}


def example(dtype: np.dtype[np.generic], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers that any network takes: small where they may be indices, of the whole range where they are quantized."""
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.itemsize > 2 or dtype.kind == "b":
        return np.zeros(shape, dtype)
    info = np.iinfo(dtype.name)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def flow(graph: Graph, target: Target, given: Values, first: Mapping[str, Node]) -> Iterator[tuple[str, Node, Values]]:
    """The nodes of `first` by their names, in order, with all values that there are when their turn comes."""
    names = {id(node): name for name, node in first.items()}
    env, last, ctx = dict(given), last_uses(graph), Context(graph, target)
    for i, node in enumerate(progress(graph.nodes, "tuning layers")):
        if id(node) in names:
            yield names[id(node)], node, env
        alone = part(graph, [node], {o.name for o in node.outputs})
        has_kernel = view_offset(node) is None and kernel_calls(node, ctx) is not None
        (Native(alone, target, Packed()) if has_kernel else Interpreted(alone)).run(env)
        for name in last.get(i, ()):
            env.pop(name, None)


def fastest(graph: Graph, name: str, target: Target, inputs: Values) -> Answers:
    """The answers for the one node of a graph that are not those of the cost model, settled question by question: one may raise others.

    Weights are packed in every layout that is tried, and those let go.
    """
    settled: dict[str, Option] = {}
    usual: dict[str, Option] = {}
    packed = Packed()
    while True:
        asked: dict[str, tuple[Option, ...]] = {}
        build(graph, replace(target, choices=Choices({name: settled}, asked)), packed)
        question = next((q for q in asked if q not in settled), None)
        if question is None:
            return {q: option for q, option in settled.items() if option != usual[q]}
        usual[question] = asked[question][0]
        settled[question] = best_of({
            option: [Native(graph, replace(target, choices=Choices({name: {**settled, question: option}})), packed)]
            for option in asked[question]
        }, inputs)  # fmt: skip


def faster(graph: Graph, target: Target, chosen: Target, given: Values) -> bool:
    """Whether the native parts of a network take less time together by the ways of the second target."""
    env: dict[str, Any] = dict(given)
    packed = Packed()
    cut = segments(graph, target, packed)
    ways: dict[Option, list[Native]] = {}
    for option, by in ((PLAIN, target), (TUNED, chosen)):
        ways[option] = [Native(s.graph, by, packed) for s in cut if s.native]
    natives = iter(ways[PLAIN])
    for s in cut:
        (next(natives) if s.native else Interpreted(s.graph)).run(env)
    times = least_times(ways, env)
    return times[TUNED] < times[PLAIN]


def best_of(ways: Mapping[Option, Sequence[Native]], env: Values) -> Option:
    """The option with the least time; the first unless another is clearly faster, twice: the least of many is partly luck."""
    default = next(iter(ways))
    times = least_times(ways, env)
    found = min(times, key=lambda option: times[option])
    if times[found] >= BETTER * times[default]:
        return default
    times = least_times({option: ways[option] for option in (default, found)}, env)
    return found if times[found] < BETTER * times[default] else default


def least_times(ways: Mapping[Option, Sequence[Native]], env: Values) -> dict[Option, float]:
    """The least time of each option in some rounds, in which all run in turn."""
    clear = np.zeros(CLEARED, np.uint8)
    least = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for option, parts in ways.items():
            clear += 1
            took = 0
            for way in parts:
                times = way.run({v.name: env[v.name] for v in way.plan.inputs}, True)
                assert times is not None
                took += sum(times)
            least[option] = min(least[option], took)
    return least


def cache_file(target: Target) -> Path:
    """Where the answers for this machine, build, instruction set and number of threads are."""
    isa = target.isa or os.environ.get("LOWBIT_ISA") or native.isas()[-1]
    return cache_folder() / "tuned" / f"{machine()}-{isa}-{target.threads}.json"


@cache
def machine() -> str:
    """A name for the CPU and the kernels of this build: what is fastest depends on both."""
    from lowbit.hardware import Hardware

    return hashlib.sha256(f"{Hardware.detect().cpu} {native.cpu_features()} {sources.digest()} {METHOD}".encode()).hexdigest()[:16]


def read(path: Path) -> dict[str, Answers]:
    """The answers of earlier runs; none, if the file is missing or damaged: they can be measured again."""
    try:
        rows = json.loads(path.read_text())
        return {str(name): dict(answers) for name, answers in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember(path: Path, found: dict[str, Answers]) -> None:
    """Adds answers to the file, which other processes may have written meanwhile. Without a place to write, nothing is remembered."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**read(path), **found}, indent=1, sort_keys=True).encode())
    except (OSError, LowbitError):
        return
