"""Laws of LSTM and GRU in integers, static and dynamic: formulas again step by step, accuracy, ranges, states, and what stays float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import own_numbers
import pytest
from own_numbers import normal
from own_numbers import numbers_of_a_test as numbers_of_a_test
from q_ops_laws import graph_of, inner, road

from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.errors import DTypeError
from lowbit.ir.file import load
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.rewrite import Editor
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.numerics import lb_sigmoid, lb_tanh
from lowbit.ops.op import get_op
from lowbit.ops.q_rnn import bits_of, gru_state_bits, mixed, q12, real_sigmoid, real_tanh, sigmoid16, tanh16, tanh_table
from lowbit.ops.quant import NotLowered, Operand
from lowbit.ops.rnn_common import per_row
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, quantize
from lowbit.quantization.recipes import recipe
from lowbit.quantization.rules import CalibratedQuantRule, RuleMatcher
from lowbit.quantization.transform import QuantizationTransform, bracket
from lowbit.ranges import params_from_data
from lowbit.types import Array, TensorType

f = np.float32
TABLE = tanh_table()
GATES = {"lstm": 4, "gru": 3}


def options(op: str, direction: str = "forward", **others: Any) -> dict[str, Any]:
    names = ("sigmoid", "tanh", "tanh") if op == "lstm" else ("sigmoid", "tanh")
    return {"direction": direction, "activations": names * (2 if direction == "bidirectional" else 1), **others}


def weights(op: str, inputs: int, hidden: int, directions: int = 1, scale: float = 2.0) -> list[Array]:
    k = scale / hidden**0.5
    g = GATES[op] * hidden
    return [own_numbers.rng.uniform(-k, k, (directions, *s)).astype(np.float32) for s in ((g, inputs), (g, hidden), (2 * g,))]


def recurrent(
    op: str, direction: str = "forward", layout: int = 0, time: Any = 50, batch: Any = 3, states: bool = False, **others: Any
) -> Graph:
    """x (time, batch, 6) → hidden 8; with `states`, the initial ones are inputs."""
    d = 2 if direction == "bidirectional" else 1
    wrb = weights(op, 6, 8, d)

    def make(b: Any, x: Any, *first: Any) -> Any:
        constants = [b.constant(a, name=n) for a, n in zip(wrb, "wrb", strict=True)]
        return b.add_node(op, x, *constants, *first, name="rec", hidden=8, layout=layout, **{**options(op, direction), **others})

    initial = [(batch, d, 8) if layout else (d, batch, 8)] * (GATES[op] - 2 if states else 0)
    return graph_of(make, (batch, time, 6) if layout else (time, batch, 6), *initial)


# -- gates --------------------------------------------------------------------------------------------------------------------


def test_gates_are_within_four_and_two_of_32768_of_the_truth() -> None:
    """Every one of the 65,536 arguments: the chord of a curve lies inside it, and 1 is not representable."""
    g = np.arange(-(1 << 15), 1 << 15)
    assert np.abs(tanh16(g, TABLE) - 32768 * np.tanh(g / 4096)).max() <= 3.8
    assert np.abs(sigmoid16(g, TABLE) - 32768 / (1 + np.exp(-g / 2048))).max() <= 2.5
    assert sigmoid16(g, TABLE).min() == 0 and sigmoid16(g, TABLE).max() == 32767
    assert np.all(np.diff(tanh16(g, TABLE)) >= 0)


def test_mixing_fits_32_bits_at_every_extreme() -> None:
    ends = [-32768, -32767, 32767]
    for bits in range(16):
        for keep in (0, 32767):
            for old in ends:
                for take in (0, 1, 32767, 32768 - keep):
                    for new in ends:
                        total = keep * old + ((take * new) >> (15 - bits)) + (1 << 14)
                        assert -(2**31) <= total < 2**31 and abs(take * new) <= 2**30
                        got = mixed(*(np.int64(v) for v in (keep, old, take, new)), bits)
                        assert got == max(-32768, min(32767, total >> 15))


def test_gates_of_an_lstm_are_reals_with_a_half_of_the_error_and_close_and_open_fully() -> None:
    v = (np.arange(-(1 << 15), 1 << 15) / 2048).astype(np.float32)
    assert np.abs(real_tanh(v / f(2), TABLE) - np.tanh(v.astype(np.float64) / 2)).max() * 32768 <= 3.8
    assert np.abs(real_sigmoid(v, TABLE) - 1 / (1 + np.exp(-v.astype(np.float64)))).max() * 65536 <= 3.8
    assert real_sigmoid(f([-20, 20, np.inf]), TABLE).tolist() == [0, 1, 1] and np.all(np.diff(real_sigmoid(v, TABLE)) >= 0)


def test_float_gates_are_close_and_have_decided_ends() -> None:
    x = np.concatenate([own_numbers.rng.uniform(-30, 30, 4000), [0, -0.0, np.inf, -np.inf]]).astype(np.float32)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        assert np.abs(lb_sigmoid(x) - 1 / (1 + np.exp(-wide))).max() <= 1.3e-7
    assert np.abs(lb_tanh(x) - np.tanh(wide)).max() <= 2e-7
    assert lb_tanh(x[-4:]).tolist() == [0, 0, 1, -1] and lb_sigmoid(x[-4:]).tolist() == [0.5, 0.5, 1, 0]


# -- the formulas again -------------------------------------------------------------------------------------------------------


def row(q: Array, zero: int, w: Array, c: int, scale: Array, bias: Array | None) -> np.float32:
    """fl32(Σ (q - zero)·w[c]) × scale[c] + bias[c], the sum in Python integers."""
    t = f(sum((int(a) - zero) * int(b) for a, b in zip(q, w[c], strict=True))) * scale[c]
    return t if bias is None else t + bias[c]


def code(t: np.float32, a: Any) -> int:
    return int(np.clip(np.rint(t) + a["h_zero"], a["lo"], a["hi"]))


def gate(v: np.float32, kind: str) -> int:
    """σ or τ from the page: clamp, split, interpolate."""
    g = int(np.clip(np.rint(v * f(4096 if kind == "tanh" else 2048)), -32768, 32767)) + 32768
    i, part = g >> 7, g & 127
    t = (int(TABLE[i]) * (128 - part) + int(TABLE[i + 1]) * part + 64) >> 7
    return t if kind == "tanh" else (t + 32768) >> 1


def opened(v: np.float32) -> np.float32:
    """σ of an LSTM from the page: 16 bits, the largest of which is 1."""
    t = gate(v / f(2), "tanh")
    return f(t + 32768 + (t == 32767)) / f(65536)


def clamp(v: int) -> int:
    return max(-32768, min(32767, v))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_the_lstm_formula_again_in_python_integers(direction: str, layout: int) -> None:
    graph = recurrent("lstm", direction, layout, time=4, batch=2, states=True)
    sample = [normal(*(int(d) for d in v.shape)) for v in graph.inputs]
    r = road(graph, [sample])
    (x, w, ws, rw, rs, table, h0, c0, bias), (y, hn, cn) = inner(r, "q_lstm", *sample)
    assert table is not None and np.array_equal(table, TABLE)
    a: Any = r.node("q_lstm").attrs
    if layout:
        x, h0, c0, y, hn, cn = (v.swapaxes(0, 1) for v in (x, h0, c0, y, hn, cn))
        y = y.transpose(0, 2, 1, 3)
    for d in range(len(w)):
        for n in range(2):
            h, c = [int(v) for v in h0[d, n]], list(c0[d, n])
            backwards = direction == "reverse" or d == 1
            for t in reversed(range(4)) if backwards else range(4):
                pre = [
                    row(x[t, n], a["x_zero"], w[d], j, ws[d], bias[d]) + row(np.array(h), a["h_zero"], rw[d], j, rs[d], None)
                    for j in range(32)
                ]
                new_h, new_c = [], []
                for j in range(8):
                    si, so, sf = (opened(pre[j + 8 * g]) for g in range(3))
                    cell = sf * c[j] + si * (f(gate(pre[j + 24], "tanh")) / f(32768))
                    new_c.append(cell)
                    new_h.append(code(so * (f(gate(cell, "tanh")) / f(32768)) * f(a["h_multiplier"]), a))
                h, c = new_h, new_c
                assert y[t, d, n].tolist() == h
            assert hn[d, n].tolist() == h and cn[d, n].tolist() == c


@pytest.mark.parametrize("before", [True, False])
def test_the_gru_formula_again_in_python_integers(before: bool) -> None:
    graph = recurrent("gru", "bidirectional", time=4, batch=2, states=True, linear_before_reset=before)
    sample = [normal(*(int(d) for d in v.shape)) for v in graph.inputs]
    sample[1][0, 0, 0] = 2.5
    r = road(graph, [sample])
    (x, w, ws, rw, rs, _, h0, bias, rb), (y, hn) = inner(r, "q_gru", *sample)
    a: Any = r.node("q_gru").attrs
    k, sh = a["state_bits"], f(a["h_scale"])
    assert k == 13  # 2.5 lies beyond 2
    for d in range(2):
        for n in range(2):
            h = [int(v) for v in h0[d, n]]
            s = [clamp(int(np.rint(f(v - a["h_zero"]) * (sh * f(2.0**k))))) for v in h]
            for t in reversed(range(4)) if d == 1 else range(4):
                xp = [row(x[t, n], a["x_zero"], w[d], j, ws[d], bias[d]) for j in range(24)]
                hp = [row(np.array(h), a["h_zero"], rw[d], j, rs[d], rb[d]) for j in range(24)]
                z, reset = ([gate(xp[j + o] + hp[j + o], "sigmoid") for j in range(8)] for o in (0, 8))
                if before:
                    ph = [(f(reset[j]) * f(2.0**-15)) * hp[j + 16] for j in range(8)]
                else:
                    hr = [code(f(reset[j] * s[j]) * (f(2.0 ** -(k + 15)) / sh), a) for j in range(8)]
                    ph = [row(np.array(hr), a["h_zero"], rw[d], j + 16, rs[d], rb[d]) for j in range(8)]
                tau = [gate(xp[j + 16] + ph[j], "tanh") for j in range(8)]
                s = [clamp((z[j] * s[j] + (((32768 - z[j]) * tau[j]) >> (15 - k)) + (1 << 14)) >> 15) for j in range(8)]
                h = [code(f(v) * (f(2.0**-k) / sh), a) for v in s]
                assert y[t, d, n].tolist() == h
            assert hn[d, n].tolist() == h


@pytest.mark.parametrize("before", [True, False])
def test_a_gru_cut_in_two_goes_on_with_the_16_bits_inside(before: bool) -> None:
    graph = recurrent("gru", time=6, batch=2, linear_before_reset=before)
    r = road(graph, [[normal(6, 2, 6)]])
    read, (y, hn) = inner(r, "q_gru", normal(6, 2, 6))
    x, h0, a = read[0], read[6], r.node("q_gru").attrs
    zero = np.zeros(h0.shape, np.int16)  # what h0, which is zero, is as a state

    def part(x: Array, h: Array, s: Array) -> Any:
        return get_op("q_gru").run([x, *read[1:6], h, *read[7:9], s], a)

    y1, h1, s1 = part(x[:4], h0, zero)
    y2, h2, _ = part(x[4:], h1, s1)
    assert s1.dtype == np.int16 and np.array_equal(np.concatenate([y1, y2]), y) and np.array_equal(h2, hn)
    assert not np.array_equal(part(x[4:], h1, s1 + np.int16(50))[0], y2)  # it is read


def test_the_state_inside_a_gru_is_int16_with_a_power_of_two() -> None:
    graph = recurrent("gru", time=4, batch=2)
    r = road(graph, [[normal(4, 2, 6)]])
    read, _ = inner(r, "q_gru", normal(4, 2, 6))
    types = [TensorType(v.shape, v.dtype) for v in read]
    with pytest.raises(DTypeError, match="the inner state is int8, int16 needed"):
        get_op("q_gru").infer(*types, types[6], **r.node("q_gru").attrs)

    def operand(kind: str, scale: float, zero: int = 0) -> Operand:
        return Operand(types[6].with_dtype(kind), QuantParams(dtype(kind), np.float32(scale), np.int32(zero), None, PerTensor()), None)

    assert bits_of(operand("int16", 2.0**-12), "inner state") == 12
    for wrong in (operand("int8", 2.0**-12), operand("int16", 2.0**-12, 1), operand("int16", 0.3), operand("int16", 2.0)):
        with pytest.raises(NotLowered, match=r"its inner state is not int16 with a scale of 2\^-15"):
            bits_of(wrong, "inner state")
    assert [gru_state_bits(operand("int8", scale, -1)) for scale in (1 / 127, 2 / 127, 2.1 / 127)] == [15, 14, 13]


@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_the_dynamic_formula_again_step_by_step(op: str) -> None:
    others = {} if op == "lstm" else {"linear_before_reset": False}
    graph = recurrent(op, time=3, batch=2, states=True, **others)
    sample = [normal(*(int(d) for d in v.shape)) for v in graph.inputs]
    r = road(graph, (), recipe("int8-dynamic"))
    assert r.ops == ["quantize_rows", f"q_{op}_rows"]
    read, (y, *_) = inner(r, f"q_{op}_rows", *sample)
    x, xs, w, ws, rw, rs, bias = read[:7]

    def rows(v: Array) -> tuple[Array, np.float32]:
        s = np.abs(v).max() / f(127)
        return np.rint(v / s).astype(np.int64), s

    for n in range(2):
        h = sample[1][0, n]
        c = sample[2][0, n] if op == "lstm" else None
        for t in range(3):
            xp = np.array([row(x[t, n], 0, w[0], j, xs[t, n, 0] * ws[0], bias[0]) for j in range(GATES[op] * 8)])
            q, s = rows(h)
            rb = None if op == "lstm" else read[7][0]
            hp = np.array([row(q, 0, rw[0], j, s * rs[0], rb) for j in range(GATES[op] * 8)])
            if op == "lstm":
                i, o, g, u = np.split(xp + hp, 4)
                c = lb_sigmoid(g) * c + lb_sigmoid(i) * lb_tanh(u)
                h = lb_sigmoid(o) * lb_tanh(c)
            else:
                z, reset = np.split(lb_sigmoid(xp[:16] + hp[:16]), 2)
                q, s = rows(reset * h)
                hn = np.array([row(q, 0, rw[0], j, s * rs[0], rb) for j in range(16, 24)])
                h = (f(1) - z) * lb_tanh(xp[16:] + hn) + z * h
            assert np.array_equal(y[t, 0, n], h)


# -- accuracy and range -------------------------------------------------------------------------------------------------------

KINDS = [("lstm", {}), ("gru", {"linear_before_reset": True}), ("gru", {"linear_before_reset": False})]


@pytest.mark.parametrize(("op", "others"), KINDS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_fifty_steps_keep_the_signal(op: str, others: dict[str, Any], direction: str) -> None:
    graph = recurrent(op, direction, **others)
    data = [[normal(50, 3, 6)] for _ in range(3)]
    for name, least in (("int8", 30), ("int16", 40), ("int8-dynamic", 35), ("w4a8", 13)):
        r = road(graph, data, recipe(name))
        assert not r.lowered.islands
        true, _, got = r.answers(*data[0])
        assert [sqnr_db(a, b) >= least for a, b in zip(true, got, strict=True)] == [True] * len(true), name


def test_a_cell_that_climbs_and_is_forgotten_needs_no_calibration() -> None:
    """It reaches 6, and is next to nothing at the end."""
    gates = np.zeros((1, 4, 2), np.float32)
    gates[0, 0, 0] = gates[0, 3, 0] = 10  # input 0 opens the input gate, and adds 1 at each step
    gates[0, 2, 1] = -40  # input 1 closes the forget gate
    bias = np.zeros((1, 8), np.float32)
    bias[0, 2] = 10

    def make(b: Any, x: Any) -> Any:
        c = [b.constant(a, name=n) for a, n in ((gates, "w"), (np.zeros((1, 4, 1), np.float32), "r"), (bias, "b"))]
        return b.add_node("lstm", x, *c, name="rec", hidden=1, layout=0, **options("lstm"))

    x = np.zeros((8, 1, 2), np.float32)
    x[:6, 0, 0] = 1
    x[7, 0, 1] = 1
    r = road(graph_of(make, (8, 1, 2)), [[x]])
    true, _, got = r.answers(x)
    assert abs(true[2]).max() < 1e-2  # the end says nothing
    assert np.abs(true[0] - got[0]).max() <= 0.01


def test_an_open_forget_gate_holds_its_cell_for_a_thousand_steps() -> None:
    bias = np.zeros((1, 8), np.float32)
    bias[0, :4] = (-16, 8, 12, 0)  # nothing enters, all leaves, nothing is forgotten: σ(12) = 0.999994

    def make(b: Any, x: Any, h: Any, c: Any) -> Any:
        w, r = b.constant(np.full((1, 4, 1), 1e-3, f), name="w"), b.constant(np.full((1, 4, 1), 1e-3, f), name="r")
        return b.add_node("lstm", x, w, r, b.constant(bias, name="b"), h, c, name="rec", hidden=1, layout=0, **options("lstm"))

    sample = [np.zeros((1000, 1, 1), f), np.zeros((1, 1, 1), f), np.full((1, 1, 1), 0.4, f)]
    true, _, got = road(graph_of(make, (1000, 1, 1), (1, 1, 1), (1, 1, 1)), [sample]).answers(*sample)
    assert abs(got[2] - true[2]).max() < 0.004


def test_small_steps_of_a_gru_are_not_lost() -> None:
    """An update gate of 0.99 moves the state by less than half a step of int8 each time; in 16 bits it still arrives."""
    bias = np.zeros((1, 6), np.float32)
    bias[0, 0], bias[0, 2] = 4.6, 0.5

    def make(b: Any, x: Any) -> Any:
        w, r = b.constant(np.full((1, 3, 1), 1e-3, f), name="w"), b.constant(np.full((1, 3, 1), 1e-3, f), name="r")
        others = options("gru", linear_before_reset=True)
        return b.add_node("gru", x, w, r, b.constant(bias, name="b"), name="rec", hidden=1, layout=0, **others)

    x = np.zeros((600, 1, 1), f)
    true, _, got = road(graph_of(make, (600, 1, 1)), [[x]]).answers(x)
    assert np.abs(true[0] - got[0]).max() <= 0.004 and true[0].max() > 0.45


def test_bounds_are_those_of_the_worst_input() -> None:
    r = road(recurrent("lstm"), [[normal(50, 3, 6)]])
    node = r.node("q_lstm")
    a: Any = node.attrs
    w, rw = (r.integers.constants[node.inputs[i].name].data.astype(int) for i in (1, 3))
    assert a["bound_x"] == np.abs(w).sum(2).max() * max(127 - a["x_zero"], a["x_zero"] + 128)
    assert a["bound_h"] == np.abs(rw).sum(2).max() * max(127 - a["h_zero"], a["h_zero"] + 128)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_extremes_of_codes_and_scales_stay_inside(op: str) -> None:
    ends = np.array([-128, 127], np.int8)
    w, r = own_numbers.rng.choice(ends, (1, GATES[op] * 4, 5)), own_numbers.rng.choice(ends, (1, GATES[op] * 4, 4))
    big = np.full((1, GATES[op] * 4), 1e30, f)
    h0 = own_numbers.rng.choice(ends, (1, 3, 4))
    attrs: dict[str, Any] = dict(
        direction="forward", layout=0, x_zero=-128, h_zero=3, lo=-128, hi=127, bound_x=5 * 255 * 128, bound_h=4 * 131 * 128
    )
    x = own_numbers.rng.choice(ends, (6, 3, 5))
    if op == "lstm":
        c0 = own_numbers.rng.choice(f([-3e38, 3e38]), (1, 3, 4))
        out = get_op("q_lstm").run([x, w, big, r, big, TABLE, h0, c0], {**attrs, "h_multiplier": 128.0})
    else:
        out = get_op("q_gru").run(
            [x, w, big, r, big, TABLE, h0], {**attrs, "state_bits": 15, "h_scale": 1 / 128, "linear_before_reset": True}
        )
    assert [o.dtype.name for o in out] == ["int8", "int8", "float32"][: len(out)]
    assert np.array_equal(out[0][-1], out[1])


# -- states, outputs, symbols -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_batch_and_time_may_be_symbols_and_may_be_nothing(op: str) -> None:
    n, t = symbol("batch"), symbol("time")
    others = {} if op == "lstm" else {"linear_before_reset": True}
    graph = recurrent(op, "bidirectional", time=t, batch=n, **others)
    data = [[normal(12, 2, 6)]]
    for name in ("int8", "int8-dynamic"):
        r = road(graph, data, recipe(name))
        assert r.integers.outputs["y0"].shape == (t, 2, n, 8) and not r.lowered.islands
        for time, batch in ((1, 1), (7, 3), (5, 0), (0, 2)):
            x = normal(time, batch, 6)
            _, _, got = r.answers(x)
            assert got[0].shape == (time, 2, batch, 8) and got[1].shape == (2, batch, 8)
            again = run(r.integers, {"x0": x})
            assert all(a.tobytes() == b.tobytes() for a, b in zip(again.values(), got, strict=True))


def only(graph: Graph, *keep: str) -> Graph:
    return Graph(graph.inputs, {k: graph.outputs[k] for k in keep}, graph.nodes, graph.constants, graph.name)


@pytest.mark.parametrize("keep", [("y0",), ("y1",), ("y2",), ("y1", "y2")])
def test_any_of_the_outputs_may_be_left_out(keep: tuple[str, ...]) -> None:
    graph = recurrent("lstm")
    data = [[normal(50, 3, 6)]]
    whole = road(graph, data)
    part = road(only(graph, *keep), data)
    full = run(whole.integers, {"x0": data[0][0]})
    got = run(part.integers, {"x0": data[0][0]})
    assert set(got) == set(keep) and all(got[k].tobytes() == full[k].tobytes() for k in keep)


def test_a_decoder_takes_over_the_state_of_its_encoder_as_integers() -> None:
    first, second = weights("lstm", 6, 8), weights("lstm", 6, 8)

    def make(b: Any, x: Any, y: Any) -> Any:
        o = options("lstm")
        _, h, c = b.add_node("lstm", x, *(b.constant(a, name=f"e{i}") for i, a in enumerate(first)), name="enc", hidden=8, layout=0, **o)
        return b.add_node(
            "lstm", y, *(b.constant(a, name=f"d{i}") for i, a in enumerate(second)), h, c, name="dec", hidden=8, layout=0, **o
        )[0]

    sample = [normal(20, 3, 6), normal(10, 3, 6)]
    r = road(graph_of(make, (20, 3, 6), (10, 3, 6)), [sample])
    assert not r.lowered.islands
    assert "dequantize_linear" not in r.ops[:-1]  # only the answer is real
    encoder, decoder = (n for n in r.integers.nodes if n.op == "q_lstm")
    assert decoder.inputs[6] == encoder.outputs[1]  # the hidden state shares its parameters, the cell has its own range
    true, _, got = r.answers(*sample)
    assert sqnr_db(true[0], got[0]) >= 30


@pytest.mark.parametrize("kind", ["zeros", "constant", "value"])
def test_initial_states_of_every_kind(kind: str) -> None:
    wrb = weights("lstm", 6, 8)
    values = [np.zeros((1, 3, 8), f) if kind == "zeros" else normal(1, 3, 8) * f(s) for s in (0.8, 3)]

    def make(b: Any, x: Any, *given: Any) -> Any:
        constants = [b.constant(a, name=n) for a, n in zip(wrb, "wrb", strict=True)]
        first = given or [b.constant(v, name=n) for v, n in zip(values, ("h0", "c0"), strict=True)]
        return b.add_node("lstm", x, *constants, *first, name="rec", hidden=8, layout=0, **options("lstm"))

    shapes = [(1, 3, 8)] * 2 if kind == "value" else []
    sample = [normal(30, 3, 6), *(values if kind == "value" else [])]
    r = road(graph_of(make, (30, 3, 6), *shapes), [sample])
    assert not r.lowered.islands
    true, _, got = r.answers(*sample)
    assert all(sqnr_db(a, b) >= 28 for a, b in zip(true, got, strict=True))


def test_without_initial_states_the_brackets_say_zeros_and_mean_the_same() -> None:
    graph = recurrent("lstm", time=9)
    x = normal(9, 3, 6)
    r = road(graph, [[x]])
    node = next(n for n in r.brackets.nodes if n.op == "lstm")
    assert node.inputs[4] is not None and node.input(5) is None
    assert [n.attrs["dtype"] for n in r.integers.nodes if n.op == "fill"] == ["int8"]


def test_brackets_and_integers_survive_the_file(tmp_path: Path) -> None:
    r = road(recurrent("gru", "bidirectional", time=symbol("t"), linear_before_reset=True), [[normal(5, 3, 6)]], recipe("w4a8"))
    for i, g in enumerate((r.brackets, r.integers)):
        g.save(tmp_path / f"{i}.lowbit")
        assert load(tmp_path / f"{i}.lowbit") == g


def test_a_cell_is_float32_and_needs_no_calibration() -> None:
    graph = recurrent("lstm", states=True, time=4)
    assert QuantizationTransform([CalibratedQuantRule(".*")]).taps(graph).observed == ["x0", "x1", "rec"]
    r = road(graph, [[normal(*(int(d) for d in v.shape)) for v in graph.inputs]])
    node = r.node("q_lstm")
    assert [v.type.dtype.name for v in (node.inputs[7], *node.outputs) if v is not None] == ["float32", "int8", "int8", "float32"]
    types = [None if v is None else v.type for v in node.inputs]
    with pytest.raises(DTypeError, match="the cell is int16, float32 needed"):
        get_op("q_lstm").infer(*types[:7], node.outputs[2].type.with_dtype("int16"), types[8], **node.attrs)


def test_brackets_around_a_cell_are_as_good_as_none() -> None:
    """Graphs that were quantized when cells had 16 bits, or by another tool."""
    plain = road(recurrent("lstm", states=True, time=4), [[normal(4, 3, 6), normal(1, 3, 8), normal(1, 3, 8)]])
    e = Editor(plain.brackets)
    node = next(n for n in e.nodes() if n.op == "lstm")
    c0 = node.inputs[5]
    assert c0 is not None
    held = bracket(e, c0, QuantParams("int16", np.float32(2.0**-12)), rewire=False)
    e.set_inputs(node, [*node.inputs[:5], held])
    done = lower(e.done())
    assert not done.islands and next(n for n in done.graph.nodes if n.op == "q_lstm").inputs[7] is not None


# -- what stays float ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"clip": 3.0}, "it clips its gates to ±3.0"),
        ({"input_forget": True}, "its input and forget gates are coupled"),
        ({"activations": ("sigmoid", "relu", "tanh")}, "its activations are sigmoid, relu, tanh; integers have sigmoid, tanh, tanh"),
    ],
)
def test_unusual_options_stay_float_with_their_reason(change: dict[str, Any], reason: str) -> None:
    graph, x = recurrent("lstm", **change), normal(50, 3, 6)
    assert RuleMatcher(recipe("int8")).decide(graph.nodes[0]).because == reason
    assert road(graph, [[x]]).ops == ["lstm"]  # and no bracket makes it worse for nothing
    r = road(graph, (), recipe("int8-dynamic"))
    assert r.ops == ["dequantize_linear", "dequantize_linear", "lstm"] and len(r.lowered.weights_only) == 1
    decided = RuleMatcher(recipe("int8-dynamic")).decide(graph.nodes[0])
    assert decided.because == f"recipe int8-dynamic; {reason}, so only its weights are integers"
    plain = road(recurrent("lstm"), [[x]]).brackets  # brackets that another tool put around it are lowered no more than ours
    nodes = tuple(replace(n, attrs={**n.attrs, **change}) if n.op == "lstm" else n for n in plain.nodes)
    assert [i.because for i in lower(replace(plain, nodes=nodes)).islands] == [reason]


@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_peepholes_and_lengths_stay_float_with_their_reason(op: str) -> None:
    wrb = weights(op, 6, 8)

    def reason(position: int, data: Array) -> str:
        def make(b: Any, x: Any) -> Any:
            constants = [b.constant(a, name=n) for a, n in zip(wrb, "wrb", strict=True)]
            extra = [None] * (position - 4) + [b.constant(data, name="extra")]
            others = {} if op == "lstm" else {"linear_before_reset": True}
            return b.add_node(op, x, *constants, *extra, name="rec", hidden=8, layout=0, **options(op, **others))

        graph = graph_of(make, (50, 3, 6))
        assert road(graph, [[normal(50, 3, 6)]]).ops == [op]
        return RuleMatcher(recipe("int8")).decide(graph.nodes[0]).because

    lengths = np.array([50, 20, 3], np.int32)
    assert reason(7 if op == "lstm" else 5, lengths) == "it has rows of different lengths"
    if op == "lstm":
        assert reason(6, normal(1, 24)) == "it has peepholes"


def test_blocks_of_an_integer_recurrence_are_its_rows() -> None:
    r = road(recurrent("lstm"), [[normal(50, 3, 6)]], [CalibratedQuantRule(".*", "int8", "int4", 4)])
    assert not r.lowered.islands and "q_lstm" in r.ops


@pytest.mark.parametrize("granularity", [PerBlock(2, 4), PerAxis(2)])
def test_scales_that_are_not_of_rows_are_refused(granularity: PerBlock | PerAxis) -> None:
    params = params_from_data(w := normal(2, 12, 6), "int8", granularity=granularity)
    with pytest.raises(NotLowered, match=f"its weight is quantized {granularity}, one scale for each direction and row is needed"):
        per_row(Operand(TensorType(w.shape, "int8"), params, quantize(w, params)), "weight")


def test_names_of_activations_are_read_without_their_case() -> None:
    r = road(recurrent("lstm", activations=("Sigmoid", "Tanh", "Tanh")), [[normal(50, 3, 6)]])
    assert not r.lowered.islands and "q_lstm" in r.ops


def test_q12_gives_zero_for_nan_and_saturates() -> None:
    assert q12(np.float32([np.nan, np.inf, -np.inf, 0.5]), 4096).tolist() == [0, 32767, -32768, 2048]
