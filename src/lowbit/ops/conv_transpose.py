"""conv_transpose: the adjoint of conv, which spreads each input element over a window of the output. Also col2im, its second half."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import ShapeError
from lowbit.ops.checks import differ, need_vector, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.ops.window import Ints, check_geometry, extent, output_size, overlap_add
from lowbit.types import Array, TensorType, shape_text


def infer(
    x: TensorType,
    w: TensorType,
    b: TensorType | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
    output_padding: Ints,
) -> TensorType:
    same_dtype(input=x, weight=w, bias=b)
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(
            f"input {shape_text(x.shape)} and weight {shape_text(w.shape)} must both be (N, C, spatial…) of the same rank, 3 or more"
        )
    n = x.rank - 2
    # Negative pads are legal here: they make the output larger, which output_shape of ONNX asks for.
    check_geometry(n, w.shape[2:], stride, tuple(max(p, 0) for p in pads), dilation)
    if len(output_padding) != n:
        raise ShapeError(f"output_padding {output_padding} has {len(output_padding)} entries, {n} spatial dimensions need {n}")
    if differ(x.shape[1], w.shape[0]):
        raise ShapeError(f"input has {x.shape[1]} channels, weight {shape_text(w.shape)} needs {w.shape[0]}")
    if groups < 1 or (isinstance(w.shape[0], int) and w.shape[0] % groups):
        raise ShapeError(f"{w.shape[0]} input channels cannot be split into {groups} groups")
    need_vector("bias", b, w.shape[1] * groups)
    reach = extent([int(k) for k in w.shape[2:]], dilation)
    size = [(s - 1) * stride[i] + output_padding[i] + reach[i] - pads[i] - pads[n + i] for i, s in enumerate(x.shape[2:])]
    if any(isinstance(s, int) and s < 0 for s in size):
        raise ShapeError(f"padding {pads} takes more away than the output ({shape_text(size)}) has")
    return TensorType((x.shape[0], w.shape[1] * groups, *size), x.dtype)


def real(
    x: Array, w: Array, b: Array | None = None, *, stride: Ints, pads: Ints, dilation: Ints, groups: int, output_padding: Ints
) -> Array:
    n, c, *spatial = x.shape
    kernel = w.shape[2:]
    s = len(kernel)
    reach = extent(kernel, dilation)
    size = [(d - 1) * stride[i] + output_padding[i] + reach[i] - pads[i] - pads[s + i] for i, d in enumerate(spatial)]
    rows = wide(w).reshape(groups, c // groups, int(np.prod(w.shape[1:])))  # (G, C/G, O/G * K)
    cols = np.matmul(rows.swapaxes(1, 2), wide(x).reshape(n, groups, c // groups, int(np.prod(spatial))))
    cols = cols.reshape(n, groups * w.shape[1], *kernel, *spatial)
    before, after = [max(p, 0) for p in pads[:s]], [max(-p, 0) for p in pads[:s]]
    y = overlap_add(cols, [z - a for z, a in zip(size, after, strict=True)], kernel, stride, tuple(before), dilation)
    if any(after):
        y = np.pad(y, [(0, 0), (0, 0), *((a, 0) for a in after)])
    if b is not None:
        y = y + wide(b).reshape(-1, *[1] * s)
    return y.astype(x.dtype, copy=False)


def macs(x: TensorType, w: TensorType, b: TensorType | None = None, **_: object) -> Dim:
    return x.size * product(w.shape[1:])


def infer_col2im(x: TensorType, *, image: tuple[Dim, ...], kernel: Ints, stride: Ints, pads: Ints, dilation: Ints) -> TensorType:
    check_geometry(len(image), kernel, stride, pads, dilation)
    taps = int(np.prod(kernel))
    blocks = product(output_size(image, kernel, stride, pads, dilation))
    if (
        x.rank != 3
        or (isinstance(x.shape[1], int) and x.shape[1] % taps)
        or (x.is_static and isinstance(blocks, int) and x.shape[2] != blocks)
    ):
        raise ShapeError(f"input {shape_text(x.shape)} given, (N, C*{taps}, {blocks}) needed for image {shape_text(image)}")
    return TensorType((x.shape[0], x.shape[1] // taps, *image), x.dtype)


def real_col2im(x: Array, *, image: Ints, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints) -> Array:
    blocks = [int(d) for d in output_size(image, kernel, stride, pads, dilation)]
    cols = x.reshape(x.shape[0], x.shape[1] // int(np.prod(kernel)), *kernel, *blocks)
    return overlap_add(cols, image, kernel, stride, pads, dilation)


CONV_TRANSPOSE = Op("conv_transpose", infer, real, macs)
COL2IM = Op("col2im", infer_col2im, real_col2im)
register(CONV_TRANSPOSE, COL2IM)
