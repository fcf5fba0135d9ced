"""Language models with state: the plan's bits are the interpreter's, a token's bits do not depend on the chunk, nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
from block_tools import token_graph, updates_of

from lowbit.errors import GraphError, InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.plan import Packed
from lowbit.runtime.token_plan import TokenPlan
from lowbit.types import Array, TensorType

PAGES = {0: [5, 2, 0], 1: [1, 3, -1]}


def states_of(graph: Graph) -> dict[str, Array]:
    return {v.name: np.zeros(v.type.shape, np.float16) for v in graph.inputs if v.name in updates_of(graph)}


def inputs_of(tokens: list[tuple[int, int, int]]) -> dict[str, Array]:
    """(id, position, sequence) of each row."""
    ids, positions, sequences = (np.array(c, np.int32) for c in zip(*tokens, strict=True))
    angle = positions[:, None] * 10000.0 ** (-np.arange(8) / 8)
    return {
        "ids": ids, "positions": positions, "sequences": sequences, "table": np.array([PAGES[0], PAGES[1]], np.int32),
        "cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32),
    }  # fmt: skip


def text(n: int, sequence: int = 0, begin: int = 0) -> list[tuple[int, int, int]]:
    return [((7 * p + 11 * sequence) % 96, p, sequence) for p in range(begin, begin + n)]


class Model:
    """Plans of several chunk sizes over the same weights and states."""

    def __init__(self, threads: int = 1, format: str = "Q4_0") -> None:
        self.threads, self.format, self.packed = threads, format, Packed()
        self.states = states_of(token_graph(1))
        self.plans: dict[int, TokenPlan] = {}

    def __call__(self, tokens: list[tuple[int, int, int]]) -> Array:
        rows = len(tokens)
        if rows not in self.plans:
            graph = token_graph(rows, format=self.format)
            self.plans[rows] = TokenPlan(graph, self.states, updates_of(graph), threads=self.threads, packed=self.packed)
        for name, x in inputs_of(tokens).items():
            self.plans[rows].inputs[name][...] = x
        return self.plans[rows].run()["hidden"].copy()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_plan_has_the_bits_of_the_interpreter(threads: int) -> None:
    model, kept = Model(threads), states_of(token_graph(1))
    for tokens in (text(5), text(3, 1), text(40, 0, 5), text(1, 0, 45)):
        graph = token_graph(len(tokens))
        want = run(graph, {**inputs_of(tokens), **kept})
        assert np.array_equal(model(tokens), want["hidden"])
        kept = {name: want[out] for name, out in updates_of(graph).items()}
        assert all(np.array_equal(model.states[name].view(np.uint16), kept[name].view(np.uint16)) for name in kept)


@pytest.mark.parametrize("format", ["Q4_0", "Q4_1", "Q8_0", "F16"])
def test_a_token_has_the_same_bits_in_any_chunk_and_beside_any_other_sequence(format: str) -> None:
    alone, chunks, mixed = Model(format=format), Model(format=format), Model(format=format)
    one = np.concatenate([alone([t]) for t in text(70)])
    several = np.concatenate([chunks(text(n, 0, begin)) for begin, n in ((0, 33), (33, 7), (40, 1), (41, 29))])
    other = text(60, 1)
    both = np.concatenate([mixed([t, *other[2 * i : 2 * i + 2]])[:1] for i, t in enumerate(text(30))])
    assert np.array_equal(one, several)
    assert np.array_equal(one[:30], both)


def test_pages_that_do_not_exist_are_neither_written_nor_read() -> None:
    model = Model()
    for begin in range(0, 64, 32):
        model(text(32, 1, begin))
    before = {name: x.copy() for name, x in model.states.items()}
    model([(1, 64, 1), (1, 200, 1), (1, -1, 0), (1, 0, 9)])  # page -1, beyond the table, before it, no such sequence
    assert all(np.array_equal(before[name], model.states[name]) for name in before)


def test_a_state_that_is_read_after_it_was_written_over_is_refused() -> None:
    b = Builder()
    cache = b.input("c", TensorType((1, 1, 32, 16), "float16"))
    x, at = b.input("x", TensorType((1, 1, 16), "float32")), b.input("at", TensorType((1,), "int32"))
    table = b.input("t", TensorType((1, 1), "int32"))
    new = b.add("cache_store", cache, x, at, at, table, keys=False)
    graph = b.finish({"next": new, "old": b.add("identity", cache)})
    state = {"c": np.zeros((1, 1, 32, 16), np.float16)}
    with pytest.raises(GraphError, match="c is read after it was written over"):
        TokenPlan(graph, state, {"c": "next"})
    with pytest.raises(GraphError, match="it must be a state of the plan"):
        TokenPlan(b.finish({"next": new}), state, {})
    with pytest.raises(InputError, match=r"float32\[1, 1, 32, 16\] given, float16\[1, 1, 32, 16\] needed"):
        TokenPlan(b.finish({"next": new}), {"c": state["c"].astype(np.float32)}, {"c": "next"})
