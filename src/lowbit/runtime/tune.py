"""Measures the ways in which each layer of a graph can be computed on this machine, and remembers the fastest in the user's cache.

The cost model of plan/kernels/ is right for most layers; caches, cores and clock rates decide the rest. A way never changes a result.

Kernels skip what activations near their zero point let them skip, so layers are measured on what the layers before them make of made-up
inputs. Single layers do not show what they do to the caches of their neighbours, so a network takes what was found for its layers only
where it is not slower by that as a whole, which is measured and remembered for each network.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lowbit.errors import LowbitError, LowbitWarning
from lowbit.files import cache_folder, write_whole
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import last_uses
from lowbit.kernels import native, sources
from lowbit.plan import Packed, Target
from lowbit.plan.build import build, kernel_calls, view_offset
from lowbit.plan.choices import Answers, Choices, Option, signature
from lowbit.plan.kernels import Context
from lowbit.plan.segments import part, segments
from lowbit.progress import progress
from lowbit.runtime.program import Interpreted, Native, Part
from lowbit.types import Array

ROUNDS = 15  # in which all ways of a layer run in turn; the least time of each counts
METHOD = 3  # of measuring: answers of another one are not taken
BETTER = 0.97  # a way must be this much faster than the cost model's to be taken: less is noise
Values = dict[str, Array]
O = TypeVar("O")  # noqa: E741 (an option)
CLEARED = 4 << 20  # bytes touched between runs: in a network the layers before have taken the caches


def tuned(graph: Graph, target: Target) -> Target:
    """The target with the ways that are fastest here for every layer of a physical graph without symbols.

    What was measured before, in any process, is not measured again.
    """
    path = cache_file(target)
    found = read(path)
    chosen, network = replace(target, choices=Choices(found.layers)), graph_name(graph)
    todo = unmeasured(graph, target, found.layers)
    if not todo and network in found.networks:
        return chosen if found.networks[network] else target
    try:
        given = measure(graph, target, todo, found.layers)
        if given is None:
            return target
        found.networks[network] = pays(graph, target, chosen, given)
    finally:  # layers that are measured are kept when the user has seen enough
        remember(path, found)
    return chosen if found.networks[network] else target


def graph_name(graph: Graph) -> str:
    """A name for what the time of a network depends on."""
    return hashlib.sha256("\n".join(signature(node) for node in graph.nodes).encode()).hexdigest()[:16]


def unmeasured(graph: Graph, target: Target, known: Mapping[str, Answers]) -> dict[str, Node]:
    """The first node of each kind of layer that has kernels and no answers, by its signature."""
    first: dict[str, Node] = {}
    for node in graph.nodes:
        name = signature(node)
        if view_offset(node) is None and name not in known and name not in first and kernel_calls(node, Context(graph, target)) is not None:
            first[name] = node
    return first


def measure(graph: Graph, target: Target, todo: Mapping[str, Node], known: dict[str, Answers]) -> Values | None:
    """Adds the answers for some nodes to those known. Gives inputs that the network takes; None where it takes none of those made up here:
    an input may be an index by some way."""
    rng = np.random.default_rng(0)
    for make in (example, zeros):
        given = {v.name: make(v.type.dtype.numpy, tuple(int(d) for d in v.shape), rng) for v in graph.inputs}
        try:
            for name, node, inputs in flow(graph, target, given, todo):
                if name not in known:
                    usual: dict[str, tuple[Option, ...]] = {}
                    kernel_calls(node, Context(graph, replace(target, choices=Choices({}, usual))))
                    known[name] = fastest(part(graph, [node], {o.name for o in node.outputs}), name, target, inputs, usual)
        except LowbitError:
            continue
        return given
    return None


def zeros(dtype: np.dtype[np.generic], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return np.zeros(shape, dtype)


def example(dtype: np.dtype[np.generic], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers that most networks take: small where they may be indices, of the whole range where they are quantized."""
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


def fastest(graph: Graph, name: str, target: Target, inputs: Values, usual: Mapping[str, tuple[Option, ...]]) -> Answers:
    """The answers for the one node of a graph, settled question by question: an answer may raise further ones. `usual` has the options in
    the whole network, the cost model's first: it may depend on more than the node.

    Weights are packed in every layout that is tried, and those let go.
    """
    settled: dict[str, Option] = {}
    packed = Packed()
    while True:
        asked: dict[str, tuple[Option, ...]] = {}
        build(graph, replace(target, choices=Choices({name: settled}, asked)), packed)
        question = next((q for q in asked if q not in settled), None)
        if question is None:
            return settled
        options = sorted(asked[question], key=lambda option: option not in usual.get(question, asked[question])[:1])
        settled[question] = best_of({
            option: Native(graph, replace(target, choices=Choices({name: {**settled, question: option}})), packed)
            for option in options
        }, inputs)  # fmt: skip


def best_of(ways: Mapping[Option, Native], env: Values) -> Option:
    """The option with the least time; the first unless another is clearly faster, twice: the least of many is partly luck."""

    def times(options: Iterable[Option]) -> dict[Option, float]:
        return least({option: partial(time_of_steps, ways[option], env) for option in options})

    default = next(iter(ways))
    took = times(ways)
    found = min(took, key=lambda option: took[option])
    if took[found] >= BETTER * took[default]:
        return default
    took = times((default, found))
    return found if took[found] < BETTER * took[default] else default


def pays(graph: Graph, target: Target, chosen: Target, given: Values) -> bool:
    """Whether the native parts of a network, run as sessions run them, are not slower together by the ways of the second target. Where
    they seem to be, they are timed once more."""
    packed = Packed()
    cut = segments(graph, target, packed)
    plain, other = ([Native(s.graph, by, packed) if s.native else Interpreted(s.graph) for s in cut] for by in (target, chosen))
    env: dict[str, Any] = dict(given)
    for made in plain:
        made.run(env)

    def slower() -> bool:
        took = least({way: partial(time_of_calls, parts, env) for way, parts in (("plain", plain), ("other", other))})
        return took["other"] > took["plain"]

    return not (slower() and slower())


def least(ways: Mapping[O, Callable[[], float]]) -> dict[O, float]:
    """The least time of each way in some rounds, in which all have their turn."""
    clear = np.zeros(CLEARED, np.uint8)
    took = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for option, way in ways.items():
            clear += 1
            took[option] = min(took[option], way())
    return took


def time_of_steps(way: Native, env: Values) -> float:
    """Nanoseconds of the kernels of one layer."""
    times = way.run({v.name: env[v.name] for v in way.plan.inputs}, True)
    assert times is not None
    return float(sum(times))


def time_of_calls(parts: Iterable[Part], env: Values) -> float:
    """Nanoseconds of the native parts of a network, each called with inputs as they were."""
    took = 0
    for made in parts:
        if isinstance(made, Native):
            inputs = {name: env[name] for name in made.inputs}
            start = time.perf_counter_ns()
            made.run(inputs)
            took += time.perf_counter_ns() - start
    return float(took)


def cache_file(target: Target) -> Path:
    """Where the answers for this machine, build, instruction set and number of threads are."""
    limits = [i for i in (target.isa, os.environ.get("LOWBIT_ISA")) if i]
    isa = min(limits, key=native.isas().index, default=native.isas()[-1])
    return cache_folder() / "tuned" / f"{machine()}-{isa}-{target.threads}.json"


@cache
def machine() -> str:
    """A name for the CPU and the kernels of this build: what is fastest depends on both."""
    from lowbit.hardware import Hardware

    return hashlib.sha256(f"{Hardware.detect().cpu} {native.cpu_features()} {sources.digest()} {METHOD}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Found:
    """What is known of this machine: the answers for layers by their signatures, and for networks whether they are worth taking."""

    layers: dict[str, Answers] = field(default_factory=dict)
    networks: dict[str, bool] = field(default_factory=dict)


def read(path: Path) -> Found:
    """What earlier runs found; nothing, if the file is missing or damaged: it can be measured again."""
    try:
        rows = json.loads(path.read_text())
        layers: dict[str, Answers] = {str(name): dict(answers) for name, answers in rows["layers"].items()}
        return Found(layers, {str(name): bool(pays) for name, pays in rows["networks"].items()})
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return Found()


def remember(path: Path, found: Found) -> None:
    """Adds to the file, which other processes may have written meanwhile. Without a place to write nothing is remembered, which is said."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = read(path)
        rows = {"layers": there.layers | found.layers, "networks": there.networks | found.networks}
        write_whole(path, json.dumps(rows, indent=1, sort_keys=True).encode())
    except (OSError, LowbitError) as e:
        text = f"what tuning measured cannot be kept in {path.parent} ({e}); every process measures anew: LOWBIT_CACHE names a folder"
        warnings.warn(text, LowbitWarning, stacklevel=2)
