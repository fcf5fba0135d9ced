"""Recurrent layers: the same shapes, gates and options in the graph, with the defaults of the activations filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value


def _options(node: OnnxNode, r: Value, *defaults: str) -> dict[str, Any]:
    direction = node.attr("direction", "forward")
    names = node.attr("activations") or list(defaults) * (2 if direction == "bidirectional" else 1)
    return {
        "hidden": node.attr("hidden_size") or int(r.shape[-1]),
        "direction": direction,
        "activations": tuple(n.lower() for n in names),
        "activation_alpha": tuple(node.attr("activation_alpha") or ()),
        "activation_beta": tuple(node.attr("activation_beta") or ()),
        "clip": node.attr("clip"),
        "layout": node.attr("layout", 0),
    }


def _lengths(c: Importer, node: OnnxNode) -> Value | None:
    """The lengths, unless they are known to be the whole time for every row."""
    x, lengths = c.input(node, 0), c.optional(node, 4)
    known = c.constant_data(lengths)
    time = x.shape[1 if node.attr("layout", 0) else 0]
    return None if known is not None and all(n == time for n in known) else lengths


@onnx_op("LSTM")
def lstm(c: Importer, node: OnnxNode) -> Sequence[Value]:
    x, w, r = (c.input(node, i) for i in range(3))
    b, _, h0, c0, p = (c.optional(node, i) for i in range(3, 8))
    options = _options(node, r, "sigmoid", "tanh", "tanh")
    return c.add_node("lstm", x, w, r, b, h0, c0, p, _lengths(c, node), **options, input_forget=bool(node.attr("input_forget", 0)))


@onnx_op("GRU")
def gru(c: Importer, node: OnnxNode) -> Sequence[Value]:
    x, w, r = (c.input(node, i) for i in range(3))
    options = _options(node, r, "sigmoid", "tanh")
    reset = bool(node.attr("linear_before_reset", 0))
    return c.add_node("gru", x, w, r, c.optional(node, 3), c.optional(node, 5), _lengths(c, node), **options, linear_before_reset=reset)


@onnx_op("RNN")
def rnn(c: Importer, node: OnnxNode) -> Sequence[Value]:
    x, w, r = (c.input(node, i) for i in range(3))
    return c.add_node("rnn", x, w, r, c.optional(node, 3), c.optional(node, 5), _lengths(c, node), **_options(node, r, "tanh"))
