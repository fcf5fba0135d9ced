"""The PyTorch frontend, op by op: each row is a function of tensors whose graph must compute what torch computes."""

# ruff: noqa: E501 (one row, one line)

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_modules import Function, check, with_statistics

INTS = torch.tensor([[-7, 3, 0], [5, -2, 9]])
MASK = torch.tensor([[True, False, True], [False, False, True]])
IDS = torch.tensor([[2, 0], [1, 1]])
POSITIVE = torch.rand(2, 3, generator=torch.Generator().manual_seed(1)) + 0.1


def with_three(name: str) -> Callable[[Tensor], Any]:
    return lambda x: getattr(operator, name)(x, 3)


ELEMENTWISE: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    *((name, getattr(torch, name), ((2, 3),)) for name in ["abs", "neg", "exp", "floor", "ceil", "round", "sign", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc", "sigmoid", "expm1", "square", "trunc", "frac", "isnan", "isfinite", "exp2", "relu", "selu", "reciprocal"]),
    *((name, getattr(torch, name), (POSITIVE,)) for name in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "asin", "acos", "atanh"]),
    *((name, getattr(F, name), ((2, 3),)) for name in ["silu", "mish", "hardswish", "relu6", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "celu", "gelu", "softplus", "logsigmoid", "softsign", "tanhshrink", "hardshrink", "softshrink"]),
    *((f"{name} of ints", getattr(torch, name), (INTS,)) for name in ["abs", "neg", "sqrt", "sin", "exp", "floor", "round", "sign"]),
    *((name, getattr(operator, name), ((2, 3), (3,))) for name in ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"]),
    *((f"{name} of ints", getattr(operator, name), (INTS, torch.tensor([2, -3, 4]))) for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "and_", "or_", "xor"]),
    *((f"{name} with a number", with_three(name), (INTS,)) for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "ge", "and_"]),
    ("a float number with ints", lambda x: x * 0.5 + 1, (INTS,)),
    ("a number minus a tensor", lambda x: 1 - x, ((2, 3),)),
    ("ints with floats", lambda i, x: i + x, (INTS, (2, 3))),
    ("int32 with int64", lambda i, j: i + j.int(), (INTS, INTS)),
    ("rank 0 yields to a tensor", lambda i, x: i.int() * x.sum().long(), (INTS, INTS)),
    ("booleans add and multiply", lambda a, b: (a + b, a * b), (MASK, ~MASK)),
    ("comparison of ints with a float number", lambda x: x > 2.5, (INTS,)),
    ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), ((2, 3),)),
    ("softplus with beta", lambda x: F.softplus(x, beta=2.0), ((2, 3),)),
    ("threshold", lambda x: F.threshold(x, 0.2, -5.0), ((2, 3),)),
    ("glu", F.glu, ((2, 6),)),
    ("prelu of one slope", F.prelu, ((2, 3, 4), torch.tensor([0.2]))),
    ("prelu per channel", F.prelu, ((2, 3, 4), torch.tensor([0.2, -0.1, 0.7]))),
    ("add with alpha", lambda a, b: torch.add(a, b, alpha=2), ((2, 3), (2, 3))),
    ("pow", lambda x: (x**2, x**3, x.abs() ** 0.5, (x.abs() + 1) ** -1.0, 2.0**x), ((2, 3),)),
    ("pow of tensors", torch.pow, (POSITIVE, (2, 3))),
    ("division rounded", lambda a, b: [torch.div(a, b, rounding_mode=m) for m in ("floor", "trunc")], (INTS, torch.tensor([2, -3, 4]))),
    ("float division rounded", lambda a, b: [torch.div(a, b, rounding_mode=m) for m in ("floor", "trunc")], ((2, 3), (2, 3))),
    ("remainder and fmod", lambda a, b: (torch.remainder(a, b), torch.fmod(a, b)), ((2, 3), POSITIVE)),
    ("maximum and minimum", lambda a, b: (torch.maximum(a, b), torch.minimum(a, b)), ((2, 3), (2, 3))),
    ("clamp", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp_max(0.1)), ((2, 3),)),
    ("clamp of ints", lambda x: x.clamp(-1, 4), (INTS,)),
    ("clamp by tensors", lambda x, a: x.clamp(min=a), ((2, 3), (3,))),
    ("where", lambda m, a: (torch.where(m, a, 0.0), torch.where(m, 1, 2), torch.where(m, a, a.sum())), (MASK, (2, 3))),
    ("masked_fill", lambda m, a: a.masked_fill(m, float("-inf")), (MASK, (2, 3))),
    ("logic", lambda a, b: (a & b, a | ~b, a ^ b, torch.logical_and(a, b), torch.logical_not(b)), (MASK, ~MASK)),
    ("lerp, addcmul, addcdiv", lambda a, b, w: (torch.lerp(a, b, 0.3), torch.addcmul(a, b, w, value=2), torch.addcdiv(a, b, w)), ((2, 3), (2, 3), POSITIVE)),
    ("nan_to_num of bfloat16", lambda x: torch.nan_to_num((x / x.relu()).bfloat16()).float(), ((2, 3),)),
    ("nan_to_num of float16", lambda x: torch.nan_to_num((x / x.relu()).half()), ((2, 3),)),
    ("rms norm of bfloat16", lambda x: F.rms_norm(x.bfloat16(), (4,)).float(), ((2, 4),)),
    ("softplus with an early threshold", lambda x: (F.softplus(5 * x, beta=2.0, threshold=1.0), F.softplus(x, threshold=0.1), F.softplus(9 * x, threshold=60)), ((4, 8),)),
    ("nan_to_num", lambda x: torch.nan_to_num(x / x.relu()), ((2, 3),)),
    ("casts", lambda x: (x.long(), x.half().float(), x.bool(), x.to(torch.float64), x.type_as(x.int())), ((2, 3),)),
    ("round to decimals", lambda x: torch.round(x, decimals=2), ((2, 3),)),
    ("rrelu", F.rrelu, ((2, 3),)),
    ("hypot", torch.hypot, ((2, 3), (2, 3))),
    ("atan2", torch.atan2, ((2, 3), (2, 3))),
]  # fmt: skip

REDUCTIONS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.sum(-1, dtype=torch.float64)), ((2, 3, 4),)),
    ("sum of ints and booleans", lambda x, m: (x.sum(), x.int().sum(0), m.sum(1)), (INTS, MASK)),
    ("mean, prod", lambda x: (x.mean(), x.mean((1, 2)), x.prod(1)), ((2, 3, 4),)),
    ("amax, amin", lambda x: (x.amax((0, 1)), x.amin(-1, keepdim=True), x.max(), x.min()), ((2, 3, 4),)),
    ("max and min with places", lambda x: (*x.max(1), *x.min(-1, keepdim=True)), ((2, 3, 4),)),
    ("max values alone", lambda x: x.max(1).values, ((2, 3, 4),)),
    ("var and std", lambda x: (x.var(1), x.std((0, 2), correction=0), x.var(), x.std(1, keepdim=True), *torch.var_mean(x, 2)), ((2, 3, 4),)),
    ("any and all", lambda m: (m.any(), m.all(1), m.any(0, keepdim=True)), (MASK,)),
    ("logsumexp", lambda x: x.logsumexp(1), ((2, 3, 4),)),
    ("norms of one number", lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1), torch.linalg.vector_norm(x, 0), x.norm(), torch.linalg.vector_norm(x, 3, keepdim=True)), (torch.tensor(-4.0),)),
    ("reductions of one number", lambda x: (x.sum(), x.mean(), x.prod(), x.amax(), x.max(), x.logsumexp(0), x.sum(0, keepdim=True)), (torch.tensor(-4.0),)),
    ("norms", lambda x: (x.norm(), torch.linalg.vector_norm(x, 1, dim=1), torch.linalg.vector_norm(x, float("inf")), torch.linalg.vector_norm(x, 3, dim=-1)), ((2, 3),)),
    ("normalize", lambda x: (F.normalize(x), F.normalize(x, p=1, dim=0)), ((2, 3),)),
    ("argmax, argmin", lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True)), ((2, 3, 4),)),
    ("topk, sort", lambda x: (*x.topk(2), *x.topk(2, dim=0, largest=False), *x.sort(1), x.argsort(-1, descending=True)), ((3, 4),)),
    ("cumsum", lambda x, m: (x.cumsum(1), m.cumsum(0), x.cumprod(-1)), ((2, 3), MASK)),
    ("softmax", lambda x: (x.softmax(-1), x.log_softmax(0), F.softmax(x, 1, dtype=torch.float64)), ((2, 3),)),
]  # fmt: skip

MOVEMENT: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("views", lambda x: (x.view(3, -1), x.reshape(-1), x.flatten(1), x.unsqueeze(1), x[None], x.unflatten(2, (2, 2)), x.view(2, 3, 4, 1).squeeze(-1)), ((2, 3, 4),)),
    ("transposes", lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.mT, x[0].t(), x.movedim(0, 2), x.swapaxes(0, 1)), ((2, 3, 4),)),
    ("cat and stack", lambda x, i: (torch.cat([x, x], 1), torch.stack([x, x], -1), torch.cat([x, i], 0), torch.hstack([x, x])), ((2, 3), INTS)),
    ("split, chunk, unbind", lambda x: (*x.split(2, 1), *x.chunk(3, 1), *x.unbind(0), *x.split([1, 4], 1), *x.tensor_split(2, 1)), ((2, 5),)),
    ("slices", lambda x: (x[:, 1:], x[:, :-1], x[:, 1:4:2], x[..., -2:], x[-1], x[:, 2], x[:, 3:100], x.narrow(1, 1, 2), x[:, 5:]), ((2, 5),)),
    ("expand and repeat", lambda x: (x[:, None].expand(2, 4, 3), x.repeat(2, 1, 2), x.tile(3), x.expand_as(x), x.broadcast_to(5, 2, 3)), ((2, 3),)),
    ("repeat_interleave", lambda x: (x.repeat_interleave(3, 1), x.repeat_interleave(2)), ((2, 3),)),
    ("flip, roll, triangles", lambda x: (x.flip(0, 1), x.roll(1, 1), x.roll((1, -1), (0, 1)), x.roll(2), x.tril(), x.triu(1)), ((3, 4),)),
    ("pads", lambda x: [F.pad(x, (1, 2, 0, 1), mode=m) for m in ("constant", "reflect", "replicate", "circular")], ((1, 2, 4, 5),)),
    ("pads with a value, negative", lambda x: (F.pad(x, (1, -1), value=3.0), F.pad(x, (0, 0, 2, 0))), ((3, 4),)),
    ("pixel shuffles", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)), ((1, 8, 4, 6),)),
    ("embedding", lambda i, w: F.embedding(i, w), (IDS, (5, 3))),
    ("index_select and take", lambda x, i: (x.index_select(1, i[0]), x.take(i)), ((2, 3), IDS)),
    ("indexing by one tensor", lambda x, i: (x[i], x[:, i], x[..., i[0]]), ((3, 3, 4), IDS)),
    ("indexing by tensors", lambda x, i: (x[i, i], x[:, i[0], i[1]], x[i[0], :, i[1]], x[i, [[0], [1]]]), ((3, 3, 4), IDS)),
    ("gather", lambda x, i: (x.gather(1, i), torch.take_along_dim(x, i, 1)), ((2, 3), IDS)),
    ("scatter", lambda x, i, s: (x.scatter(1, i, s), x.scatter(1, i, 2.0), x.scatter_add(1, i, s)), ((2, 3), IDS, (2, 2))),
    ("index_add, index_copy, index_fill", lambda x, s: (x.index_add(0, torch.tensor([2, 0]), s), x.index_copy(0, torch.tensor([2, 0]), s), x.index_fill(1, torch.tensor([1]), 4.0)), ((3, 3), (2, 3))),
    ("index_put", lambda x, v: (x.index_put((torch.tensor([2, 0]),), v), x.index_put((torch.tensor([1, 1]),), v, accumulate=True), x.index_put((x > 0,), torch.tensor(9.0))), ((3, 4), (2, 4))),
    ("fold", lambda x: F.fold(F.unfold(x, 2), (4, 4), 2), ((1, 2, 4, 4),)),
    ("one_hot", lambda i: F.one_hot(i, 5), (IDS,)),
    ("unfold", lambda x: (x.unfold(1, 3, 2), F.unfold(x[:, None, None], (1, 2))), ((2, 7),)),
    ("outer, meshgrid", lambda a, b: (torch.outer(a, b), *torch.meshgrid(a, b, indexing="ij")), ((3,), (4,))),
    ("diagonal", lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-2), x[None].diagonal(0, 2, 1)), ((3, 4),)),
    ("made tensors", lambda x: (torch.arange(3), torch.arange(1, 7, 2), torch.arange(0.0, 1, 0.25), torch.zeros(2), torch.ones_like(x), torch.full((2, 2), 7), x.new_zeros(3), torch.eye(3), torch.linspace(0, 1, 5), torch.tensor([1.5, 2]), x.new_full((2,), 3.0), torch.full_like(x, 2)), ((2, 3),)),
]  # fmt: skip

PRODUCTS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("matmul of all ranks", lambda a, b: (a @ b, a[0] @ b[0], a @ b[0, :, 0], a[0, 0] @ b, a[0, 0] @ b[0, :, 0]), ((2, 3, 4), (2, 4, 5))),
    ("mm, bmm, mv", lambda a, b: (torch.mm(a[0], b[0]), torch.bmm(a, b), torch.mv(a[0], b[0, :, 0])), ((2, 3, 4), (2, 4, 5))),
    ("addmm, baddbmm", lambda a, b, c: (torch.addmm(c, a[0], b[0], beta=0.5, alpha=2), torch.baddbmm(c, a, b)), ((2, 3, 4), (2, 4, 5), (3, 5))),
    ("einsum", lambda a, b: (torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij, bjk -> bk", a, b)), ((2, 3, 4), (2, 4, 5))),
    ("linear", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x, w[0])), ((2, 3, 4), (5, 4), (5,))),
    ("bilinear", F.bilinear, ((2, 3), (2, 4), (5, 3, 4), (5,))),
    ("attention", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)), ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6))),
    ("attention with masks", lambda q, m: (F.scaled_dot_product_attention(q, q, q, attn_mask=m), F.scaled_dot_product_attention(q, q, q, attn_mask=m > -1)), ((2, 2, 3, 4), (3, 3))),
    ("attention with grouped heads", lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), ((2, 6, 3, 4), (2, 2, 5, 4))),
    ("cosine similarity", lambda a, b: F.cosine_similarity(a, b), ((2, 3), (2, 3))),
    ("cdist by parts", lambda a, b: (a[:, None] - b[None]).pow(2).sum(-1).sqrt(), ((3, 4), (5, 4))),
]  # fmt: skip

WINDOWS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2), ((2, 4, 9), (6, 4, 3), (6,))),
    ("conv2d with groups", lambda x, w: F.conv2d(x, w, None, (1, 2), (1, 0), 1, 2), ((2, 4, 7, 8), (6, 2, 3, 3))),
    ("conv2d, padding by word", lambda x, w: (F.conv2d(x, w, padding="same"), F.conv2d(x, w, padding="valid")), ((1, 2, 5, 6), (3, 2, 4, 3))),
    ("conv3d", lambda x, w: F.conv3d(x, w, padding=1), ((1, 2, 4, 5, 6), (3, 2, 3, 3, 3))),
    ("conv2d of one image", F.conv2d, ((2, 5, 6), (3, 2, 3, 3))),
    ("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), ((2, 4, 5), (4, 3, 3), (3,))),
    ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 2, (1, 2)), ((2, 4, 5, 4), (4, 3, 3, 3))),
    ("max_pool", lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool1d(x[0], 2), F.max_pool2d(x, 2, dilation=2, stride=1)), ((2, 3, 7, 8),)),
    ("max_pool with places", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), ((2, 3, 7, 8),)),
    ("avg_pool", lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.avg_pool2d(x, 3, 2, 1, divisor_override=2), F.avg_pool1d(x[0], 3, padding=1)), ((2, 3, 7, 8),)),
    ("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), ((2, 3, 6, 8),)),
    ("adaptive pools", lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, None)), F.adaptive_max_pool2d(x, 2), F.adaptive_avg_pool1d(x[0], 3)), ((2, 3, 7, 8),)),
    ("nearest", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (7, 5)), F.interpolate(x, scale_factor=1.7), F.interpolate(x, (7, 5), mode="nearest-exact")), ((1, 2, 4, 6),)),
    ("resize between corners", lambda x: (F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=2.3, mode="bicubic", align_corners=True)), ((1, 2, 4, 6),)),
    ("bilinear resize", lambda x: (F.interpolate(x, (7, 5), mode="bilinear"), F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), F.interpolate(x[0], 9, mode="linear")), ((1, 2, 4, 6),)),
    ("bicubic resize", lambda x: (F.interpolate(x, (7, 5), mode="bicubic"), F.interpolate(x, scale_factor=2.3, mode="bicubic")), ((1, 2, 4, 6),)),
    ("antialiased resize", lambda x: (F.interpolate(x, (5, 4), mode="bilinear", antialias=True), F.interpolate(x, (5, 4), mode="bicubic", antialias=True)), ((1, 2, 11, 9),)),
    ("grid_sample", lambda x, g: [F.grid_sample(x, g.tanh(), m, p, a) for m, p, a in (("bilinear", "zeros", False), ("nearest", "border", True), ("bicubic", "reflection", False))], ((1, 2, 4, 5), (1, 3, 3, 2))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("f", "specs"), [pytest.param(f, s, id=name) for name, f, s in ELEMENTWISE + REDUCTIONS + MOVEMENT + PRODUCTS + WINDOWS]
)
def test_a_function_equals_torch(f: Callable[..., Any], specs: tuple[Any, ...]) -> None:
    check(Function(f), *specs)


LAYERS: list[tuple[str, Callable[[], nn.Module], tuple[Any, ...], set[str]]] = [
    ("batch norm", lambda: nn.BatchNorm2d(3), ((2, 3, 4, 5),), {"batch_norm"}),
    ("batch norm without affine", lambda: nn.BatchNorm1d(3, affine=False), ((2, 3),), {"batch_norm"}),
    ("layer norm", lambda: nn.LayerNorm((3, 4)), ((2, 3, 4),), {"layer_norm"}),
    ("layer norm without affine", lambda: nn.LayerNorm(4, elementwise_affine=False), ((2, 3, 4),), {"layer_norm"}),
    ("group norm", lambda: nn.GroupNorm(2, 4), ((2, 4, 5),), {"group_norm"}),
    ("instance norm", lambda: nn.InstanceNorm2d(3, affine=True), ((2, 3, 4, 5),), {"instance_norm"}),
    ("instance norm with statistics", lambda: nn.InstanceNorm1d(3, track_running_stats=True), ((2, 3, 4),), {"batch_norm"}),
    ("rms norm", lambda: nn.RMSNorm(4), ((2, 3, 4),), {"rms_norm"}),
    ("local response norm", lambda: nn.LocalResponseNorm(3), ((2, 5, 4, 4),), set()),
    ("dropout", lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.AlphaDropout()), ((2, 4),), {"linear"}),
    ("LSTM", lambda: nn.LSTM(4, 5), ((6, 2, 4),), {"lstm", "transpose", "reshape"}),
    ("LSTM, deep, both ways", lambda: nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), ((2, 6, 4),), set()),
    ("LSTM without bias, one sequence", lambda: nn.LSTM(4, 5, bias=False), ((6, 4),), set()),
    ("GRU, deep, both ways", lambda: nn.GRU(4, 5, 2, bidirectional=True), ((6, 2, 4),), set()),
    ("RNN", lambda: nn.RNN(4, 5, nonlinearity="relu"), ((6, 2, 4),), {"rnn", "transpose", "reshape"}),
    ("LSTM cell", lambda: nn.LSTMCell(4, 5), ((2, 4),), set()),
    ("GRU cell", lambda: nn.GRUCell(4, 5), ((2, 4),), set()),
    ("multi-head attention", lambda: AttendsToItself(), ((2, 3, 8),), set()),
    ("encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), ((2, 3, 8),), set()),
    ("decoder layer", lambda: nn.TransformerDecoderLayer(8, 2, 16), ((3, 2, 8), (4, 2, 8)), set()),
    ("in-place activations", lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Hardtanh(inplace=True)), ((2, 4),), {"linear", "relu", "clip"}),
]  # fmt: skip


class AttendsToItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attn(x, x, x)[0]


@pytest.mark.parametrize(("build", "specs", "ops"), [pytest.param(b, s, o, id=name) for name, b, s, o in LAYERS])
def test_a_layer_equals_torch_and_stays_one_op(build: Callable[[], nn.Module], specs: tuple[Any, ...], ops: set[str]) -> None:
    graph = check(with_statistics(build()), *specs, tolerance=5e-5)
    assert not ops or {n.op for n in graph} == ops
