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

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

INPUTS, HIDDEN = 8, 16


def layer_weights(op: str, inputs: int, directions: int, rng: np.random.Generator) -> list[Array]:
    """w, r and b in ONNX's order of gates: i, o, f, c of an LSTM, z, r, h of a GRU."""
    n, slow, gates = HIDDEN, slice(1, HIDDEN // 2), 4 if op == "lstm" else 3
    w = rng.normal(0, inputs**-0.5, (directions, gates, n, inputs))
    r = rng.normal(0, 0.6 * n**-0.5, (directions, gates, n, n))
    b = rng.normal(0, 0.2, (directions, gates, n))
    remember = 2 if op == "lstm" else 0
    w[:, remember, slow] *= 0.4
    b[:, remember, slow] += 6 if op == "lstm" else 5
    if op == "lstm":
        b[:, 2, HIDDEN // 2 :] += 1
        b[:, 0, slow] -= 4
        b[:, [0, 2, 3], 0] += [3, 9, 2]  # the counter
    shapes = (w.reshape(directions, -1, inputs), r.reshape(directions, -1, n), b.reshape(directions, -1))
    return [a.astype(np.float32) for a in (*shapes[:2], np.concatenate([shapes[2], np.zeros_like(shapes[2])], axis=1))]


def network(op: str, direction: str, layers: int, steps: int, seed: int = 3) -> Graph:
    rng = np.random.default_rng(seed)
    directions = 2 if direction == "bidirectional" else 1
    names = ("Sigmoid", "Tanh", "Tanh") if op == "lstm" else ("Sigmoid", "Tanh")
    options: dict[str, Any] = {"hidden": HIDDEN, "direction": direction, "activations": names * directions, "layout": 0}
    if op == "gru":
        options["linear_before_reset"] = True
    b = Builder()
    x = b.input("x", TensorType((steps, 1, INPUTS), "float32"))
    for i in range(layers):
        made = layer_weights(op, int(x.shape[2]), directions, rng)
        y = b.add_node(op, x, *(b.constant(a, name=f"{n}{i}") for a, n in zip(made, "wrb", strict=True)), name=f"rnn{i}", **options)[0]
        x = b.add("reshape", b.add("transpose", y, perm=(0, 2, 1, 3)), shape=(steps, 1, directions * HIDDEN))
    return b.finish({"y": x})


def frames(steps: int, seed: int) -> Array:
    """Smooth features with an offset that drifts."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None, None]
    waves = np.sin(2 * np.pi * (t / rng.uniform(20, 300, INPUTS) + rng.uniform(size=INPUTS)))
    drift = np.cumsum(rng.normal(0, 0.05, (steps, 1, 1)), axis=0)
    return np.asarray(waves + drift + 0.1 * rng.normal(size=waves.shape), np.float32)


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
