"""q_lstm, q_gru: recurrent layers in integers (docs/arithmetic.md §7).

Input and hidden state are 8 (or 16) bits; weights have a scale for each direction and row. Gates are 16 bits, all of them read off one
table of tanh. An LSTM's cell is float32: cells that count reach hundreds while others integrate thousandths, and no scale of 16 bits has
room for both. The state that a GRU interpolates stays within ±1 and is int16 with the scale 2^-state_bits.

    pre = (fl32(Σ (x - x_zero)·w) × w_scale + bias) + (fl32(Σ (h - h_zero)·r) × r_scale + r_bias)

`bound_x` and `bound_h` are the largest |Σ| that any input and any state can give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, ShapeError
from lowbit.numerics import F32, round_clamp, sums_of_magnitudes
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_matmul import exact_product, need_integers
from lowbit.ops.q_rnn_rows import dynamic_gru, dynamic_lstm
from lowbit.ops.quant import (
    Const,
    NotLowered,
    OpCall,
    Operand,
    Operands,
    Outputs,
    QuantSpec,
    Ref,
    Result,
    State,
    largest_magnitude,
    quantizes,
)
from lowbit.ops.rnn import infer_gru as infer_float_gru
from lowbit.ops.rnn import infer_lstm as infer_float_lstm
from lowbit.ops.rnn_common import halves, per_row, plain_options, scan, unusual
from lowbit.types import Array, TensorType

NODES = 513  # of the table: 2^-5 apart over -8 … 8
ONE = 1 << 15  # 1.0 of a gate


# -- gates --------------------------------------------------------------------------------------------------------------------


def tanh_table() -> Array:
    """rne(2¹⁵ · tanh) at the nodes, limited to int16."""
    return np.clip(np.rint(ONE * np.tanh(np.arange(NODES) / 32 - 8)), -ONE, ONE - 1).astype(np.int16)


def tanh16(g: Array, table: Array) -> Array:
    """tanh in Q0.15 of g in Q3.12, by linear interpolation; int64."""
    at = g.astype(np.int64) + ONE
    i, part = at >> 7, at & 127
    t = table.astype(np.int64)
    return (t[i] * (128 - part) + t[i + 1] * part + 64) >> 7


def sigmoid16(g: Array, table: Array) -> Array:
    """sigmoid(2g) in Q0.15, 0 … 32767, of g in Q3.12: (1 + tanh g) / 2."""
    return (tanh16(g, table) + ONE) >> 1


def clamp16(v: Array) -> Array:
    return np.clip(v, -ONE, ONE - 1)


def q12(pre: F32, factor: int) -> Array:
    """clamp16(rne(pre × factor)): 4096 gives Q3.12, 2048 half of it, which is what `sigmoid16` takes. NaN gives 0."""
    return round_clamp(pre * np.float32(factor), np.asarray(0), dtype("int16"))


def real_tanh(v: F32, table: Array) -> F32:
    """tanh as a real, a multiple of 2^-15."""
    return tanh16(q12(v, 4096), table).astype(np.float32) * np.float32(2.0**-15)


def real_sigmoid(v: F32, table: Array) -> F32:
    """sigmoid as a real, a multiple of 2^-16: (1 + tanh(v / 2)) / 2. The largest tanh is an open gate, 1."""
    t = tanh16(q12(v, 2048), table)
    return (t + ONE + (t == ONE - 1)).astype(np.float32) * np.float32(2.0**-16)


def mixed(keep: Array, old: Array, take: Array, new: Array, bits: int) -> Array:
    """keep·old + take·new as a state of scale 2^-bits; keep, take and new are Q0.15."""
    return clamp16((keep * old + ((take * new) >> (15 - bits)) + (1 << 14)) >> 15)


# -- the recurrence -----------------------------------------------------------------------------------------------------------


def check(kinds: dict[str, TensorType], table: TensorType, **float32: TensorType | None) -> None:
    need_integers(**kinds)
    if table != TensorType((NODES,), "int16"):
        raise ShapeError(f"table {table} given, int16[{NODES}] needed")
    rows = kinds["weight"].shape[:2]
    for what, t in float32.items():
        if t is not None and t != TensorType(rows, "float32"):
            raise ShapeError(f"{what} {t} given, {TensorType(rows, 'float32')} needed")


@dataclass(frozen=True)
class QLstm:
    """Attributes of q_lstm."""

    direction: str
    layout: int
    x_zero: int
    h_zero: int
    h_multiplier: float
    lo: int
    hi: int
    bound_x: int
    bound_h: int


@attributes(QLstm)
def infer_lstm(
    x: TensorType,
    w: TensorType,
    w_scale: TensorType,
    r: TensorType,
    r_scale: TensorType,
    table: TensorType,
    h0: TensorType,
    c0: TensorType | None = None,
    bias: TensorType | None = None,
    *,
    a: QLstm,
) -> tuple[TensorType, TensorType, TensorType]:
    check({"input": x, "weight": w, "recurrent weight": r, "state": h0}, table, scale=w_scale, recurrent=r_scale, bias=bias)
    if c0 is not None and c0.dtype.name != "float32":
        raise DTypeError(f"the cell is {c0.dtype}, float32 needed")
    rx, rw, rr, rh = (t.with_dtype("float32") for t in (x, w, r, h0))
    hidden = r.shape[2]
    assert isinstance(hidden, int)
    y, h, c = infer_float_lstm(rx, rw, rr, None, rh, c0, hidden=hidden, layout=a.layout, **plain_options(4, a.direction))
    return y.with_dtype(h0.dtype), h.with_dtype(h0.dtype), c


@attributes(QLstm)
def q_lstm(
    x: Array,
    w: Array,
    w_scale: Array,
    r: Array,
    r_scale: Array,
    table: Array,
    h0: Array,
    c0: Array | None = None,
    bias: Array | None = None,
    *,
    a: QLstm,
) -> tuple[Array, ...]:
    """Gates i, o, f, c as in ONNX: c' = σf·c + σi·τg, h' = σo·τ(c'). Cells begin with zeros where none are given."""
    to = dtype(h0.dtype)

    def step_of(d: int) -> Callable[..., tuple[Array, ...]]:
        def step(xt: Array, h: Array, c: Array) -> tuple[Array, ...]:
            acc = exact_product(xt.astype(np.int64) - a.x_zero, w[d].T, a.bound_x)
            px = acc.astype(np.float32) * w_scale[d]
            px = px if bias is None else px + bias[d]
            acc = exact_product(h.astype(np.int64) - a.h_zero, r[d].T, a.bound_h)
            i, o, f, g = np.split(px + acc.astype(np.float32) * r_scale[d], 4, axis=-1)
            si, so, sf = (real_sigmoid(v, table) for v in (i, o, f))
            cell = sf * c + si * real_tanh(g, table)
            t = (so * real_tanh(cell, table)) * np.float32(a.h_multiplier)
            return round_clamp(t, np.asarray(a.h_zero), to, qmin=a.lo, qmax=a.hi), cell

        return step

    return scan((x,), (h0, np.zeros(h0.shape, np.float32) if c0 is None else c0), a.direction, a.layout, step_of)


@dataclass(frozen=True)
class QGru:
    """Attributes of q_gru."""

    direction: str
    layout: int
    linear_before_reset: bool
    x_zero: int
    h_zero: int
    h_scale: float
    lo: int
    hi: int
    state_bits: int
    bound_x: int
    bound_h: int


@attributes(QGru)
def infer_gru(
    x: TensorType,
    w: TensorType,
    w_scale: TensorType,
    r: TensorType,
    r_scale: TensorType,
    table: TensorType,
    h0: TensorType,
    bias: TensorType | None = None,
    r_bias: TensorType | None = None,
    s0: TensorType | None = None,
    *,
    a: QGru,
) -> tuple[TensorType, ...]:
    floats = {"scale": w_scale, "recurrent scale": r_scale, "bias": bias, "recurrent bias": r_bias}
    check({"input": x, "weight": w, "recurrent weight": r, "state": h0}, table, **floats)
    if not 0 <= a.state_bits <= 15:
        raise ShapeError(f"a state of {a.state_bits} fractional bits given, 0 to 15 needed")
    if s0 is not None and s0.dtype.name != "int16":
        raise DTypeError(f"the inner state is {s0.dtype}, int16 needed")
    rx, rw, rr, rh = (t.with_dtype("float32") for t in (x, w, r, h0))
    hidden = r.shape[2]
    assert isinstance(hidden, int)
    rs = None if s0 is None else s0.with_dtype("float32")
    y, h, *s = infer_float_gru(rx, rw, rr, None, rh, None, rs, hidden=hidden, layout=a.layout, **plain_options(3, a.direction))
    return y.with_dtype(h0.dtype), h.with_dtype(h0.dtype), *(t.with_dtype("int16") for t in s)


@attributes(QGru)
def q_gru(
    x: Array,
    w: Array,
    w_scale: Array,
    r: Array,
    r_scale: Array,
    table: Array,
    h0: Array,
    bias: Array | None = None,
    r_bias: Array | None = None,
    s0: Array | None = None,
    *,
    a: QGru,
) -> tuple[Array, ...]:
    """Gates z, r, h as in ONNX: s' = σz·s + (1 - σz)·τn in 16 bits, of which h is the narrow copy that meets the weights.

    s begins as h0 does, or as the `s0` of a sequence that goes on: then its last value is an output too.
    """
    to, f32 = dtype(h0.dtype), np.float32
    unit = f32(2.0**-a.state_bits) / f32(a.h_scale)
    reset_unit = f32(2.0 ** -(a.state_bits + 15)) / f32(a.h_scale)
    zero = np.asarray(a.h_zero)

    def step_of(d: int) -> Callable[..., tuple[Array, ...]]:
        n = 2 * r.shape[2]

        def recurrent(h: Array, rows: slice) -> F32:
            acc = exact_product(h.astype(np.int64) - a.h_zero, r[d, rows].T, a.bound_h).astype(f32) * r_scale[d, rows]
            return acc if r_bias is None else acc + r_bias[d, rows]

        def step(xt: Array, h: Array, s: Array) -> tuple[Array, ...]:
            px = exact_product(xt.astype(np.int64) - a.x_zero, w[d].T, a.bound_x).astype(f32) * w_scale[d]
            px = px if bias is None else px + bias[d]
            z, reset = np.split(sigmoid16(q12(px[:, :n] + recurrent(h, slice(0, n)), 2048), table), 2, axis=-1)
            if a.linear_before_reset:
                ph = (reset.astype(f32) * f32(2.0**-15)) * recurrent(h, slice(n, None))
            else:
                t = (reset * s).astype(f32) * reset_unit
                ph = recurrent(round_clamp(t, zero, to, qmin=a.lo, qmax=a.hi), slice(n, None))
            new = mixed(z, s, ONE - z, tanh16(q12(px[:, n:] + ph, 4096), table), a.state_bits)
            return round_clamp(new.astype(f32) * unit, zero, to, qmin=a.lo, qmax=a.hi), new

        return step

    widened = np.rint((h0.astype(np.int64) - a.h_zero).astype(f32) * (f32(a.h_scale) * f32(2.0**a.state_bits)))
    first = clamp16(widened.astype(np.int64)) if s0 is None else s0.astype(np.int64)
    y, h, s = scan((x,), (h0, first), a.direction, a.layout, step_of)
    return (y, h) if s0 is None else (y, h, s.astype(np.int16))


def macs(x: TensorType, w: TensorType, w_scale: TensorType, r: TensorType, *_: TensorType | None, **__: Any) -> Dim:
    return x.shape[0] * x.shape[1] * (w.size + r.size)


# -- lowering -----------------------------------------------------------------------------------------------------------------


def weighted(operands: Operands, h0: Operand, hidden: int) -> tuple[list[Const], dict[str, Any]]:
    """Weights and scales, and the attributes that LSTM and GRU share."""
    x, w, r = operands[:3]
    assert isinstance(x, Operand) and isinstance(w, Operand) and isinstance(r, Operand)
    (sx, xz), (sh, hz) = x.per_tensor("input"), h0.per_tensor("state")
    args: list[Const] = []
    bounds = []
    for operand, scale, magnitude, what in ((w, sx, largest_magnitude(x), "weight"), (r, sh, largest_magnitude(h0), "recurrent")):
        data, name, scales = per_row(operand, what)
        grid = np.asarray(scale * scales, np.float32)
        if not np.all(np.isfinite(grid) & (grid > 0)):
            raise NotLowered("the scale of its products leaves the range of float32")
        args += [Const(data, what, name), Const(grid, f"{what}:scale")]
        bounds.append(int(sums_of_magnitudes(data, 2).max(initial=0)) * magnitude)
    lo, hi = h0.params.code_range
    attrs = {"x_zero": xz, "h_zero": hz, "lo": lo, "hi": hi, "bound_x": bounds[0], "bound_h": bounds[1]}
    return [*args, Const(tanh_table(), "tanh", "int16")], attrs


def initial(operands: Operands, i: int, what: str) -> Operand:
    found = operands[i] if i < len(operands) else None
    if not isinstance(found, Operand):
        raise NotLowered(f"its initial {what} is not quantized, and so the parameters of its {what} are not known")
    return found


def bits_of(state: Operand, what: str) -> int:
    """The k of a 16-bit state whose scale is 2^-k."""
    scale, zero = state.per_tensor(what)
    fraction, exponent = np.frexp(scale)
    bits = 1 - int(exponent)
    if state.params.dtype.name != "int16" or zero or fraction != 0.5 or not 0 <= bits <= 15:
        raise NotLowered(f"its {what} is not int16 with a scale of 2^-15 … 1 that is a power of two")
    return bits


def gru_state_bits(h0: Operand) -> int:
    """The k of the 16 bits inside a GRU: 15, less where a state may begin beyond 1."""
    sh = float(h0.per_tensor("state")[0])
    reach = largest_magnitude(h0) * sh - sh  # a step less: a range of -1 … 1 may lie a part of one beside its zero point
    bits = 15 if reach <= 1 else 15 - int(np.ceil(np.log2(reach)))
    if bits < 0:
        raise NotLowered("its initial state is too large for 16 bits")
    return bits


def lower_lstm(operands: Operands, result: Result, *, hidden: int, direction: str, layout: int, **_: Any) -> Outputs:
    h0 = initial(operands, 4, "state")
    args, attrs = weighted(operands, h0, hidden)
    b, rb = halves(operands[3], 4 * hidden)
    bias = None if b is None or rb is None else Const(b + rb, "bias")
    attrs |= {"direction": direction, "layout": layout, "h_multiplier": float(np.float32(1) / h0.per_tensor("state")[0])}
    c0 = Ref(5, "real") if len(operands) > 5 and operands[5] is not None else None
    call = OpCall("q_lstm", (Ref(0), *args, Ref(4), c0, bias), attrs)
    return Outputs(call, (h0.params, h0.params, None))


def lower_gru(
    operands: Operands, result: Result, *, hidden: int, direction: str, layout: int, linear_before_reset: bool, **_: Any
) -> Outputs:
    h0 = initial(operands, 4, "state")
    args, attrs = weighted(operands, h0, hidden)
    sh = h0.per_tensor("state")[0]
    s0 = initial(operands, 6, "inner state") if len(operands) > 6 else None
    bits = gru_state_bits(h0) if s0 is None else bits_of(s0, "inner state")
    b, rb = halves(operands[3], 3 * hidden)
    attrs |= {
        "direction": direction,
        "layout": layout,
        "linear_before_reset": linear_before_reset,
        "state_bits": bits,
        "h_scale": float(sh),
    }
    biases = [None if v is None else Const(v, name) for v, name in ((b, "bias"), (rb, "recurrent:bias"))]
    call = OpCall("q_gru", (Ref(0), *args, Ref(4), *biases, Ref(6) if s0 is not None else None), attrs)
    return Outputs(call, (h0.params, h0.params, *([s0.params] if s0 is not None else [])))


register(Op("q_lstm", infer_lstm, q_lstm, macs), Op("q_gru", infer_gru, q_gru, macs))
_WEIGHTS: dict[str, Any] = {"channel_axis": {1: (0, 1), 2: (0, 1)}, "contract_axis": {1: 2, 2: 2}}
quantizes(
    "lstm",
    QuantSpec((0, 1, 2, 4), **_WEIGHTS, states={4: State((0, 1))}),
    lower_lstm,
    dynamic=dynamic_lstm,
    unfit=unusual(4),
)
quantizes("gru", QuantSpec((0, 1, 2, 4), **_WEIGHTS, states={4: State((0, 1))}), lower_gru, dynamic=dynamic_gru, unfit=unusual(3))
