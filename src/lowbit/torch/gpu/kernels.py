"""Triton kernels with the arithmetic of docs/arithmetic.md: same integers, same float32 bits as every other backend.

What it takes on a GPU: `tl.div_rn`, because `/` is an approximate division there; ties to even by adding and taking away 1.5·2^23, after
the clamp (rounding keeps the order of numbers, and the bounds are integers); and compilation without contraction of a product and a sum
into one operation (`launch.OPTIONS`). Sums of integers are exact in any order, so the tensor cores' own order is fine.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# Arguments are pointers and numbers of the device: Triton reads annotations as its own and knows only constexpr.

from __future__ import annotations

import triton
import triton.language as tl

ROUND = tl.constexpr(12582912.0)  # 1.5 · 2^23: float32 has no fractions there


@triton.jit
def codes(x, scale, low, high):
    """clamp(rne(x / scale), low, high) as float32; NaN gives 0."""
    t = tl.div_rn(x, scale)
    t = tl.where(t == t, t, 0.0)
    t = tl.minimum(tl.maximum(t, low), high)
    return (t + ROUND) - ROUND


@triton.jit
def dot(a, b, TENSOR_CORES: tl.constexpr):
    """The exact product of int8 tiles, int32. Without tensor cores by float32: |sum| ≤ K·2^14 < 2^24 for tiles of K up to 512."""
    if TENSOR_CORES:
        return tl.dot(a, b, out_dtype=tl.int32)
    return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee").to(tl.int32)


@triton.jit
def quantize(x_ptr, y_ptr, scale_ptr, zero_ptr, n, channels, inner, qmin, qmax, BLOCK: tl.constexpr):  # fmt: skip
    """y = clamp(rne(x / scale[c]) + zero[c]); element i belongs to channel (i // inner) % channels."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    c = (at // inner) % channels
    zero = tl.load(zero_ptr + c, mask=here, other=0)
    scale = tl.load(scale_ptr + c, mask=here, other=1.0)
    x = tl.load(x_ptr + at, mask=here, other=0.0).to(tl.float32)
    q = codes(x, scale, (qmin - zero).to(tl.float32), (qmax - zero).to(tl.float32)).to(tl.int32) + zero
    tl.store(y_ptr + at, q.to(y_ptr.dtype.element_ty), mask=here)


@triton.jit
def dequantize(q_ptr, y_ptr, scale_ptr, zero_ptr, n, channels, inner, BLOCK: tl.constexpr):
    """y = fl32(q - zero[c]) * scale[c]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    c = (at // inner) % channels
    zero = tl.load(zero_ptr + c, mask=here, other=0)
    scale = tl.load(scale_ptr + c, mask=here, other=1.0)
    q = tl.load(q_ptr + at, mask=here, other=0).to(tl.int32)
    tl.store(y_ptr + at, (q - zero).to(tl.float32) * scale, mask=here)


@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, k, BLOCK: tl.constexpr):
    """Each row by its own scale: max|x| / 127, or 1 where that is 0 or not finite; q = clamp(rne(x / s), -127, 127)."""
    row = tl.program_id(0).to(tl.int64)
    top = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, k, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * k + at, mask=at < k, other=0.0).to(tl.float32)
        top = tl.maximum(top, tl.where(x == x, tl.abs(x), 0.0))
    scale = tl.div_rn(tl.max(top, 0), 127.0)
    scale = tl.where((scale > 0.0) & (scale <= 3.4028234663852886e38), scale, 1.0)
    tl.store(scale_ptr + row, scale)
    for start in range(0, k, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * k + at, mask=at < k, other=0.0).to(tl.float32)
        tl.store(q_ptr + row * k + at, codes(x, scale, -127.0, 127.0).to(tl.int8), mask=at < k)


@triton.jit
def finish(
    acc, rows, cols, y_ptr, sa_ptr, sb_ptr, za_ptr, zb_ptr, sum_a_ptr, sum_b_ptr, bias_ptr, m, n, k, a_rows, b_cols, x_scale, x_zero,
    y_zero, lo, hi, QUANTIZE: tl.constexpr, ZEROS: tl.constexpr, BIAS: tl.constexpr, REQUANTIZE: tl.constexpr,
):  # fmt: skip
    """From sums of products of codes to results, as `matmul` says."""
    if ZEROS:
        sum_b = tl.load(sum_b_ptr + cols, mask=cols < n, other=0)
        if QUANTIZE:
            acc -= x_zero * sum_b[None, :]
        else:
            za = tl.load(za_ptr + rows * a_rows, mask=rows < m, other=0)
            zb = tl.load(zb_ptr + cols * b_cols, mask=cols < n, other=0)
            sum_a = tl.load(sum_a_ptr + rows, mask=rows < m, other=0)
            acc += (k * za[:, None]) * zb[None, :] - za[:, None] * sum_b[None, :] - sum_a[:, None] * zb[None, :]
    sb = tl.load(sb_ptr + cols * b_cols, mask=cols < n, other=1.0)
    at_y = rows[:, None].to(tl.int64) * n + cols[None, :]
    here = (rows[:, None] < m) & (cols[None, :] < n)
    if REQUANTIZE:
        if BIAS:
            acc += tl.load(bias_ptr + cols, mask=cols < n, other=0)[None, :]
        t = acc.to(tl.float32) * sb[None, :]
        if y_ptr.dtype.element_ty == tl.float32:
            tl.store(y_ptr + at_y, t, mask=here)
        else:
            t = tl.minimum(tl.maximum(t, (lo - y_zero).to(tl.float32)), (hi - y_zero).to(tl.float32))
            q = ((t + ROUND) - ROUND).to(tl.int32) + y_zero
            tl.store(y_ptr + at_y, q.to(tl.int8), mask=here)
    else:
        if QUANTIZE:
            scale = x_scale * sb[None, :]
        else:
            scale = tl.load(sa_ptr + rows * a_rows, mask=rows < m, other=1.0)[:, None] * sb[None, :]
        y = acc.to(tl.float32) * scale
        if BIAS:
            y = y + tl.load(bias_ptr + cols, mask=cols < n, other=0.0)[None, :]
        tl.store(y_ptr + at_y, y, mask=here)


@triton.jit(do_not_specialize=["x_zero", "y_zero", "lo", "hi"])  # a 1 among them would be no number of the device any more
def matmul(
    a_ptr, b_ptr, y_ptr, sa_ptr, sb_ptr, za_ptr, zb_ptr, sum_a_ptr, sum_b_ptr, bias_ptr,
    m, n, k, a_rows, b_cols, x_scale, x_zero, y_zero, lo, hi,
    QUANTIZE: tl.constexpr, ZEROS: tl.constexpr, BIAS: tl.constexpr, REQUANTIZE: tl.constexpr, TENSOR_CORES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """acc = Σ (qa[i, k] - za[i])·(qb[j, k] - zb[j]), then y = fl32(acc) * (sa[i] * sb[j]) (+ bias[j], float32).

    QUANTIZE    `a` is float32 and becomes int8 by x_scale and x_zero on the way; sum_a is not needed then, zb must be 0
    ZEROS       the zero points and the sums Σ_k qa, Σ_k qb are there; else all of them are 0
    REQUANTIZE  y = clamp(rne(fl32(acc + bias[j]) * sb[j]) + y_zero, lo, hi) in int8: bias is int32, sb the multiplier of the channel;
                where y is float32: fl32(acc + bias[j]) * sb[j]
    a_rows, b_cols  1 where sa (sb) has one scale for each row (column), 0 where there is one for all; zero points alike
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.int32)
    for start in range(0, k, BK):
        ks = start + tl.arange(0, BK)
        here_a = (rows[:, None] < m) & (ks[None, :] < k)
        here_b = (cols[None, :] < n) & (ks[:, None] < k)
        at_a = rows[:, None].to(tl.int64) * k + ks[None, :]
        if QUANTIZE:
            x = tl.load(a_ptr + at_a, mask=here_a, other=0.0).to(tl.float32)
            c = codes(x, x_scale, (-128 - x_zero).to(tl.float32), (127 - x_zero).to(tl.float32)).to(tl.int32) + x_zero
            a = tl.where(here_a, c, 0).to(tl.int8)
        else:
            a = tl.load(a_ptr + at_a, mask=here_a, other=0)
        b = tl.load(b_ptr + cols[None, :].to(tl.int64) * k + ks[:, None], mask=here_b, other=0)
        acc += dot(a, b, TENSOR_CORES)
    finish(
        acc, rows, cols, y_ptr, sa_ptr, sb_ptr, za_ptr, zb_ptr, sum_a_ptr, sum_b_ptr, bias_ptr, m, n, k, a_rows, b_cols, x_scale, x_zero,
        y_zero, lo, hi, QUANTIZE, ZEROS, BIAS, REQUANTIZE,
    )  # fmt: skip


@triton.jit
def int4_block(b_ptr, zb_ptr, cols, block, n, k, blocks, ZEROS: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr):  # fmt: skip
    """One block of 4-bit weights, (SIZE, BN) int8: two in a byte, low nibble first, less their zero points; 0 beyond k and n."""
    bytes_ = block * (SIZE // 2) + tl.arange(0, SIZE // 2)
    here = (cols[:, None] < n) & (2 * bytes_[None, :] < k)
    pair = tl.load(b_ptr + cols[:, None].to(tl.int64) * (k // 2) + bytes_[None, :], mask=here, other=0).to(tl.int32)
    w = tl.interleave((pair << 28) >> 28, (pair << 24) >> 28)  # sign-extended nibbles, (BN, SIZE)
    if ZEROS:
        zero = tl.load(zb_ptr + cols.to(tl.int64) * blocks + block, mask=cols < n, other=0)
        at = block * SIZE + tl.arange(0, SIZE)
        w = tl.where((cols[:, None] < n) & (at[None, :] < k), w - zero[:, None], 0)
    return tl.trans(w.to(tl.int8))


@triton.jit
def matmul_int4(
    a_ptr, b_ptr, y_ptr, sa_ptr, sb_ptr, zb_ptr, bias_ptr, m, n, k, a_rows,
    ZEROS: tl.constexpr, BIAS: tl.constexpr, FLOAT: tl.constexpr, TENSOR_CORES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Weights of four bits with a scale for each block of SIZE along k; `k` is even.

    int8 `a`    t = +0, then for each block in order t = t + fl32(acc_b) * sb[j, b]; then t * sa[i] + bias[j], two roundings;
                of a single block fl32(acc) * (sa[i] * sb[j]) + bias[j]
    FLOAT `a`   Σ a[i, k] * (fl32(q - z) * sb[j, b]), float32 without tensor-float rounding; then + bias[j]
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    blocks = tl.cdiv(k, SIZE)
    total = tl.zeros((BM, BN), tl.float32)
    if not FLOAT:  # a factor of 1 changes no bit
        sa = tl.load(sa_ptr + rows * a_rows, mask=rows < m, other=1.0)[:, None]
        each, last = tl.where(blocks == 1, sa, 1.0), tl.where(blocks == 1, 1.0, sa)
    for block in range(0, blocks):
        ks = block * SIZE + tl.arange(0, SIZE)
        here = (rows[:, None] < m) & (ks[None, :] < k)
        a = tl.load(a_ptr + rows[:, None].to(tl.int64) * k + ks[None, :], mask=here, other=0)
        w = int4_block(b_ptr, zb_ptr, cols, block, n, k, blocks, ZEROS, BN, SIZE)
        sb = tl.load(sb_ptr + cols.to(tl.int64) * blocks + block, mask=cols < n, other=1.0)
        if FLOAT:
            total = tl.dot(a.to(tl.float32), w.to(tl.float32) * sb[None, :], total, input_precision="ieee")
        else:
            acc = dot(a, w, TENSOR_CORES)
            total = total + acc.to(tl.float32) * (each * sb[None, :])
    if not FLOAT:
        total = total * last
    if BIAS:
        total = total + tl.load(bias_ptr + cols, mask=cols < n, other=0.0)[None, :]
    else:
        total = total + 0.0  # no bias is one of +0: a product that underflowed may be -0
    at = rows[:, None].to(tl.int64) * n + cols[None, :]
    tl.store(y_ptr + at, total, mask=(rows[:, None] < m) & (cols[None, :] < n))
