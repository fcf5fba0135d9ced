"""Convolutions. auto_pad and output_shape are resolved here: a graph's conv has numbers for its padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowbit.dims import Dim
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.ops.window import check_geometry, extent
from lowbit.types import shape_text


def geometry(node: OnnxNode, x: Value, kernel: Sequence[int]) -> dict[str, Any]:
    """stride, pads and dilation of a windowed op, with defaults filled in and auto_pad resolved."""
    n = len(kernel)
    stride = tuple(node.attr("strides") or [1] * n)
    dilation = tuple(node.attr("dilations") or [1] * n)
    pads = tuple(node.attr("pads") or [0] * 2 * n)
    auto = node.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        check_geometry(len(x.shape) - 2, kernel, stride, (0,) * 2 * n, dilation)
        pads = split_pads([same_padding(*a) for a in zip(x.shape[2:], extent(kernel, dilation), stride, strict=True)], auto)
    elif auto == "VALID":
        pads = (0,) * 2 * n
    elif auto != "NOTSET":
        raise UnsupportedOp(f"auto_pad '{auto}' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return {"stride": stride, "pads": pads, "dilation": dilation}


def same_padding(size: Dim, reach: int, stride: int) -> int:
    """How much padding makes ceil(size / stride) windows; with stride 1 it does not depend on the size, which may be a symbol."""
    if stride == 1:
        return reach - 1
    return max((-(-int(size) // stride) - 1) * stride + reach - int(size), 0)


def split_pads(totals: Sequence[int], auto: str) -> tuple[int, ...]:
    """Begins, then ends. An odd one goes to the end for SAME_UPPER, to the beginning for SAME_LOWER."""
    small = [t // 2 for t in totals]
    large = [t - s for t, s in zip(totals, small, strict=True)]
    return tuple(small + large if auto == "SAME_UPPER" else large + small)


def kernel_of(node: OnnxNode, w: Value) -> tuple[int, ...]:
    kernel = tuple(int(k) for k in w.shape[2:])
    declared = tuple(node.attr("kernel_shape") or kernel)
    if declared != kernel:
        raise ShapeError(f"kernel_shape {declared} contradicts weight {shape_text(w.shape)}")
    return kernel


def conv_geometry(node: OnnxNode, x: Value, w: Value) -> dict[str, Any]:
    """stride, pads, dilation and groups of a convolution."""
    return {**geometry(node, x, kernel_of(node, w)), "groups": node.attr("group", 1)}


@onnx_op("Conv")
def conv(c: Importer, node: OnnxNode) -> Value:
    x, w = c.input(node, 0), c.input(node, 1)
    return c.add("conv", x, w, c.optional(node, 2), **conv_geometry(node, x, w))


@onnx_op("ConvTranspose")
def conv_transpose(c: Importer, node: OnnxNode) -> Value:
    x, w = c.input(node, 0), c.input(node, 1)
    kernel = kernel_of(node, w)
    n = len(kernel)
    stride = tuple(node.attr("strides") or [1] * n)
    dilation = tuple(node.attr("dilations") or [1] * n)
    extra = tuple(node.attr("output_padding") or [0] * n)
    pads = tuple(node.attr("pads") or [0] * 2 * n)
    auto = node.attr("auto_pad", "NOTSET")
    wanted = node.attr("output_shape")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        check_geometry(len(x.shape) - 2, kernel, stride, (0,) * 2 * n, dilation)
        if len(extra) != n or (wanted is not None and len(wanted) < n):
            raise ShapeError(f"output_shape {wanted} and output_padding {extra} do not fit input {shape_text(x.shape)}")
        totals = []
        for i, reach in enumerate(extent(kernel, dilation)):
            if wanted is None:  # out = size * stride, whatever the size: the difference does not depend on it
                totals.append(extra[i] + reach - stride[i])
            else:
                totals.append((int(x.shape[2 + i]) - 1) * stride[i] + extra[i] + reach - wanted[len(wanted) - n + i])
        # More output than there is (a negative total) grows at the end, where output_padding is.
        extra = tuple(e + max(-t, 0) for e, t in zip(extra, totals, strict=True))
        pads = split_pads([max(t, 0) for t in totals], auto)
    elif auto == "VALID":
        pads = (0,) * 2 * n
    return c.add(
        "conv_transpose",
        x,
        w,
        c.optional(node, 2),
        stride=stride,
        pads=pads,
        dilation=dilation,
        groups=node.attr("group", 1),
        output_padding=extra,
    )


@onnx_op("DeformConv")
def deform_conv(c: Importer, node: OnnxNode) -> Value:
    x, w, offset = (c.input(node, i) for i in range(3))
    places = conv_geometry(node, x, w)
    return c.add(
        "deform_conv", x, w, offset, c.optional(node, 3), c.optional(node, 4), **places, offset_groups=node.attr("offset_group", 1)
    )


@onnx_op("Col2Im")
def col2im(c: Importer, node: OnnxNode) -> Value:
    image, kernel = c.dims(node, 1, "image shape"), c.ints(node, 2, "block shape")
    if image is None or kernel is None:
        raise ShapeError("Col2Im needs an image shape and a block shape")
    n = len(kernel)
    return c.add(
        "col2im",
        c.input(node, 0),
        image=image,
        kernel=kernel,
        stride=node.attr("strides") or [1] * n,
        pads=node.attr("pads") or [0] * 2 * n,
        dilation=node.attr("dilations") or [1] * n,
    )
