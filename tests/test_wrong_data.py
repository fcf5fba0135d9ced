"""Data that a network was not meant for give an error or a warning in words, and never a figure without either."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.decide.decision import Decision
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, InputError, LowbitError, LowbitWarning, ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType

SIZE = 6


@cache
def network() -> Graph:
    """A classifier of images with three channels: a convolution, the mean of its pixels, a linear layer."""
    rng = np.random.default_rng(0)
    b = Builder("images")
    x = b.input("x", TensorType((symbol("batch"), 3, SIZE, SIZE), "float32"))
    w = b.constant(rng.standard_normal((8, 3, 3, 3)).astype(np.float32))
    y = b.add("relu", b.add("conv", x, w, name="conv", stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1), name="act")
    y = b.add("reduce_mean", y, axes=(2, 3), keepdims=False, name="pool")
    return b.finish({"y": b.add("linear", y, b.constant(rng.standard_normal((4, 8)).astype(np.float32)), name="fc")})


def images(count: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Pixels from 0 to the scale."""
    return (np.random.default_rng(seed).random((count, 3, SIZE, SIZE)) * scale).astype(np.float32)


@cache
def quantized(scale: float = 1.0) -> Graph:
    return lowbit.quantize(network(), np.split(images(48, scale=scale), 6), guard=False)


def labels(x: Array) -> Array:
    made = lowbit.compile(network())(x)
    assert isinstance(made, np.ndarray)
    return made.argmax(1)


def silent(graph: Graph, data: list[Array], y: Array) -> None:
    """Neither evaluating nor comparing says a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LowbitWarning)
        lowbit.evaluate(graph, data, y)
        lowbit.compare(network(), graph, data, labels=y)


def test_data_like_those_of_the_calibration_are_no_news() -> None:
    x = images(40, seed=1)
    silent(quantized(), np.split(x, 5), labels(x))
    silent(network(), np.split(x * 255, 5), labels(x * 255))  # what a float network was trained on cannot be seen


def test_numbers_outside_the_ranges_of_the_calibration_are_warned_of() -> None:
    x = images(40, seed=1, scale=255.0)
    text = r"input 'x': 100% of the numbers lie outside 0 … 1, which the network was calibrated for \(the data go from .* to 255\)"
    with pytest.warns(LowbitWarning, match=text) as said:
        lowbit.evaluate(quantized(), [x], labels(x))
    assert {w.filename for w in said} == {__file__}  # the place of the call
    with pytest.warns(LowbitWarning, match=text):
        lowbit.compare(network(), quantized(), [x])
    with pytest.warns(LowbitWarning, match=r"input 'x': 100% of the numbers lie outside"):
        lowbit.search(network(), np.split(images(32), 4), test=np.split(x, 5), trials=1, cost="bytes")


def test_numbers_on_a_much_smaller_scale_are_warned_of() -> None:
    x = images(40, seed=1)
    text = r"input 'x': the data go from .* to 1, a small part of 0 … 255, which the network was calibrated for: scaled as they were then"
    with pytest.warns(LowbitWarning, match=text):
        lowbit.evaluate(quantized(255.0), [x], labels(x))
    with pytest.warns(LowbitWarning, match=text):
        lowbit.compare(network(), quantized(255.0), [x])


def test_a_few_numbers_outside_are_no_news() -> None:
    x = images(40, seed=1)
    x[:, :, 0, 0] = 3.0  # one pixel of 36
    silent(quantized(), [x], labels(x))


def test_zeros_alone_are_warned_of() -> None:
    zeros = np.zeros((8, 3, SIZE, SIZE), np.float32)
    text = "every batch is zero in all of its inputs: no figure that is measured on them means anything"
    with pytest.warns(LowbitWarning, match=text):
        lowbit.evaluate(network(), [zeros], np.zeros(8, int))
    with pytest.warns(LowbitWarning, match=text):
        lowbit.compare(network(), quantized(), [zeros])
    with pytest.warns(LowbitWarning, match="every batch is zero in all of its inputs: no range that is learned from them means anything"):
        lowbit.quantize(network(), [zeros] * 6)


def test_zeros_alone_never_meet_a_goal() -> None:
    found: list[Decision] = []
    with pytest.warns(LowbitWarning, match="the goal is not met: every batch is zero, which tells nothing of other data"):
        made = lowbit.quantize(network(), [np.zeros((8, 3, SIZE, SIZE), np.float32)] * 6, on_decision=found.append)
    assert not found[0].met and made.notes["not met"].endswith("tells nothing of other data")


def test_batches_that_are_all_the_same_are_warned_of() -> None:
    text = "all batches are the same, those to calibrate and those to measure with: what other data would lose cannot be seen"
    with pytest.warns(LowbitWarning, match=text):
        made = lowbit.quantize(network(), [images(8)] * 6)
    assert "measured on batches that are all the same" in made.notes["decided"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LowbitWarning)
        lowbit.quantize(network(), np.split(images(48), 6))


def test_large_numbers_overflow_no_square() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lowbit.quantize(network(), np.split(images(48, scale=1e30), 6))


def test_nan_is_refused_before_there_is_a_figure() -> None:
    x = images(16)
    y = labels(x)
    x[11, 1, 2, 3] = np.nan
    for graph in (network(), quantized()):
        with pytest.raises(InputError, match=r"batch 1: input 'x': it holds NaN; the first is in row 3.\n  Try: data without NaN"):
            lowbit.evaluate(graph, np.split(x, 2), y)
    with pytest.raises(CalibrationError, match=r"batch 1: .*NaN"):
        lowbit.compare(network(), quantized(), np.split(x, 2), labels=y)
    with pytest.raises(CalibrationError, match=r"batch 1: input 'x': .*row 3"):
        lowbit.quantize(network(), np.split(x, 2), labels=y)


def test_channels_last_are_told_from_channels_second() -> None:
    x = images(8)
    hint = (
        r"shape \(8, 6, 6, 3\) given, \(batch, 3, 6, 6\) needed with batch=8.\n  Try: x.transpose\(0, 3, 1, 2\), if its channels are last"
    )
    wrong = x.transpose(0, 2, 3, 1)
    with pytest.raises(ShapeError, match=hint):
        lowbit.evaluate(network(), [wrong], labels(x))
    with pytest.raises(ShapeError, match=hint):
        lowbit.compare(network(), quantized(), [wrong])
    with pytest.raises(ShapeError, match=hint):
        lowbit.quantize(network(), [wrong] * 3)
    with pytest.raises(ShapeError, match=hint):
        lowbit.compile(network()).run({"x": wrong})
    assert np.array_equal(wrong.transpose(0, 3, 1, 2), x)


def test_channels_last_of_open_sizes_are_told_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("any")
    b.finish({"y": b.add("relu", b.input("x", TensorType((symbol("n"), 3, symbol("h"), symbol("w")), "float32")))}).save(
        tmp_path / "m.lowbit"
    )
    np.savez(tmp_path / "d.npz", x=images(8).transpose(0, 2, 3, 1), y=np.zeros(8, int))
    assert main(f"eval {tmp_path}/m.lowbit --data {tmp_path}/d.npz --labels y".split()) == 1
    assert f'Try: np.savez("samples.npz", x=np.load("{tmp_path}/d.npz")["x"].transpose(0, 3, 1, 2))' in capsys.readouterr().err


def test_labels_in_another_order_are_warned_of() -> None:
    x = images(60, seed=1)
    rng = np.random.default_rng(0)
    mixed = rng.integers(0, 4, 60)
    text = r"top-1 is \d+\.\d\d% of 60 rows, no better than guessing among 4 classes: are the labels those of these rows"
    with pytest.warns(LowbitWarning, match=text):
        lowbit.evaluate(network(), [x], mixed)
    with pytest.warns(LowbitWarning, match=text):
        lowbit.compare(network(), quantized(), [x], labels=mixed)


def test_one_row_is_said_to_be_few() -> None:
    x = images(1, seed=1)
    assert "; 1 row (few: other data may differ), " in str(lowbit.evaluate(network(), [x], labels(x)))


# -- all of them by name, for the API and the command line -----------------------------------------------------------------------


def raising(_: object) -> float:
    raise KeyError("no such image")


def wrong(name: str) -> tuple[Array, dict[str, object]]:
    """Rows to quantize with, and more arguments."""
    x = images(48)
    if name == "all zeros":
        return np.zeros_like(x), {}
    if name == "one sample":
        return x[:1], {}
    if name == "other scale":  # than in training: the answers are known for pixels of 0 to 1
        return -x * 255, {"labels": labels(x)}
    if name == "NaN":
        x[11, 0, 0, 0] = np.nan
        return x, {}
    if name == "infinity":
        x[11, 0, 0, 0] = np.inf
        return x, {}
    if name == "wrong layout":
        return x.transpose(0, 2, 3, 1), {}
    if name == "no rows":
        return x[:0], {}
    if name == "other labels":
        return x, {"labels": np.random.default_rng(0).integers(0, 4, 48)}
    metrics = {"metric raises": raising, "metric is NaN": lambda _: float("nan"), "metric is no number": lambda _: None}
    limits = {"bytes": {"max_bytes": 1}, "memory": {"max_ram": 1}, "milliseconds": {"max_ms": 1e-6}}
    return x, {"metric": metrics[name]} if name in metrics else limits[name.removeprefix("a budget of ")]


REFUSED = {
    "NaN": "batch 1: input .x.: 1 NaN of 864 values: no range can be learned from them; the first is in row 3",
    "infinity": "batch 1: input .x.: 1 infinite of 864 values: no range can be learned from them; the first is in row 3",
    "wrong layout": "needed",
    "no rows": "no samples|no elements|no data",
    "metric raises": "metric raised KeyError: 'no such image'",
    "metric is NaN": "metric gave nan, a finite number is needed",
    "metric is no number": "metric gave NoneType, a number is needed",
}
WARNED = {
    "all zeros": "every batch is zero in all of its inputs: no range that is learned from them means anything",
    "one sample": "there is one batch, to calibrate and to measure with: what other data would lose cannot be seen",
    "other scale": "no better than guessing among 4 classes: .* the data scaled as in training",
    "other labels": "no better than guessing among 4 classes: are the labels those of these rows",
    "a budget of bytes": r"the goal is not met: .*the parameters have [\d,]+ bytes, max_bytes is 1",
    "a budget of memory": r"the goal is not met: .*a session needs [\d,]+ bytes beside the weights, max_ram is 1",
    "a budget of milliseconds": r"the goal is not met: .*a batch takes \S+ ms, max_ms is 1e-06",
}
UNMET = ("all zeros", *(n for n in WARNED if n.startswith("a budget")))  # no verdict that calls these good


@pytest.mark.parametrize("name", REFUSED)
def test_quantize_refuses(name: str) -> None:
    x, more = wrong(name)
    with warnings.catch_warnings(), pytest.raises(LowbitError, match=REFUSED[name]) as e:
        warnings.simplefilter("ignore", LowbitWarning)
        lowbit.quantize(network(), x, **more)  # type: ignore[arg-type]
    assert "ignore_nonfinite" not in str(e.value) or "lowbit.calibrate(…, ignore_nonfinite=True)" in str(e.value)  # quantize has none


@pytest.mark.parametrize("name", WARNED)
def test_quantize_warns_of(name: str) -> None:
    x, more = wrong(name)
    with pytest.warns(LowbitWarning, match=WARNED[name]):
        made = lowbit.quantize(network(), x, **more)  # type: ignore[arg-type]
    assert ("NOT MET: " in made.verdict) or name not in UNMET
    assert name != "one sample" or "the one batch there is, which the ranges were taken from, too" in made.verdict


METRICS = """
def metric_raises(session):
    raise KeyError("no such image")
def metric_is_NaN(session):
    return float("nan")
def metric_is_no_number(session):
    return None
"""


@pytest.mark.parametrize("name", [*REFUSED, *WARNED])
def test_the_command_line_says_the_same_of(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, more = wrong(name)
    network().save(tmp_path / "m.lowbit")
    np.savez(tmp_path / "x.npz", x=x, y=more.get("labels", 0))
    (tmp_path / "score.py").write_text(METRICS)
    line = f"quantize {tmp_path}/m.lowbit --data {tmp_path}/x.npz -o {tmp_path}/q.lowbit"
    line += " --labels y" if "labels" in more else ""
    line += f" --metric {tmp_path}/score.py:{name.replace(' ', '_')}" if "metric" in more else ""
    line += "".join(f" --{key.replace('_', '-')} {value}" for key, value in more.items() if key.startswith("max_"))
    code = main(line.split())
    captured = capsys.readouterr()
    limit = name.startswith("a budget")
    assert code == (1 if name in REFUSED or limit else 0)
    if name in REFUSED:
        assert captured.out == "" and not (tmp_path / "q.lowbit").exists()
        assert re.search(REFUSED[name], captured.err) or (name == "wrong layout" and "transpose(0, 3, 1, 2)" in captured.err)
        return
    assert re.search(f"^warning: .*{WARNED[name]}", captured.err, re.M) and (tmp_path / "q.lowbit").exists()
    assert not limit or "cannot be kept: the best network that was found is written" in captured.err
    assert "NOT MET: " in captured.out or name not in UNMET
