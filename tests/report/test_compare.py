"""The report: its numbers are re-derived from plain runs, its page holds no foreign code, and verify finds every wrong bit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.decide.smooth import seams, smoothed
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, FormatError, InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import SCALED, Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.metrics import cosine, max_error, sqnr_db
from lowbit.pipeline import quantize
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule, QuantRule, WeightOnlyRule
from lowbit.report import verify as verify_module
from lowbit.report.compare import Report, compare
from lowbit.report.coverage import coverage, summary
from lowbit.report.tally import Tally
from lowbit.report.verify import Backend, BackendResult, Difference, Outputs, Verification, add_backend, verify_backends
from lowbit.types import Array, TensorType

HOSTILE = '<script>alert("x")</script>'


def network() -> Graph:
    """x (batch, 2, 6, 6) → conv, relu → conv (hostile name) → add of both → mean → linear; and the index of the largest."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(np.float32)

    b = Builder(HOSTILE)
    x = b.input("x", TensorType((symbol("batch"), 2, 6, 6), "float32"))
    geometry = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    first = b.add(
        "relu", b.add("conv", x, b.constant(weights(8, 2, 3, 3), "w1"), b.constant(weights(8)), name="first", **geometry), name="act"
    )
    second = b.add("conv", first, b.constant(weights(8, 8, 3, 3)), name=HOSTILE, **geometry)
    mean = b.add("reduce_mean", b.add("add", first, second, name="sum"), name="mean", axes=(2, 3), keepdims=False)
    y = b.add("linear", mean, b.constant(weights(5, 8)), name="head")
    return b.finish({"y": y, "index": b.add("argmax", y, name="index", axis=-1, keepdims=False)})


def data(n: int = 3) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((2, 2, 6, 6)).astype(np.float32) for _ in range(n)]


RULES: list[QuantRule] = [
    FloatRule("^sum", because="sums are delicate"),
    WeightOnlyRule("^head", "int8", granularity="channel"),
    CalibratedQuantRule(".*", because="the rest"),
]


@pytest.fixture(scope="module")
def both() -> tuple[Graph, Graph, Report]:
    g = network()
    q = lowbit.quantize(g, data(), rules=RULES)
    return g, q, compare(g, q, data())


def test_outputs_are_measured_over_all_data_as_the_metrics_say(both: tuple[Graph, Graph, Report]) -> None:
    g, q, report = both
    integer = lower(q).graph
    ours, theirs = ([run(graph, {"x": x}) for x in data()] for graph in (g, integer))
    a, b = (np.concatenate([r["y"] for r in rows]) for rows in (ours, theirs))
    y, index = report.outputs
    assert y.sqnr_db == pytest.approx(sqnr_db(a, b), rel=1e-12)
    assert y.max_error == max_error(a, b)
    assert y.cosine == pytest.approx(cosine(a, b), rel=1e-12)
    assert y.same_argmax == (a.argmax(-1) == b.argmax(-1)).mean()
    assert index.sqnr_db is None
    assert index.equal == np.mean([np.mean(r["index"] == s["index"]) for r, s in zip(ours, theirs, strict=True)])
    assert report.batches == 3


def test_the_report_tells_both_times_and_what_makes_the_quantized_network_slower(both: tuple[Graph, Graph, Report]) -> None:
    g, _, report = both
    assert report.float_ms > 0 and report.quantized_ms > 0 and report.backend == "native and interpreter"  # argmax
    even = replace(report, backend="native", float_ms=0.25, quantized_ms=0.26)
    assert even.times == "the first takes 0.25 ms in float, 0.26 ms quantized (native)" and even.times in str(even)
    slow = replace(report, backend="native", float_ms=0.25, quantized_ms=0.36)
    assert slow.times == "the first takes 0.25 ms in float, 0.36 ms quantized (native), slower: lowbit bench --layers tells where"
    wide = compare(g, quantize(g, data(), recipe="int16"), data(1))
    told = replace(wide, backend="native", float_ms=0.25, quantized_ms=0.36)
    assert told.times.endswith(", slower: layers have 16 bits, which wide=False (--no-wide) does without")
    assert escape(told.times) in told._repr_html_()


def test_each_layer_is_measured_alone_and_along_the_way(both: tuple[Graph, Graph, Report]) -> None:
    g, q, report = both
    integer = lower(q).graph
    rows = {r.layer: r for r in report.layers}
    act, second = g.node("act").output.name, g.node(HOSTILE).output.name
    quantizes = q.producers[f"{act}:int8"]
    signals: dict[str, list[tuple[Array, Array]]] = {"accumulated": [], "local": []}
    for x in data():
        real = run(g, {"x": x}, keep=[act, second])
        ints = run(integer, {"x": x}, keep=[f"{act}:int8", second])
        scale, zero = (q.constant(v) for v in quantizes.inputs[1:])
        assert scale is not None and zero is not None
        fed = (scale * (ints[f"{act}:int8"].astype(np.int32) - zero.astype(np.int32))).astype(np.float32)
        got = ints[second]  # the sum behind it is float: so is what the convolution gives
        node = g.node(HOSTILE)
        alone = node.definition.run([fed, g.constant(node.inputs[1])], node.attrs)[0]
        signals["accumulated"].append((real[second], got))
        signals["local"].append((alone, got))
    for kind, measured in (("accumulated", rows[HOSTILE].accumulated_db), ("local", rows[HOSTILE].local_db)):
        a, b = (np.concatenate(side) for side in zip(*signals[kind], strict=True))
        assert measured == pytest.approx(sqnr_db(a, b), rel=1e-9), kind


def test_each_layer_says_what_it_became_and_why(both: tuple[Graph, Graph, Report]) -> None:
    _, _, report = both
    rows = {r.layer: r for r in report.layers}
    assert (rows["first"].kind, rows["first"].became, rows["first"].weights) == ("integer", "q_conv", "int8 per axis 0")
    assert rows["first"].types == "int8 × int8 → int8"
    assert rows["first"].because == "the rest"
    assert (rows["act"].kind, rows["act"].because, rows["act"].local_db) == ("inside", "part of first", None)
    assert (rows["sum"].kind, rows["sum"].because) == ("float", "sums are delicate")
    assert (rows["head"].kind, rows["head"].weights) == ("weights", "int8 per axis 0")
    assert rows["head"].because == "WeightOnlyRule('^head'); weights only: stored as int8, multiplied as floats"
    assert (rows["index"].kind, rows["index"].types) == ("integer", "int8 → int64")
    assert report.coverage == "5 of 7 layers integer, 1 with integer weights; float: sum (sums are delicate)"


def test_the_proof_of_range_is_the_worst_case_of_the_real_weights(both: tuple[Graph, Graph, Report]) -> None:
    _, q, report = both
    node = next(n for n in lower(q).graph.nodes if n.op == "q_conv" and n.name == "first")
    weights, bias = (lower(q).graph.constant(node.input(i)) for i in (1, 3))
    zero = node.attrs["x_zero"]
    assert weights is not None and bias is not None and isinstance(zero, int)
    worst = max(
        abs(int(b)) + sum(abs(int(w)) for w in row.ravel()) * max(127 - zero, zero + 128) for row, b in zip(weights, bias, strict=True)
    )
    row = next(r for r in report.layers if r.layer == "first")
    stated = int(re.search(r"accumulator ≤ ([\d,]+) < 2³¹: int32 exact for any input", row.proof)[1].replace(",", ""))  # type: ignore[index]
    assert stated == worst == row.bound
    most = max(((r.bound, r.layer) for r in report.layers if r.bound is not None), key=lambda b: b[0])
    assert report.proof == (
        f"accumulators: 2 of 32 bits; proved from the weights that none overflows, whatever comes in (at most {most[0]:,}, in {most[1]})"
    )
    assert report.proof in str(report) and report.to_dict()["proof"] == report.proof and escape(report.proof) in report._repr_html_()


def test_sizes_and_macs_add_up(both: tuple[Graph, Graph, Report]) -> None:
    g, q, report = both
    assert (report.bytes_before, report.bytes_after) == (g.parameter_bytes, q.parameter_bytes)
    assert sum(r.bytes_before for r in report.layers) == g.parameter_bytes
    assert sum(r.bytes_after for r in report.layers) <= q.parameter_bytes
    conv1, conv2, head = 2 * 36 * 8 * 18, 2 * 36 * 8 * 72, 2 * 40
    assert report.macs == conv1 + conv2 + head
    assert report.integer_macs == (conv1 + conv2) / (conv1 + conv2 + head)


def test_a_graph_against_itself_is_equal_everywhere() -> None:
    g = network()
    report = compare(g, g, data(1))
    assert all(o.equal == 1.0 for o in report.outputs)
    assert report.outputs[0].sqnr_db == math.inf
    assert report.coverage.startswith("0 of 7 layers integer; float: ")
    assert report.integer_macs == 0.0


def test_a_report_is_json_and_a_page_without_foreign_code(both: tuple[Graph, Graph, Report], tmp_path: Path) -> None:
    _, _, report = both
    report.save(tmp_path / "r.json")
    report.save(tmp_path / "r.html")
    told = json.loads((tmp_path / "r.json").read_text(), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))
    assert told["coverage"] == report.coverage
    assert [row["layer"] for row in told["layers"]] == [r.layer for r in report.layers]
    page = (tmp_path / "r.html").read_text()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "link", "iframe", "img", "object")
            assert not any(k.startswith("on") or k in ("src", "href") for k, _ in attrs)
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            closed.append(tag)

    opened: list[str] = []
    closed: list[str] = []
    Tags().feed(page)
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert "http" not in page
    assert sorted(closed) == sorted(t for t in opened if t != "meta")
    assert page.count("<tr") == 1 + len(report.layers)
    assert report._repr_html_() in page
    assert str(report).startswith(HOSTILE + ": 5 of 7 layers integer")


def test_a_report_is_written_whole_or_not_at_all(both: tuple[Graph, Graph, Report], tmp_path: Path) -> None:
    report = both[2]
    with pytest.raises(FormatError, match=r"reports are not written as '\.txt'"):
        report.save(tmp_path / "r.txt")
    with pytest.raises(FormatError, match="cannot be written"):
        report.save(tmp_path / "none" / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_graphs_and_data_that_do_not_fit_are_refused() -> None:
    g = network()
    b = Builder()
    other = b.finish({"y": b.add("relu", b.input("z", TensorType((1,), "float32")))})
    with pytest.raises(InputError, match="the graphs have different inputs"):
        compare(g, other, data())
    with pytest.raises(CalibrationError, match="there is no data to compare with"):
        compare(g, g, [])
    with pytest.raises(InputError, match=r"batch 1: input 'x': float64 given"):
        compare(g, g, [*data(1), np.zeros((2, 2, 6, 6))])


def test_data_streams_and_values_of_one_sample_live_at_a_time() -> None:
    import tracemalloc

    b = Builder()
    x = y = b.input("x", TensorType((1 << 16,), "float32"))
    for i in range(16):
        y = b.add("mul", y, b.constant(np.float32([1.01])), name=f"m{i}")
    g = b.finish({"y": y})
    ones = [np.ones(1 << 16, np.float32)]
    q = lowbit.quantize(g, ones)
    peaks = []
    for n in (1, 12):
        tracemalloc.start()
        compare(g, q, (np.full(1 << 16, 0.1 * i, np.float32) for i in range(n)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.1
    assert x.type.nbytes * 16 > peaks[0] / 4  # of the order of one sample's values, in 8 bits


def test_the_tally_is_that_of_all_data_at_once_and_leaves_masks_out() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 7, 5)).astype(np.float32)
    t = Tally()
    for i in range(7):
        t.add(a[i], b[i])
    assert t.sqnr_db == pytest.approx(sqnr_db(a, b), rel=1e-12)
    assert t.cosine == pytest.approx(cosine(a, b), rel=1e-12)
    masked = Tally()
    masked.add(np.array([1.0, -np.inf]), np.array([1.0, -np.inf]))
    assert (masked.sqnr_db, masked.elements) == (math.inf, 1)
    masked.add(np.array([1.0]), np.array([np.nan]))
    assert masked.sqnr_db == -math.inf


def test_coverage_needs_no_data(both: tuple[Graph, Graph, Report]) -> None:
    g, q, report = both
    found = coverage(g, q)
    assert str(found) == report.coverage
    assert [s.macs for s in found.layers if s.layer == "first"] == [5184 * symbol("batch")]


def test_remarks_of_the_rules_are_in_the_report() -> None:
    g = network()
    with pytest.warns(lowbit.LowbitWarning):
        q = lowbit.quantize(g, data(), rules=[FloatRule("^nothing"), CalibratedQuantRule(".*")])
    report = compare(g, q, data(1))
    first, second = report.remarks
    assert first == "rule 0: FloatRule '^nothing' matches no layer" and second.startswith("guard: off (no recipe comes after your rules")
    assert "matches no layer" in report._repr_html_()


def test_channels_that_were_scaled_are_measured_as_the_float_network_has_them() -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    h = b.input("x", TensorType((4, 8), "float32"))
    for name in ("one", "two", "three"):
        h = b.add("relu", b.add("linear", h, b.constant(rng.standard_normal((8, 8)).astype(np.float32)), name=name), name=f"{name}.act")
    g = b.finish({"y": h})
    found = seams(g)
    assert len(found) == 2
    peaks = {s.value: np.geomspace(0.25, 4, 8).astype(np.float32) for s in found}
    scaled = smoothed(smoothed(g, peaks, found[:1], 0.5), peaks, seams(g), 0.9)
    assert sum(name.startswith(SCALED) for name in scaled.notes) == 4
    seen = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(3)]
    report = compare(g, lowbit.quantize(scaled, seen, recipe="int16-w16", guard=False), seen)
    assert all(r.startswith("guard: off") for r in report.remarks)  # what was scaled is no remark
    for r in report.layers:
        assert r.local_db is None or r.local_db > 60, r
        assert r.accumulated_db is None or r.accumulated_db > 60, r


def test_nodes_of_one_layer_are_told_apart_as_the_reasons_have_them() -> None:
    b = Builder("one")
    x = b.input("x", TensorType((2, 4), "float32"))
    for op in ("relu", "sigmoid", "relu", "relu"):
        x = b.add(op, x, name="se")
    g = b.finish({"y": x})
    q = quantize(g, [np.random.default_rng(i).standard_normal((2, 4)).astype(np.float32) for i in range(3)])
    names = ["se", "se (sigmoid)", "se (relu)", "se (relu 2)"]
    assert [s.layer for s in coverage(g, q).layers] == names == list(q.reasons)


def test_the_summary_names_float_layers_by_reason() -> None:
    rows = [(f"n{i}", "float", "no rule matches") for i in range(6)] + [("p", "float", "rule"), ("c", "integer", ""), ("s", "indices", "")]
    assert summary(rows) == "1 of 8 layers integer; float: n0, n1, n2, n3 and 2 more (no rule matches), p (rule)"  # type: ignore[arg-type]
    assert summary([("c", "integer", ""), ("r", "inside", "")]) == "2 of 2 layers integer"


# -- verify ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(verify_module, "BACKENDS", {})
    yield


def interpreter(change: str = "") -> Backend:
    """The interpreter as one more backend; `change` is a value (or output) in which it gets one bit wrong."""

    def prepare(quantized: Graph, integer: Graph, shown: tuple[str, ...]) -> object:
        def go(arrays: Outputs) -> Outputs:
            got = run(integer, arrays, keep=shown)
            if change:
                wrong = got[change].copy()
                wrong.reshape(-1).view(np.uint8)[0] ^= 1
                got[change] = wrong
            return got

        return go

    return Backend(f"copy{change}", prepare)  # type: ignore[arg-type]


def test_fake_quantization_differs_by_one_at_most_and_that_is_counted(both: tuple[Graph, Graph, Report], backends: None) -> None:
    q = both[1]
    found = verify_backends(q, data())
    (fake,) = found.results
    assert (fake.backend, fake.exact, found.ok) == ("fake quantization", False, True)
    assert {d.value for d in fake.layers} >= {"x:int8"}
    assert all(d.largest <= 1 and d.different == d.off_by_one for d in fake.layers)
    assert sum(d.elements for d in fake.layers if d.value == "x:int8") == 3 * 144
    assert "fake quantization, layers, each fed alike:" in str(found)


def test_only_integers_are_said_to_differ_by_one() -> None:
    floats, integers = verify_module.Difference("y"), verify_module.Difference("q")
    floats.add(np.array([1.0, 2.0], np.float32), np.array([1.0, 3.0], np.float32))
    integers.add(np.array([1, 2], np.int8), np.array([1, 4], np.int8))
    assert verify_module.told([floats]).startswith("1 of 2 numbers differ; the largest difference is 1")
    assert verify_module.told([integers]).startswith("1 of 2 numbers differ, 0 by one; the largest difference is 2")


def test_why_fake_quantization_may_differ_is_said_with_its_bound() -> None:
    ints, floats = np.arange(4, dtype=np.int8), np.ones(4, np.float32)

    def said(op: str, off: int, dtype: str = "int8") -> str:
        layer, output = Difference("h:int8", op=op), Difference("y")
        layer.add(ints.astype(dtype), ints.astype(dtype) + np.array([off, 0, 0, 0], dtype))
        output.add(4 * floats, 4 * floats + np.float32(0.5))
        result = BackendResult("fake quantization", False, [output], [layer])
        return str(Verification("net", 1, (result,), ()))

    fine = said("q_conv", 1)
    assert "the largest difference is 0.5, 1.2e-01 of the largest value (y)" in fine
    assert "The bound is one step of 8 bits for each layer fed alike: kept." in fine
    assert "h:int8 (q_conv) by 2: more than one step of 8 bits" in said("q_conv", 2) and "kept" not in said("q_conv", 2)
    assert "kept but for h:int8 (q_lstm) by 2, whose state is rounded at every step" in said("q_lstm", 2)
    assert "(256 of 16 bits): kept." in said("q_conv", 3, "int16") and "by 257: more than" in said("q_conv", 257, "int16")


def test_fake_quantization_that_gives_the_same_bits_needs_no_excuse() -> None:
    same = Difference("y")
    same.add(np.ones(2, np.int8), np.ones(2, np.int8))
    text = str(Verification("net", 1, (BackendResult("fake quantization", False, [same]),), ()))
    assert "floats happen to round every number here as the integers do" in text


def test_a_backend_that_is_right_is_said_to_be_the_same(both: tuple[Graph, Graph, Report], backends: None) -> None:
    add_backend(interpreter())
    found = verify_backends(both[1], data(2), layers=True)
    copy = found.results[0]
    assert found.ok and copy.same
    assert len(copy.layers) > 3 and sum(d.elements for d in copy.outputs) == 2 * (10 + 2)
    assert f"copy, outputs: the same {24} numbers, bit by bit" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["ok"] is True


def test_sessions_are_verified_for_every_instruction_set_of_this_machine() -> None:
    found = verify_backends(quantize(network(), data(), guard=False), data(2), layers=True)
    sessions = [r for r in found.results if r.backend.startswith("native ")]
    assert next(r.backend for r in sessions) == "native ref"
    assert found.ok and all(r.exact and r.same and len(r.layers) > 3 for r in sessions)


@pytest.mark.parametrize("recipe", ["int4-weights", "int8-dynamic"])
def test_floats_that_have_no_order_of_additions_are_no_promise_that_is_broken(recipe: str) -> None:
    found = verify_backends(quantize(network(), recipe=recipe), data(2))
    assert found.ok and not any(r.exact for r in found.results if r.backend.startswith("native "))


def test_float_layers_are_named_and_what_stands_before_them_is_still_held_to_its_bits(
    both: tuple[Graph, Graph, Report], backends: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the float sum and the head in float nothing is promised; the integers before them are."""
    for value, broken in (("x:int8", True), ("y", False)):
        monkeypatch.setattr(verify_module, "BACKENDS", {})
        add_backend(replace(interpreter(value), floats=False))
        found = verify_backends(both[1], data(2), layers=True)
        assert found.ok is not broken and found.results[0].exact is False
        assert found.floats == ("sum", "head")
        why = next(line for line in str(found).splitlines() if line.startswith(f"  why copy{value} may differ: sum, "))
        assert "compute in float, where the order of sums and the last bits are each backend's own" in why
        assert ("compared here: not kept in x:int8)" if broken else "compared here: kept)") in why
    outputs_only = verify_backends(both[1], data(1))
    assert "(nothing that is compared here stands there)" in str(outputs_only)


@pytest.mark.parametrize("where", ["y", "x:int8"])
def test_one_wrong_bit_is_found_and_placed(both: tuple[Graph, Graph, Report], backends: None, where: str) -> None:
    add_backend(interpreter(where))
    found = verify_backends(both[1], data(2), layers=True)
    wrong = [d for d in (*found.results[0].outputs, *found.results[0].layers) if d.different]
    assert not found.ok
    assert [(d.value, d.different) for d in wrong] == [(where, 2)]


def test_backends_that_are_not_there_are_said_and_names_are_unique(both: tuple[Graph, Graph, Report], backends: None) -> None:
    add_backend(Backend("chip", lambda *_: pytest.fail("must not run"), lambda: False))
    found = verify_backends(both[1], data(1))
    assert found.absent == ("chip",)
    assert "chip: not present" in str(found)
    with pytest.raises(InputError, match="there is a backend 'chip' already"):
        add_backend(Backend("chip", lambda *_: lambda x: x))
    with pytest.raises(CalibrationError, match="there is no data to verify with"):
        verify_backends(both[1], [])


@pytest.mark.parametrize(("last", "axis"), [("softmax", 1), ("sigmoid", None), ("argmax", 1)])
def test_decibels_are_told_before_and_after_the_function_that_hides_noise(last: str, axis: int | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    b = Builder("classes")
    x = b.input("x", TensorType((8, 16), "float32"))
    y = b.add("linear", x, b.constant(rng.standard_normal((5, 16)).astype(np.float32)), name="fc")
    more = {} if axis is None else {"axis": axis} | ({"keepdims": False} if last == "argmax" else {})
    plain, graph = b.finish({"y": y}), b.finish({"y": b.add(last, y, name="last", **more)})
    data = list(rng.standard_normal((4, 8, 16)).astype(np.float32))
    report = compare(graph, lowbit.quantize(graph, data, guard=False), data)
    (row,) = report.outputs
    before = compare(plain, lowbit.quantize(plain, data, guard=False), data).outputs[0].sqnr_db
    assert row.before == last and row.before_db is not None and before is not None and abs(row.before_db - before) < 3
    text = f"{row.before_db:.1f} dB before " + (f"the {last}" if last == "argmax" else "it")
    assert f"output y: {row.said_db}, " in str(report) and row.said_db.endswith(text)
    report.save(tmp_path / "r.html")
    assert f"{row.before_db:.1f} dB before " in (tmp_path / "r.html").read_text()
