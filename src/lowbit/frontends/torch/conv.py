"""Convolution and pooling. torch pads both sides alike and lets one number stand for all spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lowbit.dims import Dim
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value

Ints = Sequence[int] | int


def spread(values: Ints, rank: int) -> tuple[int, ...]:
    """One number per spatial axis."""
    listed = [values] if isinstance(values, int) else list(values)
    return tuple(listed * rank if len(listed) == 1 else listed)


def batched(c: Importer, x: Value, spatial: int) -> Value:
    """x (N, C, *S); torch also takes (C, *S)."""
    return c.reshape(x, (1, *x.shape)) if x.type.rank == spatial + 1 else x


def unbatched(c: Importer, y: Value, i: int = 0) -> Value:
    return c.reshape(y, c.shape(i)) if y.type.rank > len(c.shape(i)) else y


@aten("conv1d", "conv2d", "conv3d")
def conv(
    c: Importer, x: Value, w: Value, b: Value | None = None, stride: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1
) -> Value:
    n = w.type.rank - 2
    dilation = spread(dilation, n)
    if isinstance(padding, str):
        spans = [d * (int(k) - 1) if padding == "same" else 0 for d, k in zip(dilation, w.shape[2:], strict=True)]
        pads = (*(s // 2 for s in spans), *(s - s // 2 for s in spans))  # the odd one goes to the end
    else:
        pads = spread(padding, n) * 2
    return unbatched(c, c.add("conv", batched(c, x, n), w, b, stride=spread(stride, n), pads=pads, dilation=dilation, groups=groups))


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    c: Importer,
    x: Value,
    w: Value,
    b: Value | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Value:
    n = w.type.rank - 2
    y = c.add(
        "conv_transpose",
        batched(c, x, n),
        w,
        b,
        stride=spread(stride, n),
        pads=spread(padding, n) * 2,
        dilation=spread(dilation, n),
        groups=groups,
        output_padding=spread(output_padding, n),
    )
    return unbatched(c, y)


@aten("convolution", "_convolution")
def convolution(
    c: Importer,
    x: Value,
    w: Value,
    b: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    *_: Any,
) -> Value:
    if transposed:
        return conv_transpose(c, x, w, b, stride, padding, output_padding, groups, dilation)
    return conv(c, x, w, b, stride, padding, dilation, groups)


# -- pools ---------------------------------------------------------------------------------------------------------------


def spatial_rank(c: Importer) -> int:
    """1, 2 or 3, from the op's name."""
    return int(str(c.node.target).split("d.")[0].split("d_")[0][-1])


def window(n: int, kernel: Ints, stride: Ints, padding: Ints) -> dict[str, Any]:
    given = stride if isinstance(stride, int) or len(stride) else kernel
    return {"kernel": spread(kernel, n), "stride": spread(given, n), "pads": spread(padding, n) * 2}


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    c: Importer, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Value:
    n = spatial_rank(c)
    y = c.add("max_pool", batched(c, x, n), **window(n, kernel, stride, padding), dilation=spread(dilation, n), ceil_mode=bool(ceil_mode))
    return unbatched(c, y)


@aten("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    c: Importer, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[Value, Value | None]:
    if not c.uses(1):
        return max_pool(c, x, kernel, stride, padding, dilation, ceil_mode), None
    n = spatial_rank(c)
    y, where = c.add_node(
        "max_pool_indices",
        batched(c, x, n),
        **window(n, kernel, stride, padding),
        dilation=spread(dilation, n),
        ceil_mode=bool(ceil_mode),
        column_major=False,
    )
    plane: Dim = 1  # indices count through the whole tensor; torch's count within one plane
    for d in x.shape[-n:]:
        plane = plane * d
    return unbatched(c, y), unbatched(c, c.add("mod", where, c.tensor(plane, "int64")), 1)


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    c: Importer,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    n = spatial_rank(c)
    if divisor_override is not None and ceil_mode:
        raise UnsupportedOp("avg_pool with divisor_override and ceil_mode together is not supported")
    include = bool(count_include_pad) or divisor_override is not None
    options = window(n, kernel, stride, padding)
    y = c.add("avg_pool", batched(c, x, n), **options, dilation=(1,) * n, ceil_mode=bool(ceil_mode), count_include_pad=include)
    if divisor_override is not None:
        y = c.add("mul", y, c.tensor(math.prod(options["kernel"]) / divisor_override, x.type.dtype))
    return unbatched(c, y)


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(c: Importer, x: Value, output_size: Ints) -> Value:
    return adaptive(c, x, "adaptive_avg_pool", "reduce_mean")


@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(c: Importer, x: Value, output_size: Ints) -> tuple[Value, None]:
    if c.uses(1):
        raise UnsupportedOp("the indices of adaptive_max_pool are not supported")
    return adaptive(c, x, "adaptive_max_pool", "reduce_max"), None


def adaptive(c: Importer, x: Value, op: str, globally: str) -> Value:
    n = spatial_rank(c)
    size = c.shape()[-n:]  # torch has put in the input's size where output_size was None
    if all(s == 1 for s in size):
        return c.add(globally, x, axes=tuple(range(x.type.rank - n, x.type.rank)), keepdims=True)
    return unbatched(c, c.add(op, batched(c, x, n), output_size=size))
