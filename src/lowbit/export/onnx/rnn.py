"""Recurrent layers: the same shapes, gates and options as in the graph; or their integers, see recurrence.py."""

from __future__ import annotations

from typing import Any

from lowbit.errors import UnsupportedOp
from lowbit.export.onnx.recurrence import write_recurrence
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node

# ONNX writes these names with capitals inside
_NAMES = {"hardsigmoid": "HardSigmoid", "scaledtanh": "ScaledTanh", "leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu"}
_DEFAULTS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}


def _options(node: Node) -> dict[str, Any]:
    a = node.attrs
    names = tuple(str(n) for n in a["activations"])  # type: ignore[union-attr]
    plain = names == _DEFAULTS[node.op] * (2 if a["direction"] == "bidirectional" else 1)
    return {
        "hidden_size": a["hidden"],
        "direction": a["direction"],
        "activations": None if plain else [_NAMES.get(n, n.capitalize()) for n in names],
        "activation_alpha": a["activation_alpha"] or None,
        "activation_beta": a["activation_beta"] or None,
        "clip": a["clip"],
        "layout": a["layout"] or None,
    }


@spells("lstm")
def lstm(w: Writer, node: Node) -> None:
    if node.output.name in w.integer:
        write_recurrence(w, node, w.integer[node.output.name])
        return
    x, wx, r, b, h0, c0, p, lengths = (node.input(i) for i in range(8))
    forget = 1 if node.attrs["input_forget"] else None
    w.node(node, "LSTM", x, wx, r, b, lengths, h0, c0, p, **_options(node), input_forget=forget)


@spells("gru")
def gru(w: Writer, node: Node) -> None:
    if node.output.name in w.integer:
        write_recurrence(w, node, w.integer[node.output.name])
        return
    x, wx, r, b, h0, lengths = (node.input(i) for i in range(6))
    if node.input(6) is not None:
        raise UnsupportedOp("ONNX's GRU has no state beside h that goes on", where=node.where, hint="export the network on whole sequences")
    w.node(node, "GRU", x, wx, r, b, lengths, h0, **_options(node), linear_before_reset=node.attrs["linear_before_reset"])


@spells("rnn")
def rnn(w: Writer, node: Node) -> None:
    x, wx, r, b, h0, lengths = (node.input(i) for i in range(6))
    w.node(node, "RNN", x, wx, r, b, lengths, h0, **_options(node))
