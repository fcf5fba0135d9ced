"""Recurrent layers in integers, and their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ops.q_rnn import tanh_table
from lowbit.types import Array, TensorType

# time, batch, inputs, hidden, direction, layout
SIZES = [
    (1, 1, 1, 1, "forward", 0),
    (5, 1, 7, 16, "forward", 0),
    (4, 3, 16, 17, "reverse", 0),
    (6, 2, 33, 40, "bidirectional", 0),
    (3, 2, 5, 31, "bidirectional", 1),
    (9, 1, 20, 300, "forward", 1),
]


Size = tuple[int, int, int, int, str, int]


def layer(
    op: str,
    size: Size,
    seed: int = 0,
    bits: int = 8,
    lbr: bool = True,
    lowest: int = -127,
    inside: bool = False,
    wide_weights: bool = False,
) -> tuple[Graph, dict[str, Array]]:
    """A graph of one recurrent layer with random parameters, and inputs for it; states go in and out, `inside` also what a GRU holds.

    `wide_weights`: those of states are 16 bits at their ends, and so are the first states.
    """
    time, batch, inputs, hidden, direction, layout = size
    rng = np.random.default_rng(seed)
    kind, rows = op.split("_")[1], op.endswith("_rows")
    gates, d, dtype = 4 if kind == "lstm" else 3, 2 if direction == "bidirectional" else 1, f"int{bits}"
    top = 1 << (bits - 1)
    b = Builder()
    feed: dict[str, Array] = {}

    def put(name: str, data: Array) -> Value:
        feed[name] = data
        return b.input(name, TensorType(data.shape, data.dtype))

    def ints(*shape: int, low: int = -top, name: str = dtype) -> Array:
        return rng.integers(low, top, shape).astype(name)

    def scales(n: float) -> Array:
        return rng.uniform(0.2 * n, n, (d, gates * hidden)).astype(np.float32)

    def const(name: str, data: Array) -> Value:
        return b.constant(data, name=name)

    outer = (batch, time) if layout else (time, batch)
    state = (batch, d, hidden) if layout else (d, batch, hidden)
    w = rng.integers(lowest, 128, (d, gates * hidden, inputs)).astype(np.int8)
    r = rng.integers(lowest, 128, (d, gates * hidden, hidden)).astype(np.int8)
    ends = np.array([-32768, 32767], np.int16)
    if wide_weights:
        r = rng.choice(ends, r.shape)
    bias = [const(f"b{i}", rng.normal(size=(d, gates * hidden)).astype(np.float32)) for i in range(1 if gates == 4 else 2)]
    x = put("x", ints(*outer, inputs))
    wide = 2.0**15 / top
    bound = 2**30 if rows else 2 * top * hidden * int(np.abs(r.astype(np.int64)).max())
    common: dict[str, Any] = {"direction": direction, "layout": layout, "bound_x": 2**30, "bound_h": bound}
    if gates == 3:
        common["linear_before_reset"] = lbr
    if rows:
        x_scale = put("xs", rng.uniform(0.001, 0.05, (*outer, 1)).astype(np.float32))
        given = [put(n, rng.normal(size=state).astype(np.float32)) for n in ("h0", "c0")[: gates - 2]]
        args = [x, x_scale, const("w", w), const("ws", scales(0.02)), const("r", r), const("rs", scales(0.01)), *bias, *given]
    else:
        common |= {"x_zero": 5, "h_zero": -9, "lo": -top, "hi": top - 1}
        common |= {"h_multiplier": float(top)} if gates == 4 else {"h_scale": 1.0 / top, "state_bits": int(rng.integers(9, 16))}
        given = [
            put("h0", rng.choice(ends, state) if wide_weights else ints(*state)),
            *([put("c0", (2 * rng.normal(size=state)).astype(np.float32))] if gates == 4 else []),
        ]
        scaled = [
            const("ws", scales(2e-8 * wide / inputs**0.5 * 3e4)),
            const("r", r),
            const("rs", scales(6e-4 * wide / hidden**0.5 / (256 if wide_weights else 1))),
        ]
        args = [x, const("w", w), *scaled, const("t", tanh_table()), *given, *bias]
        args += [put("s0", rng.integers(-9000, 9000, state).astype(np.int16))] if inside else []
    outputs = b.add_node(op, *args, **common)
    return b.finish({f"y{i}": o for i, o in enumerate(outputs)}), feed
