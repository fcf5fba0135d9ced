"""Layers of 16 bits run natively and as C, whatever the guard widens, with the bits of the interpreter."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_tools import selftest
from codegen_zoo import float_graph
from native_laws import ISAS, agrees, same

import lowbit
from lowbit.decide.widths import Widths, multiplies, rule_for
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quantization.recipes import WEIGHTED, recipe
from lowbit.quantization.rules import CalibratedQuantRule, QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

NETWORKS = ("demo", "mlp", "resnet9", "dscnn", "unet", "lstm_lm", "gru_lm", "transformer", "gpt", "vit")
FORCED = ("w8a16", "w16a16", "w16a8", "mixed 1", "mixed 2")
COMPILED = (("dscnn", "w8a16"), ("unet", "w16a8"), ("gru_lm", "w16a8"), ("dscnn", "mixed 2"))


def widened(name: str, widths: str) -> tuple[Graph, dict[str, Array]]:
    """The integer graph of a network with every layer in these widths; "mixed" takes what the guard might: any taps, layers and weights."""
    g, feed = float_graph(name)
    base = CalibratedQuantRule(".*", "int8")
    rules: list[QuantRule] = {"w8a16": recipe("int16"), "w16a16": recipe("int16-w16")}.get(
        widths, [CalibratedQuantRule(".*", "int8", "int16")]
    )
    if widths.startswith("mixed"):
        rng, taps = random.Random(widths), QuantizationTransform([base]).taps(g)
        some = Widths(
            frozenset(k for k in taps.groups if rng.random() < 0.5),
            frozenset(n.output.name for n in g.nodes if n.op in QUANTIZABLE and multiplies(n) and rng.random() < 0.5),
            frozenset(n.output.name for n in g.nodes if n.op in WEIGHTED and rng.random() < 0.3),
        )
        rule = rule_for(g, taps, some, base)
        assert rule is not None
        rules = [rule] if all(rule.matches(n) for n in g.nodes if n.op in QUANTIZABLE) else [rule, base]
    return lower(lowbit.quantize(g, [feed], rules=rules, guard=False)).graph, feed


@pytest.mark.filterwarnings("ignore:rule 1")
@pytest.mark.parametrize("widths", FORCED)
@pytest.mark.parametrize("name", NETWORKS)
def test_whatever_the_guard_widens_runs_natively_and_becomes_c(name: str, widths: str, tmp_path: Path) -> None:
    graph, feed = widened(name, widths)
    assert {v.type.dtype.name for n in graph.nodes for v in n.inputs if v is not None} & {"int16"}
    want = run(graph, feed)
    for isa in ISAS:
        session = Session(graph, threads=2, isa=isa)
        assert same(want, session.run(feed)) and session.backend == "native", isa
    compiled = (name, widths) in COMPILED
    folder = tmp_path / "c"
    emitted = lowbit.emit_c(
        graph, folder, target="portable" if compiled else "cortex-m4", float_io=True, samples=[feed], vectors=1, measure=False
    )
    assert emitted.exact
    if compiled:
        assert selftest(folder, tmp_path / "selftest").startswith("model: 0 of ")


def layer(
    x: Array, w: Array, *, op: str = "q_conv", to: str = "int16", bound: int, groups: int = 1, x_zero: int = 0, **window: Any
) -> tuple[Builder, Any, dict[str, Array]]:
    rng = np.random.default_rng(1)
    out = w.shape[0] if op == "q_conv" else w.shape[1] * groups
    b = Builder()
    v = b.input("x", TensorType(x.shape, x.dtype.name))
    bias = rng.integers(-500, 500, out).astype(np.int32 if bound < 2**31 else np.int64)
    args = (b.constant(w, name="w"), b.constant(rng.uniform(1e-6, 3e-5, out).astype(np.float32)), b.constant(bias))
    lo, hi = (-32768, 32767) if to == "int16" else (-128, 127)
    ends = {"x_zero": x_zero, "y_zero": 3, "lo": lo, "hi": hi, "to": to, "bound": bound}
    return b, b.add(op, v, *args, groups=groups, **window, **ends), {"x": x}


def image(dtype: str, *shape: int) -> Array:
    i = np.iinfo(dtype)
    return np.random.default_rng(0).integers(i.min, i.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("to", ["int8", "int16", "float32"])
@pytest.mark.parametrize("kinds", [("int16", "int8"), ("int16", "int16"), ("int8", "int16")])
@pytest.mark.parametrize(
    "window",
    [
        # channels, outputs, groups, kernel, stride, pads, dilation
        (3, 20, 1, (3, 3), (2, 1), (1, 1, 1, 1), (1, 1)),
        (17, 5, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
        (6, 10, 2, (3, 2), (1, 2), (2, 0, 0, 1), (2, 2)),
        (19, 19, 19, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        (4, 8, 4, (5, 1), (1, 1), (2, 0, 2, 0), (1, 3)),
        (5, 7, 1, (4,), (2,), (3, 0), (1,)),
        (33, 33, 33, (3,), (1,), (4, 0), (2,)),
    ],
)
def test_convolutions_give_the_interpreters_bits(window: tuple[Any, ...], kinds: tuple[str, str], to: str) -> None:
    channels, outputs, groups, kernel, stride, pads, dilation = window
    x = image(kinds[0], 2, channels, *((9, 7) if len(kernel) == 2 else (23,)))
    w = image(kinds[1], outputs, channels // groups, *kernel)
    bound = 2**16 * int(np.abs(w.astype(np.int64)).reshape(outputs, -1).sum(axis=1).max()) + 500
    b, y, feed = layer(x, w, to=to, bound=bound, groups=groups, x_zero=-7, stride=stride, pads=pads, dilation=dilation)
    assert agrees(b, y, feed)


@pytest.mark.parametrize("kinds", [("int16", "int8"), ("int16", "int16"), ("int8", "int16")])
@pytest.mark.parametrize("stride", [(2, 2), (3, 2)])
def test_transposed_convolutions_give_the_interpreters_bits(stride: tuple[int, int], kinds: tuple[str, str]) -> None:
    x, w = image(kinds[0], 2, 6, 5, 4), image(kinds[1], 6, 5, 2, 2)
    window = {"stride": stride, "pads": (0, 0, 0, 0), "dilation": (1, 1), "output_padding": (0, 0)}
    b, y, feed = layer(x, w, op="q_conv_transpose", bound=2**40, x_zero=5, **window)
    assert agrees(b, y, feed)


def test_sums_are_of_32_bits_where_that_is_proved_and_of_64_elsewhere() -> None:
    window: Any = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
    x, w = np.full((1, 64, 4, 4), 32767, np.int16), np.full((3, 64, 3, 3), 127, np.int8)
    largest = 576 * 32767 * 127
    assert largest > 2**31
    b, y, feed = layer(x, w, to="float32", bound=largest + 500, **window)
    assert agrees(b, y, feed)
    few = w[:, :63] // 2
    b, y, feed = layer(x[:, :63], few, to="float32", bound=567 * 32767 * 63 + 500, **window)
    assert agrees(b, y, feed)


def test_a_table_from_8_to_16_bits() -> None:
    x = np.arange(-128, 128).astype(np.int8).reshape(16, 16)
    b = Builder()
    v = b.input("x", TensorType(x.shape, "int8"))
    assert agrees(b, b.add("q_table", v, b.constant(np.arange(256, dtype=np.int16) * 100 - 9000)), {"x": x})


WINDOWS = pytest.mark.parametrize(
    "window",
    [
        # kernel, stride, pads, whether padding counts
        ((2, 2), (2, 2), (0, 0, 0, 0), False),
        ((3, 2), (2, 1), (1, 0, 2, 1), True),
        ((3, 3), (1, 2), (1, 1, 1, 1), False),
        ((4,), (3,), (2, 1), True),
        ((2, 2), (3, 3), (2, 2, 2, 2), False),  # the first windows have nothing
    ],
)


@pytest.mark.parametrize("kinds", [("int16", "int8"), ("int8", "int16")])
@WINDOWS
def test_average_pools_between_8_and_16_bits(window: tuple[Any, ...], kinds: tuple[str, str], tmp_path: Path) -> None:
    kernel, stride, pads, padding_counts = window
    (given, to), b = kinds, Builder()
    x = image(given, 2, 19, *((9, 7) if len(kernel) == 2 else (23,)))
    v = b.input("x", TensorType(x.shape, given))
    i = np.iinfo(to)
    geometry = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": (1,) * len(kernel), "ceil_mode": False}
    ends = {"x_zero": -7, "y_zero": 3, "multiplier": 0.011 if to == "int8" else 800.5, "lo": i.min + 5, "hi": i.max, "to": to}
    y = b.add("q_avg_pool", v, **geometry, count_include_pad=padding_counts, **ends)
    assert agrees(b, y, {"x": x})
    graph = b.finish({"y": y})
    (want,) = run(graph, {"x": x}).values()
    assert want.min() == i.min + 5 and want.max() == i.max and len(np.unique(want)) > 100
    lowbit.emit_c(graph, tmp_path / "c", target="portable", samples=[{"x": x}], vectors=1, measure=False)
    assert selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of ")


@pytest.mark.parametrize("given", ["int8", "int16"])
@WINDOWS
def test_average_pools_that_stay_floats(window: tuple[Any, ...], given: str, tmp_path: Path) -> None:
    kernel, stride, pads, padding_counts = window
    x, b = image(given, 2, 19, *((9, 7) if len(kernel) == 2 else (23,))), Builder()
    v = b.input("x", TensorType(x.shape, given))
    geometry = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": (1,) * len(kernel), "ceil_mode": False}
    ends = {"x_zero": -7, "y_zero": 0, "multiplier": 0.0123, "lo": 0, "hi": 0, "to": "float32"}
    y = b.add("q_avg_pool", v, **geometry, count_include_pad=padding_counts, **ends)
    assert agrees(b, y, {"x": x})
    graph = b.finish({"y": y})
    (want,) = run(graph, {"x": x}).values()
    if np.isnan(want).any():  # the mean of nothing, which a self-test would not find equal to itself
        return
    lowbit.emit_c(graph, tmp_path / "c", target="portable", samples=[{"x": x}], vectors=1, measure=False)
    assert selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of ")


@pytest.mark.parametrize("given", ["int8", "int16"])
def test_the_mean_of_nothing_is_no_number(given: str) -> None:
    x, b = np.zeros((2, 0, 5), given), Builder()
    ends = {"x_zero": 0, "y_zero": 0, "multiplier": 0.5, "lo": 0, "hi": 0, "to": "float32"}
    y = b.add("q_reduce_mean", b.input("x", TensorType(x.shape, given)), axes=(1,), keepdims=False, **ends)
    assert agrees(b, y, {"x": x})
    assert all(np.isnan(v).all() and v.size == 10 for v in run(b.finish({"y": y}), {"x": x}).values())
