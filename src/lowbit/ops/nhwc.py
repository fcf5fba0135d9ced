"""Ops on images whose channels stand last, as kernels want them: `q_conv_nhwc` is `q_conv` of (N, spatial…, C), and gives the same.

They exist in physical graphs only (plan/layout.py makes them), of any rank. Weights stay as the op has them.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np

from lowbit.ops.conv import CONV
from lowbit.ops.conv_transpose import CONV_TRANSPOSE
from lowbit.ops.op import Op, get_op, register
from lowbit.ops.pool import infer_avg, infer_max
from lowbit.ops.q_average import infer_avg_pool
from lowbit.ops.q_conv import infer as infer_q_conv
from lowbit.ops.q_conv_transpose import infer as infer_q_conv_transpose
from lowbit.ops.resize import RESIZE
from lowbit.types import Array, TensorType

SUFFIX = "_nhwc"


def to_first(rank: int) -> tuple[int, ...]:
    """The order of axes that brings channels from the last place to the second: (0, 3, 1, 2)."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """The order of axes that brings channels from the second place to the last: (0, 2, 3, 1)."""
    return (0, *range(2, rank), 1)


def _turned(t: TensorType, perm: tuple[int, ...]) -> TensorType:
    return t.with_shape([t.shape[p] for p in perm])


def twin(op: Op) -> Op:
    """The op with the channels of its first input and of its output last."""

    @wraps(op.infer)
    def infer(x: TensorType, *rest: TensorType | None, **attrs: Any) -> TensorType:
        y = op.infer(_turned(x, to_first(x.rank)) if x.rank > 2 else x, *rest, **attrs)
        assert isinstance(y, TensorType)
        return _turned(y, to_last(y.rank))

    @wraps(op.real)
    def real(x: Array, *rest: Array | None, **attrs: Any) -> Array:
        y = op.real(np.transpose(x, to_first(x.ndim)), *rest, **attrs)
        assert isinstance(y, np.ndarray)
        return np.ascontiguousarray(np.transpose(y, to_last(y.ndim)))

    def macs(x: TensorType, *rest: TensorType | None, **attrs: Any) -> Any:
        assert op.macs is not None
        return op.macs(_turned(x, to_first(x.rank)), *rest, **attrs)

    return Op(op.name + SUFFIX, infer, real, macs if op.macs is not None else None)


# The files are imported above, so that the ops are known here whatever the order.
IMAGES = ("conv", "conv_transpose", "resize", "q_conv", "q_conv_transpose", "max_pool", "avg_pool", "q_avg_pool")
TWINS = {name: name + SUFFIX for name in IMAGES}
KNOWN = {CONV.infer, CONV_TRANSPOSE.infer, RESIZE.infer, infer_q_conv, infer_q_conv_transpose, infer_max, infer_avg, infer_avg_pool}
assert {get_op(name).infer for name in TWINS} == KNOWN
register(*(twin(get_op(name)) for name in TWINS))
