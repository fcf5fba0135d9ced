"""Data that a network was not meant for give an error or a warning in words, and never a figure without either."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.decide.decision import Decision
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, InputError, LowbitWarning, ShapeError
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
