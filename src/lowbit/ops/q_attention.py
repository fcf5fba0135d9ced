"""q_attention: exact scores, probabilities of 20 bits with each row's largest at the top (docs/arithmetic.md §6).

    u = fl32(Σ (q - q_zero)·(k - k_zero)) × score_scale (+ mask)          p = rne(2^20 × lb_exp(u - max u))
    y = clamp(rne(fl32(Σ p·(v - v_zero)) × (multiplier ÷ fl32(Σ p))) + y_zero)

`bound` is the largest |Σ| of a score; `bound_per_key` times the number of keys is that of the second sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import DTypeError
from lowbit.numerics import F32, lb_exp
from lowbit.ops.attention import infer as infer_attention
from lowbit.ops.attention import macs as attention_macs
from lowbit.ops.op import Op, attributes, register
from lowbit.ops.q_matmul import exact_product, need_integers, requantized
from lowbit.ops.quant import NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, largest_magnitude, quantizes
from lowbit.types import Array, TensorType

# A power of two, so that P × e is exact and rounds once. 20 bits are two limbs of 10: kernels multiply each by 8-bit values in 16-bit
# lanes. With 8 bits 1 to 4 % of the result's bytes would differ from a float softmax, with 15 bits 0.02 %, with 20 none of 42,000.
P_MAX = 1 << 20


@dataclass(frozen=True)
class QAttention:
    """Attributes of q_attention."""

    causal: bool
    score_scale: float
    multiplier: float
    q_zero: int
    k_zero: int
    v_zero: int
    y_zero: int
    lo: int
    hi: int
    to: str
    bound: int
    bound_per_key: int


@attributes(QAttention)
def infer(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, a: QAttention) -> TensorType:
    need_integers(queries=q, keys=k, values=v)
    if mask is not None and mask.dtype.name not in ("bool", "float32"):
        raise DTypeError(f"mask is {mask.dtype}, bool or float32 needed")
    rq, rk, rv = (t.with_dtype("float32") for t in (q, k, v))
    return infer_attention(rq, rk, rv, mask, scale=1.0, causal=a.causal).with_dtype(a.to)


def scores(q: Array, k: Array, mask: Array | None, causal: bool, score_scale: float, bound: int) -> F32:
    """u, float32 (…, L, S); excluded positions are -inf. q and k have no zero points any more."""
    u: F32 = exact_product(q, k.swapaxes(-1, -2), bound).astype(np.float32) * np.float32(score_scale)
    if mask is not None:
        u = np.where(mask, u, np.float32(-np.inf)) if mask.dtype == bool else u + mask
    if causal:
        u = np.where(np.tri(u.shape[-2], u.shape[-1], dtype=bool), u, np.float32(-np.inf))
    return u


def probabilities(u: F32) -> Array:
    """p as int64: P_MAX at the largest of each row, 0 where excluded."""
    top = np.fmax.reduce(u, axis=-1, keepdims=True, initial=np.float32(-np.inf))
    with np.errstate(invalid="ignore"):  # -inf - -inf: a row with nothing to attend to; lb_exp(NaN) is 0
        return np.asarray(np.rint(np.float32(P_MAX) * lb_exp(u - top)), np.int64)


@attributes(QAttention)
def exact(q: Array, k: Array, v: Array, mask: Array | None = None, *, a: QAttention) -> Array:
    qs, ks, vs = (x.astype(np.int64) - z for x, z in ((q, a.q_zero), (k, a.k_zero), (v, a.v_zero)))
    p = probabilities(scores(qs, ks, mask, a.causal, a.score_scale, a.bound))
    total = p.sum(axis=-1, keepdims=True)
    acc = exact_product(p, vs, a.bound_per_key * k.shape[-2])
    m = np.float32(a.multiplier) / np.where(total == 0, 1, total).astype(np.float32)  # nothing to attend to: acc is 0
    return requantized(acc, m, a.y_zero, a.lo, a.hi, a.to)


def macs(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, causal: bool, **_: Any) -> Dim:
    rq, rk, rv = (t.with_dtype("float32") for t in (q, k, v))
    return attention_macs(rq, rk, rv, mask, scale=1.0, causal=causal)


def lower(operands: Operands, result: Result, *, scale: float, causal: bool) -> OpCall:
    q, k, v = operands[:3]
    mask = operands[3] if len(operands) > 3 else None
    assert isinstance(q, Operand) and isinstance(k, Operand) and isinstance(v, Operand)
    (sq, qz), (sk, kz), (sv, vz) = q.per_tensor("query"), k.per_tensor("key"), v.per_tensor("value")
    features = q.type.shape[-1]
    if not isinstance(features, int):
        raise NotLowered(f"the range of its scores cannot be proved while '{features}' is not bound")
    score_scale = np.float32(np.float32(sq * sk) * np.float32(scale))
    bound = features * largest_magnitude(q) * largest_magnitude(k)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(bound) * score_scale):
            raise NotLowered("its scores leave the range of float32")
    sy, yz = result.target()
    attrs = {
        "causal": causal,
        "score_scale": float(score_scale),
        "multiplier": float(np.float32(sv / sy)),
        **{"q_zero": qz, "k_zero": kz, "v_zero": vz, "y_zero": yz},
        **result.clamp,
        "bound": bound,
        "bound_per_key": P_MAX * largest_magnitude(v),
    }
    return OpCall("q_attention", (Ref(0), Ref(1), Ref(2), None if mask is None else Ref(3, "real")), attrs)


register(Op("q_attention", infer, exact, macs))
quantizes("attention", QuantSpec((0, 1, 2)), lower)
