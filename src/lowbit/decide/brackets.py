"""A Q/DQ graph beside the float graph it was made of: where its brackets are, and runs in which only some of them round.

Both graphs name their values alike, so a bracket that does not round hands on what came in, and a weight that does not round is the
float graph's constant. With all of them off, a run is that of the float graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lowbit.decide.samples import Sample
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, Node
from lowbit.ir.interp import check_inputs, last_uses
from lowbit.runtime.nodes import NodeRunner
from lowbit.types import Array

Env = dict[str, Array]
QUANTIZES, DEQUANTIZES = ("quantize_linear", "quantize_rows"), ("dequantize_linear", "dequantize_rows")
BRACKETS = (*QUANTIZES, *DEQUANTIZES)


@dataclass(frozen=True)
class Bracket:
    """A rounding in a Q/DQ graph: of the value `of`, read from `real` on. Constants have no quantize node."""

    of: str
    real: str
    dtype: str
    constant: bool


def source_name(name: str, graph: Graph) -> str | None:
    """The constant of the float graph that a stored constant (`w:int8`) stands for."""
    stem = name.rsplit(":", 1)[0]
    return stem if stem in graph.constants else None


def late(graph: Graph) -> Graph:
    """The graph with every stored constant dequantized right before its first reader: a run holds the floats of one layer, not of all."""
    stored = {n.output.name: n for n in graph.nodes if n.op == "dequantize_linear" and n.inputs[0] and n.inputs[0].name in graph.constants}
    placed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.output.name not in stored:
            before = (stored[v.name] for v in node.inputs if v is not None and v.name in stored)
            placed.update((n.output.name, n) for n in (*before, node))
    return replace(graph, nodes=tuple({**placed, **stored}.values()))  # what nobody reads, outputs among it, comes last


@dataclass(frozen=True)
class Pair:
    """The float graph and its Q/DQ graph, without symbols."""

    float: Graph
    quantized: Graph
    runner: NodeRunner = field(default_factory=NodeRunner, compare=False)

    @staticmethod
    def bound(graph: Graph, quantized: Graph, sample: Sample, runner: NodeRunner | None = None) -> Pair:
        """The pair at the sizes of a sample."""
        arrays, binding = check_inputs(graph, sample), dict[str, int]()
        for v in graph.inputs:
            binding_for(v.type, arrays[v.name].shape, binding)
        return Pair(bind(graph, binding), late(bind(quantized, binding)), runner or NodeRunner())

    @cached_property
    def brackets(self) -> dict[str, Bracket]:
        """Every rounding by the name of the dequantized value, in graph order."""
        found = {}
        for node in self.quantized.nodes:
            if node.op not in DEQUANTIZES or node.inputs[0] is None:
                continue
            stored = node.inputs[0]
            producer = self.quantized.producers.get(stored.name)
            if producer is not None and producer.op in QUANTIZES and producer.inputs[0] is not None:
                found[node.output.name] = Bracket(producer.inputs[0].name, node.output.name, stored.type.dtype.name, False)
            elif stored.name in self.quantized.constants and (source := source_name(stored.name, self.float)) is not None:
                found[node.output.name] = Bracket(source, node.output.name, stored.type.dtype.name, True)
        return found

    @cached_property
    def order(self) -> dict[str, int]:
        """The position of the node that defines a value."""
        return {o.name: i for i, n in enumerate(self.quantized.nodes) for o in n.outputs}

    def start(self, sample: Sample) -> Env:
        return {k: c.data for k, c in self.quantized.constants.items()} | dict(check_inputs(self.float, sample))

    def step(self, i: int, env: Env, active: Collection[str] | None) -> None:
        """Runs node `i`; brackets that are not among the active ones (None: all are) hand on what came in."""
        node = self.quantized.nodes[i]
        bracket = self.brackets.get(node.output.name)
        if active is not None and node.output.name not in active:
            if bracket is not None and bracket.constant:
                env[node.output.name] = self.float.constants[bracket.of].data
                offset = (
                    f"{bracket.of}:offset"  # of its blocks: a layer adds what it gives to the product of the rest, and the rest is all here
                )
                if offset in env:
                    env[offset] = np.zeros_like(env[offset])
                return
            if bracket is not None:
                env[node.output.name] = env[bracket.of]
                return
            if node.op in QUANTIZES:  # its dequantize looks past it; or it is rounded anyway when its dequantize is active
                users = self.quantized.users.get(node.output.name, ())
                if not any(u.output.name in active for u in users):
                    return
        read = [None if v is None else env[v.name] for v in node.inputs]
        for value, array in zip(node.outputs, self.runner(node, read, fixed=self._weights.get(node.output.name, ())), strict=True):
            env[value.name] = array

    @cached_property
    def _weights(self) -> dict[str, list[int]]:
        """Of each node, by first output, the inputs that are constants, stored as integers or not: the same arrays from run to run."""
        same = {real for real, b in self.brackets.items() if b.constant} | set(self.quantized.constants)
        found = {n.output.name: [i for i, v in enumerate(n.inputs) if v is not None and v.name in same] for n in self.quantized.nodes}
        return {name: positions for name, positions in found.items() if positions}

    @cached_property
    def _last(self) -> Mapping[int, list[str]]:
        """Like `last_uses`, with a bracket reading also what it rounds."""
        last = last_uses(self.quantized)
        when = {name: i for i, names in last.items() for name in names}
        for real, bracket in self.brackets.items():
            if not bracket.constant:
                when[bracket.of] = max(when.get(bracket.of, -1), self.order[real])
        dead: dict[int, list[str]] = {}
        for name, i in when.items():
            dead.setdefault(i, []).append(name)
        return dead

    def free(self, i: int, env: Env) -> None:
        keep = {v.name for v in self.quantized.outputs.values()}
        for name in self._last.get(i, ()):
            if name not in keep and name not in self.quantized.constants:
                env.pop(name, None)


@dataclass(frozen=True)
class Both:
    """Samples side by side through the Q/DQ graph, where everything rounds, and through the float graph, where nothing does.

    `plain` is empty where nobody asks for the values of the float graph.
    """

    pairs: Sequence[Pair]  # of one node order: sizes alone differ
    rounded: Sequence[Env]
    plain: Sequence[Env]

    @staticmethod
    def start(graph: Graph, quantized: Graph, samples: Sequence[Sample], plain: bool = True) -> Both:
        runner = NodeRunner()
        pairs = [Pair.bound(graph, quantized, s, runner) for s in samples]
        rounded, floats = ([p.start(s) for p, s in zip(pairs, samples, strict=True)] for _ in range(2))
        return Both(pairs, rounded, floats if plain else [])

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.pairs[0].quantized.nodes

    def step(self, i: int) -> None:
        """Runs node `i` in all of them; a weight becomes real once for all."""
        name = self.nodes[i].output.name
        bracket = self.pairs[0].brackets.get(name)
        constant = bracket is not None and bracket.constant
        for envs, active in self._sides:
            for k, (pair, env) in enumerate(zip(self.pairs, envs, strict=True)):
                if constant and k:
                    env[name] = envs[0][name]
                else:
                    pair.step(i, env, active)

    @property
    def _sides(self) -> list[tuple[Sequence[Env], Collection[str] | None]]:
        """The runs, each with the brackets that round in it (None: all)."""
        return [(self.rounded, None), *([(self.plain, ())] if self.plain else [])]

    def free(self, i: int) -> None:
        for envs, _ in self._sides:
            for pair, env in zip(self.pairs, envs, strict=True):
                pair.free(i, env)
        self.pairs[0].runner.clear()  # all samples were through this node
