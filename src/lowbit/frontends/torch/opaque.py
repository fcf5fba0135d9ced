"""Layers traced as one op each, which torch.export would take apart.

Recurrent ones: left to itself it walks through them step by step and fixes the sequence length. Dropout and batch norm, for who trains
what was exported: in eval mode nothing is left of the one, and the other forgets that it has a second mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_REST = "Tensor[] weights, bool biases, int layers, float dropout, bool train, bool both, bool batch_first"


@cache
def _library() -> Any:
    """The ops lowbit::lstm, lowbit::dropout …, which know the shapes of their results and nothing else: they are traced, never run.

    torch forgets a library that nobody holds; the cache holds it.
    """
    import torch

    library = torch.library.Library("lowbit", "DEF")  # type: ignore[no-untyped-call]
    library.define(f"lstm(Tensor x, Tensor[] state, {_REST}) -> (Tensor, Tensor, Tensor)")  # type: ignore[no-untyped-call]
    torch.library.register_fake("lowbit::lstm", _lstm_shapes, lib=library)
    for kind in KINDS[1:]:
        library.define(f"{kind}(Tensor x, Tensor state, {_REST}) -> (Tensor, Tensor)")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"lowbit::{kind}", _single_shapes, lib=library)
    library.define("dropout(Tensor x, float p) -> Tensor")  # type: ignore[no-untyped-call]
    torch.library.register_fake("lowbit::dropout", _same_shape, lib=library)
    library.define(  # type: ignore[no-untyped-call]
        "batch_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float momentum, float eps) -> Tensor"
    )
    torch.library.register_fake("lowbit::batch_norm", _same_shape, lib=library)
    return library


def _same_shape(x: Any, *rest: Any) -> Any:
    import torch

    return torch.empty_like(x)


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


@contextmanager
def training_layers_as_ops() -> Iterator[None]:
    """Inside, dropout that is off and batch norm with statistics call the ops of this file."""
    import torch
    from torch.nn import functional

    _library()
    before = {name: getattr(functional, name) for name in ("dropout", "batch_norm")}

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return before["dropout"](input, p, training, inplace) if training else torch.ops.lowbit.dropout(input, float(p))

    def batch_norm(
        input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
        momentum: float = 0.1, eps: float = 1e-5,
    ) -> Any:  # fmt: skip
        if training or running_mean is None or running_var is None:
            return before["batch_norm"](input, running_mean, running_var, weight, bias, training, momentum, eps)
        return torch.ops.lowbit.batch_norm(input, weight, bias, running_mean, running_var, momentum, eps)

    functional.dropout, functional.batch_norm = dropout, batch_norm
    try:
        yield
    finally:
        functional.dropout, functional.batch_norm = before["dropout"], before["batch_norm"]
