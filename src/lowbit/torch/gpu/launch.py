"""The kernels as functions of tensors. They run on the device of their arguments (on the host only under TRITON_INTERPRET=1)."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from lowbit.torch.gpu import kernels

OPTIONS: dict[str, Any] = {"enable_fp_fusion": False}  # y·s + b rounds twice, as everywhere
BLOCK = 1024
TILE = (64, 64, 64)


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
    if y.numel():
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


def like(zero: Tensor | None, scale: Tensor) -> Tensor:
    """Zero points as int32, as many as there are scales."""
    made = torch.zeros(1, dtype=torch.int32, device=scale.device) if zero is None else zero.reshape(-1).to(torch.int32)
    return made.expand(scale.numel()).contiguous()


def tensor_cores(x: Tensor) -> bool:
    """Whether Triton has integer tensor cores for the device: from sm_80 on (its releases since 3.2 have none for sm_75)."""
    return x.device.type != "cuda" or torch.cuda.get_device_capability(x.device) >= (8, 0)


def tile(m: int, n: int) -> tuple[int, int, int]:
    """Rows, columns and depth that one program works on: few rows have a flat tile, and more columns at once."""
    if m <= 16:
        return 16, 128, 128
    return TILE
