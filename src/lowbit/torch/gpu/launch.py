"""The kernels as functions of tensors. They run on the device of their arguments (on the host only under TRITON_INTERPRET=1)."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from lowbit.torch.gpu import conv, kernels, packed

OPTIONS: dict[str, Any] = {"enable_fp_fusion": False}  # y·s + b rounds twice, as everywhere
BLOCK = 1024
TILE = (64, 64, 64)
CONV = (64, 32, 64)
DP4A = (64, 64)  # rows and columns of a program
WARPS = 4  # of a program of fragments
INTERPRETED = not isinstance(kernels.matmul, triton.runtime.JITFunction)  # TRITON_INTERPRET=1: no PTX there


def quantize(x: Tensor, scale: Tensor, zero_point: Tensor, qmin: int, qmax: int, out: torch.dtype = torch.int8, axis: int = 0) -> Tensor:
    """clamp(rne(x / scale) + zero_point); one scale, or one for each index of `axis`."""
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=out, device=x.device)
    if x.numel():
        channels, inner = channel_steps(x, scale, axis)
        grid = (triton.cdiv(x.numel(), BLOCK),)
        kernels.quantize[grid](
            x, y, scale.reshape(-1), zero_point.reshape(-1).to(torch.int32), x.numel(), channels, inner, qmin, qmax, BLOCK=BLOCK, **OPTIONS
        )
    return y


def dequantize(q: Tensor, scale: Tensor, zero_point: Tensor, axis: int = 0) -> Tensor:
    """fl32(q - zero_point) * scale."""
    q = q.contiguous()
    y = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    if q.numel():
        channels, inner = channel_steps(q, scale, axis)
        grid = (triton.cdiv(q.numel(), BLOCK),)
        kernels.dequantize[grid](
            q, y, scale.reshape(-1), zero_point.reshape(-1).to(torch.int32), q.numel(), channels, inner, BLOCK=BLOCK, **OPTIONS
        )
    return y


def channel_steps(x: Tensor, scale: Tensor, axis: int) -> tuple[int, int]:
    """How many channels, and how many elements lie between two of them."""
    if scale.numel() == 1:
        return 1, 1
    inner = 1
    for d in x.shape[axis % x.dim() + 1 :]:
        inner *= d
    return scale.numel(), max(1, inner)


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of (M, K) as int8 and their scales."""
    x = x.contiguous()
    m, k = x.shape
    q, scale = torch.empty(m, k, dtype=torch.int8, device=x.device), torch.empty(m, dtype=torch.float32, device=x.device)
    if m:
        kernels.quantize_rows[(m,)](x, q, scale, k, BLOCK=min(4096, triton.next_power_of_2(max(k, 16))), **OPTIONS)
    return q, scale


def matmul(
    a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, za: Tensor | None = None, zb: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """int8 (M, K) by int8 (N, K): fl32(acc) * (sa * sb) (+ bias). Scales and zero points are one or one for each row."""
    a, b = a.contiguous(), b.contiguous()
    zeros = za is not None or zb is not None
    za, zb = (like(z, s) for z, s in ((za, sa), (zb, sb)))
    sums = [t.sum(1, dtype=torch.int32) if zeros else t for t in (a, b)]
    y = torch.empty(a.shape[0], b.shape[0], dtype=torch.float32, device=a.device)
    return _matmul(a, b, y, sa, sb, za, zb, sums[0], sums[1], bias, zeros=zeros)


def linear_static(x: Tensor, x_scale: float, x_zero: int, w: Tensor, sw: Tensor, bias: Tensor | None = None) -> Tensor:
    """Float (M, K), quantized to int8 on the way, by symmetric int8 (N, K): fl32(acc) * (x_scale * sw) (+ bias), one kernel."""
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.float32, device=x.device)
    sums = w.sum(1, dtype=torch.int32) if x_zero else w
    return _matmul(x, w, y, sw, sw, sw, sw, sums, sums, bias, zeros=bool(x_zero), x_scale=x_scale, x_zero=x_zero, quantize=True)


def linear_integers(
    x: Tensor, x_scale: float, x_zero: int, w: Tensor, multiplier: Tensor, bias: Tensor | None, y_zero: int, lo: int = -128, hi: int = 127
) -> Tensor:
    """Float (M, K), quantized to int8 on the way, by symmetric int8 (N, K) to int8: linear_requantized of quantize, one kernel."""
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.int8, device=x.device)
    sums = w.sum(1, dtype=torch.int32) if x_zero else w
    return _matmul(
        x, w, y, multiplier, multiplier, multiplier, multiplier, sums, sums, bias, zeros=bool(x_zero), x_scale=x_scale, x_zero=x_zero,
        quantize=True, requantize=True, y_zero=y_zero, lo=lo, hi=hi,
    )  # fmt: skip


def linear_scaled(x: Tensor, x_scale: float, x_zero: int, w: Tensor, multiplier: Tensor, bias: Tensor | None) -> Tensor:
    """The same with reals as they are: fl32(acc + bias) * multiplier, int32 bias: q_linear of graphs to float32."""
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.float32, device=x.device)
    sums = w.sum(1, dtype=torch.int32) if x_zero else w
    return _matmul(
        x, w, y, multiplier, multiplier, multiplier, multiplier, sums, sums, bias, zeros=bool(x_zero), x_scale=x_scale, x_zero=x_zero,
        quantize=True, requantize=True,
    )  # fmt: skip


def linear_requantized(
    q: Tensor, x_zero: int, w: Tensor, multiplier: Tensor, bias: Tensor | None, y_zero: int, lo: int = -128, hi: int = 127
) -> Tensor:
    """int8 (M, K) by symmetric int8 (N, K) to int8: clamp(rne(fl32(acc + bias) * multiplier) + y_zero), int32 bias: q_linear of graphs."""
    q, w = q.contiguous(), w.contiguous()
    y = torch.empty(q.shape[0], w.shape[0], dtype=torch.int8, device=q.device)
    one, none = torch.ones(1, device=q.device), torch.zeros(1, dtype=torch.int32, device=q.device)
    za, zb = none + x_zero, none.expand(w.shape[0]).contiguous() if multiplier.numel() > 1 else none
    sums = [t.sum(1, dtype=torch.int32) if x_zero else t for t in (q, w)]
    return _matmul(
        q, w, y, one, multiplier, za, zb, sums[0], sums[1], bias, zeros=bool(x_zero), requantize=True, y_zero=y_zero, lo=lo, hi=hi
    )


def _matmul(
    a: Tensor, b: Tensor, y: Tensor, sa: Tensor, sb: Tensor, za: Tensor, zb: Tensor, sum_a: Tensor, sum_b: Tensor, bias: Tensor | None, *,
    zeros: bool, quantize: bool = False, requantize: bool = False, x_scale: float = 1.0, x_zero: int = 0, y_zero: int = 0, lo: int = 0,
    hi: int = 0,
) -> Tensor:  # fmt: skip
    (m, k), n = a.shape, b.shape[0]
    if y.numel() and way(a) == "dp4a":
        if quantize:
            one = torch.ones(1, device=a.device)
            a, sa = _codes(a, x_scale, x_zero), one * x_scale
            za, zb, sum_a = _whole(one, x_zero), _whole(sb, 0), a.sum(1, dtype=torch.int32) if zeros else a
        a, b, words = words_of(a, 4), words_of(b, 4), -(-k // 4)
        packed.matmul_dp4a[(triton.cdiv(m, DP4A[0]), triton.cdiv(n, DP4A[1]))](
            a, b, y, sa.reshape(-1), sb.reshape(-1), za.reshape(-1), zb.reshape(-1), sum_a, sum_b,
            sb if bias is None else bias.contiguous(), m, n, k, words, int(sa.numel() > 1), int(sb.numel() > 1), float(x_scale), x_zero,
            y_zero, lo, hi, ZEROS=zeros, BIAS=bias is not None, REQUANTIZE=requantize, ASM=not INTERPRETED, BM=DP4A[0], BN=DP4A[1],
            **OPTIONS,
        )  # fmt: skip
    elif y.numel():
        bm, bn, bk = tile(m, n)
        kernels.matmul[(triton.cdiv(m, bm), triton.cdiv(n, bn))](
            a, b, y, sa.reshape(-1), sb.reshape(-1), za.reshape(-1), zb.reshape(-1), sum_a, sum_b,
            sb if bias is None else bias.contiguous(), m, n, k, int(sa.numel() > 1), int(sb.numel() > 1), float(x_scale), x_zero,
            y_zero, lo, hi, QUANTIZE=quantize, ZEROS=zeros, BIAS=bias is not None, REQUANTIZE=requantize,
            TENSOR_CORES=tensor_cores(a), BM=bm, BN=bn, BK=bk, **OPTIONS,
        )  # fmt: skip
    return y


def matmul_int4(
    a: Tensor, packed: Tensor, sa: Tensor | None, sb: Tensor, size: int, n: int, zb: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """(M, K) by 4-bit weights (N, K), packed, with scales (N, ceil(K / size)). int8 `a` has scales; without, `a` is float."""
    a, packed, sb = a.contiguous(), packed.contiguous(), sb.contiguous()
    (m, k), bn = a.shape, tile(a.shape[0], n)[1]
    y = torch.empty(m, n, dtype=torch.float32, device=a.device)
    if y.numel():
        bm = tile(m, n)[0]
        scale = sb if sa is None else sa.reshape(-1)
        kernels.matmul_int4[(triton.cdiv(m, bm), triton.cdiv(n, bn))](
            a, packed, y, scale, sb, sb if zb is None else zb.to(torch.int32).contiguous(), sb if bias is None else bias.contiguous(),
            m, n, k, int(sa is not None and sa.numel() > 1), ZEROS=zb is not None, BIAS=bias is not None, FLOAT=sa is None,
            TENSOR_CORES=tensor_cores(a), BM=bm, BN=bn, SIZE=size, **OPTIONS,
        )  # fmt: skip
    return y


def matmul_s4(a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, bias: Tensor | None = None, *, bits: int = 4) -> Tensor:
    """int4 (M, K) by int4 (N, K), two codes a byte (K / 2 bytes a row): fl32(acc) * (sa * sb) (+ bias), by the tensor cores' int4 product.

    With bits=8 the codes are int8, and Turing's instruction multiplies them.
    """
    step, tall = (32, 16) if bits == 4 else (16, 8)
    (m, size), n = a.shape, b.shape[0]
    y = torch.empty(m, n, dtype=torch.float32, device=a.device)
    if y.numel():
        whole = -(-size // step) * step  # bytes of a row that the instruction takes at once
        kernel = packed.matmul_s4 if bits == 4 else packed.matmul_s8_turing
        kernel[(triton.cdiv(m, tall * WARPS), triton.cdiv(n, 8))](
            words_of(a, step), words_of(b, step), y, sa.reshape(-1), sb.reshape(-1), sb if bias is None else bias.contiguous(),
            m, n, whole // 4, int(sa.numel() > 1), int(sb.numel() > 1), BIAS=bias is not None, WARPS=WARPS, ASM=not INTERPRETED,
            num_warps=WARPS, **OPTIONS,
        )  # fmt: skip
    return y


def conv_integers(
    x: Tensor, x_scale: float, x_zero: int, w: Tensor, multiplier: Tensor, bias: Tensor | None, y: tuple[int, int, int] | None, *,
    stride: tuple[int, int], pads: tuple[int, int, int, int], dilation: tuple[int, int], groups: int,
) -> Tensor:  # fmt: skip
    """A static convolution of float images (N, C, H, W): quantized, then sums of products of int8 by windows (an implicit matrix product).

    int8 results clamp(rne(fl32(acc + bias) * multiplier) + y_zero, lo, hi) for y = (y_zero, lo, hi), else fl32(acc + bias) * multiplier.
    """
    codes = _codes(x, x_scale, x_zero)
    batch, in_c, high, wide = codes.shape
    out_c, depth, kernel_h, kernel_w = w.shape
    out_h = (high + pads[0] + pads[2] - dilation[0] * (kernel_h - 1) - 1) // stride[0] + 1
    out_w = (wide + pads[1] + pads[3] - dilation[1] * (kernel_w - 1) - 1) // stride[1] + 1
    kind = torch.float32 if y is None else torch.int8
    out = torch.empty(batch, out_c, out_h, out_w, dtype=kind, device=x.device)
    zero, lo, hi = (0, 0, 0) if y is None else y
    if out.numel():
        bm, bn, bk = CONV
        rows, each = batch * out_h * out_w, out_c // groups
        sums = w.reshape(out_c, -1).sum(1, dtype=torch.int32)
        conv.conv[(triton.cdiv(rows, bm), triton.cdiv(each, bn), groups)](
            codes, w.contiguous(), out, multiplier.reshape(-1), sums, sums if bias is None else bias.contiguous(),
            rows, each, depth, in_c, out_c, high, wide, out_h, out_w, kernel_h, kernel_w, *stride, pads[0], pads[1], *dilation,
            int(multiplier.numel() > 1), x_zero, zero, lo, hi,
            BIAS=bias is not None, TENSOR_CORES=tensor_cores(x), BM=bm, BN=bn, BK=bk, **OPTIONS,
        )  # fmt: skip
    return out


def _codes(x: Tensor, scale: float, zero: int) -> Tensor:
    return quantize(x, torch.full((1,), scale, device=x.device), torch.full((1,), zero, device=x.device), -128, 127)


def _whole(like: Tensor, value: int) -> Tensor:
    """int32 numbers, as many as `like` has."""
    return torch.full((like.numel(),), value, dtype=torch.int32, device=like.device)


def words_of(q: Tensor, step: int) -> Tensor:
    """Rows of bytes as words of 32 bits; zeros make each row a multiple of `step` bytes."""
    short = -q.shape[1] % step
    return torch.nn.functional.pad(q, (0, short)).contiguous().view(torch.int32)


def like(zero: Tensor | None, scale: Tensor) -> Tensor:
    """Zero points as int32, as many as there are scales."""
    made = torch.zeros(1, dtype=torch.int32, device=scale.device) if zero is None else zero.reshape(-1).to(torch.int32)
    return made.expand(scale.numel()).contiguous()


def way(x: Tensor) -> str:
    """How int8 is multiplied on the tensor's device: tensor cores from sm_80 on (Triton's own), DP4A from sm_61 on, else as floats."""
    if x.device.type != "cuda":
        return "mma"
    major, minor = torch.cuda.get_device_capability(x.device)
    return way_of(10 * major + minor)


def way_of(capability: int) -> str:
    return "mma" if capability >= 80 else "dp4a" if capability >= 61 else "float"


def tensor_cores(x: Tensor) -> bool:
    """Whether Triton has integer tensor cores for the device (its releases since 3.2 have none for sm_75)."""
    return way(x) == "mma"


def tile(m: int, n: int) -> tuple[int, int, int]:
    """Rows, columns and depth that one program works on: few rows have a flat tile, and more columns at once."""
    if m <= 16:
        return 16, 128, 128
    return TILE
