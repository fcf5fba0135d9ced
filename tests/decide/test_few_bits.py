"""Weights of few bits: no broken layer is called good, no more bytes than 8 bits take, and the minutes do not return the scaffold."""

from __future__ import annotations

import pytest
from decide_networks import f32, rng

import lowbit
from lowbit.decide.cost import Stopwatch, Times
from lowbit.decide.decision import Decision
from lowbit.decide.engine import Engine
from lowbit.decide.goal import LAYER
from lowbit.decide.limits import Deadline, Over
from lowbit.decide.quality import Quantized, layer_decibels
from lowbit.decide.verdict import verdict
from lowbit.decide.widths import FASTER, LOSE_4, Widths
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType

pytestmark = pytest.mark.filterwarnings("ignore:the goal is not met")


def lopsided() -> Graph:
    """A layer with one column of large weights for an input that is nearly zero, whose small result a tanh adds to the rest."""
    b = Builder("lopsided")
    x = b.input("x", TensorType((8, 64), "float32"))

    def weights(n: int, seed: int) -> Array:
        return f32(rng(seed).uniform(-1, 1, (n, 64)) / 8)

    h = b.add("relu", b.add("linear", x, b.constant(weights(64, 1), name="wa"), name="a", out="ha"), out="h")
    z = b.add("mul", h, b.constant(f32([0.001] + [1.0] * 63), name="quiet"), name="z", out="z")
    wide = weights(64, 2)
    wide[:, 0] = 8.0
    t = b.add("tanh", b.add("linear", z, b.constant(wide, name="wb"), name="b", out="hb"), name="t", out="t")
    s = b.add("add", h, b.add("mul", t, b.constant(f32([0.02])), name="small", out="small"), name="sum", out="s")
    y = b.add("linear", s, b.constant(weights(10, 3), name="wo"), name="o", out="y")
    return b.finish({"y": y})


def data(count: int = 24) -> list[dict[str, Array]]:
    return [{"x": f32(rng(50 + i).standard_normal((8, 64)))} for i in range(count)]


def decision_of(graph: Graph, recipe: str, **options: object) -> Decision:
    told: list[Decision] = []
    lowbit.quantize(graph, data(), recipe=recipe, on_decision=told.append, **options)  # type: ignore[arg-type]
    return told[0]


@pytest.mark.parametrize("prefer", ["balanced", "size"])
def test_no_layer_below_ten_decibels_is_called_good(prefer: str) -> None:
    graph = lopsided()
    plain = lowbit.quantize(graph, data(), recipe="w4a8", guard=False)
    assert layer_decibels(Quantized(plain, graph), data()[:1])["hb"] < LAYER
    found = decision_of(graph, "w4a8", prefer=prefer)
    broken = [name for name, db in found.quality.layers.items() if db < LAYER]
    assert not broken if prefer == "balanced" else broken  # a fifth of the weights is all that may have 8 bits there
    assert ("layers have less than 10 dB: b " in found.unmet and "NOT MET" in verdict(graph, found)) == bool(broken)


def test_few_bits_take_no_more_bytes_than_eight() -> None:
    graph = lopsided()
    few, eight = (decision_of(graph, recipe) for recipe in ("w4a8", "int8"))
    assert few.graph.parameter_bytes <= eight.graph.parameter_bytes
    assert not {"ha", "hb", "y"} & few.widths.floats


def test_the_minutes_do_not_return_weights_that_have_eight_bits_for_the_decision_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is over while activations are decided about beside weights of 8 bits."""
    graph, seen = lopsided(), list[Engine]()
    measure = Engine.measure

    def noted(self: Engine, candidate: object) -> object:
        seen.append(self)
        return measure(self, candidate)  # type: ignore[arg-type]

    def check(self: Deadline) -> None:
        if seen and len(seen[-1].measured) > 3:
            raise Over("minutes=1 were over")

    monkeypatch.setattr(Engine, "measure", noted)
    monkeypatch.setattr(Deadline, "check", check)
    found = decision_of(graph, "w4a8", minutes=1)
    assert found.stopped == "minutes=1 were over" and not found.widths.eights
    assert {found.graph.constants[f"{w}:int4"].data.dtype.name for w in ("wa", "wb", "wo")} == {"int8"}  # nibbles are held in bytes


def test_every_layer_has_one_width_whatever_is_joined() -> None:
    names = frozenset("abc")
    both = Widths(rows=names, layers=names, weights=names, eights=names, fours=names) | Widths(floats=frozenset("a"))
    assert (both.floats, both.rows, both.layers, both.weights, both.eights) == (
        frozenset("a"), frozenset("bc"), frozenset(), frozenset(), frozenset("bc"))  # fmt: skip
    assert Widths(weights=names, eights=names).eights == frozenset()


def test_each_reason_is_the_true_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(self: Stopwatch, graph: Graph) -> Times:
        return Times(3.0 if any(n.op.startswith("q_") for n in graph.nodes) else 1.0, 1.0)

    graph = lopsided()
    few = decision_of(graph, "w4a8")
    eights = {n.name for n in graph.nodes if n.output.name in few.widths.eights}
    assert eights and all(LOSE_4 in few.graph.notes.get(name, LOSE_4) for name in eights)
    monkeypatch.setattr(Stopwatch, "times", times)
    with pytest.warns(lowbit.LowbitWarning, match="nothing is quantized"):
        slow = decision_of(graph, "int8")
    assert slow.faster and "float because it is faster" in verdict(graph, slow)
    assert {slow.graph.notes[n] for n in ("ha", "hb", "y")} == {f"stays float: {FASTER}"}


def test_a_network_that_stays_slower_than_float_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own rules keep every layer in integers."""
    monkeypatch.setattr(Stopwatch, "times", lambda self, graph: Times(1.5, 1.0))
    found = decision_of(lopsided(), "int8", rules=[lowbit.CalibratedQuantRule("^(a|b|o)$", "int8")])
    assert not found.met and "it takes 1.50 of the float network's time" in found.unmet


def test_the_chosen_network_is_on_the_front() -> None:
    found = decision_of(lopsided(), "int8")
    assert sum(t.chosen for t in found.front) == 1
