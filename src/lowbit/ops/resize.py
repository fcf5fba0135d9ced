"""resize: interpolation along each axis by itself, with ONNX's coordinate modes. An axis is one matrix, (out, in), of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowbit.dims import Dim
from lowbit.errors import DTypeError, ShapeError, UnsupportedOp
from lowbit.ops.checks import wide
from lowbit.ops.op import Op, attributes, register
from lowbit.types import Array, TensorType, shape_text

Scales = tuple[float | None, ...]  # None: output size / input size
MODES = ("nearest", "linear", "cubic")
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
COORDINATE_MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")


@dataclass(frozen=True)
class Sampling:
    """Where an output takes its input from: the first attributes of resize and q_resize."""

    sizes: tuple[Dim, ...]
    scales: Scales
    mode: str
    coordinate_mode: str


@dataclass(frozen=True)
class Resize(Sampling):
    """Attributes of resize."""

    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation_value: float = 0.0
    roi: tuple[float, ...] | None = None


@attributes(Resize)
def infer(x: TensorType, *, a: Resize) -> TensorType:
    if len(a.sizes) != x.rank or len(a.scales) != x.rank:
        raise ShapeError(f"{len(a.sizes)} sizes and {len(a.scales)} scales given, input {shape_text(x.shape)} needs {x.rank} of each")
    for what, given, known in (
        ("mode", a.mode, MODES),
        ("coordinate mode", a.coordinate_mode, COORDINATE_MODES),
        ("nearest mode", a.nearest_mode, NEAREST_MODES),
    ):
        if given not in known:
            raise UnsupportedOp(f"{what} '{given}' is not supported", hint="one of " + ", ".join(known))
    if a.coordinate_mode == "tf_crop_and_resize" and (a.roi is None or len(a.roi) != 2 * x.rank):
        raise ShapeError(f"tf_crop_and_resize needs a roi of {2 * x.rank} numbers")
    if x.dtype.kind == "complex":
        raise DTypeError(f"{x.dtype} cannot be interpolated")
    if any(n == 0 and m != 0 for n, m in zip(x.shape, a.sizes, strict=True)):
        raise ShapeError(f"input {shape_text(x.shape)} has no elements to make {shape_text(a.sizes)} of")
    return TensorType(a.sizes, x.dtype)


@attributes(Resize)
def real(x: Array, *, a: Resize) -> Array:
    if a.mode != "nearest":
        y = x.astype(np.float64) if x.dtype.kind in "iub" else wide(x)
    else:
        y = x
    outside = np.zeros((1,) * x.ndim, dtype=bool)  # one line along each axis, broadcast to where they meet
    for axis, (n, out, scale) in enumerate(zip(x.shape, map(int, a.sizes), a.scales, strict=True)):
        if n == 0 or out == 0:
            return np.zeros([int(d) for d in a.sizes], x.dtype)
        crop = (0.0, 1.0) if a.roi is None else (a.roi[axis], a.roi[x.ndim + axis])
        at = coordinates(n, out, out / n if scale is None else scale, a.coordinate_mode, crop, nearest=a.mode == "nearest")
        if a.coordinate_mode == "tf_crop_and_resize":
            beyond = (at < 0) | (at > n - 1)
            outside = outside | np.expand_dims(beyond, tuple(i for i in range(x.ndim) if i != axis))
        if n == out and np.array_equal(at, np.arange(n)):
            continue
        if a.mode == "nearest":
            y = y.take(nearest(at, a.nearest_mode).clip(0, n - 1), axis=axis)
        else:
            stretch = min(out / n if scale is None else scale, 1.0) if a.antialias else 1.0
            weights = interpolation_matrix(at, n, a.mode, stretch, a.cubic_coeff_a, a.exclude_outside).astype(y.dtype)
            y = np.moveaxis(np.tensordot(weights, y, axes=(1, axis)), 0, axis)
    if outside.any():
        y = np.where(outside, y.dtype.type(a.extrapolation_value), y)
    if x.dtype.kind in "iu" and a.mode != "nearest":
        limits = np.iinfo(x.dtype)
        y = np.rint(y).clip(limits.min, limits.max)
    return y.astype(x.dtype, copy=False)


def coordinates(n: int, out: int, scale: float, mode: str, roi: tuple[float, float], *, nearest: bool = False) -> Array:
    """Where each output element lies in the input, by ONNX's formulas. `scale * n` need not be `out`, a whole number.

    In float64, of which weights are made. Which of two elements is nearest hangs on the rounding of each step: in float32, as ONNX
    Runtime has it. (NumPy keeps an array's type beside Python's numbers.)
    """
    kind = np.float32 if nearest else np.float64
    i = np.arange(out, dtype=kind)
    by = kind(scale)
    length = by * kind(n)
    half_pixel = (i + 0.5) / by - 0.5
    match mode:
        case "align_corners":
            at = i * 0 if length == 1 else i * (n - 1) / (length - 1)
        case "asymmetric":
            at = i / by
        case "tf_crop_and_resize":
            span = (roi[1] - roi[0]) * (n - 1)
            at = roi[0] * (n - 1) + (i + span / 2 if length == 1 else i * span / (length - 1))
        case "pytorch_half_pixel" if length == 1:
            at = i - 0.5
        case "half_pixel_symmetric":
            at = kind(n) / 2 * (1 - kind(out) / length) + half_pixel
        case _:
            at = half_pixel
    return at.astype(np.float64)


def nearest(at: Array, mode: str) -> Array:
    match mode:
        case "round_prefer_floor":
            index = np.ceil(at - 0.5)
        case "round_prefer_ceil":
            index = np.floor(at + 0.5)
        case "floor":
            index = np.floor(at)
        case _:
            index = np.ceil(at)
    return index.astype(np.int64)


def interpolation_matrix(at: Array, n: int, mode: str, stretch: float, a: float, exclude_outside: bool) -> Array:
    """(out, n) weights. `stretch` < 1 widens the kernel (antialias). Elements outside are those at the edge, or do not count."""
    reach = 1 if mode == "linear" else 2
    taps = int(np.ceil(reach / stretch)) + 1
    index = np.floor(at)[:, None] + np.arange(-taps, taps + 1)  # (out, taps)
    distance = np.abs(index - at[:, None]) * stretch
    weight = np.clip(1 - distance, 0, None) if mode == "linear" else cubic_kernel(distance, a)
    if exclude_outside:
        weight = np.where((index >= 0) & (index < n), weight, 0)
    if exclude_outside or stretch < 1:
        weight = weight / weight.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(at), n))
    np.add.at(matrix, (np.arange(len(at))[:, None], index.clip(0, n - 1).astype(np.int64)), weight)
    return matrix


def cubic_kernel(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel with parameter a, of |x|."""
    d2, d3 = distance**2, distance**3
    near = (a + 2) * d3 - (a + 3) * d2 + 1
    far = a * d3 - 5 * a * d2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


RESIZE = Op("resize", infer, real)
register(RESIZE)
