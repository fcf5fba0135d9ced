"""A replay gives what a session gives, shows every value, and gives the same when it is run again from the middle."""

from __future__ import annotations

import numpy as np
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import bound_to, evaluate, run_node
from lowbit.lower import lower
from lowbit.runtime.nodes import NodeRunner
from lowbit.runtime.replay import NativeRun, Replay
from lowbit.types import Array, TensorType
from zoo import entry

NETWORKS = ("mlp", "resnet9", "mobilenetv2", "dscnn", "unet", "lstm_lm", "transformer", "gpt", "vit")


def network(name: str) -> tuple[Graph, dict[str, Array]]:
    e = entry(name)
    sample = {k: v.numpy() for k, v in e.example().items()}
    graph = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    return bound_to(graph, sample), sample


@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_is_that_of_the_interpreter(name: str) -> None:
    graph, sample = network(name)
    keep = [o.name for n in graph.nodes for o in n.outputs if o.type.dtype.is_float]
    replay = Replay(graph, keep)
    outputs = replay.run(sample)
    want = evaluate(graph, sample, keep=keep)
    for k, v in outputs.items():
        np.testing.assert_allclose(v, want[k], rtol=1e-3, atol=1e-4)
    for k in keep:
        assert replay.has(k)
        got = replay.real_order(k)
        np.testing.assert_allclose(got, want[k], rtol=1e-3, atol=1e-3 * float(np.abs(want[k]).max() + 1e-6), err_msg=k)


@pytest.mark.parametrize("name", NETWORKS)
def test_integers_have_the_bits_of_the_session(name: str) -> None:
    graph, sample = network(name)
    q = lowbit.quantize(graph, [sample], guard=False)
    integer = lower(q).graph
    replay = Replay(integer, list(integer.values))
    got, want = replay.run(sample), lowbit.compile(q).run(sample)
    for k in want:
        np.testing.assert_array_equal(got[k], want[k])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_run_from_the_middle_gives_what_a_whole_run_gives(name: str) -> None:
    graph, sample = network(name)
    keep = [o.name for n in graph.nodes for o in n.outputs if o.type.dtype.is_float]
    replay = Replay(graph, keep)
    want = {k: v.copy() for k, v in replay.run(sample).items()}
    places = sorted((k for k in keep if replay.has(k)), key=replay.position, reverse=True)
    for k in places[:: max(1, len(places) // 12)]:
        memory = replay.memory(k)
        before = memory.copy()
        memory *= np.float32(1.5)
        changed = {k: v.copy() for k, v in replay.rerun([k]).items()}
        np.copyto(memory, before)
        again = replay.rerun([k])
        for name_, v in want.items():
            np.testing.assert_array_equal(again[name_], v, err_msg=k)
        read = any(k in {i.name for i in n.inputs if i is not None} for n in graph.nodes)
        if read and np.abs(before).max() > 1e-3 and name in ("mlp", "resnet9"):
            assert any(not np.array_equal(changed[n], want[n]) for n in want), k


def test_observers_see_the_taps_that_they_ask_for_in_order() -> None:
    graph, sample = network("resnet9")
    keep = [n.output.name for n in graph.nodes][:5]
    seen: list[str] = []
    NativeRun(graph, keep)(sample, lambda v, x: seen.append(v.name))
    assert seen == keep


@pytest.mark.parametrize("name", ["resnet9", "transformer", "gru_lm"])
def test_single_nodes_give_what_the_interpreter_gives(name: str) -> None:
    graph, sample = network(name)
    runner = NodeRunner()
    env: dict[str, Array] = {k: c.data for k, c in graph.constants.items()} | dict(sample)
    for node in graph.nodes:
        read = [None if v is None else env[v.name] for v in node.inputs]
        fixed = [i for i, v in enumerate(node.inputs) if v is not None and v.name in graph.constants]
        for value, want, got, again in zip(
            node.outputs, run_node(node, read), runner(node, read, fixed=fixed), runner(node, read, fixed=fixed), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * float(np.abs(want).max() + 1e-6) if want.dtype.kind == "f" else 0)
            np.testing.assert_array_equal(got, again)
            env[value.name] = want


def test_a_value_is_not_taken_for_the_transpose_of_another_whose_layer_has_its_name() -> None:
    """The transpose of what layer c makes has no name of its own in the graph, and c is the name of another value."""
    b = Builder("names")
    x = b.input("x", TensorType((1, 4, 5, 6), "float32"))
    rng = np.random.default_rng(0)
    w, scale = (b.constant(rng.standard_normal(s).astype(np.float32), name=n) for n, s in (("w", (8, 4, 3, 3)), ("scale", (1,))))
    h = b.add("conv", x, w, name="c", out="h", stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    flat = b.add("reshape", h, shape=(1, 8, 30), out="flat")
    c = b.add("mul", h, scale, name="d", out="c")
    e = b.add("mul", c, c, name="d", out="c.1")
    graph = b.finish({"flat": b.add("relu", flat, out="f"), "y": b.add("relu", e, name="e", out="y")})
    sample = {"x": rng.standard_normal((1, 4, 5, 6)).astype(np.float32)}
    want = evaluate(graph, sample, keep=list(graph.values))
    replay = Replay(graph, ["h", "flat", "c", "c.1"])
    replay.run(sample)
    for name in ("h", "flat", "c", "c.1"):
        np.testing.assert_allclose(replay.real_order(name), want[name], rtol=1e-4, atol=1e-5, err_msg=name)
