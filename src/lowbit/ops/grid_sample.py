"""Reading an image between its pixels: grid_sample, affine_grid (the grid of an affine map), deform_conv and roi_align."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any

import numpy as np

from lowbit.dims import Dim, product
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.ops.checks import differ, need_float, need_vector, same_dtype, wide
from lowbit.ops.conv import output_shape as conv_shape
from lowbit.ops.op import Op, register
from lowbit.ops.resize import cubic_kernel
from lowbit.ops.window import Ints
from lowbit.types import Array, TensorType, shape_text

MAX_SAMPLES = 1024  # of roi_align along one side of a bin; a region of more pixels per bin is sampled, not summed


def infer_grid_sample(x: TensorType, grid: TensorType, *, mode: str, padding_mode: str, align_corners: bool) -> TensorType:
    need_float(x)
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise UnsupportedOp(
            f"mode '{mode}' with padding '{padding_mode}' is not supported", hint="nearest, linear, cubic; zeros, border, reflection"
        )
    if x.rank < 3 or grid.rank != x.rank or grid.shape[-1] != x.rank - 2:
        raise ShapeError(f"input {shape_text(x.shape)} and grid {shape_text(grid.shape)} given, a grid (N, out…, {x.rank - 2}) needed")
    if differ(x.shape[0], grid.shape[0]):
        raise ShapeError(f"{x.shape[0]} images and {grid.shape[0]} grids given, one for each needed")
    need_pixels(x)
    return TensorType((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


def need_pixels(x: TensorType) -> None:
    if any(d == 0 for d in x.shape[2:]):
        raise ShapeError(f"input {shape_text(x.shape)} has no pixels to read")


def grid_sample(x: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool) -> Array:
    """x at the places of the grid, where -1 and 1 are the centres (align_corners) or outer edges of the first and last pixel.

    The last axis of the grid counts the innermost spatial axis first: (x, y) for an image.
    """
    sizes = x.shape[2:]
    places = []
    for axis, size in enumerate(sizes):
        g = wide(grid)[..., len(sizes) - 1 - axis]
        places.append((g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2)
    return sample(wide(x), places, mode, padding_mode, align_corners).astype(x.dtype, copy=False)


def sample(x: Array, places: Sequence[Array], mode: str, padding: str, align_corners: bool) -> Array:
    """(N, C, *out) of x (N, C, *size) at positions in pixels, one array (N, *out) for each spatial axis."""
    sizes = x.shape[2:]
    if mode != "cubic":  # a cubic looks two pixels far, so there each pixel is brought inside by itself
        places = [_inside(p, s, padding, align_corners) for p, s in zip(places, sizes, strict=True)]
    axes = [_taps(p, mode) for p in places]
    first = np.arange(x.shape[0]).reshape(-1, *[1] * (places[0].ndim - 1))
    y = np.zeros((*places[0].shape, x.shape[1]), x.dtype)  # (N, *out, C)
    for taps in combinations(*axes):
        weight = np.ones(places[0].shape, x.dtype)
        where = []
        for (index, w), size in zip(taps, sizes, strict=True):
            index = _inside(index, size, padding, align_corners)
            weight = weight * np.where((index >= 0) & (index < size), w, 0).astype(x.dtype)
            where.append(np.nan_to_num(index).clip(0, max(size - 1, 0)).astype(np.int64))
        at: Any = (first, slice(None), *where)
        y += np.where(weight[..., None] == 0, 0, x[at] * weight[..., None])
    return np.moveaxis(y, -1, 1)


def _taps(place: Array, mode: str) -> list[tuple[Array, Array]]:
    """Pixels and their weights."""
    if mode == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    base = np.floor(place)
    if mode == "linear":
        return [(base, 1 - (place - base)), (base + 1, place - base)]
    return [(base + i, cubic_kernel(np.abs(base + i - place), -0.75)) for i in (-1, 0, 1, 2)]


def _inside(place: Array, size: int, padding: str, align_corners: bool) -> Array:
    """The place brought inside: clipped, or reflected at the outer edge of the border (align_corners: at its centre) and then clipped."""
    if padding == "zeros" or size == 0:
        return place
    if padding == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return np.zeros_like(place)
        distance = np.abs(place - low) % (2 * span)
        place = np.where(distance > span, 2 * span - distance, distance) + low
    return np.clip(place, 0, size - 1).astype(place.dtype)


def infer_affine_grid(theta: TensorType, *, size: tuple[Dim, ...], align_corners: bool) -> TensorType:
    n = len(size)
    if theta.rank != 3 or theta.shape[1:] != (n, n + 1):
        raise ShapeError(f"theta {shape_text(theta.shape)} given, (N, {n}, {n + 1}) needed for size {shape_text(size)}")
    return TensorType((theta.shape[0], *size, n), theta.dtype)


def affine_grid(theta: Array, *, size: Ints, align_corners: bool) -> Array:
    """(N, *size, axes): where theta takes each pixel, in the coordinates of grid_sample."""
    lines = []
    for s in size:
        i = np.arange(s)
        lines.append(((2 * i + 1) / s - 1) if not align_corners else (2 * i / (s - 1) - 1 if s > 1 else np.zeros(s)))
    mesh = np.meshgrid(*lines, indexing="ij")
    base = np.stack([*reversed(mesh), np.ones(size)], axis=-1).astype(wide(theta).dtype)  # innermost axis first, then 1
    flat = np.matmul(base.reshape(-1, len(size) + 1), wide(theta).swapaxes(1, 2))
    return flat.reshape(theta.shape[0], *size, len(size)).astype(theta.dtype, copy=False)


def infer_deform_conv(
    x: TensorType,
    w: TensorType,
    offset: TensorType,
    b: TensorType | None = None,
    mask: TensorType | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
    offset_groups: int,
) -> TensorType:
    need_float(x)
    same_dtype(input=x, weight=w, offset=offset, bias=b, mask=mask)
    out = TensorType(conv_shape(x, w, stride, pads, dilation, groups), x.dtype)
    need_vector("bias", b, w.shape[0])
    if offset_groups < 1 or (isinstance(x.shape[1], int) and x.shape[1] % offset_groups):
        raise ShapeError(f"{x.shape[1]} channels cannot be split into {offset_groups} groups of offsets")
    need_pixels(x)
    taps = product(w.shape[2:]) * offset_groups
    for what, t, channels in (("offset", offset, taps * (x.rank - 2)), ("mask", mask, taps)):
        needed = (x.shape[0], channels, *out.shape[2:])
        if t is not None and (t.rank != len(needed) or any(map(differ, t.shape, needed))):
            raise ShapeError(f"{what} {shape_text(t.shape)} given, {shape_text(needed)} needed")
    return out


def deform_conv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    stride: Ints,
    pads: Ints,
    dilation: Ints,
    groups: int,
    offset_groups: int,
) -> Array:
    """conv whose taps are moved by `offset` (linear interpolation, zeros outside) and weighted by `mask`, both per output element."""
    n, c = x.shape[:2]
    kernel, out = w.shape[2:], offset.shape[2:]
    s, taps = len(kernel), int(np.prod(kernel))
    moved = wide(offset).reshape(n, offset_groups, taps, s, *out)
    parts = []
    for g in range(offset_groups):
        places = []
        for axis in range(s):
            k = np.arange(kernel[axis]).reshape([-1 if i == axis else 1 for i in range(s)]) * dilation[axis]
            k = np.broadcast_to(k, kernel).reshape(taps, *[1] * s)
            o = (np.arange(out[axis]) * stride[axis] - pads[axis]).reshape([-1 if i == axis else 1 for i in range(s)])
            places.append((moved[:, g, :, axis] + k + o).astype(moved.dtype))  # (N, taps, *out)
        channels = wide(x)[:, g * (c // offset_groups) : (g + 1) * (c // offset_groups)]
        found = sample(channels, places, "linear", "zeros", True)  # (N, C/og, taps, *out)
        if mask is not None:
            found = found * wide(mask).reshape(n, offset_groups, 1, taps, *out)[:, g]
        parts.append(found)
    cols = np.concatenate(parts, axis=1).reshape(n, groups, c // groups * taps, int(np.prod(out)))
    y = np.matmul(wide(w).reshape(groups, w.shape[0] // groups, cols.shape[2]), cols).reshape(n, w.shape[0], *out)
    if b is not None:
        y = y + wide(b).reshape(-1, *[1] * s)
    return y.astype(x.dtype, copy=False)


def deform_conv_macs(x: TensorType, w: TensorType, offset: TensorType, *_: TensorType | None, **__: object) -> Dim:
    return offset.shape[0] * product(offset.shape[2:]) * w.size


def infer_roi_align(
    x: TensorType,
    rois: TensorType,
    batch: TensorType,
    *,
    output_size: Ints,
    sampling_ratio: int,
    spatial_scale: float,
    mode: str,
    half_pixel: bool,
) -> TensorType:
    need_float(x)
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 4 or batch.rank != 1:
        raise ShapeError(
            f"input {shape_text(x.shape)}, rois {shape_text(rois.shape)}, batch {shape_text(batch.shape)}: (N, C, H, W), (R, 4), (R) needed"
        )
    if differ(rois.shape[0], batch.shape[0]):
        raise ShapeError(f"{rois.shape[0]} regions and {batch.shape[0]} batch indices given, one for each needed")
    if not 0 <= sampling_ratio <= MAX_SAMPLES:
        raise UnsupportedOp(f"sampling_ratio {sampling_ratio} is not in 0 to {MAX_SAMPLES}")
    need_pixels(x)
    return TensorType((rois.shape[0], x.shape[1], *output_size), x.dtype)


def roi_align(
    x: Array, rois: Array, batch: Array, *, output_size: Ints, sampling_ratio: int, spatial_scale: float, mode: str, half_pixel: bool
) -> Array:
    """Each region (x1, y1, x2, y2) cut into bins; a bin is the mean (or maximum) of linear samples in it."""
    if batch.size and not (batch.min() >= 0 and batch.max() < x.shape[0]):
        raise ShapeError(f"a batch index is outside the {x.shape[0]} images")
    y = np.zeros((len(rois), x.shape[1], *output_size), x.dtype)
    height, width = x.shape[2:]
    for r, (roi, b) in enumerate(zip(wide(rois), batch, strict=True)):
        x1, y1, x2, y2 = (float(v) * spatial_scale - (0.5 if half_pixel else 0.0) for v in roi)
        lines = []
        for low, high, bins, size in ((y1, y2, output_size[0], height), (x1, x2, output_size[1], width)):
            span = high - low if half_pixel else max(high - low, 1.0)
            samples = sampling_ratio if sampling_ratio > 0 else int(np.clip(np.nan_to_num(np.ceil(span / bins)), 0, MAX_SAMPLES))
            at = low + (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / max(samples, 1)) * span / bins  # (bins, samples)
            lines.append(_line_taps(at, size))
        (ylo, yhi, ly, yin), (xlo, xhi, lx, xin) = lines
        image = wide(x)[b]
        corners = []
        for yi, wy in ((ylo, 1 - ly), (yhi, ly)):
            for xi, wx in ((xlo, 1 - lx), (xhi, lx)):
                weight = np.einsum("as,bt->abst", wy * yin, wx * xin)
                corners.append(image[:, yi[:, None, :, None], xi[None, :, None, :]] * weight)
        if ylo.size and xlo.size:
            cells = np.stack(corners)  # (4, C, bins, bins, samples, samples)
            # The maximum is taken over the four weighted corners of each sample: this is how ONNX defines it.
            y[r] = cells.sum(axis=0).mean(axis=(-1, -2)) if mode == "avg" else cells.max(axis=(0, -1, -2))
    return y


def _line_taps(at: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Lower pixel, upper pixel, weight of the upper, and whether the place counts (not more than one pixel outside)."""
    inside = (at >= -1) & (at <= size)
    at = np.where(inside, np.clip(at, 0, size - 1), 0)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), at - low, inside


register(
    Op("grid_sample", infer_grid_sample, grid_sample),
    Op("affine_grid", infer_affine_grid, affine_grid),
    Op("deform_conv", infer_deform_conv, deform_conv, deform_conv_macs),
    Op("roi_align", infer_roi_align, roi_align),
)
