"""Layers with windows: convolutions, pools, resizing, sampling; and the Fourier transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Sym
from lowbit.errors import UnsupportedOp
from lowbit.export.onnx.movement import dims, ints, source
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node
from lowbit.ops.window import extent


def window(node: Node) -> dict[str, Any]:
    a = node.attrs
    return {"strides": a["stride"], "pads": a["pads"], "dilations": a["dilation"]}


@spells("conv")
def conv(w: Writer, node: Node) -> None:
    w.node(node, "Conv", *node.inputs, **window(node), group=node.attrs["groups"], kernel_shape=source(node, 1).shape[2:])


@spells("conv_transpose")
def conv_transpose(w: Writer, node: Node) -> None:
    kernel, extra = source(node, 1).shape[2:], node.attrs["output_padding"]
    w.node(node, "ConvTranspose", *node.inputs, **window(node), group=node.attrs["groups"], kernel_shape=kernel, output_padding=extra)


@spells("deform_conv", since=19)
def deform_conv(w: Writer, node: Node) -> None:
    groups = {"group": node.attrs["groups"], "offset_group": node.attrs["offset_groups"]}
    w.node(node, "DeformConv", *node.inputs, **window(node), **groups, kernel_shape=source(node, 1).shape[2:])


@spells("col2im", since=18)
def col2im(w: Writer, node: Node) -> None:
    w.node(node, "Col2Im", source(node), w.ints(dims(node, "image")), w.ints(ints(node, "kernel")), **window(node))


def _pool(node: Node) -> dict[str, Any]:
    return {"kernel_shape": node.attrs["kernel"], "ceil_mode": node.attrs["ceil_mode"], **window(node)}


def _pool_since(node: Node) -> int:
    """Until opset 22 a last window that starts on the padding at the end was counted; lowbit, like torch, does not."""
    a, spatial = node.attrs, list(zip(source(node).shape[2:], node.output.shape[2:], strict=True))
    if not a["ceil_mode"] or any(isinstance(n, Sym) for pair in spatial for n in pair):
        return 17
    reach = extent(ints(node, "kernel"), ints(node, "dilation"))
    pads, n = ints(node, "pads"), len(spatial)
    spans = [int(size) + pads[i] + pads[n + i] - reach[i] for i, (size, _) in enumerate(spatial)]
    old = [-(-span // s) + 1 for span, s in zip(spans, ints(node, "stride"), strict=True)]
    return 17 if old == [out for _, out in spatial] else 22


@spells("max_pool", "max_pool_indices", since=_pool_since)
def max_pool(w: Writer, node: Node) -> None:
    w.node(node, "MaxPool", source(node), **_pool(node), storage_order=node.attrs.get("column_major"))


def _dilated(node: Node) -> bool:
    return any(d != 1 for d in ints(node, "dilation"))


@spells("avg_pool", since=lambda node: max(19 if _dilated(node) else 17, _pool_since(node)))
def avg_pool(w: Writer, node: Node) -> None:
    options = _pool(node)
    if not _dilated(node):
        del options["dilations"]
    w.node(node, "AveragePool", source(node), **options, count_include_pad=node.attrs["count_include_pad"])


@spells("lp_pool", since=18)
def lp_pool(w: Writer, node: Node) -> None:
    w.node(node, "LpPool", source(node), **_pool(node), p=node.attrs["p"])


@spells("adaptive_avg_pool", "adaptive_max_pool", respelled=True)
def adaptive_pool(w: Writer, node: Node) -> None:
    """A pool with equal windows, where the sizes allow it."""
    x, out = source(node), ints(node, "output_size")
    spatial = x.shape[2:]
    if any(isinstance(n, Sym) or n % m for n, m in zip(spatial, out, strict=True)):
        raise UnsupportedOp(
            f"its windows have different sizes ({spatial} to {out}), which no ONNX op can say",
            hint="an output size that divides the input's",
        )
    kernel = tuple(int(n) // m for n, m in zip(spatial, out, strict=True))
    w.node(node, "AveragePool" if node.op == "adaptive_avg_pool" else "MaxPool", x, kernel_shape=kernel, strides=kernel)


def _resize_since(node: Node) -> int:
    """Axes that keep their size beside others that are given by theirs can be left out since opset 18."""
    a = node.attrs
    mixed = len({s is None for s in a["scales"]}) > 1  # type: ignore[union-attr]
    return 19 if a["coordinate_mode"] == "half_pixel_symmetric" else 18 if a["antialias"] or mixed else 17


@spells("resize", since=_resize_since)
def resize(w: Writer, node: Node) -> None:
    """By scales where every axis has one that gives the size, else by sizes."""
    x, a = source(node), node.attrs
    scales, sizes = a["scales"], dims(node, "sizes")
    assert isinstance(scales, tuple)
    by_scale = [s for s in scales if isinstance(s, int | float)]
    roi = a["roi"] if a["coordinate_mode"] == "tf_crop_and_resize" else None
    given_roi = None if roi is None else w.constant(np.array(roi, np.float32), hint="roi")
    options = {
        "mode": a["mode"],
        "coordinate_transformation_mode": a["coordinate_mode"],
        "nearest_mode": a["nearest_mode"],
        "cubic_coeff_a": a["cubic_coeff_a"],
        "exclude_outside": a["exclude_outside"],
        "antialias": a["antialias"] if w.opset >= 18 else None,
        "extrapolation_value": a["extrapolation_value"],
    }
    if len(by_scale) == len(scales):
        w.node(node, "Resize", x, given_roi, w.constant(np.array(by_scale, np.float32), hint="scales"), **options)
    elif w.opset >= 18 and by_scale and all(s == 1.0 for s in by_scale) and roi is None:
        axes = [i for i, s in enumerate(scales) if s is None]  # the others keep their size
        w.node(node, "Resize", x, None, None, w.ints([sizes[i] for i in axes]), axes=axes, **options)
    else:
        w.node(node, "Resize", x, given_roi, None, w.ints(sizes), **options)


_SAMPLING = {"linear": "bilinear", "cubic": "bicubic"}


@spells("grid_sample", since=lambda node: 20 if source(node).type.rank != 4 else 17)
def grid_sample(w: Writer, node: Node) -> None:
    mode = str(node.attrs["mode"])
    named = mode if w.opset >= 20 else _SAMPLING.get(mode, mode)
    corners = node.attrs["align_corners"]
    w.node(node, "GridSample", *node.inputs, mode=named, padding_mode=node.attrs["padding_mode"], align_corners=corners)


@spells("affine_grid", since=20)
def affine_grid(w: Writer, node: Node) -> None:
    size = (source(node).shape[0], 1, *dims(node, "size"))
    w.node(node, "AffineGrid", source(node), w.ints(size), align_corners=node.attrs["align_corners"])


@spells("roi_align")
def roi_align(w: Writer, node: Node) -> None:
    height, width = ints(node, "output_size")
    a = node.attrs
    mode = "half_pixel" if a["half_pixel"] else "output_half_pixel"
    options = {k: a[k] for k in ("sampling_ratio", "spatial_scale", "mode")}
    w.node(node, "RoiAlign", *node.inputs, output_height=height, output_width=width, **options, coordinate_transformation_mode=mode)


@spells("dft")
def dft(w: Writer, node: Node) -> None:
    length = w.step(node, "Reshape", w.ints((node.attrs["length"],)), w.ints([]))  # type: ignore[arg-type]
    options = {k: node.attrs[k] for k in ("inverse", "onesided")}
    if w.opset < 20:
        w.node(node, "DFT", source(node), length, axis=node.attrs["axis"], **options)
    else:
        w.node(node, "DFT", source(node), length, w.constant(np.array(node.attrs["axis"], np.int64)), **options)


@spells("det")
def det(w: Writer, node: Node) -> None:
    w.node(node, "Det", source(node))
