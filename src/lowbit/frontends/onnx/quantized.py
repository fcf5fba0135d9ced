"""Models that are quantized already: Quantize/DequantizeLinear, the integer ops, and ONNX Runtime's QLinear family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.conv import geometry, kernel_of
from lowbit.frontends.onnx.importer import HANDLERS, Importer, onnx_op
from lowbit.frontends.onnx.own import nibbles
from lowbit.frontends.onnx.serialize import OnnxNode, dtype_name
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis

MS = "com.microsoft"


@onnx_op("QuantizeLinear")
@onnx_op("QuantizeLinear", domain=MS)
def quantize_linear(c: Importer, node: OnnxNode) -> Value:
    x, scale, zero_point = c.input(node, 0), c.input(node, 1), c.optional(node, 2)
    wanted = dtype_name(node.attr("output_dtype")) if node.attr("output_dtype", 0) else None
    to = zero_point.type.dtype.name if zero_point is not None else wanted or "uint8"
    if node.attr("precision", 0):
        scale = c.add("cast", scale, to=dtype_name(node.attr("precision")))
    return c.add(
        "quantize_linear",
        x,
        scale,
        zero_point,
        axis=_axis(node, x, scale),
        block_size=node.attr("block_size", 0),
        to=to,
        saturate=bool(node.attr("saturate", 1)),
    )


@onnx_op("DequantizeLinear")
@onnx_op("DequantizeLinear", domain=MS)
def dequantize_linear(c: Importer, node: OnnxNode) -> Value:
    q, scale = c.input(node, 0), c.input(node, 1)
    to = dtype_name(node.attr("output_dtype")) if node.attr("output_dtype", 0) else scale.type.dtype.name
    block = node.attr("block_size", 0)
    return c.add("dequantize_linear", q, scale, c.optional(node, 2), axis=_axis(node, q, scale), block_size=block, to=to)


def _axis(node: OnnxNode, x: Value, scale: Value) -> int:
    """The axis, which means nothing (and may lie outside) when there is one scale."""
    axis, rank = node.attr("axis", 1), x.type.rank
    if not scale.type.rank or (scale.type.size == 1 and not -rank <= axis < rank):
        return 0
    return normalize_axis(axis, rank)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Importer, node: OnnxNode) -> tuple[Value, ...]:
    return c.add_node("dynamic_quantize_linear", c.input(node, 0))


@onnx_op("MatMulInteger")
@onnx_op("MatMulInteger", domain=MS)
def matmul_integer(c: Importer, node: OnnxNode) -> Value:
    return c.add("matmul_integer", c.input(node, 0), c.input(node, 1), c.optional(node, 2), c.optional(node, 3))


@onnx_op("ConvInteger")
def conv_integer(c: Importer, node: OnnxNode) -> Value:
    x, w = c.input(node, 0), c.input(node, 1)
    return c.add(
        "conv_integer",
        x,
        w,
        c.optional(node, 2),
        c.optional(node, 3),
        **geometry(node, x, kernel_of(node, w)),
        groups=node.attr("group", 1),
    )


@onnx_op("QLinearConv")
@onnx_op("QLinearConv", domain=MS)
def qlinear_conv(c: Importer, node: OnnxNode) -> Value:
    _channels_first(node)
    x, w = c.input(node, 0), c.input(node, 3)
    return c.add(
        "qlinear_conv",
        *(c.input(node, i) for i in range(8)),
        c.optional(node, 8),
        **geometry(node, x, kernel_of(node, w)),
        groups=node.attr("group", 1),
    )


@onnx_op("QLinearMatMul")
def qlinear_matmul(c: Importer, node: OnnxNode) -> Value:
    return c.add("qlinear_matmul", *(c.input(node, i) for i in range(8)))


# -- com.microsoft: what these ops mean is dequantize, the float op, quantize ------------------------------------------


def _real(c: Importer, node: OnnxNode, i: int) -> Value:
    """Inputs i, i+1, i+2 (integers, scale, zero point) as a real tensor."""
    return c.add("dequantize_linear", c.input(node, i), c.input(node, i + 1), c.optional(node, i + 2), axis=0, block_size=0, to="float32")


def _few_bits(c: Importer, y: Value, node: OnnxNode, i: int, like: Value) -> Value:
    """The real tensor on the grid of inputs i, i+1 (scale, zero point)."""
    zero_point = c.optional(node, i + 1)
    to = (zero_point if zero_point is not None else like).type.dtype.name
    return c.add("quantize_linear", y, c.input(node, i), zero_point, axis=0, block_size=0, to=to)


def _float_op(c: Importer, node: OnnxNode, op_type: str, *xs: Value) -> Value:
    """The result of the standard op of that type for these values and the node's attributes."""
    names = tuple(f"{node.outputs[0]}/{i}" for i in range(len(xs)))
    c.scope.update(zip(names, xs, strict=True))
    result = HANDLERS["", op_type](c, replace(node, op_type=op_type, domain="", inputs=names))
    value = result if isinstance(result, Value) else result[0]
    assert value is not None
    return value


def _channels_first(node: OnnxNode) -> None:
    if node.attr("channels_last", 0):
        raise UnsupportedOp("channels_last=1 is not supported", hint="export it with channels first (NCHW)")


@onnx_op("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(c: Importer, node: OnnxNode) -> Value:
    y = c.add(node.op_type.removeprefix("QLinear").lower(), _real(c, node, 0), _real(c, node, 3))
    return _few_bits(c, y, node, 6, c.input(node, 0))


@onnx_op(
    "QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearReduceMean", domain=MS
)
def qlinear_unary(c: Importer, node: OnnxNode) -> Value:
    _channels_first(node)
    return _few_bits(c, _float_op(c, node, node.op_type.removeprefix("QLinear"), _real(c, node, 0)), node, 3, c.input(node, 0))


@onnx_op("QLinearConcat", domain=MS)
def qlinear_concat(c: Importer, node: OnnxNode) -> Value:
    xs = [_real(c, node, i) for i in range(2, len(node.inputs), 3)]
    y = c.add("concat", *xs, axis=normalize_axis(node.attr("axis", 0), xs[0].type.rank))
    return _few_bits(c, y, node, 0, c.input(node, 2))


@onnx_op("MatMulIntegerToFloat", domain=MS)
def matmul_integer_to_float(c: Importer, node: OnnxNode) -> Value:
    a, b, a_scale, b_scale = (c.input(node, i) for i in range(4))
    acc = c.add("cast", c.add("matmul_integer", a, b, c.optional(node, 4), c.optional(node, 5)), to="float32")
    y, bias = c.add("mul", acc, c.add("mul", a_scale, b_scale)), c.optional(node, 6)
    return y if bias is None else c.add("add", y, bias)


@onnx_op("DynamicQuantizeMatMul", domain=MS)
def dynamic_quantize_matmul(c: Importer, node: OnnxNode) -> Value:
    a, a_scale, a_zp = c.add_node("dynamic_quantize_linear", c.input(node, 0))
    acc = c.add("cast", c.add("matmul_integer", a, c.input(node, 1), a_zp, c.optional(node, 3)), to="float32")
    y, bias = c.add("mul", acc, c.add("mul", a_scale, c.input(node, 2))), c.optional(node, 4)
    return y if bias is None else c.add("add", y, bias)


@onnx_op("QGemm", domain=MS)
def qgemm(c: Importer, node: OnnxNode) -> Value:
    """alpha · a @ b + bias, where the int32 bias lies on the grid of a_scale · b_scale; without an output scale it stays real."""
    a, b = _real(c, node, 0), c.input(node, 3)
    if node.attr("alpha", 1.0) != 1.0:
        raise UnsupportedOp("alpha other than 1 is not supported")
    b = c.add(
        "dequantize_linear", b, c.input(node, 4), c.optional(node, 5), axis=0 if node.attr("transB", 0) else 1, block_size=0, to="float32"
    )
    a = c.add("transpose", a, perm=(1, 0)) if node.attr("transA", 0) else a
    b = c.add("transpose", b, perm=(1, 0)) if node.attr("transB", 0) else b
    y, bias = c.add("matmul", a, b), c.optional(node, 6)
    if bias is not None:
        grid = c.add("mul", c.input(node, 1), c.input(node, 4))
        y = c.add("add", y, c.add("mul", c.add("cast", bias, to="float32"), grid))
    return _few_bits(c, y, node, 7, c.input(node, 0)) if c.optional(node, 7) is not None else y


@onnx_op("MatMulNBits", domain=MS)
def matmul_nbits(c: Importer, node: OnnxNode) -> Value:
    """A linear layer with four-bit codes in blocks along its rows, two a byte; without zero points they are 8."""
    x, codes, scales = c.input(node, 0), c.needed(node, 1, "weight"), c.needed(node, 2, "scales")
    rows, columns, block = (node.attr(k) for k in ("N", "K", "block_size"))
    if node.attr("bits", 4) != 4 or c.optional(node, 4) is not None:
        raise UnsupportedOp("only four bits without a group index are supported")
    blocks = -(-columns // block)
    if codes.size * 2 != rows * blocks * block or scales.size != rows * blocks:
        raise ShapeError(f"codes {codes.shape} and scales {scales.shape} do not fit {rows} rows of {columns} in blocks of {block}")
    points = c.const(node, 3, "zero points")
    if points is not None and points.dtype.kind == "f":
        raise UnsupportedOp("zero points that are no integers are not supported")
    if points is not None and points.size != rows * -(-blocks // 2):
        raise ShapeError(f"zero points {points.shape} do not fit {rows} rows of {blocks} blocks")
    zeros = np.full((rows, blocks), 8, np.uint8) if points is None else nibbles(points.reshape(rows, -1))[:, :blocks]
    signed = bool((zeros == 8).all())  # then the same numbers are int4 around zero
    q = nibbles(codes.reshape(rows, -1))[:, :columns].astype(np.int16) - (8 if signed else 0)
    kind = "int4" if signed else "uint4"
    stem = c.named(node.inputs[1])
    w = c.add(
        "dequantize_linear",
        c.constant(np.ascontiguousarray(q.astype(np.int8 if signed else np.uint8)), name=f"{stem}:{kind}", dtype=kind),
        c.constant(scales.reshape(rows, blocks), name=f"{stem}:{kind}:scale"),
        None if signed else c.constant(zeros, name=f"{stem}:{kind}:zero", dtype=kind),
        out=f"{stem}:real",
        axis=1,
        block_size=block,
    )
    return c.add("linear", x, w, c.optional(node, 5))
