"""Networks of lowbit as .tflite files: float graphs, or quantized ones with their own scales and zero points.

    data = tflite(graph)                         # a float graph
    data = tflite(quantized, output=(scale, zero))   # Q/DQ brackets become int8 tensors, the output lies on a grid of its own

LiteRT's converters need TensorFlow; this needs `flatbuffers` and the schema that ai-edge-litert brings. It knows what image networks and
MLPs are made of: conv (whole or depthwise), linear, add, max_pool, reduce_mean over the image, reshape behind it, with ReLU and ReLU6 fused
as LiteRT has them. Images stand with their channels last: inputs of rank 4 are to be given so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from lowbit.ir.graph import Graph, Node, Value

NONE, RELU, RELU6 = 0, 1, 3  # ActivationFunctionType
SAME, VALID = 0, 1  # Padding
Grid = tuple[NDArray[Any], NDArray[Any]]  # scales and zero points


class Unwritable(ValueError):
    """A network that this file does not know how to write."""


@dataclass(frozen=True)
class Weights:
    """A constant as it is stored, and its grid: None for floats."""

    data: NDArray[Any]
    grid: Grid | None  # along the first axis


class Writer:
    """A model in the making: tensors, their data, operators."""

    def __init__(self, graph: Graph, output: tuple[float, int] | None) -> None:
        self.graph, self.output = graph, output
        self.tensors: list[Any] = []
        self.buffers: list[Any] = [schema.BufferT()]  # the first is empty by convention
        self.codes: list[int] = []
        self.operators: list[Any] = []
        self.at: dict[str, int] = {}  # value → tensor

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str, grid: Grid | None = None, axis: int = 0, data: Any = None) -> int:
        made = schema.TensorT()
        made.name, made.shape = name, list(shape)
        made.type = {"float32": schema.TensorType.FLOAT32, "int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}[dtype]
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(self.buffers)
            self.buffers.append(buffer)
        if grid is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = np.atleast_1d(grid[0]).astype(np.float32)
            made.quantization.zeroPoint = np.atleast_1d(grid[1]).astype(np.int64)
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def operator(self, name: str, inputs: list[int], out: int, options: Any = None) -> None:
        code = getattr(schema.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self.codes.index(code), inputs, [out]
        if options is not None:
            made.builtinOptions = options
            made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self.operators.append(made)

    # -- what the graph says ----------------------------------------------------------------------------------------------------

    def weights(self, value: Value) -> Weights:
        """A constant, or one behind a dequantize_linear."""
        data = self.graph.constant(value)
        if data is not None:
            return Weights(data, None)
        node = self.graph.producers[value.name]
        data, scale, zero = (self.graph.constant(node.input(i)) for i in range(3))
        if node.op != "dequantize_linear" or data is None or scale is None:
            raise Unwritable(f"{node.where}: weights that are computed")
        zeros = np.zeros(np.shape(scale), np.int64) if zero is None else zero
        return Weights(data, (scale, zeros))

    def grid(self, node: Node) -> Grid:
        scale, zero = self.graph.constant(node.input(1)), self.graph.constant(node.input(2))
        if scale is None or node.attrs.get("to", "int8") != "int8":
            raise Unwritable(f"{node.where}: not an int8 grid")
        return scale, np.zeros((), np.int64) if zero is None else zero

    def result(self, node: Node) -> tuple[int, int]:
        """The tensor in which a node's result ends, behind an activation and a quantize_linear if they follow; and the activation."""
        value, act, grid = node.output, NONE, None
        users = self.graph.users.get(value.name, ())
        if len(users) == 1 and users[0].op in ("relu", "clip") and node.op in ("conv", "linear", "add"):
            clip = users[0]
            if clip.op == "clip" and (clip.attrs["min"], clip.attrs["max"]) != (0.0, 6.0):
                raise Unwritable(f"{clip.where}: a clip that is no ReLU6")
            act, value = RELU if clip.op == "relu" else RELU6, clip.output
            users = self.graph.users.get(value.name, ())
        if len(users) == 1 and users[0].op == "quantize_linear":
            grid, value = self.grid(users[0]), users[0].output
        elif self.output is not None:
            if value.name not in {v.name for v in self.graph.outputs.values()}:
                raise Unwritable(f"{node.where}: a float between integers")
            grid = np.array(self.output[0], np.float32), np.array(self.output[1], np.int64)
        self.at[value.name] = self.tensor(value.name, shape_of(value), "float32" if grid is None else "int8", grid)
        return self.at[value.name], act

    def source(self, value: Value | None) -> int:
        """The tensor of an input; a dequantize_linear before it is what the tensor's grid says."""
        assert value is not None
        if value.name not in self.at:
            node = self.graph.producers[value.name]
            if node.op != "dequantize_linear":
                raise Unwritable(f"{node.where}: {node.op} is not known here")
            self.at[value.name] = self.source(node.inputs[0])
        return self.at[value.name]

    # -- operators --------------------------------------------------------------------------------------------------------------

    def padded(self, x: int, node: Node, kernel: list[int], out: Value) -> tuple[int, int]:
        """The input and the padding that an operator takes: SAME where that is what the node means, else a PAD before it."""
        pads, stride, dilation = ints(node, "pads"), ints(node, "stride"), ints(node, "dilation")
        shape, out_shape = self.tensors[x].shape, shape_of(out)
        if not any(pads):
            return x, VALID
        needed = [max(0, (out_shape[1 + i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - shape[1 + i]) for i in range(2)]
        if all(out_shape[1 + i] == -(-shape[1 + i] // stride[i]) and pads[i] == n // 2 for i, n in enumerate(needed)):
            return x, SAME
        amounts = np.array([[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]], np.int32)
        q = self.tensors[x].quantization
        larger = (shape[0], shape[1] + pads[0] + pads[2], shape[2] + pads[1] + pads[3], shape[3])
        grid = None if q is None else (q.scale, q.zeroPoint)
        y = self.tensor(f"{out.name}:padded", larger, "float32" if q is None else "int8", grid)
        self.operator("PAD", [x, self.tensor(f"{out.name}:pads", (4, 2), "int32", data=amounts)], y, schema.PadOptionsT())
        return y, VALID

    def bias(self, node: Node) -> list[int]:
        value = node.input(2)
        if value is None:
            return []
        b = self.weights(value)
        return [self.tensor(value.name, b.data.shape, str(b.data.dtype), b.grid, 0, b.data)]

    def conv(self, node: Node) -> None:
        wv = node.inputs[1]
        assert wv is not None
        w, (groups,) = self.weights(wv), ints(node, "groups")
        depthwise = groups > 1
        if w.data.ndim != 4 or (depthwise and (w.data.shape[1] != 1 or w.data.shape[0] != groups)):
            raise Unwritable(f"{node.where}: a convolution that is neither whole nor depthwise")
        data = w.data.transpose(1, 2, 3, 0) if depthwise else w.data.transpose(0, 2, 3, 1)
        weights = self.tensor(wv.name, data.shape, str(data.dtype), w.grid, 3 if depthwise else 0, data)
        x, padding = self.padded(self.source(node.inputs[0]), node, list(w.data.shape[2:]), node.output)
        options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
        options.padding, (options.strideH, options.strideW) = padding, ints(node, "stride")
        options.dilationHFactor, options.dilationWFactor = ints(node, "dilation")
        if depthwise:
            options.depthMultiplier = 1
        inputs = [x, weights, *self.bias(node)]
        out, options.fusedActivationFunction = self.result(node)
        self.operator("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", inputs, out, options)

    def linear(self, node: Node) -> None:
        wv = node.inputs[1]
        assert wv is not None
        w = self.weights(wv)
        inputs = [self.source(node.inputs[0]), self.tensor(wv.name, w.data.shape, str(w.data.dtype), w.grid, 0, w.data), *self.bias(node)]
        options = schema.FullyConnectedOptionsT()
        out, options.fusedActivationFunction = self.result(node)
        self.operator("FULLY_CONNECTED", inputs, out, options)

    def add(self, node: Node) -> None:
        options = schema.AddOptionsT()
        inputs = [self.source(v) for v in node.inputs]
        out, options.fusedActivationFunction = self.result(node)
        self.operator("ADD", inputs, out, options)

    def max_pool(self, node: Node) -> None:
        """Behind a ReLU, where the zeros of a padding are as good as nothing."""
        options = schema.Pool2DOptionsT()
        kernel = ints(node, "kernel")
        x, options.padding = self.padded(self.source(node.inputs[0]), node, kernel, node.output)
        options.filterHeight, options.filterWidth = kernel
        options.strideH, options.strideW = ints(node, "stride")
        self.operator("MAX_POOL_2D", [x], self.result(node)[0], options)

    def reduce_mean(self, node: Node) -> None:
        if ints(node, "axes") != [2, 3]:
            raise Unwritable(f"{node.where}: a mean over other axes than those of an image")
        options = schema.ReducerOptionsT()
        options.keepDims = bool(node.attrs["keepdims"])
        axes = self.tensor(f"{node.output.name}:axes", (2,), "int32", data=np.array([1, 2], np.int32))
        self.operator("MEAN", [self.source(node.inputs[0]), axes], self.result(node)[0], options)

    def reshape(self, node: Node) -> None:
        x = node.inputs[0]
        if x is None or (len(x.shape) == 4 and shape_of(x)[1:3] != (1, 1)):
            raise Unwritable(f"{node.where}: a reshape of an image")
        shape = shape_of(node.output)
        new = self.tensor(f"{node.output.name}:shape", (len(shape),), "int32", data=np.array(shape, np.int32))
        options = schema.ReshapeOptionsT()
        options.newShape = list(shape)
        self.operator("RESHAPE", [self.source(x), new], self.result(node)[0], options)

    # -- the whole --------------------------------------------------------------------------------------------------------------

    def write(self) -> bytes:
        known = {"conv": self.conv, "linear": self.linear, "add": self.add, "max_pool": self.max_pool, "reshape": self.reshape}
        known["reduce_mean"] = self.reduce_mean
        inputs = []
        for value in self.graph.inputs:
            inputs.append(self.tensor(value.name, shape_of(value), "float32"))
            self.at[value.name] = inputs[-1]
        for node in self.graph.nodes:
            if node.op in known:
                known[node.op](node)
            elif node.op == "quantize_linear" and node.output.name not in self.at:  # of an input: others end an operator
                x = self.source(node.inputs[0])
                self.at[node.output.name] = self.tensor(node.output.name, shape_of(node.output), "int8", self.grid(node))
                self.operator("QUANTIZE", [x], self.at[node.output.name], schema.QuantizeOptionsT())
            elif node.op not in ("quantize_linear", "dequantize_linear", "relu", "clip"):
                raise Unwritable(f"{node.where}: {node.op} is not known here")
        outputs = []
        for name, value in self.graph.outputs.items():
            outputs.append(self.at[value.name])
            if self.output is not None:
                outputs[-1] = self.tensor(name, shape_of(value), "float32")
                self.operator("DEQUANTIZE", [self.at[value.name]], outputs[-1], schema.DequantizeOptionsT())
        return self.packed(inputs, outputs)

    def packed(self, inputs: list[int], outputs: list[int]) -> bytes:
        part = schema.SubGraphT()
        part.tensors, part.operators, part.inputs, part.outputs = self.tensors, self.operators, inputs, outputs
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [part], self.buffers, []
        for code in self.codes:
            made = schema.OperatorCodeT()
            made.builtinCode, made.deprecatedBuiltinCode, made.version = code, min(code, 127), 1
            model.operatorCodes.append(made)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def ints(node: Node, name: str) -> list[int]:
    """An attribute that is an integer or some."""
    value: Any = node.attrs[name]
    return [int(v) for v in np.atleast_1d(value)]


def shape_of(value: Value) -> tuple[int, ...]:
    """Its shape with the channels of images last."""
    shape = tuple(int(d) for d in value.shape)
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


def tflite(graph: Graph, output: tuple[float, int] | None = None) -> bytes:
    """The file. `output`, for graphs with Q/DQ brackets: scale and zero point of the grid on which the result lies before it is a float."""
    return Writer(graph, output).write()
