"""Recurrent networks with the weights of trained ones: half of the units integrate slowly, and one counts without end."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
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
