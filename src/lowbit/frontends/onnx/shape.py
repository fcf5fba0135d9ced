"""Constants, shapes as numbers, and tensors made from them. Shape arithmetic is followed at load time, symbols included."""

from __future__ import annotations

import math

import numpy as np

from lowbit.dims import product
from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, FormatError, ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode, OnnxTensor, dtype_name, number_of
from lowbit.ir.graph import Value
from lowbit.types import Array, normalize_axis


@onnx_op("Constant")
def constant(c: Importer, node: OnnxNode) -> Value:
    name = node.outputs[0]
    for key in ("value", "sparse_value"):
        tensor = node.attr(key)
        if isinstance(tensor, OnnxTensor):
            return c.constant(tensor.data, name=name, dtype=tensor.dtype)
    for key, kind in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64)):
        if node.attr(key) is not None:
            return c.constant(np.array(node.attr(key), dtype=kind), name=name)
    if "value_string" in node.attrs or "value_strings" in node.attrs:
        raise DTypeError("strings are not supported")
    raise FormatError("it holds no value")


@onnx_op("Shape")
def shape(c: Importer, node: OnnxNode) -> Value:
    return c.dims_value(c.input(node, 0).shape[node.attr("start", 0) : node.attr("end")])


@onnx_op("Size")
def size(c: Importer, node: OnnxNode) -> Value:
    total = np.empty((), dtype=object)
    total[()] = product(c.input(node, 0).shape)
    return c.dims_value(total)


@onnx_op("ConstantOfShape")
def constant_of_shape(c: Importer, node: OnnxNode) -> Value:
    value = node.attr("value")
    tensor = value if isinstance(value, OnnxTensor) else OnnxTensor("float32", np.zeros(1, np.float32))
    return c.add("fill", shape=c.dims(node, 0, "shape") or (), value=_python(tensor.data), dtype=tensor.dtype)


def _python(x: Array) -> float | int | bool:
    """The only element, as a Python number; bfloat16 and float8 by way of float."""
    if not x.size:
        raise ShapeError("an empty tensor given, one number needed")
    return number_of(x)


@onnx_op("Range")
def range_(c: Importer, node: OnnxNode) -> Value:
    t = c.input(node, 0).type.dtype
    if t.is_integer:
        start, limit, step = ((c.dims(node, i, what) or [0])[0] for i, what in enumerate(("start", "limit", "delta")))
        return c.add("range", start=start, limit=limit, step=step, dtype=t.name)
    start_, limit_, step_ = (_python(c.needed(node, i, what)) for i, what in enumerate(("start", "limit", "delta")))
    return c.add("range", start=start_, limit=limit_, step=step_, dtype=t.name)


@onnx_op("EyeLike")
def eye_like(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0).type
    if x.rank != 2:
        raise UnsupportedOp(f"rank {x.rank} given, a matrix needed")
    to = dtype_name(node.attr("dtype")) if node.attr("dtype") is not None else x.dtype.name
    return c.add("eye", rows=x.shape[0], cols=x.shape[1], k=node.attr("k", 0), dtype=to)


@onnx_op("OneHot")
def one_hot(c: Importer, node: OnnxNode) -> Value:
    idx = c.input(node, 0)
    depth, values = c.needed(node, 1, "depth"), c.needed(node, 2, "values")
    if depth.size != 1 or values.shape != (2,):
        raise ShapeError(f"depth {depth.shape} and values {values.shape} given, one number and two needed")
    axis = normalize_axis(node.attr("axis", -1), idx.type.rank + 1)
    off, on = _python(values[:1]), _python(values[1:])
    return c.add("one_hot", idx, depth=int(depth.reshape(-1)[0]), axis=axis, on=on, off=off, dtype=c.input(node, 2).type.dtype.name)


@onnx_op("NonZero")
def non_zero(c: Importer, node: OnnxNode) -> Value:
    """How many there are decides the shape, so the data must be known (exporters write it on constants)."""
    return c.constant(np.array(np.nonzero(np.atleast_1d(c.needed(node, 0, "input"))), dtype=np.int64))


@onnx_op("HannWindow", "HammingWindow", "BlackmanWindow")
def window(c: Importer, node: OnnxNode) -> Value:
    """a0 - a1·cos(2πn/N) + a2·cos(4πn/N); N is the size, or one less for a symmetric window."""
    n = (c.ints(node, 0, "size") or [0])[0]
    a0, a1, a2 = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}[
        node.op_type
    ]
    phase = 2 * math.pi * np.arange(n) / (n if node.attr("periodic", 1) else max(n - 1, 1))
    to = dtype(dtype_name(node.attr("output_datatype", 1)))
    return c.constant((a0 - a1 * np.cos(phase) + a2 * np.cos(2 * phase)).astype(to.numpy), dtype=to)


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(c: Importer, node: OnnxNode) -> Value:
    """Triangles on the mel scale: column j rises from its lower edge to its centre and falls to its upper edge."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate, low, high = (_python(c.needed(node, i, what)) for i, what in enumerate(names))
    bins, length = int(bins), int(length)
    if not (bins > 0 and length > 0 and rate > 0 and 0 <= low < high <= rate / 2):
        raise ShapeError(f"{bins} bins from {low} to {high} Hz of {length} samples at {rate} Hz are not possible")

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    step = (mel(high) - mel(low)) / (bins + 2)
    mels = np.arange(bins + 2) * step + mel(low)
    edges = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(np.int64)
    out = np.zeros((length // 2 + 1, bins))
    for j in range(bins):
        lower, centre, upper = edges[j : j + 3]
        out[lower : centre + 1, j] = np.arange(centre - lower + 1) / (centre - lower) if centre > lower else 1
        out[centre:upper, j] = (upper - np.arange(centre, upper)) / max(upper - centre, 1)
    to = dtype(dtype_name(node.attr("output_datatype", 1)))
    return c.constant(out.astype(to.numpy), dtype=to)
