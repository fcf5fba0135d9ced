"""What exporters really write: torch's two, and Paddle's and TensorFlow's spellings by hand."""

from __future__ import annotations

import io
import logging
import math
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from passes_laws import check, f32, ops

from lowbit.frontends.onnx import load_onnx
from lowbit.ir.graph import Graph

torch = pytest.importorskip("torch")
F = torch.nn.functional


def exported(module: torch.nn.Module, *inputs: torch.Tensor, opset: int) -> Graph:
    """The module's ONNX file as torch writes it: the TorchScript exporter up to opset 17, the new one from 18 on."""
    buffer = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if opset < 18:
            torch.onnx.export(module.eval(), inputs, buffer, opset_version=opset, dynamo=False)
        else:
            program = torch.onnx.export(module.eval(), inputs, opset_version=opset, dynamo=True, verbose=False)
            assert program is not None
            program.save(buffer)
    return load_onnx(buffer.getvalue())


class Block(torch.nn.Module):
    """conv, batch norm, activation, conv: the activation is found between layers."""

    def __init__(self, act: torch.nn.Module) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = torch.nn.BatchNorm2d(4)
        self.act = act
        self.head = torch.nn.Conv2d(4, 2, 1)
        with torch.no_grad():
            self.bn.running_mean.uniform_(-1, 1)
            self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.bn(self.conv(x))))


ACTIVATIONS = {
    "hardswish": torch.nn.Hardswish(),
    "hardsigmoid": torch.nn.Hardsigmoid(),
    "gelu": torch.nn.GELU(),
    "gelu tanh": torch.nn.GELU("tanh"),
    "silu": torch.nn.SiLU(),
    "mish": torch.nn.Mish(),
    "clip": torch.nn.ReLU6(),
    "leaky_relu": torch.nn.LeakyReLU(0.1),
    "softplus": torch.nn.Softplus(),
}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_torch_activations_are_one_op(name, opset):
    after = check(exported(Block(ACTIVATIONS[name]), torch.randn(1, 3, 8, 8), opset=opset))
    assert ops(after) == ["conv", name.split()[0], "conv"]
    assert [n.name for n in after][::2] == ["conv", "head"]


class Attention(torch.nn.Module):
    """Multi-head attention as models write it."""

    def __init__(self, masked: bool, fused: bool) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)
        self.masked, self.fused = masked, fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, 4, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).split(16, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.masked)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(4)
            if self.masked:
                scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(b, s, 16))


# torch exports triu, and scaled_dot_product_attention, from opset 14 on
@pytest.mark.parametrize(
    ("masked", "fused", "opset"),
    [(False, False, 11), (False, False, 14), (True, False, 14), (False, True, 14), (True, True, 17), (True, False, 18), (False, True, 18)],
)
def test_torch_attention_is_one_op(masked, fused, opset):
    after = check(exported(Attention(masked, fused), torch.randn(2, 6, 16), opset=opset))
    movement = {"split", "slice", "reshape", "transpose"}
    assert [o for o in ops(after) if o not in movement] == ["layer_norm", "linear", "attention", "linear", "add"]
    node = next(n for n in after if n.op == "attention")
    assert node.attrs["scale"] == 0.5 and node.attrs["causal"] is masked and len(node.inputs) == 3


class Norms(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.group, self.instance = torch.nn.LayerNorm(8), torch.nn.GroupNorm(2, 4), torch.nn.InstanceNorm2d(4, affine=True)
        with torch.no_grad():
            for p in self.parameters():
                p.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.instance(self.group(self.layer(x)))


@pytest.mark.parametrize("opset", [11, 17, 18])
def test_torch_norms_are_one_op_each(opset):
    assert ops(check(exported(Norms(), torch.randn(2, 4, 8, 8), opset=opset))) == ["layer_norm", "group_norm", "instance_norm"]


def test_torch_rms_norm_is_one_op():
    assert ops(check(exported(torch.nn.RMSNorm(8, eps=1e-6), torch.randn(2, 4, 8), opset=18))) == ["rms_norm"]


def hand_made(nodes: list[onnx.NodeProto], shape: list[int | str], constants: dict[str, np.ndarray], opset: int) -> Graph:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", opset)])
    return load_onnx(model.SerializeToString())


def test_paddle_hard_swish_of_opset_11():
    nodes = [
        helper.make_node("Add", ["x", "three"], ["a"]),
        helper.make_node("Clip", ["a", "zero", "six"], ["b"]),
        helper.make_node("Mul", ["x", "b"], ["c"]),
        helper.make_node("Div", ["c", "six1"], ["y"]),
    ]
    constants = {k: np.array(v, np.float32) for k, v in {"three": [3], "zero": 0, "six": 6, "six1": [6]}.items()}
    assert ops(check(hand_made(nodes, ["batch", 4, 5, 5], constants, 11))) == ["hardswish"]


def test_paddle_hard_sigmoid_gate_of_opset_11():
    nodes = [helper.make_node("HardSigmoid", ["x"], ["a"], alpha=0.1666666716337204, beta=0.5), helper.make_node("Mul", ["x", "a"], ["y"])]
    assert ops(check(hand_made(nodes, [1, 4, 5, 5], {}, 11))) == ["hardswish"]


def test_paddle_layer_norm_of_opset_11():
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["d2"]),
        helper.make_node("ReduceMean", ["d2"], ["var"], axes=[-1]),
        helper.make_node("Add", ["var", "eps"], ["v"]),
        helper.make_node("Sqrt", ["v"], ["s"]),
        helper.make_node("Div", ["d", "s"], ["n"]),
        helper.make_node("Mul", ["n", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    constants = {"two": np.array([2], np.float32), "eps": np.array([1e-6], np.float32), "w": f32(8), "b": f32(8)}
    after = check(hand_made(nodes, ["batch", "seq", 8], constants, 11))
    assert ops(after) == ["layer_norm"] and len(after.nodes[0].inputs) == 3


def test_tensorflow_layer_norm_of_opset_13():
    """x * (rsqrt(var + eps) * gamma) + (beta - mean * (rsqrt(var + eps) * gamma))."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[2]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["d2"]),
        helper.make_node("ReduceMean", ["d2"], ["var"], axes=[2]),
        helper.make_node("Add", ["var", "eps"], ["v"]),
        helper.make_node("Sqrt", ["v"], ["s"]),
        helper.make_node("Reciprocal", ["s"], ["r"]),
        helper.make_node("Mul", ["r", "w"], ["rw"]),
        helper.make_node("Mul", ["x", "rw"], ["xrw"]),
        helper.make_node("Mul", ["mean", "rw"], ["mrw"]),
        helper.make_node("Sub", ["b", "mrw"], ["shift"]),
        helper.make_node("Add", ["xrw", "shift"], ["y"]),
    ]
    constants = {"eps": np.array(1e-3, np.float32), "w": f32(8), "b": f32(8)}
    after = check(hand_made(nodes, [2, 5, 8], constants, 13))
    assert ops(after) == ["layer_norm"] and after.nodes[0].attrs["eps"] == pytest.approx(1e-3)


def test_tensorflow_dense_with_its_bias_behind_a_reshape():
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "shape"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    constants = {"flat": np.array([-1, 8]), "shape": np.array([2, 5, 6]), "w": f32(8, 6), "b": f32(6)}
    assert ops(check(hand_made(nodes, [2, 5, 8], constants, 13))) == ["linear", "relu"]
