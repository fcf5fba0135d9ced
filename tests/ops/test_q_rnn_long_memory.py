"""Long memories survive integers: an LSTM or a GRU of any length loses no more than its 8-bit inputs, weights and outputs do.

The layer with a float state is the graph of brackets in the interpreter: the same roundings of input, weights and output, none of the
state. Weights are like those of trained networks: half of the units integrate slowly (forget gates about 6, input gates about -4), and
one counts without end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_tools import selftest
from native_laws import ISAS, same
from recurrent_networks import frames, network

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType


def measured(op: str, direction: str, layers: int, steps: int) -> tuple[float, float, Graph, list[dict[str, Array]]]:
    """The dB that are left with a float state, and in integers; the integer graph and what it was fed with."""
    g = network(op, direction, layers, steps)
    data = [{"x": frames(steps, seed)} for seed in range(2)]
    q = lowbit.quantize(g, data, guard=False)
    lowered = lower(q)
    assert not lowered.islands
    session = Session(lowered.graph)
    assert session.backend == "native"
    true, held, ints = (np.concatenate([f(d)["y"] for d in data]) for f in (lambda d: run(g, d), lambda d: run(q, d), session.run))
    return sqnr_db(true, held), sqnr_db(true, ints), lowered.graph, data


@pytest.mark.parametrize("steps", [1, 35, 600, 2000])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_integers_stay_within_a_decibel_of_a_float_state(op: str, direction: str, steps: int) -> None:
    held, ints, _, _ = measured(op, direction, 1, steps)
    assert held > 25 and abs(ints - held) < 1


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_a_stack_stays_within_three_decibels(op: str, direction: str) -> None:
    held, ints, _, _ = measured(op, direction, 4, 600)
    assert held > 15 and ints > held - 3


@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_long_memories_have_the_same_bits_everywhere(op: str, tmp_path: Path) -> None:
    _, _, graph, data = measured(op, "bidirectional", 2, 300)
    want = run(graph, data[0])
    assert all(same(want, Session(graph, threads=t, isa=isa).run(data[0])) for isa in ISAS for t in (1, 2))
    lowbit.emit_c(graph, tmp_path / "c", vectors=1, measure=False)
    assert selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of ")


def test_a_cell_counts_beside_one_that_hardly_moves() -> None:
    """One unit adds 1 at every step, the other 0.003: each is what it is alone."""

    def cells(*which: float) -> Array:
        n, b = len(which), Builder()
        bias = np.zeros((1, 8, n), np.float32)
        bias[0, 0], bias[0, 2], bias[0, 3], bias[0, 1] = which, 16, 16, 16
        x = b.input("x", TensorType((600, 1, 1), "float32"))
        wr = [b.constant(np.full((1, 4 * n, k), 1e-6, np.float32), name=s) for s, k in (("w", 1), ("r", n))]
        names = ("Sigmoid", "Tanh", "Tanh")
        options: dict[str, Any] = {"hidden": n, "direction": "forward", "activations": names, "layout": 0}
        c = b.add_node("lstm", x, *wr, b.constant(bias.reshape(1, -1), name="b"), name="rec", **options)[2]
        q = lowbit.quantize(b.finish({"c": c}), [np.ones((600, 1, 1), np.float32)], guard=False)
        return run(lower(q).graph, {"x": np.ones((600, 1, 1), np.float32)})["c"][0, 0]

    both = cells(16.0, -5.8)
    assert both.tolist() == [cells(16.0)[0], cells(-5.8)[0]]
    assert abs(both[0] - 600) < 0.1 and abs(both[1] / (600 / (1 + np.exp(5.8))) - 1) < 0.01
