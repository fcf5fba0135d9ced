"""Fourier transforms and the determinant."""

from __future__ import annotations

import numpy as np

from lowbit.dims import Sym
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis


@onnx_op("DFT")
def dft(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axis = node.attr("axis", 1) if c.opset < 20 else (c.ints(node, 2, "axis") or [-2])[0]
    axis = normalize_axis(axis, x.type.rank)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    bins = x.shape[axis]
    length = (c.dims(node, 1, "dft_length") or [2 * (bins - 1) if inverse and onesided else bins])[0]
    return c.add("dft", x, axis=axis, length=length, inverse=inverse, onesided=onesided)


@onnx_op("STFT")
def stft(c: Importer, node: OnnxNode) -> Value:
    """Frames of the signal, `step` apart, times the window, each transformed: (batch, frames, bins, 2)."""
    x, window = c.input(node, 0), c.optional(node, 2)
    step = (c.ints(node, 1, "frame_step") or [1])[0]
    given = c.ints(node, 3, "frame_length")
    if x.type.rank != 3 or step < 1 or (window is not None and window.type.rank != 1):
        raise ShapeError(
            f"signal {x.type}, window {window and window.type}, step {step}: (batch, samples, 1 or 2), a vector and 1 or more needed"
        )
    length = given[0] if given else window.shape[0] if window is not None else None
    samples = x.shape[1]
    if length is None or isinstance(length, Sym) or isinstance(samples, Sym):
        raise UnsupportedOp("its signal or frame length is not known", hint="bind symbolic dimensions with shapes=")
    if not 0 < length <= samples:
        raise ShapeError(f"a frame of {length} does not fit {samples} samples")
    frames = (samples - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    framed = c.add("gather", x, c.constant(places.astype(np.int64)), axis=1)  # (batch, frames, length, 1 or 2)
    if window is not None:
        framed = c.add("mul", framed, c.add("reshape", window, shape=(length, 1)))
    return c.add("dft", framed, axis=2, length=length, inverse=False, onesided=bool(node.attr("onesided", 1)))


@onnx_op("Det")
def det(c: Importer, node: OnnxNode) -> Value:
    return c.add("det", c.input(node, 0))
