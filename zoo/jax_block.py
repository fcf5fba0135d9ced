"""A transformer encoder as JAX and TensorFlow export it to ONNX, node by node: what a quantizer meets that PyTorch's exporter never writes.

The layer norm is `max(E[x²] − E[x]², 0)`, then `rsqrt(· + eps) · scale` as one factor: `(x − mean) · factor + bias`. Attention has no
Softmax node (subtract the maximum, Exp, divide by ReduceSum), queries are scaled before the product, and gelu is spelled by tanh.
Weights are seeded, and scaled so that attention looks at some places more than at others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper


class _Writer:
    """Nodes and constants in order; each call gives the name of the result."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.rng = np.random.default_rng(seed)

    def constant(self, x: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def number(self, x: float) -> str:
        return self.constant(np.float32(x))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def normal(self, *shape: int, std: float) -> str:
        return self.constant((std * self.rng.standard_normal(shape)).astype(np.float32))

    def dense(self, x: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        y = self.op("MatMul", x, self.normal(inputs, outputs, std=gain / np.sqrt(inputs)))
        return self.op("Add", y, self.normal(outputs, std=0.02))

    def layer_norm(self, x: str, width: int) -> str:
        mean = self.op("ReduceMean", x, axes=[-1], keepdims=1)
        square = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1], keepdims=1)
        variance = self.op("Max", self.op("Sub", square, self.op("Mul", mean, mean)), self.number(0))
        scale = self.rng.uniform(0.6, 1.4, width).astype(np.float32)
        scale[self.rng.integers(0, width, 3)] *= 4  # trained ones have a few large channels
        rsqrt = self.op("Reciprocal", self.op("Sqrt", self.op("Add", variance, self.number(1e-6))))
        factor = self.op("Mul", rsqrt, self.constant(scale))
        y = self.op("Mul", self.op("Sub", x, mean), factor)
        return self.op("Add", y, self.normal(width, std=0.1))

    def split(self, x: str, length: int, heads: int, width: int, order: list[int]) -> str:
        shape = self.constant(np.array([-1, length, heads, width // heads], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=order)

    def attention(self, x: str, length: int, width: int, heads: int) -> str:
        q = self.op("Mul", self.dense(x, width, width, 1.5), self.number(float(np.sqrt(heads / width))))
        q = self.split(q, length, heads, width, [0, 2, 1, 3])
        k = self.split(self.dense(x, width, width, 1.5), length, heads, width, [0, 2, 3, 1])
        v = self.split(self.dense(x, width, width), length, heads, width, [0, 2, 1, 3])
        scores = self.op("MatMul", q, k)
        e = self.op("Exp", self.op("Sub", scores, self.op("ReduceMax", scores, axes=[-1], keepdims=1)))
        total = self.op("ReduceSum", e, self.constant(np.array([-1], np.int64)), keepdims=1)
        y = self.op("Transpose", self.op("MatMul", self.op("Div", e, total), v), perm=[0, 2, 1, 3])
        y = self.op("Reshape", y, self.constant(np.array([-1, length, width], np.int64)))
        return self.dense(y, width, width)

    def gelu(self, x: str) -> str:
        cube = self.op("Mul", self.op("Mul", x, x), x)
        inner = self.op("Add", x, self.op("Mul", cube, self.number(0.044715)))
        half = self.op("Mul", x, self.number(0.5))
        return self.op("Mul", half, self.op("Add", self.op("Tanh", self.op("Mul", inner, self.number(0.7978845608))), self.number(1)))


def jax_encoder(length: int = 32, width: int = 384, heads: int = 6, blocks: int = 2, seed: int = 0) -> bytes:
    """An ONNX file: `x` (N, length, width) -> `y` of the same shape."""
    w = _Writer(seed)
    x = "x"
    for _ in range(blocks):
        x = w.op("Add", x, w.attention(w.layer_norm(x, width), length, width, heads))
        hidden = w.gelu(w.dense(w.layer_norm(x, width), width, 4 * width))
        x = w.op("Add", x, w.dense(hidden, 4 * width, width))
    w.nodes[-1].output[0] = "unscaled"
    w.nodes.append(helper.make_node("Identity", [w.layer_norm("unscaled", width)], ["y"], name="y"))
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", length, width]) for name in ("x", "y")]
    graph = helper.make_graph(w.nodes, "jax_encoder", values[:1], values[1:], w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8, producer_name="zoo")
    onnx.checker.check_model(model)
    return model.SerializeToString()


def example(length: int = 32, width: int = 384, seed: int = 0) -> NDArray[np.float32]:
    """A batch of one for the encoder."""
    return np.random.default_rng(seed).standard_normal((1, length, width)).astype(np.float32)
