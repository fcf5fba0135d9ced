"""Resize, Upsample, and the other ops that move or sample pixels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis, shape_text

_KERNELS = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}


def scaled(size: Dim, scale: float) -> Dim:
    """floor(size * scale) in float32: 10 * 1.3f is 13, though 1.3f is 1.29999995. A symbol can be scaled by a plain fraction."""
    if not 0 < scale < math.inf:
        raise ShapeError(f"scale {scale} given, a positive number needed")
    if isinstance(size, int):
        return math.floor(np.float32(size) * np.float32(scale))
    exact = Fraction(scale)
    return size * exact.numerator // exact.denominator if exact.denominator <= 64 else int(size)  # int() of a symbol says what to bind


def _floats(c: Importer, node: OnnxNode, i: int, what: str) -> list[float] | None:
    """A constant input as floats; None when it is left out or empty."""
    data = c.const(node, i, what)
    return None if data is None or data.size == 0 else [float(x) for x in data.reshape(-1)]


@onnx_op("Upsample")
def upsample(c: Importer, node: OnnxNode) -> Value:
    scales = node.attr("scales") or _floats(c, node, 1, "scales")
    return _old_resize(c, node, scales)


def _old_resize(c: Importer, node: OnnxNode, scales: list[float] | None) -> Value:
    x = c.input(node, 0)
    if scales is None or len(scales) != x.type.rank:
        raise ShapeError(f"scales {scales} do not fit input {shape_text(x.shape)}")
    sizes = tuple(scaled(d, s) for d, s in zip(x.shape, scales, strict=True))
    mode = _KERNELS.get(node.attr("mode", "nearest"), node.attr("mode"))
    return c.add("resize", x, sizes=sizes, scales=scales, mode=mode, coordinate_mode="asymmetric", nearest_mode="floor")


@onnx_op("Resize")
def resize(c: Importer, node: OnnxNode) -> Value:
    if c.opset < 11:
        return _old_resize(c, node, _floats(c, node, 1, "scales"))
    x = c.input(node, 0)
    rank = x.type.rank
    axes = [normalize_axis(a, rank) for a in node.attr("axes") or range(rank)]
    scales, wanted = _floats(c, node, 2, "scales"), c.dims(node, 3, "sizes")
    sizes: list[Dim] = list(x.shape)
    used: list[float | None] = [1.0] * rank
    if scales is not None:
        _one_each("scales", scales, axes)
        for a, s in zip(axes, scales, strict=True):
            sizes[a], used[a] = scaled(x.shape[a], s), s
    elif wanted:
        _one_each("sizes", wanted, axes)
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy == "stretch":
            for a, d in zip(axes, wanted, strict=True):
                sizes[a], used[a] = d, None
        else:
            if any(x.shape[a] == 0 for a in axes):
                raise ShapeError(f"input {shape_text(x.shape)} has no aspect ratio to keep")
            ratios = [int(d) / int(x.shape[a]) for a, d in zip(axes, wanted, strict=True)]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            for a in axes:
                sizes[a], used[a] = math.floor(ratio * int(x.shape[a]) + 0.5), ratio
    else:
        raise ShapeError("neither scales nor sizes are given")
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    return c.add(
        "resize",
        x,
        sizes=sizes,
        scales=used,
        mode=node.attr("mode", "nearest"),
        coordinate_mode=mode,
        nearest_mode=node.attr("nearest_mode", "round_prefer_floor"),
        cubic_coeff_a=node.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.attr("exclude_outside", 0)),
        antialias=bool(node.attr("antialias", 0)),
        extrapolation_value=node.attr("extrapolation_value", 0.0),
        roi=_roi(c, node, rank, axes) if mode == "tf_crop_and_resize" else None,
    )


def _one_each(what: str, given: list[Any], axes: list[int]) -> None:
    if len(given) != len(axes):
        raise ShapeError(f"{len(given)} {what} given, {len(axes)} axes need one each")


def _roi(c: Importer, node: OnnxNode, rank: int, axes: list[int]) -> list[float]:
    given = _floats(c, node, 1, "roi") or []
    if len(given) != 2 * len(axes):
        raise ShapeError(f"roi has {len(given)} numbers, {len(axes)} axes need {2 * len(axes)}")
    roi = [0.0] * rank + [1.0] * rank
    for i, a in enumerate(axes):
        roi[a], roi[rank + a] = given[i], given[len(axes) + i]
    return roi


@onnx_op("GridSample")
def grid_sample(c: Importer, node: OnnxNode) -> Value:
    mode = node.attr("mode", "linear")
    return c.add(
        "grid_sample",
        c.input(node, 0),
        c.input(node, 1),
        mode=_KERNELS.get(mode, mode),
        padding_mode=node.attr("padding_mode", "zeros"),
        align_corners=bool(node.attr("align_corners", 0)),
    )


@onnx_op("AffineGrid")
def affine_grid(c: Importer, node: OnnxNode) -> Value:
    size = c.dims(node, 1, "size")
    if size is None or len(size) < 3:
        raise ShapeError(f"size {size} given, (N, C, spatial…) needed")
    return c.add("affine_grid", c.input(node, 0), size=size[2:], align_corners=bool(node.attr("align_corners", 0)))


@onnx_op("DepthToSpace")
def depth_to_space(c: Importer, node: OnnxNode) -> Value:
    return c.add("depth_to_space", c.input(node, 0), block=node.attr("blocksize"), mode=node.attr("mode", "DCR"))


@onnx_op("SpaceToDepth")
def space_to_depth(c: Importer, node: OnnxNode) -> Value:
    return c.add("space_to_depth", c.input(node, 0), block=node.attr("blocksize"))


@onnx_op("RoiAlign")
def roi_align(c: Importer, node: OnnxNode) -> Value:
    mode = node.attr("mode", "avg")
    if mode not in ("avg", "max"):
        raise UnsupportedOp(f"mode '{mode}' is not avg or max")
    transform = node.attr("coordinate_transformation_mode", "half_pixel" if c.opset >= 16 else "output_half_pixel")
    return c.add(
        "roi_align",
        *(c.input(node, i) for i in range(3)),
        output_size=(node.attr("output_height", 1), node.attr("output_width", 1)),
        sampling_ratio=node.attr("sampling_ratio", 0),
        spatial_scale=node.attr("spatial_scale", 1.0),
        mode=mode,
        half_pixel=transform == "half_pixel",
    )
