"""What recurrent layers in integers have in common: their options, the walk through time, weights with a scale for each row, biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.numerics import F32
from lowbit.ops.quant import FloatOperand, NotLowered, Operand, RowsOperand, Unfit, symmetric_weights
from lowbit.quant_params import PerAxis, PerBlock
from lowbit.types import Array


def unusual(gates: int) -> Unfit:
    """What is not the usual LSTM (4 gates) or GRU (3) about a node, in words."""
    extra = {4: {6: "has peepholes", 7: "has rows of different lengths"}, 3: {5: "has rows of different lengths"}}[gates]

    def unfit(
        given: tuple[bool, ...], *, direction: str, activations: tuple[str, ...], clip: float | None, input_forget: bool = False, **_: Any
    ) -> str | None:
        usual = plain_options(gates, direction)["activations"]
        if tuple(a.lower() for a in activations) != usual:
            return f"its activations are {', '.join(activations)}; integers have {', '.join(usual)}"
        if clip is not None:
            return f"it clips its gates to ±{clip}"
        if input_forget:
            return "its input and forget gates are coupled"
        return next((f"it {what}" for i, what in extra.items() if i < len(given) and given[i]), None)

    return unfit


def per_row(w: Operand, what: str) -> tuple[Array, str, F32]:
    """Integers (directions, rows, in), their dtype, and scales (directions, rows)."""
    data, name = symmetric_weights(w)
    g, scale = w.params.granularity, w.params.scale
    rows = data.shape[:2]
    if isinstance(g, PerAxis) and g.axis % 3 != 1:
        raise NotLowered(f"its {what} is quantized {g}, one scale for each direction and row is needed")
    if isinstance(g, PerBlock):
        if g.axis % 3 != 2 or scale.shape[2] > 1:
            raise NotLowered(f"its {what} is quantized {g}, one scale for each direction and row is needed")
        scale = scale[:, :, 0]
    return data, name, np.array(np.broadcast_to(scale, rows), np.float32)


def halves(bias: RowsOperand | Operand | FloatOperand | None, size: int) -> tuple[F32, F32] | tuple[None, None]:
    """The bias beside w and the one beside r, (directions, rows) each, float32."""
    if bias is None:
        return None, None
    if not isinstance(bias, FloatOperand) or bias.data is None:
        raise NotLowered("its bias is not a float constant")
    b = bias.data.astype(np.float32)
    return np.ascontiguousarray(b[:, :size]), np.ascontiguousarray(b[:, size:])


def plain_options(gates: int, direction: str) -> dict[str, Any]:
    """The options of the float op that the integer ones mean."""
    names = ("sigmoid", "tanh", "tanh")[: 3 if gates == 4 else 2]
    return {"direction": direction, "activations": names * (2 if direction == "bidirectional" else 1)}


def scan(
    xs: tuple[Array, ...],
    states: tuple[Array, ...],
    direction: str,
    layout: int,
    step_of: Callable[[int], Callable[..., tuple[Array, ...]]],
) -> tuple[Array, ...]:
    """y and the last states: for each direction its step over the time. The first of a state is what y collects.

    A step takes the inputs `xs` at a time and the states; with layout 1 the batch comes first, outside.
    """
    inputs, last = ([np.array(a.swapaxes(0, 1) if layout else a) for a in arrays] for arrays in (xs, states))
    time = len(inputs[0])
    y = np.zeros((time, *last[0].shape), last[0].dtype)
    for d in range(len(last[0])):
        step, state = step_of(d), tuple(s[d] for s in last)
        for t in reversed(range(time)) if direction == "reverse" or d == 1 else range(time):
            state = step(*(x[t] for x in inputs), *state)
            y[t, d] = state[0]
        for kept, s in zip(last, state, strict=True):
            kept[d] = s
    return (y.transpose(2, 0, 1, 3) if layout else y, *(s.swapaxes(0, 1) if layout else s for s in last))
