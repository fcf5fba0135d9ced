"""Measures the ways in which each layer of a graph can be computed on this machine, and remembers the fastest in the user's cache.

The cost model of plan/kernels/ is right for most layers; caches, cores and clock rates decide the rest. A way never changes a result.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from lowbit.errors import LowbitError
from lowbit.files import cache_folder, write_whole
from lowbit.ir.graph import Attr, Graph, Node
from lowbit.plan import Packed, Target
from lowbit.plan.build import build, kernel_calls, view_offset
from lowbit.plan.choices import Answers, Choices, Option, signature
from lowbit.plan.kernels import Context
from lowbit.plan.segments import part
from lowbit.progress import progress
from lowbit.runtime import native, sources
from lowbit.runtime.program import Native
from lowbit.types import Array

ROUNDS = 15  # in which all ways of a layer run in turn; the least time of each counts
BETTER = 0.97  # a way must be this much faster than the cost model's to be taken: less is noise
CLEARED = 4 << 20  # bytes touched between runs: in a network the layers before have taken the caches


def tuned(graph: Graph, target: Target) -> Target:
    """The target with the ways that are fastest here for every layer of a physical graph without symbols.

    Layers that were measured before, in any process, are not measured again.
    """
    path = cache_file(target)
    known: dict[str, Answers] = read(path)
    first: dict[str, Node] = {}
    for node in graph.nodes:
        name = signature(node)
        if view_offset(node) is None and name not in known and name not in first and kernel_calls(node, Context(graph, target)) is not None:
            first[name] = node
    try:
        for name, node in progress(first.items(), "tuning layers"):
            known[name] = fastest(part(graph, [node], {o.name for o in node.outputs}), name, target)
    finally:  # what is measured is kept when the user has seen enough
        if first:
            remember(path, {name: known[name] for name in first if name in known})
    return replace(target, choices=Choices(known))


def fastest(graph: Graph, name: str, target: Target) -> Answers:
    """The answers for the one node of a graph, settled question by question: an answer may raise further ones.

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
        settled[question] = best_of({
            option: Native(graph, replace(target, choices=Choices({name: {**settled, question: option}})), packed)
            for option in asked[question]
        }, graph.nodes[0].attrs.get("x_zero"))  # fmt: skip


def best_of(ways: dict[Option, Native], zero: Attr = None) -> Option:
    """The option with the least time; the first unless another is clearly faster. `zero` is the inputs' zero point, if they have one."""
    rng = np.random.default_rng(0)
    default = next(iter(ways))
    env = {v.name: example(v.type.dtype.numpy, tuple(int(d) for d in v.shape), rng, zero) for v in ways[default].plan.inputs}
    clear = np.zeros(CLEARED, np.uint8)
    least = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for option, way in ways.items():
            clear += 1
            times = way.run(dict(env), True)
            assert times is not None
            least[option] = min(least[option], sum(times))
    found = min(least, key=lambda option: least[option])
    return found if least[found] < BETTER * least[default] else default


def example(dtype: np.dtype[np.generic], shape: tuple[int, ...], rng: np.random.Generator, zero: Attr = None) -> Array:
    """Numbers that any layer takes: small where they may be indices, of the whole range where they are quantized, and as a relu leaves
    them where the zero point is the least of all."""
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.itemsize > 2 or dtype.kind == "b":
        return np.zeros(shape, dtype)
    info = np.iinfo(dtype.name)
    if zero == info.min:
        return (np.clip(rng.standard_normal(shape, np.float32) / 4, 0, 1) * (info.max - info.min) + info.min).astype(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def cache_file(target: Target) -> Path:
    """Where the answers for this machine, build, instruction set and number of threads are."""
    isa = target.isa or os.environ.get("LOWBIT_ISA") or native.isas()[-1]
    return cache_folder() / "tuned" / f"{machine()}-{isa}-{target.threads}.json"


@cache
def machine() -> str:
    """A name for the CPU and the kernels of this build: what is fastest depends on both."""
    from lowbit.hardware import Hardware

    return hashlib.sha256(f"{Hardware.detect().cpu} {native.cpu_features()} {sources.digest()}".encode()).hexdigest()[:16]


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
