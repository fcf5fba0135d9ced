"""Recurrent layers run natively with the bits of the interpreter: both kinds, static and dynamic, directions, layouts, sizes, threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from native_laws import ISAS, same
from rnn_layers import SIZES, Size, layer

import lowbit
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.quantization.recipes import recipe
from lowbit.runtime.session import Session
from lowbit.types import Array
from zoo import entry


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
