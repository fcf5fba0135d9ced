"""Ops whose result is clipped at once: `linear_clip` is `linear`, then `clip`. Kernels do both in one pass.

They exist in physical graphs only (plan/fuse.py makes them), of floats.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from lowbit.ops.binary import infer as infer_binary
from lowbit.ops.linear import LINEAR
from lowbit.ops.nhwc import TWINS
from lowbit.ops.op import Op, get_op, register
from lowbit.types import Array, TensorType

SUFFIX = "_clip"


def clipped(op: Op) -> Op:
    """The op followed by max(_, lo), then min(_, hi). NaN stays."""

    def infer(*inputs: TensorType | None, lo: float, hi: float, **attrs: Any) -> TensorType:
        y = op.infer(*inputs, **attrs)
        assert isinstance(y, TensorType)
        return y

    def real(*inputs: Array | None, lo: float, hi: float, **attrs: Any) -> Array:
        y = op.real(*inputs, **attrs)
        assert isinstance(y, np.ndarray)
        return np.minimum(np.maximum(y, y.dtype.type(lo)), y.dtype.type(hi))

    def macs(*inputs: TensorType | None, lo: float, hi: float, **attrs: Any) -> Any:
        assert op.macs is not None
        return op.macs(*inputs, **attrs)

    own = inspect.signature(op.infer)
    bounds = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("lo", "hi")]
    infer.__signature__ = own.replace(parameters=[*own.parameters.values(), *bounds])  # type: ignore[attr-defined]
    return Op(op.name + SUFFIX, infer, real, macs if op.macs is not None else None)


CLIPPED = {name: name + SUFFIX for name in (TWINS["conv"], TWINS["conv_transpose"], "linear", "add", "sub", "mul", "div")}
assert get_op("add").infer is infer_binary and get_op("linear") is LINEAR  # their files are imported above, so they are known here
register(*(clipped(get_op(name)) for name in CLIPPED))
