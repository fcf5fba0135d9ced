"""lstm, gru, rnn: recurrent layers with ONNX's shapes, gate orders and options.

x (time, batch, in), w (directions, gates*hidden, in), r (directions, gates*hidden, hidden), b (directions, 2*gates*hidden): one half
beside w, one beside r. h0, c0 (directions, batch, hidden), lengths (batch) int32.
y (time, directions, batch, hidden), h, c (directions, batch, hidden). A GRU may have its state twice: see `gru`.
With layout 1 the batch comes first everywhere: x (batch, time, in), h (batch, directions, hidden), y (batch, time, directions, hidden).
Rows shorter than the longest give zeros after their end; their last state is the one at their end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.ops.checks import differ, need_float, same_dtype, wide
from lowbit.ops.op import Op, attributes, register
from lowbit.types import Array, TensorType, shape_text

Floats = tuple[float, ...]
Step = Callable[[Array, tuple[Array, ...]], tuple[Array, ...]]  # (input at a time, state) -> new state; the first of a state is the output


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1))


# name -> (function of x, alpha, beta; default alpha; default beta)
_ACTIVATIONS: dict[str, tuple[Callable[[Array, float, float], Array], float, float]] = {
    "sigmoid": (lambda x, a, b: _sigmoid(x), 0, 0),
    "tanh": (lambda x, a, b: np.tanh(x), 0, 0),
    "relu": (lambda x, a, b: np.maximum(x, 0), 0, 0),
    "affine": (lambda x, a, b: a * x + b, 1, 0),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: np.where(x >= a, x, 0), 1, 0),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1, 1),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)), 1, 0),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), 0, 0),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), 0, 0),
}
_TAKES_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_TAKES_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def activation_functions(names: tuple[str, ...], alpha: Floats, beta: Floats, clip: float | None) -> list[Callable[[Array], Array]]:
    """The functions by name. Given alphas and betas are dealt out in order to those that take one; input is clipped to ±clip first."""
    alphas, betas = list(alpha), list(beta)
    made = []
    for name in (n.lower() for n in names):
        if name not in _ACTIVATIONS:
            raise UnsupportedOp(f"activation '{name}' is not supported", hint="one of " + ", ".join(_ACTIVATIONS))
        f, a, b = _ACTIVATIONS[name]
        if name in _TAKES_ALPHA and alphas:
            a = alphas.pop(0)
        if name in _TAKES_BETA and betas:
            b = betas.pop(0)
        made.append(_bound(f, a, b, clip))
    return made


def _bound(f: Callable[[Array, float, float], Array], a: float, b: float, clip: float | None) -> Callable[[Array], Array]:
    return lambda x: np.asarray(f(x if clip is None else np.clip(x, -clip, clip), a, b)).astype(x.dtype, copy=False)


def _check(
    gates: int,
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None,
    lengths: TensorType | None,
    hidden: int,
    direction: str,
    activations: tuple[str, ...],
    layout: int,
    **others: tuple[TensorType | None, tuple[Dim, ...]],
) -> tuple[TensorType, TensorType]:
    need_float(x)
    if x.rank != 3:
        raise ShapeError(f"input {shape_text(x.shape)} given, {'(batch, time, in)' if layout else '(time, batch, in)'} needed")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise UnsupportedOp(f"direction '{direction}' is not forward, reverse or bidirectional")
    d = 2 if direction == "bidirectional" else 1
    functions = d * {4: 3, 3: 2, 1: 1}[gates]
    if len(activations) != functions:
        raise ShapeError(f"{len(activations)} activations given, {functions} needed")
    activation_functions(activations, (), (), None)
    time, batch = (x.shape[1], x.shape[0]) if layout else (x.shape[0], x.shape[1])
    state = (batch, d, hidden) if layout else (d, batch, hidden)
    needed: dict[str, tuple[TensorType | None, tuple[Dim, ...]]] = {
        "weight": (w, (d, gates * hidden, x.shape[2])),
        "recurrent weight": (r, (d, gates * hidden, hidden)),
        "bias": (b, (d, 2 * gates * hidden)),
        "lengths": (lengths, (batch,)),
        **{what: (t, shape or state) for what, (t, shape) in others.items()},
    }
    for what, (t, shape) in needed.items():
        if t is not None and (t.rank != len(shape) or any(map(differ, t.shape, shape))):
            raise ShapeError(f"{what} {shape_text(t.shape)} given, {shape_text(shape)} needed")
    same_dtype(input=x, **{k: t for k, (t, _) in needed.items() if k != "lengths"})
    y = (batch, time, d, hidden) if layout else (time, d, batch, hidden)
    return TensorType(y, x.dtype), TensorType(state, x.dtype)


def _run(
    x: Array,
    states: tuple[Array | None, ...],
    lengths: Array | None,
    hidden: int,
    direction: str,
    layout: int,
    steps: list[Step],
) -> list[Array]:
    """Y and the last states. `steps` has one step function for each direction."""
    dtype = x.dtype
    xs = wide(x.swapaxes(0, 1) if layout else x)  # (time, batch, in)
    time, batch = xs.shape[:2]
    ends = np.full(batch, time) if lengths is None else lengths
    y = np.zeros((time, len(steps), batch, hidden), xs.dtype)
    last: list[list[Array]] = [[] for _ in states]
    for d, step in enumerate(steps):
        backwards = direction == "reverse" or d == 1
        first = [np.zeros((len(steps), batch, hidden), xs.dtype) if s is None else wide(s.swapaxes(0, 1) if layout else s) for s in states]
        state = tuple(s[d] for s in first)
        for t in reversed(range(time)) if backwards else range(time):
            running = (t < ends)[:, None]  # a row that has ended (or, backwards, not begun) keeps its state
            state = tuple(np.where(running, new, old) for new, old in zip(step(xs[t], state), state, strict=True))
            y[t, d] = np.where(running, state[0], 0)
        for found, s in zip(last, state, strict=True):
            found.append(s)
    results = [y.transpose(2, 0, 1, 3) if layout else y]
    results += [np.stack(s, axis=1 if layout else 0) for s in last]
    return [r.astype(dtype, copy=False) for r in results]


def _split_bias(b: Array | None, d: int, size: int) -> tuple[Array, Array]:
    if b is None:
        return np.zeros(size, np.float32), np.zeros(size, np.float32)
    return wide(b)[d, :size], wide(b)[d, size:]


def _functions(
    d: int, directions: int, activations: tuple[str, ...], alpha: Floats, beta: Floats, clip: float | None
) -> list[Callable[[Array], Array]]:
    every = activation_functions(activations, alpha, beta, clip)
    n = len(every) // directions
    return every[d * n : (d + 1) * n]


@dataclass(frozen=True)
class Recurrent:
    """Attributes of lstm, gru and rnn, as ONNX has them; each has its own after these."""

    hidden: int
    direction: str
    activations: tuple[str, ...]
    activation_alpha: Floats = ()
    activation_beta: Floats = ()
    clip: float | None = None


@dataclass(frozen=True)
class Lstm(Recurrent):
    input_forget: bool = False
    layout: int = 0


@attributes(Lstm)
def infer_lstm(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None = None,
    h0: TensorType | None = None,
    c0: TensorType | None = None,
    p: TensorType | None = None,
    lengths: TensorType | None = None,
    *,
    a: Lstm,
) -> tuple[TensorType, TensorType, TensorType]:
    d = 2 if a.direction == "bidirectional" else 1
    y, h = _check(
        4, x, w, r, b, lengths, a.hidden, a.direction, a.activations, a.layout, h0=(h0, ()), c0=(c0, ()), peephole=(p, (d, 3 * a.hidden))
    )
    return y, h, h


@attributes(Lstm)
def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    p: Array | None = None,
    lengths: Array | None = None,
    *,
    a: Lstm,
) -> tuple[Array, Array, Array]:
    """Gates i, o, f, c: c' = f*c + i*g(…), h = o*h(c'); peepholes i, o, f look at c, c', c. `input_forget` couples f = 1 - i."""

    def step_of(d: int) -> Step:
        f, g, _ = _functions(d, w.shape[0], a.activations, a.activation_alpha, a.activation_beta, a.clip)
        # the cell is not clipped: ONNX Runtime's reading
        h = _functions(d, w.shape[0], a.activations, a.activation_alpha, a.activation_beta, None)[2]
        wt, rt = wide(w)[d].T, wide(r)[d].T
        bias = sum(_split_bias(b, d, 4 * a.hidden))
        pi, po, pf = np.split(wide(p)[d], 3) if p is not None else (0, 0, 0)

        def step(xt: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            ht, ct = state
            zi, zo, zf, zc = np.split((xt @ wt + ht @ rt + bias).astype(xt.dtype), 4, axis=-1)
            i = f(zi + pi * ct)
            forget = 1 - i if a.input_forget else f(zf + pf * ct)
            new = forget * ct + i * g(zc)
            return f(zo + po * new) * h(new), new

        return step

    y, hn, cn = _run(x, (h0, c0), lengths, a.hidden, a.direction, a.layout, [step_of(d) for d in range(w.shape[0])])
    return y, hn, cn


@dataclass(frozen=True)
class Gru(Recurrent):
    linear_before_reset: bool = False
    layout: int = 0


@attributes(Gru)
def infer_gru(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None = None,
    h0: TensorType | None = None,
    lengths: TensorType | None = None,
    s0: TensorType | None = None,
    *,
    a: Gru,
) -> tuple[TensorType, ...]:
    y, h = _check(3, x, w, r, b, lengths, a.hidden, a.direction, a.activations, a.layout, h0=(h0, ()), s0=(s0, ()))
    return (y, h) if s0 is None else (y, h, h)


@attributes(Gru)
def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    h0: Array | None = None,
    lengths: Array | None = None,
    s0: Array | None = None,
    *,
    a: Gru,
) -> tuple[Array, ...]:
    """Gates z, r, h: h' = (1 - z)*ĥ + z*h. `linear_before_reset` resets the product with the recurrent weight, else the state before it.

    Where `s0` is given, h and what is interpolated (or reset before the product) begin apart: h0 only meets the weights. The last of both
    are outputs then. Reals are the same on both sides from the first step on; integers hold more bits in s than in h.
    """

    def step_of(d: int) -> Step:
        f, g = _functions(d, w.shape[0], a.activations, a.activation_alpha, a.activation_beta, a.clip)
        wt, rt = wide(w)[d].T, wide(r)[d].T
        wb, rb = _split_bias(b, d, 3 * a.hidden)
        n = 2 * a.hidden

        def step(xt: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            ht, st = state[0], state[-1]
            xw = (xt @ wt + wb).astype(xt.dtype)
            z, reset = np.split(f(xw[:, :n] + (ht @ rt[:, :n] + rb[:n]).astype(xt.dtype)), 2, axis=-1)
            if a.linear_before_reset:
                new = g(xw[:, n:] + reset * (ht @ rt[:, n:] + rb[n:]).astype(xt.dtype))
            else:
                new = g(xw[:, n:] + ((reset * st) @ rt[:, n:] + rb[n:]).astype(xt.dtype))
            return ((1 - z) * new + z * st,) * len(state)

        return step

    states = (h0,) if s0 is None else (h0, s0)
    return tuple(_run(x, states, lengths, a.hidden, a.direction, a.layout, [step_of(d) for d in range(w.shape[0])]))


@dataclass(frozen=True)
class Rnn(Recurrent):
    layout: int = 0


@attributes(Rnn)
def infer_rnn(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None = None,
    h0: TensorType | None = None,
    lengths: TensorType | None = None,
    *,
    a: Rnn,
) -> tuple[TensorType, TensorType]:
    return _check(1, x, w, r, b, lengths, a.hidden, a.direction, a.activations, a.layout, h0=(h0, ()))


@attributes(Rnn)
def rnn(
    x: Array, w: Array, r: Array, b: Array | None = None, h0: Array | None = None, lengths: Array | None = None, *, a: Rnn
) -> tuple[Array, Array]:
    """h' = f(x wᵀ + h rᵀ + b)."""

    def step_of(d: int) -> Step:
        (f,) = _functions(d, w.shape[0], a.activations, a.activation_alpha, a.activation_beta, a.clip)
        wt, rt = wide(w)[d].T, wide(r)[d].T
        bias = sum(_split_bias(b, d, a.hidden))
        return lambda xt, state: (f((xt @ wt + state[0] @ rt + bias).astype(xt.dtype)),)

    y, hn = _run(x, (h0,), lengths, a.hidden, a.direction, a.layout, [step_of(d) for d in range(w.shape[0])])
    return y, hn


def macs(x: TensorType, w: TensorType, r: TensorType, *_: TensorType | None, **__: object) -> Dim:
    return x.shape[0] * x.shape[1] * (w.size + r.size)


register(
    Op("lstm", infer_lstm, lstm, macs),
    Op("gru", infer_gru, gru, macs),
    Op("rnn", infer_rnn, rnn, macs),
)
