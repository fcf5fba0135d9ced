"""What is hardly meant is said in words: data of zeros, one sample, rules without layers, networks without outputs or without integers."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.errors import CalibrationError, GraphError, LowbitWarning, QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule
from lowbit.report.coverage import coverage
from lowbit.report.verify import verify_backends
from lowbit.types import Array, TensorType

ZEROS = "every batch is zero in all of its inputs"


def network(outputs: bool = True) -> Graph:
    b = Builder("net")
    x = b.input("x", TensorType((2, 8), "float32"))
    state = b.input("state", TensorType((2, 4), "float32"))
    w = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    y = b.add("add", b.add("linear", x, b.constant(w, name="w"), name="fc", out="h"), state, name="sum", out="y")
    return b.finish({"y": y} if outputs else {})


def samples(count: int = 4, value: float | None = None) -> list[dict[str, Array]]:
    made = (np.random.default_rng(i).standard_normal((2, 8)).astype(np.float32) for i in range(count))
    return [{"x": x if value is None else np.full_like(x, value), "state": np.zeros((2, 4), np.float32)} for x in made]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    network().save(tmp_path / "net.lowbit")
    for name, data in (("zeros", samples(value=0.0)), ("fine", samples()), ("nan", samples(value=float("nan")))):
        np.savez(tmp_path / f"{name}.npz", **{k: np.concatenate([s[k] for s in data]) for k in ("x", "state")})
    return tmp_path


def said(here: Path, capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(line.format(here).split()) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("guard", [True, False])
def test_data_of_zeros_is_warned_of(guard: bool) -> None:
    with pytest.warns(LowbitWarning, match=ZEROS):
        lowbit.quantize(network(), samples(value=0.0), guard=guard)
    with pytest.warns(LowbitWarning, match=ZEROS):
        lowbit.calibrate(network(), iter(samples(value=0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one input may well be zero: a state at the beginning
        lowbit.quantize(network(), samples(), guard=guard)
        lowbit.quantize(network(), [*samples(3, value=0.0), *samples(1)], guard=guard)


def test_the_command_line_says_so_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (
        "quantize {0}/net.lowbit --data {0}/zeros.npz -o {0}/q.lowbit",
        "calibrate {0}/net.lowbit --data {0}/zeros.npz -o {0}/r.json",
    ):
        assert said(here, capsys, verb)[1].startswith(f"warning: {ZEROS}")


def test_one_sample_is_not_said_to_be_held_back() -> None:
    with pytest.warns(LowbitWarning, match="there is one batch, to calibrate and to measure with"):
        q = lowbit.quantize(network(), samples(1))
    assert "measured on the one batch there is, which the ranges were taken from, too" in q.notes["decided"]
    assert "there are too few to keep others" in lowbit.quantize(network(), samples(2)).notes["decided"]
    assert ", over 1 batch\n" in str(lowbit.compare(network(), q, samples(1)))


def test_rules_that_match_nothing_are_warned_of_by_every_verb(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = r"rule 0: CalibratedQuantRule 'nope' matches no layer"
    rules = [CalibratedQuantRule("nope"), FloatRule("fc")]
    nothing = 'nothing is quantized: your rules give no layer integers; with recipe="int8" (--recipe int8) they match before its rules'
    for call, warned in ((lowbit.calibrate, [text]), (lowbit.quantize, [text, nothing])):
        with pytest.warns(LowbitWarning) as told:
            call(network(), samples(), rules=rules)
        assert [str(w.message) for w in told] == warned  # once
    (here / "r.toml").write_text('[[rule]]\nkind = "calibrated"\npattern = "nope"\n')
    verbs = {"quantize {0}/net.lowbit --rules {0}/r.toml -o {0}/q.lowbit": [text, nothing]}
    verbs["calibrate {0}/net.lowbit --rules {0}/r.toml -o {0}/r.json"] = [text]
    for verb, warned in verbs.items():
        out, err = said(here, capsys, f"{verb} --data {{0}}/fine.npz")
        assert err == "".join(f"warning: {w}\n" for w in warned)
        assert ("note: guard: off (no recipe comes after your rules)\n" in out) == verb.startswith("quantize")


def test_a_rule_for_an_op_that_is_none_says_so() -> None:
    for op, told in (("linaer", "there is no op 'linaer' (linear"), ("nosuchop", "there is no op 'nosuchop' (docs/ops.md lists them)")):
        with pytest.warns(LowbitWarning) as said:
            lowbit.quantize(network(), samples(), rules=[FloatRule(".*", ops=(op,)), CalibratedQuantRule(".*")])
        assert f"rule 0: FloatRule '.*' matches no layer: {told}" in str(said[0].message)


def test_16_bits_that_are_asked_for_and_ruled_out_together_are_refused_or_warned_of(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for recipe in ("int16", "int16-w16"):
        with pytest.raises(QuantError, match=rf"recipe {recipe} gives layers 16 bits, and wide=False \(--no-wide\) is to give none"):
            lowbit.quantize(network(), samples(), recipe=recipe, wide=False)
    assert main(f"quantize {here}/net.lowbit --data {here}/fine.npz --recipe int16 --no-wide -o {here}/q.lowbit".split()) == 1
    assert "Try: --recipe int8, or without --no-wide" in capsys.readouterr().err
    text = "rule 0: CalibratedQuantRule 'fc' gives int16: wide=False (--no-wide) binds the recipe, not your rules"
    with pytest.warns(LowbitWarning) as said:
        lowbit.quantize(network(), samples(), rules=[CalibratedQuantRule("fc", "int16")], recipe="int8", wide=False)
    assert [str(w.message) for w in said if "goal" not in str(w.message)] == [text]


def test_a_network_without_outputs_is_refused_before_any_work(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = network(outputs=False)
    calls = (
        lambda: lowbit.quantize(empty, samples()),
        lambda: lowbit.quantize(empty, samples(), guard=False),
        lambda: lowbit.calibrate(empty, samples()),
        lambda: lowbit.compare(network(outputs=False), empty, samples()),
        lambda: verify_backends(empty, samples()),
    )
    for call in calls:
        with pytest.raises(GraphError, match="net: the network has no outputs"):
            call()
    empty.save(here / "empty.lowbit")
    for verb in ("quantize {0}/empty.lowbit --data {0}/fine.npz -o {0}/q.lowbit", "verify {0}/empty.lowbit"):
        assert "GraphError: net: the network has no outputs" in said(here, capsys, verb, 1)[1]
    assert not (here / "q.lowbit").exists()


def test_verifying_a_float_network_says_that_floats_are_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = verify_backends(network(), samples(1))
    assert str(found).startswith(
        "net: 1 batch, reference: interpreter\n  nothing in it is quantized: floats are compared, whose last bits are each backend's own\n"
    )
    assert "fake quantization" not in str(found) and (found.ok, found.to_dict()["reference"]) == (True, "interpreter")
    assert "nothing in it is quantized" in said(here, capsys, "verify {0}/net.lowbit")[0]
    assert "nothing in it" not in str(verify_backends(lowbit.quantize(network(), samples(), guard=False), samples(1)))


def test_remarks_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    q = lowbit.quantize(network(), samples(), guard=False)
    steps = {f"decided {i}": f"step {i}" for i in (1, 10, 11, 2, 9)}
    q = replace(q, notes={**q.notes, **steps, "decided": "the end", "rule 3": "nothing"})
    q.save(tmp_path / "q.lowbit")
    for graph in (q, lowbit.load(tmp_path / "q.lowbit")):
        assert [r.split(":")[0] for r in coverage(network(), graph).remarks] == [
            "rule 3", "decided 1", "decided 2", "decided 9", "decided 10", "decided 11", "decided", "guard",
        ]  # fmt: skip


def test_compare_tells_the_steps_of_a_decision_as_their_number(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = lowbit.quantize(network(), samples(), guard=False)
    steps = {"decided 1": "a: 1.0 → 2.0 dB, kept", "decided 2": "b: 2.0 → 1.0 dB, not kept"}
    replace(q, notes={**q.notes, **steps, "decided": "outputs 1.0 → 2.0 dB", "rule 3": "nothing"}).save(here / "q.lowbit")
    out = said(here, capsys, "compare {0}/net.lowbit {0}/q.lowbit --data {0}/fine.npz -o {0}/r.html")[0]
    assert [line for line in out.splitlines() if line.startswith("note: ")] == [
        "note: rule 3: nothing",
        "note: decided: outputs 1.0 → 2.0 dB (2 steps, 1 kept: -o report.html has them)",
        "note: guard: off (guard=False): what the layers lose was not measured; lowbit compare tells",
    ]
    assert "b: 2.0 → 1.0 dB, not kept" in (here / "r.html").read_text()


def test_compare_shows_the_widths_that_each_layer_reads_and_gives(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = [CalibratedQuantRule("fc", "int16", "int8"), CalibratedQuantRule(".*", "int8")]
    q = lowbit.quantize(network(), samples(), rules=rules)
    assert "fc  linear → q_linear (int16 × int8 → int16, weights int8 per axis 0)" in str(lowbit.compare(network(), q, samples()))
    q.save(here / "q.lowbit")
    shown = said(here, capsys, "compare {0}/net.lowbit {0}/q.lowbit --data {0}/fine.npz")[0]
    assert "int16 × int8 → int16" in " ".join(shown.split())


def test_what_the_command_line_advises_against_nan_it_can_do(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("quantize {0}/net.lowbit -o {0}/q.lowbit", "calibrate {0}/net.lowbit -o {0}/r.json"):
        error = said(here, capsys, f"{verb} --data {{0}}/nan.npz", 1)[1]
        assert "batch 0: input 'x'" in error and "Try: clean the data, or lowbit calibrate --ignore-nonfinite to leave them out" in error
        assert "ignore_nonfinite" not in error
    line = "calibrate {0}/net.lowbit --data {0}/nan.npz {0}/fine.npz --ignore-nonfinite -o {0}/r.json --json"
    assert json.loads(said(here, capsys, line)[0])["taps"] > 0


@pytest.mark.parametrize("bad", [[5], [15], [9, 7]])
@pytest.mark.parametrize("value", [float("nan"), 3e38])
def test_calibrate_and_quantize_call_a_bad_sample_by_the_same_number(bad: list[int], value: float) -> None:
    """Also one that is held back, and one behind others that are; NaN in an input, and numbers that a layer makes infinite."""
    data = samples(16)
    for i in bad if np.isnan(value) else bad[:1]:  # what becomes infinite inside is met in the order of the work
        data[i]["x"][:] = value
    errors = []
    for guarded in (None, False, True):
        with pytest.raises(CalibrationError) as e, np.errstate(over="ignore", invalid="ignore"):
            lowbit.calibrate(network(), data) if guarded is None else lowbit.quantize(network(), data, guard=guarded)
        errors.append(str(e.value).split(": ")[:2])
    assert errors[0] == errors[1] == errors[2] and errors[0][0] == f"batch {min(bad) if np.isnan(value) else bad[0]}"


def test_numbers_that_are_left_out_of_calibration_are_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.concatenate([s["x"] for s in samples()])
    x[3, :5] = np.nan
    np.savez(here / "some.npz", x=x, state=np.zeros((8, 4), np.float32))
    line = "calibrate {0}/net.lowbit --ignore-nonfinite -o {0}/r.json --data {0}/"
    out, _ = said(here, capsys, line + "some.npz")
    assert out.startswith("left out: 5 in x, 4 in h (NaN and infinities)\n")
    assert said(here, capsys, line + "fine.npz")[0].startswith("left out: nothing (NaN and infinities)\n")
    assert json.loads(said(here, capsys, line + "some.npz --json")[0])["ignored"] == {"x": 5, "h": 4}
