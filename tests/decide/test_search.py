"""The search always returns, keeps to its goal, tells what it saw, and gives the same result for the same arguments."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.decide import candidates, cost, limits
from lowbit.decide.batches import Joined
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.order import Move, Option, moves
from lowbit.decide.quality import Quantized
from lowbit.decide.rules import rules_of
from lowbit.decide.samples import split
from lowbit.decide.scores import fastest
from lowbit.decide.search import walk as module
from lowbit.decide.search.result import Point, SearchResult, front
from lowbit.decide.search.units import Unit, find_units, width_of, widths_of
from lowbit.decide.widths import multiplies
from lowbit.errors import CalibrationError, InputError, LowbitWarning, QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import QuantNode, RuleMatcher
from lowbit.quantization.transform import QuantizationTransform
from lowbit.runtime import timing
from lowbit.types import Array, TensorType


def f32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def network() -> Graph:
    """Four layers and a sum. One hidden channel is 300 times as large as the others, so that `third` breaks when it reads 8 bits.

    A clip with a limit stands before it: channels cannot be scaled through it.
    """
    rng = np.random.default_rng(0)
    scale = np.ones((48, 1))
    scale[5] = 300
    b = Builder("net")
    x = b.input("x", TensorType((8, 32), "float32"))

    def linear(v: Any, w: Array, name: str) -> Any:
        return b.add(
            "linear", v, b.constant(f32(w), name=f"{name}.w"), b.constant(f32(np.zeros(len(w))), name=f"{name}.b"), name=name, out=name
        )

    first = b.add("relu", linear(x, rng.standard_normal((32, 32)) / 6, "first"), name="act", out="a1")
    second = b.add("clip", linear(first, rng.standard_normal((48, 32)) * scale / 6, "second"), name="act", out="a2", min=0.0, max=1e6)
    third = linear(second, rng.standard_normal((32, 48)) / scale.T / 6, "third")
    total = b.add("add", third, first, name="sum", out="s")
    return b.finish({"y": linear(total, rng.standard_normal((10, 32)) / 6, "head")})


def data(seed: int = 1, batches: int = 8) -> list[dict[str, Array]]:
    rng = np.random.default_rng(seed)
    return [{"x": f32(rng.standard_normal((8, 32)))} for _ in range(batches)]


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Times are measured once each: no test here is about how well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "SECONDS", 0.0)
        patch.setattr(timing, "RUNS", 1)
        yield


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return lowbit.search(network(), data(), cost="bytes", least_db=18)


def agreement(graph: Graph) -> Callable[[lowbit.Session], float]:
    """The share of rows of other data whose largest output is the float network's."""
    samples = data(7)
    wanted = [lowbit.compile(graph).run(s)["y"].argmax(1) for s in samples]
    return lambda session: float(np.mean([session.run(s)["y"].argmax(1) == w for s, w in zip(samples, wanted, strict=True)]))


def beats(a: Point, b: Point, cost: str) -> bool:
    mine, his = ((p.score, -p.ms, -p.bytes) if cost == "time" else (p.score, -p.bytes, -p.bits) for p in (a, b))
    return mine != his and all(x >= y for x, y in zip(mine, his, strict=True))


# -- what is found ---------------------------------------------------------------------------------------------------------


def test_the_best_is_cheaper_than_float_and_as_good_as_wanted_on_what_it_was_measured_with(found: SearchResult) -> None:
    assert not found.is_float and found.stopped == "" and found.float_score == math.inf
    assert found.score >= 18 == found.least
    held = [s for i, s in enumerate(data()) if i % 3 == 2]  # what calibration did not see
    float_session, session = lowbit.compile(network()), lowbit.compile(found.graph)
    pairs = [(float_session.run(s)["y"], session.run(s)["y"]) for s in held]
    rows = sorted(
        float(((r - s) ** 2).sum() / (r**2).sum()) for a, b in pairs for r, s in zip(a.astype(float), b.astype(float), strict=True)
    )
    worst = rows[-max(1, len(rows) // 10) :]  # a tenth
    assert -10 * math.log10(sum(worst) / len(worst)) == pytest.approx(found.score, abs=1e-4)
    assert found.measured_on == "on 2 batches held back from calibration"
    assert found.chosen.bytes < found.trials[0].bytes / 2
    assert all(found.chosen.bytes <= p.bytes for p in found.trials if p.accepted)


def test_a_layer_that_breaks_in_8_bits_gets_more_and_says_why(found: SearchResult) -> None:
    widths = {a.name: a.width for a in found.layers}
    assert widths["third"] in ("int16", "float") and {"int8", "int4"} & set(widths.values())
    (third,) = (a for a in found.layers if a.name == "third")
    assert third.because.startswith(f"search: {widths['third']}; it alone leaves the outputs at ") and " dB in int8" in third.because
    assert found.graph.reasons["third"].removeprefix("stays float: ").endswith(third.because)
    assert {a.name: a.layers for a in found.layers} == {
        "first": ("first", "act"), "second": ("second", "act"), "third": ("third",), "sum": ("sum",), "head": ("head",),
    }  # fmt: skip


def test_rules_and_record_make_the_same_network_again_also_from_a_file(found: SearchResult, tmp_path: Path) -> None:
    """But for the constants that were repaired: rules have no say in how a weight is rounded."""
    found.save_rules(tmp_path / "mixed.toml")
    rules = lowbit.load_rules(tmp_path / "mixed.toml")
    assert tuple(rules) == found.rules
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowbitWarning)
        made = lowbit.quantize(network(), found.record, rules=rules)
        assert replace(made, constants=found.graph.constants) == found.graph
        assert made == found.graph or set(found.repairs) - {"ranges"}  # ranges are in the record
        for point in found.pareto[:3]:
            assert lowbit.compile(lowbit.quantize(network(), found.record, rules=point.rules)).backend == "native"
        (plain,) = (p for p in found.trials if p.what == "int8 everywhere")
        assert plain.repairs == ()


def test_without_repairs_rules_and_record_make_the_very_same_network() -> None:
    best = lowbit.search(network(), data(), cost="bytes", least_db=0, widths=["int8"], trials=1)
    assert best.repairs == () and [p.what for p in best.trials] == ["float", "int8 everywhere"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowbitWarning)
        assert lowbit.quantize(network(), best.record, rules=best.rules) == best.graph


def test_what_is_found_runs_with_the_same_bits_everywhere(found: SearchResult) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowbitWarning)
        for rules in [p.rules for p in found.pareto if p.bytes < found.trials[0].bytes]:
            assert lowbit.verify_backends(lowbit.quantize(network(), found.record, rules=rules), data(5, 1)).ok


def test_no_point_of_the_front_is_beaten_and_every_other_is(found: SearchResult) -> None:
    assert found.chosen in found.pareto and found.trials[0] in found.pareto
    assert not any(beats(a, b, "bytes") for a in found.trials for b in found.pareto)
    for point in found.trials:
        goods = point.score, point.bytes, point.bits
        assert point in found.pareto or any(beats(a, point, "bytes") or (a.score, a.bytes, a.bits) == goods for a in found.pareto)
    assert [p.bytes for p in found.pareto] == sorted(p.bytes for p in found.pareto)


def test_the_text_says_what_was_chosen_and_the_front(found: SearchResult) -> None:
    text = str(found)
    assert f"score {found.score:.1f} dB (at least 18.0 dB wanted); {found.trials[0].bytes:,} → {found.chosen.bytes:,} bytes" in text
    assert f"{len(found.trials) - 1} networks scored on 2 batches held back from calibration" in text
    assert "← chosen" in text and all(a.name in text for a in found.layers)
    assert found.to_dict()["float_score"] == "inf" and found.to_dict()["chosen"]["score"] == found.score


def test_the_same_arguments_give_the_same_result_and_so_do_workers(found: SearchResult) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as executor:
        again = lowbit.search(network(), data(), cost="bytes", least_db=18, executor=executor)
    assert again.trials == found.trials and again.pareto == found.pareto and again.layers == found.layers
    assert again.graph == found.graph and again.graph.notes == found.graph.notes


def test_a_metric_decides_by_its_own_data_and_time_is_measured() -> None:
    told: list[Point] = []
    graph = network()
    best = lowbit.search(graph, data(), metric=agreement(graph), max_drop=0.05, trials=12, on_trial=told.append)
    assert best.float_score == 1.0 and best.least == 0.95 and best.score >= 0.95
    assert agreement(graph)(lowbit.compile(best.graph)) == best.score
    assert [p.what for p in told] == [p.what for p in best.trials[1:]] and len(told) <= 12
    assert best.chosen.accepted and all(p.ms > 0 for p in best.trials) and any(p is best.chosen for p in best.pareto)
    assert not any(beats(a, b, "time") for a in best.trials for b in best.pareto)
    assert best.measured_on == "by the metric"


def test_only_widths_that_are_allowed_are_used() -> None:
    best = lowbit.search(network(), data(), cost="bytes", least_db=10, widths=["int8"])
    assert {a.width for a in best.layers} <= {"int8", "float"} and not best.is_float
    with pytest.warns(LowbitWarning, match="the float network is returned"):
        assert lowbit.search(network(), data(), widths=["float"]).is_float


def test_eight_bits_where_only_four_are_allowed_are_told() -> None:
    """What has no weights has nothing to store in four bits."""
    best = lowbit.search(network(), data(), cost="bytes", least_db=0, widths=["int4"])
    wide = [a.name for a in best.layers if a.width == "int8"]
    assert wide and {a.width for a in best.layers} <= {"int4", "int8", "float"}
    assert best.note == f"int8, which widths= does not name, for what has no weights to store in int4: {', '.join(wide)}"
    assert f"\nnote: {best.note}" in best.summary and best.to_dict()["note"] == best.note
    assert lowbit.search(network(), data(), cost="bytes", least_db=0, widths=["int4", "int8"], trials=3).note == ""


@pytest.mark.parametrize("large", [False, True])
def test_no_more_sessions_are_held_than_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """Of a large network, one beside the float network."""
    made: list[weakref.ref[lowbit.Session]] = []
    real, timed = cost.Session, cost.least_in_turns
    held: list[tuple[int, int]] = []

    def compiled(graph: Graph, **more: Any) -> lowbit.Session:
        session = real(graph, **more)
        made.append(weakref.ref(session))
        return session

    def counted(ways: Sequence[Callable[[], object]]) -> list[float]:
        held.append((sum(m() is not None for m in made), len(ways)))
        return timed(ways)

    monkeypatch.setattr(cost, "Session", compiled)
    monkeypatch.setattr(cost, "least_in_turns", counted)
    if large:
        monkeypatch.setattr(module, "LARGE", 0)
        monkeypatch.setattr(cost, "LARGE", 0)
    best = lowbit.search(network(), data(), least_db=20, trials=8)
    assert all(alive <= ways for alive, ways in held)
    finalists = min(module.FINALISTS, sum(p.accepted for p in best.trials))
    assert max(ways for _, ways in held) == (2 if large else finalists + 1)


def test_samples_to_test_with_are_those_that_are_given() -> None:
    best = lowbit.search(network(), data(), test=data(3, 2), cost="bytes", trials=1, least_db=0)
    assert best.measured_on == "on 2 batches of test samples"
    with pytest.raises(CalibrationError, match="test= has no samples to measure with"):
        lowbit.search(network(), data(), test=[])
    with pytest.warns(LowbitWarning, match="there is one batch, to calibrate and to measure with") as seen:
        assert "calibrated with, too" in lowbit.search(network(), data(1, 1), trials=1, cost="bytes", least_db=0).measured_on
    assert seen[0].filename == __file__


# -- it always returns -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_had_gives_the_float_network_and_says_so() -> None:
    graph, calls = network(), [0]

    def only_float(_: lowbit.Session) -> float:
        calls[0] += 1
        return 1.0 if calls[0] == 1 else 0.25

    with pytest.warns(LowbitWarning, match="no quantized network with the score that is wanted was found: the float network is returned"):
        best = lowbit.search(graph, data(), metric=only_float, cost="bytes", trials=6)
    assert best.is_float and best.graph is graph and best.score == 1.0
    assert "the float network itself: no other network with a score of 0.995 was found; the nearest was int8 everywhere with 0.25" in str(
        best
    )
    with pytest.warns(LowbitWarning, match="nothing is quantized"):
        assert lowbit.quantize(graph, best.record, rules=best.rules) == graph


@pytest.mark.parametrize("at", [2, 3, 4])
def test_an_interrupt_returns_the_best_so_far(at: int) -> None:
    graph, calls = network(), [0]
    agrees = agreement(graph)

    def metric(session: lowbit.Session) -> float:
        calls[0] += 1
        if calls[0] == at:
            raise KeyboardInterrupt
        return agrees(session)

    best = lowbit.search(graph, data(), metric=metric, max_drop=1.0, cost="bytes")
    assert best.stopped == "interrupted" and len(best.trials) == at - 1
    assert best.is_float == (at == 2)
    assert best.chosen.bytes == min(p.bytes for p in best.trials)
    assert lowbit.compile(best.graph).run(data()[0])["y"].shape == (8, 10)
    assert "ended before it was through: interrupted" in str(best)


def test_an_interrupt_of_calibration_returns_the_float_network_and_one_before_any_score_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lowbit.search(network(), data(), metric=interrupted)
    monkeypatch.setattr(candidates, "calibrate", interrupted)
    best = lowbit.search(network(), data())
    assert best.is_float and best.stopped == "interrupted" and len(best.trials) == 1


def test_an_interrupt_of_the_last_timing_returns_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fastest", interrupted)
    best = lowbit.search(network(), data(), least_db=20, trials=6)
    assert best.stopped == "interrupted" and len(best.trials) == 7
    assert best.chosen.ms == min(p.ms for p in best.trials if p.accepted)


def test_limits_end_it_between_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])

    def minute(_: lowbit.Session) -> float:
        now[0] += 60
        return 1.0

    best = lowbit.search(network(), data(), metric=minute, minutes=2.5, cost="bytes")
    assert best.stopped == "minutes=2.5 were over" and len(best.trials) == 3 and not best.is_float
    best = lowbit.search(network(), data(), trials=2, cost="bytes", least_db=0)
    assert best.stopped == "trials=2 were made" and len(best.trials) == 3 and not best.is_float


def test_a_network_without_a_score_is_told_and_the_others_stay() -> None:
    graph, calls = network(), [0]
    agrees = agreement(graph)

    def metric(session: lowbit.Session) -> float:
        calls[0] += 1
        if calls[0] == 3:
            raise ValueError("no such thing")
        return math.nan if calls[0] == 4 else agrees(session)

    with pytest.warns(LowbitWarning, match="has no score: metric (raised ValueError: no such thing|gave nan)"):
        best = lowbit.search(graph, data(), metric=metric, max_drop=0.5, cost="bytes", trials=6)
    failed = [p for p in best.trials if p.failed]
    assert [p.failed for p in failed] == ["metric raised ValueError: no such thing", "metric gave nan, a finite number is needed"]
    assert "4 networks scored by the metric, 2 without a score; ended before" in best.summary
    assert "int4" in {a.width for a in best.layers}  # though four bits everywhere, the second network, had no score
    assert not best.is_float and not set(map(id, failed)) & set(map(id, best.pareto))


def test_a_network_with_nothing_to_quantize_is_returned_as_it_is() -> None:
    b = Builder("none")
    x = b.input("x", TensorType((4,), "float32"))
    graph = b.finish({"y": b.add("cumsum", x, name="c", axis=0, exclusive=False, reverse=False)})
    assert find_units(graph) == ()
    with pytest.warns(LowbitWarning, match="no layer has an integer form: the float network is returned"):
        best = lowbit.search(graph, [f32(np.ones(4))] * 4)
    assert best.graph is graph and best.summary.startswith("the float network itself: no layer has an integer form")


# -- arguments -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"metric": 3}, r"metric=3 cannot be called.\n  Try: metric=lambda session: accuracy\(session\), higher is better"),
        ({"metric": lambda s: math.nan}, r"metric gave nan, a finite number is needed.\n  Try: a metric that is defined for every output"),
        ({"metric": lambda s: "good"}, r"metric gave str, a number is needed.\n  Try: metric\(session\) gives a number, higher is better"),
        ({"metric": lambda s: 1 / 0}, r"metric raised ZeroDivisionError: division by zero.\n  Try: metric\(session\) gives a number"),
        ({"metric": len, "max_drop": -0.1}, r"max_drop=-0.1, 0 or more is needed.\n  Try: max_drop=0.005"),
        ({"metric": len, "max_drop": "1%"}, r"max_drop='1%', 0 or more is needed"),
        ({"metric": len, "least_db": 30}, r"least_db= is for the outputs' dB, and a metric is given.\n  Try: max_drop=0.005"),
        ({"max_drop": 0.01}, r"max_drop= is for a metric, and there is none.\n  Try: metric=fn, or least_db=30"),
        ({"least_db": math.inf}, r"least_db=inf, a number is needed"),
        ({"cost": "money"}, r"""cost='money' is none.\n  Try: cost="time" or cost="bytes\""""),
        ({"minutes": 0}, r"minutes=0, a positive number is needed"),
        ({"trials": 0}, r"trials=0, a whole number from 1 to"),
        ({"widths": "int8"}, r"widths='int8' are none.\n  Try: some of int4, int8, int16, float"),
        ({"widths": ["int3"]}, r"widths=\['int3'\] are none"),
        ({"widths": iter(["int8"])}, r"widths=.* are none"),
        ({"widths": 3}, r"widths=3 are none.\n  Try: some of int4, int8, int16, float"),
        ({"on_trial": 1}, r"on_trial=1 cannot be called"),
        ({"executor": 1}, r"executor=1 cannot take work"),
    ],
)
def test_wrong_arguments_are_said_before_any_work(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        lowbit.search(network(), data(), **arguments)


def test_a_method_that_is_none_is_said_before_the_float_network_is_scored() -> None:
    with pytest.raises(CalibrationError, match=r"there is no calibration method 'guess'.\n  Try: one of minmax"):
        lowbit.search(network(), data(), metric=lambda _: pytest.fail("scored"), method="guess")


@pytest.mark.parametrize("where", ["data", "test"])
def test_samples_that_are_not_finite_are_refused_with_a_way_that_a_search_has(where: str) -> None:
    bad = data(3, 2)
    bad[1]["x"][4, 7] = math.nan
    given = {"data": data(), where: bad}
    with pytest.raises(CalibrationError, match=rf"{where}: batch 1: input 'x': 1 NaN of 256 values.*row 4\.\n  Try: clean the data$"):
        lowbit.search(network(), **given)


def test_outputs_that_are_not_finite_have_no_noise_and_are_refused() -> None:
    b = Builder("log")
    x = b.input("x", TensorType((8, 32), "float32"))
    graph = b.finish({"y": b.add("log", b.add("linear", x, b.constant(f32(np.eye(32))), name="fc"), name="log")})
    positive = [{"x": np.abs(s["x"]) + 1} for s in data()]
    with pytest.raises(CalibrationError, match=r"log 'log': output 'y' holds NaN, which begin here"):
        lowbit.search(graph, positive, test=data(3, 1))


def test_networks_and_data_that_cannot_be_searched_are_refused(found: SearchResult) -> None:
    with pytest.raises(CalibrationError, match="there is no data to calibrate with"):
        lowbit.search(network(), [])
    with pytest.raises(QuantError, match="the network is quantized already"):
        lowbit.search(found.graph, data())
    with pytest.raises(
        QuantError, match=r"recipe mixed has no rules beforehand: they are found for one network and its data\.\n  Try: lowbit\.search"
    ):
        lowbit.quantize(network(), data(), recipe="mixed")


# -- the parts -------------------------------------------------------------------------------------------------------------


def decisions(graph: Graph, units: Sequence[Unit], choice: dict[str, str]) -> Callable[[Node], QuantNode]:
    """What is decided for each node by a choice of widths."""
    maker = CandidateMaker(graph, Joined(split(data()).fit, 1), recipe("int8")[0], None)
    taps = QuantizationTransform(maker.rules).taps(graph)
    return maker.transform(Candidate(graph, "minmax", widths=widths_of(graph, taps, units, choice))).matcher.decide


def test_every_choice_is_made_by_its_rules_also_where_layers_share_a_name() -> None:
    graph = network()
    units = find_units(graph)
    rng = np.random.default_rng(0)
    for _ in range(20):
        choice = {u.name: str(rng.choice(["int4", "int8", "int16", "float"])) for u in units}
        decide = decisions(graph, units, choice)
        matcher = RuleMatcher(rules_of(graph, {u.name: u.nodes for u in units}, decide, dict.fromkeys(choice, "why")))
        for unit in units:
            if unit.multiplies:
                assert width_of(graph, unit, decide) == choice[unit.name]
            for node in unit.nodes:
                wanted, decided, width = decide(node), matcher.decide(node), choice[unit.name]
                assert decided.because == "why" and (decided.mode == "float") == (width == "float") and not decided.free
                assert (decided.mode, decided.activation, decided.result) == (wanted.mode, wanted.activation, wanted.result)
                if width == "float":
                    continue
                assert decided.weight == wanted.weight and decided.activation is not None and decided.weight is not None
                if multiplies(node):
                    read = {"int4": ("int8", "int4"), "int8": ("int8", "int8"), "int16": ("int16", "int8")}[width]
                    assert (decided.activation.name, decided.weight.name) == read


def test_a_value_is_kept_as_wide_as_its_widest_integer_reader_wants() -> None:
    graph = network()
    units = find_units(graph)
    decide = decisions(graph, units, {u.name: "int8" for u in units} | {"sum": "int16"})
    kept = {n.output.name: d.result.name for n in graph.nodes if (d := decide(n)).result is not None}
    assert kept == {
        "first": "int8",
        "a1": "int16",
        "second": "int8",
        "a2": "int8",
        "third": "int16",
        "s": "int8",
        "head": "int8",
    }


def test_layers_that_share_a_name_have_times_of_their_own() -> None:
    rng = np.random.default_rng(0)
    b = Builder("twice")
    v = b.input("x", TensorType((8, 32), "float32"))
    for i, (name, out) in enumerate((("fc", 64), ("fc", 32), ("head", 32), ("fc", 96))):
        v = b.add("linear", v, b.constant(f32(rng.standard_normal((out, v.shape[1])))), name=name, out=f"v{i}")
    graph = b.finish({"y": v})
    watch = cost.Stopwatch(graph, data(1, 1)[0])
    for made in (None, Quantized(lowbit.quantize(graph, data(), guard=False), graph)):
        found = watch.layers(made)
        assert {"v0", "v1", "v2", "v3"} <= set(found) and all(ms > 0 for ms in found.values())


def test_moves_go_by_price_and_never_up_in_cost() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        options = {
            f"u{i}": {"float": Option(10.0, 0.0)}
            | {w: Option(float(rng.integers(1, 12)), float(rng.random())) for w in ("int16", "int8", "int4")}
            for i in range(6)
        }
        path = moves(options)
        assert [m.price for m in path] == sorted(m.price for m in path)
        now = {u: o["float"] for u, o in options.items()}
        for m in path:
            assert options[m.unit][m.width].cost < now[m.unit].cost
            now[m.unit] = options[m.unit][m.width]
        assert all(now[u].cost == min(o.cost for o in options[u].values()) for u in options)
    assert moves({"u": {"float": Option(1, 0), "int8": Option(2, 0)}}) == []
    assert moves({"u": {"float": Option(2, 0), "int8": Option(1, 3)}}) == [Move("u", "int8", 3.0)]


def test_the_fastest_is_the_best_of_those_that_are_as_fast_as_it_is_itself() -> None:
    times = {0: [2.0, 2.1, 2.0], 4: [1.0, 1.2, 1.1], 7: [1.15, 1.15, 1.3], 9: [1.21, 1.3, 1.4]}
    assert fastest(times, {0: 0.99, 4: 0.8, 7: 0.9, 9: 0.95}) == 7
    assert fastest(times, {0: 0.99, 4: 0.9, 7: 0.8, 9: 0.95}) == 4
    assert fastest({0: [1.0]}, {0: 0.5}) == 0


def test_of_equal_points_the_first_is_on_the_front() -> None:
    points = [Point(str(i), 1.0, 5, 1.0, 5, True, ()) for i in range(3)] + [Point("bad", math.nan, 0, 0.0, 0, False, (), "why")]
    assert front(points, "bytes") == (points[0],) and front(points, "time")[0] is points[0]


def test_recipe_mixed_is_no_list_of_rules() -> None:
    with pytest.raises(QuantError, match=r"lowbit search MODEL --data … --rules-out mixed.toml"):
        recipe("mixed")
