"""Recurrent layers traced as one op each. Left to itself torch.export walks through them step by step and fixes the sequence length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_REST = "Tensor[] weights, bool biases, int layers, float dropout, bool train, bool both, bool batch_first"


@cache
def _library() -> Any:
    """The ops lowbit::lstm …, which know the shapes of their results and nothing else: they are traced, never run.

    torch forgets a library that nobody holds; the cache holds it.
    """
    import torch

    library = torch.library.Library("lowbit", "DEF")  # type: ignore[no-untyped-call]
    library.define(f"lstm(Tensor x, Tensor[] state, {_REST}) -> (Tensor, Tensor, Tensor)")  # type: ignore[no-untyped-call]
    torch.library.register_fake("lowbit::lstm", _lstm_shapes, lib=library)
    for kind in KINDS[1:]:
        library.define(f"{kind}(Tensor x, Tensor state, {_REST}) -> (Tensor, Tensor)")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"lowbit::{kind}", _single_shapes, lib=library)
    return library


def _output(x: Any, hidden: int, both: bool) -> Any:
    return x.new_empty((*x.shape[:-1], hidden * (2 if both else 1)))


def _lstm_shapes(x: Any, state: Sequence[Any], weights: Any, *options: Any) -> Any:
    import torch

    return _output(x, state[0].shape[-1], options[4]), torch.empty_like(state[0]), torch.empty_like(state[1])


def _single_shapes(x: Any, state: Any, weights: Any, *options: Any) -> Any:
    import torch

    return _output(x, state.shape[-1], options[4]), torch.empty_like(state)


@contextmanager
def recurrent_layers_as_ops() -> Iterator[None]:
    """Inside, nn.LSTM, nn.GRU and nn.RNN on padded sequences call the ops of this file."""
    import torch

    _library()
    functions = torch._VF
    before = {kind: getattr(functions, kind) for kind in KINDS}

    def replaced(kind: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not isinstance(args[3], bool):  # a packed sequence has its lengths as one more argument
                return before[kind](*args)
            x, state, *rest = args
            return getattr(torch.ops.lowbit, kind)(x, list(state) if kind == "lstm" else state, *rest)

        return call

    for kind in KINDS:
        setattr(functions, kind, replaced(kind))
    try:
        yield
    finally:
        for kind in KINDS:
            delattr(functions, kind)
