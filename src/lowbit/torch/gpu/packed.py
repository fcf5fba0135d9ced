"""Integer products of packed words: DP4A (sm_61 to sm_75), and the tensor cores' own fragments of 4 and 8 bits (from sm_75 on).

Operands are words of 32 bits, four int8 or eight int4 along k. Triton has no operation for these instructions, so they are written as
PTX (`ASM`). Triton's interpreter has no PTX: there the same words are multiplied by shifts and sums (`fields`, `part`), which say what
the instructions are defined to do, lane by lane. All sums are exact.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from lowbit.torch.gpu.kernels import finish


@triton.jit
def fields(word, at: tl.constexpr, BITS: tl.constexpr):
    """Field `at` of packed words, sign-extended."""
    return (word << (32 - BITS - BITS * at)) >> (32 - BITS)


@triton.jit
def dp4a(a, b, c, ASM: tl.constexpr):
    """c + the sum of the products of four bytes."""
    if ASM:
        return tl.inline_asm_elementwise("dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r", [a, b, c], dtype=tl.int32, is_pure=True, pack=1)
    for i in tl.static_range(4):
        c += fields(a, i, 8) * fields(b, i, 8)
    return c


@triton.jit(do_not_specialize=["x_zero", "y_zero", "lo", "hi"])
def matmul_dp4a(
    a_ptr, b_ptr, y_ptr, sa_ptr, sb_ptr, za_ptr, zb_ptr, sum_a_ptr, sum_b_ptr, bias_ptr,
    m, n, k, words, a_rows, b_cols, x_scale, x_zero, y_zero, lo, hi,
    ZEROS: tl.constexpr, BIAS: tl.constexpr, REQUANTIZE: tl.constexpr, ASM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """`kernels.matmul` of int8 rows as `words` words of four: one word of each row and column at a time."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    at_a, at_b = a_ptr + rows.to(tl.int64) * words, b_ptr + cols.to(tl.int64) * words
    acc = tl.zeros((BM, BN), tl.int32)
    for i in range(0, words):
        a = tl.load(at_a + i, mask=rows < m, other=0)
        b = tl.load(at_b + i, mask=cols < n, other=0)
        one, other = tl.broadcast(a[:, None], b[None, :])
        acc = dp4a(one, other, acc, ASM)
    finish(
        acc, rows, cols, y_ptr, sa_ptr, sb_ptr, za_ptr, zb_ptr, sum_a_ptr, sum_b_ptr, bias_ptr, m, n, k, a_rows, b_cols, x_scale, x_zero,
        y_zero, lo, hi, False, ZEROS, BIAS, REQUANTIZE,
    )  # fmt: skip


@triton.jit
def part(a, b, WARPS: tl.constexpr, BITS: tl.constexpr):
    """What one register of A and one of B add to the two results that a lane holds.

    Lane 4 g + t holds word t of row g of A, word t of column g of B, and the results (row g, columns 2 t and 2 t + 1).
    """
    x, y = tl.reshape(a, (WARPS, 8, 1, 4)), tl.reshape(b, (WARPS, 1, 8, 4))
    total = tl.zeros((WARPS, 8, 8, 4), tl.int32)
    for i in tl.static_range(32 // BITS):
        total += fields(x, i, BITS) * fields(y, i, BITS)
    even, odd = tl.split(tl.reshape(tl.sum(total, 3), (WARPS, 8, 4, 2)))
    return tl.reshape(even, (WARPS * 32,)), tl.reshape(odd, (WARPS * 32,))


@triton.jit
def mma_s4(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3, WARPS: tl.constexpr, ASM: tl.constexpr):
    """16 rows by 8 columns by 64 elements of four bits, for each warp."""
    if ASM:
        return tl.inline_asm_elementwise(
            "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
            "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r",
            [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3],
            dtype=(tl.int32, tl.int32, tl.int32, tl.int32), is_pure=True, pack=1,
        )  # fmt: skip
    e0, o0 = part(a0, b0, WARPS, 4)
    e1, o1 = part(a2, b1, WARPS, 4)
    e2, o2 = part(a1, b0, WARPS, 4)
    e3, o3 = part(a3, b1, WARPS, 4)
    return c0 + e0 + e1, c1 + o0 + o1, c2 + e2 + e3, c3 + o2 + o3


@triton.jit
def mma_s8(a0, b0, c0, c1, WARPS: tl.constexpr, ASM: tl.constexpr):
    """8 rows by 8 columns by 16 elements of eight bits, for each warp: what Turing has."""
    if ASM:
        return tl.inline_asm_elementwise(
            "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {$0, $1}, {$2}, {$3}, {$4, $5};",
            "=r,=r,r,r,r,r", [a0, b0, c0, c1], dtype=(tl.int32, tl.int32), is_pure=True, pack=1,
        )  # fmt: skip
    even, odd = part(a0, b0, WARPS, 8)
    return c0 + even, c1 + odd


@triton.jit
def put(value, row, column, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS: tl.constexpr):
    """y = fl32(acc) * (sa[row] * sb[column]) (+ bias[column]) for one result of each lane."""
    here = (row < m) & (column < n)
    sa = tl.load(sa_ptr + row * a_rows, mask=here, other=1.0)
    sb = tl.load(sb_ptr + column * b_cols, mask=here, other=1.0)
    y = value.to(tl.float32) * (sa * sb)
    if BIAS:
        y = y + tl.load(bias_ptr + column, mask=here, other=0.0)
    tl.store(y_ptr + row.to(tl.int64) * n + column, y, mask=here)


@triton.jit
def matmul_s4(
    a_ptr, b_ptr, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, words, a_rows, b_cols, BIAS: tl.constexpr, WARPS: tl.constexpr, ASM: tl.constexpr
):
    """Rows and columns of `words` words of eight int4, a multiple of 8. A program has 16 · WARPS rows and 8 columns.

    A tensor has as many elements as the program has lanes, so that lane i holds element i: the fragments of the instruction.
    """
    lane = tl.arange(0, 32 * WARPS)
    g, t = lane % 32 // 4, lane % 4
    top = tl.program_id(0) * 16 * WARPS + lane // 32 * 16 + g
    left = tl.program_id(1) * 8
    high, low, columns = a_ptr + top.to(tl.int64) * words, a_ptr + (top + 8).to(tl.int64) * words, b_ptr + (left + g).to(tl.int64) * words
    c0 = tl.zeros((32 * WARPS,), tl.int32)
    c1, c2, c3 = c0, c0, c0
    for i in range(0, words, 8):
        a0 = tl.load(high + i + t, mask=top < m, other=0)
        a1 = tl.load(low + i + t, mask=top + 8 < m, other=0)
        a2 = tl.load(high + i + 4 + t, mask=top < m, other=0)
        a3 = tl.load(low + i + 4 + t, mask=top + 8 < m, other=0)
        b0 = tl.load(columns + i + t, mask=left + g < n, other=0)
        b1 = tl.load(columns + i + 4 + t, mask=left + g < n, other=0)
        c0, c1, c2, c3 = mma_s4(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3, WARPS, ASM)
    column = left + 2 * t
    put(c0, top, column, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)
    put(c1, top, column + 1, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)
    put(c2, top + 8, column, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)
    put(c3, top + 8, column + 1, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)


@triton.jit
def matmul_s8_turing(
    a_ptr, b_ptr, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, words, a_rows, b_cols, BIAS: tl.constexpr, WARPS: tl.constexpr, ASM: tl.constexpr
):
    """The same for words of four int8, a multiple of 4 words, by Turing's tensor cores: 8 · WARPS rows and 8 columns."""
    lane = tl.arange(0, 32 * WARPS)
    g, t = lane % 32 // 4, lane % 4
    row = tl.program_id(0) * 8 * WARPS + lane // 32 * 8 + g
    left = tl.program_id(1) * 8
    rows, columns = a_ptr + row.to(tl.int64) * words, b_ptr + (left + g).to(tl.int64) * words
    c0 = tl.zeros((32 * WARPS,), tl.int32)
    c1 = c0
    for i in range(0, words, 4):
        a0 = tl.load(rows + i + t, mask=row < m, other=0)
        b0 = tl.load(columns + i + t, mask=left + g < n, other=0)
        c0, c1 = mma_s8(a0, b0, c0, c1, WARPS, ASM)
    put(c0, row, left + 2 * t, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)
    put(c1, row, left + 2 * t + 1, y_ptr, sa_ptr, sb_ptr, bias_ptr, m, n, a_rows, b_cols, BIAS)
