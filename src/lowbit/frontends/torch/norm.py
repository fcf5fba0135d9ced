"""Normalization: batch (with its statistics), layer, RMS, group, instance; and their names in decomposed programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value


def per_channel(c: Importer, x: Value, value: Value | None, default: float) -> Value:
    """The parameter, or the constant that has no effect, one element per channel."""
    if value is not None:
        return c.cast(value, x.type.dtype)
    return c.constant(np.full(int(x.shape[1]), default, x.type.dtype.numpy))


def statistics_norm(c: Importer, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, eps: float) -> Value:
    scale, bias = per_channel(c, x, w, 1.0), per_channel(c, x, b, 0.0)
    return c.add("batch_norm", x, scale, bias, c.cast(mean, x.type.dtype), c.cast(var, x.type.dtype), eps=float(eps))


@aten("batch_norm")
def batch_norm(
    c: Importer,
    x: Value,
    w: Value | None,
    b: Value | None,
    mean: Value | None,
    var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    if training or mean is None or var is None:
        raise UnsupportedOp(
            "batch norm that takes its statistics from the batch is not supported",
            hint="export in eval mode, with track_running_stats=True",
        )
    return statistics_norm(c, x, w, b, mean, var, eps)


@aten("lowbit.batch_norm")
def batch_norm_as_op(
    c: Importer, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, momentum: float, eps: float
) -> Value:
    """Batch norm of a program that will be trained on (`opaque.training_layers_as_ops`)."""
    return statistics_norm(c, x, w, b, mean, var, eps)


@aten("_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    c: Importer, x: Value, w: Value | None, b: Value | None, mean: Value, var: Value, momentum: float, eps: float
) -> tuple[Value, None, None]:
    return statistics_norm(c, x, w, b, mean, var, eps), None, None


@aten("layer_norm")
def layer_norm(
    c: Importer, x: Value, shape: Sequence[int], w: Value | None = None, b: Value | None = None, eps: float = 1e-5, *_: Any
) -> Value:
    return c.add("layer_norm", x, w, b, axis=x.type.rank - len(shape), eps=float(eps))


@aten("native_layer_norm")
def native_layer_norm(
    c: Importer, x: Value, shape: Sequence[int], w: Value | None, b: Value | None, eps: float
) -> tuple[Value, None, None]:
    no_statistics(c)
    return layer_norm(c, x, shape, w, b, eps), None, None


def no_statistics(c: Importer) -> None:
    if c.uses(1) or c.uses(2):
        raise UnsupportedOp("mean and rstd as results of a norm are for training; they are not supported")


@aten("rms_norm")
def rms_norm(c: Importer, x: Value, shape: Sequence[int], w: Value | None = None, eps: float | None = None) -> Value:
    if eps is None:  # that of the type in which torch computes: float32 for halves
        eps = float(np.finfo(np.float64 if x.type.dtype.bits == 64 else np.float32).eps)
    return c.add("rms_norm", x, w, axis=x.type.rank - len(shape), eps=float(eps))


@aten("_fused_rms_norm")
def fused_rms_norm(c: Importer, x: Value, shape: Sequence[int], w: Value | None, eps: float | None) -> tuple[Value, None]:
    return rms_norm(c, x, shape, w, eps), None


@aten("group_norm")
def group_norm(c: Importer, x: Value, groups: int, w: Value | None = None, b: Value | None = None, eps: float = 1e-5, *_: Any) -> Value:
    return c.add("group_norm", x, w, b, groups=groups, eps=float(eps))


@aten("native_group_norm")
def native_group_norm(
    c: Importer, x: Value, w: Value | None, b: Value | None, n: Any, channels: Any, size: Any, groups: int, eps: float
) -> tuple[Value, None, None]:
    no_statistics(c)
    return group_norm(c, x, groups, w, b, eps), None, None


@aten("instance_norm")
def instance_norm(
    c: Importer,
    x: Value,
    w: Value | None,
    b: Value | None,
    mean: Value | None,
    var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    if not use_input_stats and mean is not None and var is not None:
        return statistics_norm(c, x, w, b, mean, var, eps)
    return c.add("instance_norm", x, per_channel(c, x, w, 1.0), per_channel(c, x, b, 0.0), eps=float(eps))


@aten("local_response_norm")
def local_response_norm(c: Importer, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Value:
    return c.add("lrn", x, size=size, alpha=alpha, beta=beta, bias=k)
