"""q_lstm_rows, q_gru_rows: recurrent layers whose input and hidden state are quantized row by row at run time (docs/arithmetic.md §7).

Products are exact integers; gates, cell and state are float32, in steps that every backend can take:

    pre = (fl32(Σ x·w) × (x_scale × w_scale) + bias) + (fl32(Σ h·r) × (h_scale × r_scale) + r_bias)         (h, h_scale) = quantize_rows(h)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import ShapeError
from lowbit.numerics import F32, lb_sigmoid, lb_tanh, sums_of_magnitudes
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_linear import ROW_MAGNITUDE
from lowbit.ops.q_matmul import exact_product, need_integers
from lowbit.ops.quant import Const, DynamicOperands, NotLowered, OpCall, Operand, Outputs, Ref, Result
from lowbit.ops.quantize_rows import quantize_rows
from lowbit.ops.rnn import infer_gru as infer_float_gru
from lowbit.ops.rnn import infer_lstm as infer_float_lstm
from lowbit.ops.rnn_common import halves, per_row, plain_options, scan
from lowbit.types import Array, TensorType


def check(x: TensorType, x_scale: TensorType, w: TensorType, r: TensorType, **float32: TensorType | None) -> None:
    need_integers(input=x, weight=w, recurrent=r)
    if x_scale != TensorType((*x.shape[:-1], 1), "float32"):
        raise ShapeError(f"row scales {x_scale} given, {TensorType((*x.shape[:-1], 1), 'float32')} needed")
    for what, t in float32.items():
        if t is not None and t != TensorType(w.shape[:2], "float32"):
            raise ShapeError(f"{what} {t} given, {TensorType(w.shape[:2], 'float32')} needed")


def zeros(given: Array | None, x: Array, r: Array, layout: int) -> Array:
    """The initial state, zeros where it is left out."""
    batch = x.shape[0 if layout else 1]
    return np.zeros((batch, len(r), r.shape[2]) if layout else (len(r), batch, r.shape[2]), np.float32) if given is None else given


def product(q: Array, s: Array, w: Array, scale: Array, bias: Array | None, bound: int) -> F32:
    """fl32(Σ q·w) × (s × scale) + bias."""
    t: F32 = exact_product(q, w.T, bound).astype(np.float32) * (s * scale)
    return t if bias is None else t + bias


@dataclass(frozen=True)
class LstmRows:
    """Attributes of q_lstm_rows."""

    direction: str
    layout: int
    bound_x: int
    bound_h: int


@attributes(LstmRows)
def infer_lstm(
    x: TensorType,
    x_scale: TensorType,
    w: TensorType,
    w_scale: TensorType,
    r: TensorType,
    r_scale: TensorType,
    bias: TensorType | None = None,
    h0: TensorType | None = None,
    c0: TensorType | None = None,
    *,
    a: LstmRows,
) -> tuple[TensorType, TensorType, TensorType]:
    check(x, x_scale, w, r, scale=w_scale, recurrent=r_scale, bias=bias)
    rx, rw, rr = (t.with_dtype("float32") for t in (x, w, r))
    hidden = r.shape[2]
    assert isinstance(hidden, int)
    return infer_float_lstm(rx, rw, rr, None, h0, c0, hidden=hidden, layout=a.layout, **plain_options(4, a.direction))


@attributes(LstmRows)
def q_lstm_rows(
    x: Array,
    x_scale: Array,
    w: Array,
    w_scale: Array,
    r: Array,
    r_scale: Array,
    bias: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    *,
    a: LstmRows,
) -> tuple[Array, ...]:
    """Gates i, o, f, c: c' = (f × c) + (i × g), h' = o × tanh(c')."""

    def step_of(d: int) -> Callable[..., tuple[Array, ...]]:
        def step(xt: Array, st: Array, h: Array, c: Array) -> tuple[Array, ...]:
            px = product(xt, st, w[d], w_scale[d], None if bias is None else bias[d], a.bound_x)
            i, o, f, g = np.split(px + product(*quantize_rows(h), r[d], r_scale[d], None, a.bound_h), 4, axis=-1)
            cell = lb_sigmoid(f) * c + lb_sigmoid(i) * lb_tanh(g)
            return lb_sigmoid(o) * lb_tanh(cell), cell

        return step

    return scan((x, x_scale), (zeros(h0, x, r, a.layout), zeros(c0, x, r, a.layout)), a.direction, a.layout, step_of)


@dataclass(frozen=True)
class GruRows:
    """Attributes of q_gru_rows."""

    direction: str
    layout: int
    linear_before_reset: bool
    bound_x: int
    bound_h: int


@attributes(GruRows)
def infer_gru(
    x: TensorType,
    x_scale: TensorType,
    w: TensorType,
    w_scale: TensorType,
    r: TensorType,
    r_scale: TensorType,
    bias: TensorType | None = None,
    r_bias: TensorType | None = None,
    h0: TensorType | None = None,
    *,
    a: GruRows,
) -> tuple[TensorType, ...]:
    check(x, x_scale, w, r, scale=w_scale, recurrent=r_scale, bias=bias, r_bias=r_bias)
    rx, rw, rr = (t.with_dtype("float32") for t in (x, w, r))
    hidden = r.shape[2]
    assert isinstance(hidden, int)
    return infer_float_gru(rx, rw, rr, None, h0, hidden=hidden, layout=a.layout, **plain_options(3, a.direction))


@attributes(GruRows)
def q_gru_rows(
    x: Array,
    x_scale: Array,
    w: Array,
    w_scale: Array,
    r: Array,
    r_scale: Array,
    bias: Array | None = None,
    r_bias: Array | None = None,
    h0: Array | None = None,
    *,
    a: GruRows,
) -> tuple[Array, ...]:
    """Gates z, r, h: h' = ((1 - z) × n) + (z × h)."""

    def step_of(d: int) -> Callable[..., tuple[Array, ...]]:
        n = 2 * r.shape[2]

        def recurrent(h: Array, rows: slice) -> F32:
            return product(*quantize_rows(h), r[d, rows], r_scale[d, rows], None if r_bias is None else r_bias[d, rows], a.bound_h)

        def step(xt: Array, st: Array, h: Array) -> tuple[Array, ...]:
            px = product(xt, st, w[d], w_scale[d], None if bias is None else bias[d], a.bound_x)
            z, reset = np.split(lb_sigmoid(px[:, :n] + recurrent(h, slice(0, n))), 2, axis=-1)
            ph = reset * recurrent(h, slice(n, None)) if a.linear_before_reset else recurrent(reset * h, slice(n, None))
            return ((np.float32(1) - z) * lb_tanh(px[:, n:] + ph) + z * h,)

        return step

    return scan((x, x_scale), (zeros(h0, x, r, a.layout),), a.direction, a.layout, step_of)


def macs(x: TensorType, x_scale: TensorType, w: TensorType, w_scale: TensorType, r: TensorType, *_: TensorType | None, **__: Any) -> Dim:
    return x.shape[0] * x.shape[1] * (w.size + r.size)


# -- lowering -----------------------------------------------------------------------------------------------------------------


def weighted(operands: DynamicOperands) -> tuple[list[Const], dict[str, Any]]:
    args: list[Const] = []
    bounds = []
    for i, what in ((1, "weight"), (2, "recurrent")):
        operand = operands[i]
        if not isinstance(operand, Operand):
            raise NotLowered(f"its {what} is not quantized")
        data, name, scales = per_row(operand, what)
        args += [Const(data, what, name), Const(scales, f"{what}:scale")]
        bounds.append(int(sums_of_magnitudes(data, 2).max(initial=0)) * ROW_MAGNITUDE)
    return args, {"bound_x": bounds[0], "bound_h": bounds[1]}


def real(operands: DynamicOperands, i: int) -> Ref | None:
    return Ref(i, "real") if i < len(operands) and operands[i] is not None else None


def dynamic_lstm(operands: DynamicOperands, result: Result, *, hidden: int, direction: str, layout: int, **_: Any) -> Outputs:
    args, attrs = weighted(operands)
    b, rb = halves(operands[3] if len(operands) > 3 else None, 4 * hidden)
    bias = None if b is None or rb is None else Const(b + rb, "bias")
    call = OpCall(
        "q_lstm_rows",
        (Ref(0), Ref(0, "scale"), *args, bias, real(operands, 4), real(operands, 5)),
        attrs | {"direction": direction, "layout": layout},
    )
    return Outputs(call, (None, None, None))


def dynamic_gru(
    operands: DynamicOperands, result: Result, *, hidden: int, direction: str, layout: int, linear_before_reset: bool, **_: Any
) -> Outputs:
    args, attrs = weighted(operands)
    b, rb = halves(operands[3] if len(operands) > 3 else None, 3 * hidden)
    biases = [None if v is None else Const(v, name) for v, name in ((b, "bias"), (rb, "recurrent:bias"))]
    options = {"direction": direction, "layout": layout, "linear_before_reset": linear_before_reset}
    call = OpCall("q_gru_rows", (Ref(0), Ref(0, "scale"), *args, *biases, real(operands, 4)), attrs | options)
    return Outputs(call, (None, None))


register(Op("q_lstm_rows", infer_lstm, q_lstm_rows, macs), Op("q_gru_rows", infer_gru, q_gru_rows, macs))
