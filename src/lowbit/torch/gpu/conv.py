"""Convolutions of int8 as implicit matrix products: the windows of an image are rows that are never written down."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from lowbit.torch.gpu.kernels import ROUND, dot

SIZES = ["stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "per_channel", "depth", "each"]
FIELDS = ["x_zero", "y_zero", "lo", "hi", *SIZES]  # where 1 stays a number of the device


@triton.jit(do_not_specialize=FIELDS)
def conv(
    x_ptr, w_ptr, y_ptr, m_ptr, sum_ptr, bias_ptr,
    rows, each, depth, in_c, out_c, in_h, in_w, out_h, out_w, kernel_h, kernel_w,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, per_channel, x_zero, y_zero, lo, hi,
    BIAS: tl.constexpr, TENSOR_CORES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """acc[p, c] = sum of (x - x_zero) * w[c] over the window of pixel p; padding holds x_zero. Then as `kernels.matmul` requantizes.

    x (N, in_c, in_h, in_w), w (out_c, depth, kernel_h, kernel_w), y (N, out_c, out_h, out_w); program 2 is the group.
    """
    group = tl.program_id(2)
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    image, at = pixel // (out_h * out_w), pixel % (out_h * out_w)
    top, left = at // out_w * stride_h - pad_h, at % out_w * stride_w - pad_w
    channel = group * each + cols
    size = kernel_h * kernel_w
    k = depth * size
    acc = tl.zeros((BM, BN), tl.int32)
    for start in range(0, k, BK):
        ks = start + tl.arange(0, BK)
        c, i, j = ks // size, ks % size // kernel_w, ks % kernel_w
        y, z = top[:, None] + (i * dilation_h)[None, :], left[:, None] + (j * dilation_w)[None, :]
        inside = (y >= 0) & (y < in_h) & (z >= 0) & (z < in_w) & (pixel[:, None] < rows) & (ks[None, :] < k)
        where = ((image[:, None].to(tl.int64) * in_c + group * depth + c[None, :]) * in_h + y) * in_w + z
        code = tl.load(x_ptr + where, mask=inside, other=0).to(tl.int32)
        a = tl.where(inside, code, x_zero).to(tl.int8)
        b = tl.load(w_ptr + channel[None, :].to(tl.int64) * k + ks[:, None], mask=(cols[None, :] < each) & (ks[:, None] < k), other=0)
        acc += dot(a, b, TENSOR_CORES)
    here = cols < each
    acc -= x_zero * tl.load(sum_ptr + channel, mask=here, other=0)[None, :]
    if BIAS:
        acc += tl.load(bias_ptr + channel, mask=here, other=0)[None, :]
    t = acc.to(tl.float32) * tl.load(m_ptr + channel * per_channel, mask=here, other=1.0)[None, :]
    to = (image[:, None].to(tl.int64) * out_c + channel[None, :]) * (out_h * out_w) + at[:, None]
    written = (pixel[:, None] < rows) & here[None, :]
    if y_ptr.dtype.element_ty == tl.float32:
        tl.store(y_ptr + to, t, mask=written)
    else:
        t = tl.minimum(tl.maximum(t, (lo - y_zero).to(tl.float32)), (hi - y_zero).to(tl.float32))
        q = ((t + ROUND) - ROUND).to(tl.int32) + y_zero
        tl.store(y_ptr + to, q.to(tl.int8), mask=written)
