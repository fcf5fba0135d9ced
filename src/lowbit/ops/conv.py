"""conv: cross-correlation over 1, 2, 3 … spatial dimensions, y[n, o, p] = b[o] + Σ x[n, c, p*stride + k*dilation - pad] * w[o, c, k]."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import ShapeError
from lowbit.ops.checks import differ, need_vector, same_dtype, wide
from lowbit.ops.op import Op, register
from lowbit.ops.window import Ints, check_geometry, output_size, windows
from lowbit.types import Array, TensorType, shape_text

COLUMNS = 4 << 20  # bytes of columns at a time: a large image must not become its nine-fold


def infer(
    x: TensorType, w: TensorType, b: TensorType | None = None, *, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> TensorType:
    same_dtype(input=x, weight=w, bias=b)
    size = output_shape(x, w, stride, pads, dilation, groups)
    need_vector("bias", b, w.shape[0])
    return TensorType(size, x.dtype)


def output_shape(x: TensorType, w: TensorType, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> tuple[Dim, ...]:
    """(N, O, *out); a ShapeError when the weight does not fit. Quantized convolutions have the same one."""
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(
            f"input {shape_text(x.shape)} and weight {shape_text(w.shape)} must both be (N, C, spatial…) of the same rank, 3 or more"
        )
    check_geometry(x.rank - 2, w.shape[2:], stride, pads, dilation)
    channels, needed, out = x.shape[1], w.shape[1] * groups, w.shape[0]
    if differ(channels, needed):
        grouped = f" ({groups} groups of {w.shape[1]})" if groups > 1 else ""
        raise ShapeError(f"input has {channels} channels, weight {shape_text(w.shape)} needs {needed}{grouped}")
    if groups < 1 or (isinstance(out, int) and out % groups):
        raise ShapeError(f"{out} output channels cannot be split into {groups} groups")
    kernel = tuple(int(k) for k in w.shape[2:])
    return (x.shape[0], out, *output_size(x.shape[2:], kernel, stride, pads, dilation))


def real(x: Array, w: Array, b: Array | None = None, *, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Array:
    y = convolve(wide(x), wide(w), stride, pads, dilation, groups)
    if b is not None:
        y += wide(b).reshape(-1, *[1] * (x.ndim - 2))
    return y.astype(x.dtype, copy=False)


def convolve(x: Array, w: Array, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Array:
    """The convolution without bias, in the arrays' own type: a matrix product per group over some lines of an image at a time."""
    o, kernel = w.shape[0], w.shape[2:]
    s = len(kernel)
    out = tuple(int(d) for d in output_size(x.shape[2:], kernel, stride, pads, dilation))
    rows = w.reshape(groups, o // groups, int(np.prod(w.shape[1:])))  # (G, O/G, C/G * K)
    y = np.empty((x.shape[0], o, *out), np.result_type(x, w))
    lines = max(1, COLUMNS // max(1, groups * rows.shape[2] * y.itemsize * int(np.prod(out[1:]))))
    for i in range(x.shape[0]):
        view = windows(x[i : i + 1], kernel, stride, pads, dilation, out)[0]  # (C, *out, *K)
        for at in (slice(a, a + lines) for a in range(0, out[0], lines)):
            part = y[i, :, at]
            cols = view[:, at].transpose(0, *range(1 + s, 1 + 2 * s), *range(1, 1 + s))
            part[:] = np.matmul(rows, cols.reshape(groups, rows.shape[2], int(np.prod(part.shape[1:])))).reshape(part.shape)
    return y


def macs(x: TensorType, w: TensorType, b: TensorType | None = None, *, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Dim:
    out = infer(x, w, b, stride=stride, pads=pads, dilation=dilation, groups=groups)
    return out.size * product(w.shape[1:])


CONV = Op("conv", infer, real, macs)
register(CONV)
