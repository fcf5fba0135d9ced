"""Recurrent layers run natively with the bits of the interpreter: both kinds, static and dynamic, directions, layouts, sizes, threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_native_session import ISAS, same

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.ops.q_rnn import tanh_table
from lowbit.quantization.recipes import recipe
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType
from zoo import entry

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


def agrees(graph: Graph, feed: dict[str, Array]) -> bool:
    want = run(graph, feed)
    assert all(len(np.unique(v)) > 1 or v.size == 1 for v in want.values()), "the layer says nothing"
    sessions = [Session(graph, threads=t, isa=isa) for isa in ISAS for t in (1, 2, 3)]
    return all(s.backend == "native" and same(want, s.run(feed)) for s in sessions)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["q_lstm", "q_gru", "q_lstm_rows", "q_gru_rows"])
def test_a_layer_has_the_bits_of_the_interpreter(op: str, size: Size) -> None:
    assert agrees(*layer(op, size))
    if "gru" in op:
        assert agrees(*layer(op, size, lbr=False))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lbr", [True, False])
def test_a_gru_goes_on_with_the_16_bits_inside(lbr: bool, size: Size) -> None:
    assert agrees(*layer("q_gru", size, lbr=lbr, inside=True))
    assert size[3] > 40 or agrees(*layer("q_gru", size, lbr=lbr, inside=True, bits=16))


@pytest.mark.parametrize("size", [*SIZES, (2, 1, 3, 1100, "forward", 0)])
@pytest.mark.parametrize("op", ["q_lstm", "q_gru"])
def test_states_of_16_bits(op: str, size: Size) -> None:
    assert agrees(*layer(op, size, bits=16))
    assert agrees(*layer(op, size, bits=16, wide_weights=True))
    assert op == "q_lstm" or agrees(*layer(op, size, bits=16, lbr=False))


@pytest.mark.parametrize("op", ["q_lstm", "q_gru_rows"])
def test_weights_of_minus_128_are_exact_too(op: str) -> None:
    graph, feed = layer(op, SIZES[3], lowest=-128)
    assert any((c.data == -128).any() for c in graph.constants.values() if c.data.dtype == np.int8)
    assert agrees(graph, feed)


@pytest.mark.parametrize("op", ["q_lstm", "q_gru", "q_lstm_rows", "q_gru_rows"])
def test_threads_share_the_steps_of_a_large_layer(op: str) -> None:
    graph, feed = layer(op, (3, 1, 16, 384, "forward", 0))
    steps = [s for p in Session(graph, threads=2)._programs.values() for s in p.parts[0].plan.steps]  # type: ignore[union-attr]
    assert [s.items for s in steps if "lstm" in s.contract or "gru" in s.contract] == [2, 2, 2]
    assert agrees(graph, feed)


@pytest.mark.parametrize("how", ["int8", "int8-dynamic"])
@pytest.mark.parametrize("name", ["lstm_lm", "gru_lm"])
def test_language_models_have_the_bits_of_the_interpreter(name: str, how: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = {g.inputs[0].name: next(iter(e.example().values())).numpy()}
    graph = lower(lowbit.quantize(g, [x], rules=recipe(how))).graph
    want = run(graph, x)
    for threads in (1, 2):
        session = Session(graph, threads=threads)
        assert same(want, session.run(x))
        rows = session.profile(*x.values(), repeats=1).rows
        assert not any("lstm" in r.op or "gru" in r.op for r in rows if r.kernel == "interpreter")


def test_a_stream_in_pieces_is_the_stream() -> None:
    """States that go out and in again continue where they were."""
    for op in ("q_lstm", "q_lstm_rows", "q_gru"):
        graph, feed = layer(op, (6, 1, 8, 20, "forward", 0), inside=op == "q_gru")
        half, _ = layer(op, (3, 1, 8, 20, "forward", 0), inside=op == "q_gru")
        wide = "s0" if op == "q_gru" else "c0"
        half_graph = _with_constants_of(half, graph)
        whole = Session(graph).run(feed)
        session = Session(half_graph)
        state = {k: feed[k] for k in ("h0", wide)}
        outs = []
        for part in (slice(0, 3), slice(3, 6)):
            got = session.run({**{k: v[part] for k, v in feed.items() if k in ("x", "xs")}, **state})
            outs.append(got["y0"])
            state = {"h0": got["y1"], wide: got["y2"]}
        assert np.array_equal(np.concatenate(outs), whole["y0"]) and np.array_equal(state[wide], whole["y2"])


def _with_constants_of(graph: Graph, other: Graph) -> Graph:
    node, its = graph.nodes[0], other.nodes[0]
    return replace(graph, constants=other.constants, nodes=(replace(node, attrs=its.attrs),))
