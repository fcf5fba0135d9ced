"""LSTM, GRU and RNN of any depth and direction: one recurrent op per layer, with torch's gates put into ONNX's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dtypes import DType
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Handler, Importer, aten
from lowbit.ir.graph import Value
from lowbit.types import Array


@dataclass(frozen=True)
class Kind:
    """A recurrent op: where each of ONNX's gates stands in torch's weights, the activations per direction, further options."""

    op: str
    gates: tuple[int, ...]
    activations: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()


LSTM = Kind("lstm", (0, 3, 1, 2), ("sigmoid", "tanh", "tanh"), (("input_forget", False),))  # torch i f g o, ONNX i o f c
GRU = Kind("gru", (1, 0, 2), ("sigmoid", "tanh"), (("linear_before_reset", True),))  # torch r z n, ONNX z r h
RNN_TANH = Kind("rnn", (0,), ("tanh",))
RNN_RELU = Kind("rnn", (0,), ("relu",))


def _handler(kind: Kind) -> Handler:
    def handler(
        c: Importer,
        x: Value,
        state: Value | Sequence[Value],
        weights: Sequence[Value],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Value]:
        states = [state] if isinstance(state, Value) else state
        return recurrent(c, kind, x, states, weights, has_biases, layers, bidirectional, batch_first)

    return handler


aten("lstm.input", "lowbit.lstm")(_handler(LSTM))
aten("gru.input", "lowbit.gru")(_handler(GRU))
aten("rnn_tanh.input", "lowbit.rnn_tanh")(_handler(RNN_TANH))
aten("rnn_relu.input", "lowbit.rnn_relu")(_handler(RNN_RELU))


@aten("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data")
def packed(c: Importer, *_: Any) -> Value:
    raise UnsupportedOp("packed sequences are not supported", hint="run the layer on padded sequences")


def recurrent(
    c: Importer,
    kind: Kind,
    x: Value,
    state: Sequence[Value],
    weights: Sequence[Value],
    biases: bool,
    layers: int,
    both: bool,
    batch_first: bool,
) -> list[Value]:
    """[y, *last states], in torch's shapes: y (T, N, D·H) or (N, T, D·H), states (layers·D, N, H); no N for a single sequence."""
    directions = 2 if both else 1
    per = 4 if biases else 2
    if len(weights) != layers * directions * per:
        raise UnsupportedOp("an LSTM with proj_size is not supported", hint="use a Linear layer on the outputs")
    if x.type.rank == 2:
        x = c.reshape(x, (x.shape[0], 1, x.shape[1]))
        state = [c.reshape(s, (s.shape[0], 1, s.shape[1])) for s in state]
        batch_first = False
    y = c.transpose(x, [1, 0, 2]) if batch_first else x
    hidden = int(weights[1].shape[1])
    last: list[list[Value]] = [[] for _ in state]
    for layer in range(layers):
        mine = [weights[(layer * directions + d) * per : (layer * directions + d + 1) * per] for d in range(directions)]
        first = [None if c.is_zero(s) else c.narrow(s, 0, layer * directions, directions) for s in state]
        out = c.add_node(
            kind.op,
            y,
            _stacked(c, kind, [m[:1] for m in mine]),
            _stacked(c, kind, [m[1:2] for m in mine]),
            _stacked(c, kind, [m[2:4] for m in mine]) if biases else None,
            *first,
            hidden=hidden,
            direction="bidirectional" if both else "forward",
            activations=kind.activations * directions,
            **dict(kind.options),
        )
        for all_layers, h in zip(last, out[1:], strict=True):
            all_layers.append(h)
        t, d, n, h_ = out[0].shape
        y = c.reshape(c.transpose(out[0], [0, 2, 1, 3]), (t, n, d * h_))
    y = c.transpose(y, [1, 0, 2]) if batch_first else y
    states = [hs[0] if layers == 1 else c.add("concat", *hs, axis=0) for hs in last]
    return [c.reshape(v, c.shape(i)) for i, v in enumerate([y, *states])]


def _stacked(c: Importer, kind: Kind, parts: Sequence[Sequence[Value]]) -> Value:
    """The directions' weights in one constant (D, gates·H, …); of biases, both halves side by side."""
    first = parts[0][0]
    arrays = []
    for direction in parts:
        rows = [_reordered(c.constant_data(p), kind.gates) for p in direction]
        arrays.append(np.concatenate(rows) if len(rows) > 1 else rows[0])
    stacked = np.stack(arrays)
    return _named_once(c, stacked, f"{first.name}.{kind.op}", first.type.dtype)


def _reordered(weight: Array | None, gates: tuple[int, ...]) -> Array:
    if weight is None:
        raise UnsupportedOp("recurrent weights that are computed at run time are not supported")
    blocks = np.split(weight, len(gates))
    return np.concatenate([blocks[g] for g in gates])


def _named_once(c: Importer, data: Array, name: str, dtype: DType) -> Value:
    """A layer called twice has its weights once."""
    made = c._constants.get(name)
    if made is not None and made.data.shape == data.shape and made.data.tobytes() == data.tobytes():
        return made.value
    return c.constant(data, name=name, dtype=dtype)
