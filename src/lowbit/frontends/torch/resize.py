"""Interpolation and sampling. torch computes coordinates from the given scale factor if there is one, else from the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value


def resized(c: Importer, x: Value, factors: Sequence[float | None] | None, **how: Any) -> Value:
    spatial = x.type.rank - 2
    scales = (1.0, 1.0, *(factors if factors is not None else (None,) * spatial))
    return c.add("resize", x, sizes=c.shape(), scales=tuple(None if s is None else float(s) for s in scales), **how)


def smooth(c: Importer, x: Value, align: bool, factors: Sequence[float | None] | None, mode: str, antialias: bool = False) -> Value:
    coordinates = "align_corners" if align else "half_pixel"
    factors = None if align else factors  # between corners, sizes alone count
    # With antialias torch weighs taps inside the image alone, which is what exclude_outside says.
    coefficient = -0.5 if antialias else -0.75
    return resized(
        c, x, factors, mode=mode, coordinate_mode=coordinates, cubic_coeff_a=coefficient, antialias=antialias, exclude_outside=antialias
    )


def _factors(args: tuple[Any, ...]) -> Sequence[float | None] | None:
    """(None,) or ([2.0, 2.0],) in the .vec overloads; (2.0, 2.0) in the others."""
    if not args or (args[0] is None and len(args) == 1):
        return None
    return args[0] if isinstance(args[0], list) else list(args)


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest(c: Importer, x: Value, size: Any, *scales: Any, **_: Any) -> Value:
    return resized(c, x, _factors(scales), mode="nearest", coordinate_mode="asymmetric", nearest_mode="floor")


@aten("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def nearest_exact(c: Importer, x: Value, size: Any, *scales: Any, **_: Any) -> Value:
    return resized(c, x, _factors(scales), mode="nearest", coordinate_mode="half_pixel", nearest_mode="round_prefer_ceil")


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(c: Importer, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return smooth(c, x, align, _factors(scales), "linear")


@aten("_upsample_bilinear2d_aa")
def linear_antialias(c: Importer, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return smooth(c, x, align, _factors(scales), "linear", antialias=True)


@aten("upsample_bicubic2d")
def cubic(c: Importer, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return smooth(c, x, align, _factors(scales), "cubic")


@aten("_upsample_bicubic2d_aa")
def cubic_antialias(c: Importer, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return smooth(c, x, align, _factors(scales), "cubic", antialias=True)


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(c: Importer, x: Value, grid: Value, mode: int, padding: int, align: bool) -> Value:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return c.add("grid_sample", x, grid, mode=modes[mode], padding_mode=paddings[padding], align_corners=bool(align))


@aten("affine_grid_generator")
def affine_grid(c: Importer, theta: Value, size: Sequence[int], align: bool) -> Value:
    return c.add("affine_grid", theta, size=tuple(size), align_corners=bool(align))
