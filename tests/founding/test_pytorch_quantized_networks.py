"""Networks that PyTorch has quantized."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import codegen_tools
import numpy as np
import pytest

import lowbit
from lowbit import LowbitError
from lowbit.ir.interp import run
from lowbit.lower import lower

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import torch.ao.quantization as tq  # noqa: E402
from torch.ao.quantization.fx import _decomposed  # noqa: E402, F401 (makes the ops known)

D = torch.ops.quantized_decomposed


class Decomposed(torch.nn.Module):  # type: ignore[misc,name-defined]
    """What PT2E's convert gives: integer weights, brackets around every layer."""

    def __init__(self, low: int = 0, high: int = 255) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.low, self.high = low, high
        for name, shape in (("w0", (8, 3, 3, 3)), ("w1", (10, 8 * 36))):
            w = torch.randn(shape)
            scale = w.abs().flatten(1).amax(1) / 127
            zero = torch.zeros(shape[0], dtype=torch.int64)
            ints = D.quantize_per_channel(w, scale, zero, 0, -127, 127, torch.int8)
            for part, value in ((name, ints), (f"{name}_scale", scale), (f"{name}_zero", zero)):
                self.register_buffer(part, value)
        self.b0 = torch.nn.Parameter(torch.randn(8))

    def weight(self, name: str) -> Any:
        return D.dequantize_per_channel(
            getattr(self, name), getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero"), 0, -127, 127, torch.int8
        )

    def rounded(self, x: Any, scale: float, zero: int) -> Any:
        q = D.quantize_per_tensor(x, scale, zero, self.low, self.high, torch.uint8)
        return D.dequantize_per_tensor(q, scale, zero, self.low, self.high, torch.uint8)

    def forward(self, x: Any) -> Any:
        x = self.rounded(x, 0.03, 128 if self.high == 255 else 64)
        x = self.rounded(torch.relu(torch.nn.functional.conv2d(x, self.weight("w0"), self.b0)), 0.06 * 255 / self.high, 0)
        return self.rounded(torch.nn.functional.linear(x.flatten(1), self.weight("w1")), 0.9, 120 if self.high == 255 else 60)


X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def values_of(program: Any, x: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What torch has at every quantize, by name."""
    found: dict[str, np.ndarray[Any, Any]] = {}

    class Keep(torch.fx.Interpreter):  # type: ignore[misc,name-defined]
        def run_node(self, n: Any) -> Any:
            made = super().run_node(n)
            if "quantized_decomposed.quantize_per_tensor" in str(n.target):
                found[n.name] = made.numpy().astype(np.int64)
            return made

    with torch.no_grad():
        Keep(program.module()).run(x)
    return found


def assert_within_one_step(program: Any, graph: lowbit.Graph, x: Any) -> None:
    """Every layer's codes, one after the other, are torch's (all uint8) or one step beside them; nearly all are equal."""
    integer = lower(graph).graph
    want = values_of(program, x)
    here = {name: f"{name}.1" if f"{name}.1" in integer.values else name for name in want}  # fewer codes are a clip, which has the name
    got = run(integer, {integer.inputs[0].name: x.numpy()}, keep=list(here.values()))
    assert len(here) >= 3
    for name, mine in here.items():
        shift = 128 if integer.values[mine].type.dtype.name == "int8" else 0  # uint8 is computed as int8, every code less by 128
        off = np.abs(got[mine].astype(np.int64) + shift - want[name])
        assert off.max() <= 1 and (off > 0).mean() < 0.01, name


@pytest.mark.parametrize("codes", [(0, 255), (0, 127)])
def test_quantized_decomposed_programs(codes: tuple[int, int], tmp_path: Path) -> None:
    """`torch.export` programs with `quantized_decomposed` ops (PT2E, torchao) → `lowbit.load`"""
    model = Decomposed(*codes).eval()
    program = torch.export.export(model, (X,))
    graph = lowbit.load(program)
    integer = lower(graph)
    assert {"q_conv", "q_linear"} <= {n.op for n in integer.graph.nodes} and not {"conv", "linear"} & {n.op for n in integer.graph.nodes}
    assert_within_one_step(program, graph, X)
    want, got = model(X).detach().numpy(), run(integer.graph, {"x": X.numpy()})
    step = 0.9
    (y,) = got.values()
    assert np.abs(want - y).max() <= step * 1.001 and np.mean(want != y) < 0.05
    assert np.array_equal(lowbit.compile(graph)(X.numpy()), y)
    emitted = lowbit.emit_c(graph, tmp_path / "c", float_io=True, measure=False)
    (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([X.numpy()], [(y.shape, np.float32)])
    assert np.array_equal(from_c, y)


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.conv, self.relu, self.fc = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Linear(8 * 36, 10)

    def forward(self, x: Any) -> Any:
        return self.dequant(self.fc(self.relu(self.conv(self.quant(x))).flatten(1)))


def fake_quantized() -> Any:
    """A network prepared for quantization-aware training by torch.ao, its observers frozen."""
    torch.manual_seed(0)
    model = Net().train()
    tq.fuse_modules_qat(model, [["conv", "relu"]], inplace=True)
    model.qconfig = tq.get_default_qat_qconfig("fbgemm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tq.prepare_qat(model, inplace=True)
        for _ in range(4):
            model(torch.randn(4, 3, 8, 8))
    return model.eval().apply(tq.disable_observer)


def test_fake_quantize_modules(tmp_path: Path) -> None:
    """`fake_quantize` modules → `lowbit.load`"""
    model = fake_quantized()
    graph = lowbit.load(model, inputs=(X,))
    integer = lower(graph).graph
    assert {"q_conv", "q_linear"} <= {n.op for n in integer.nodes}
    want, y = model(X).detach().numpy(), lowbit.compile(graph)(X.numpy())
    step = float(model.fc.activation_post_process.scale)
    assert np.abs(want - y).max() <= 1.001 * step and np.mean(np.abs(want - y) > 0.01 * step) < 0.1
    emitted = lowbit.emit_c(graph, tmp_path / "c", float_io=True, measure=False)
    (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([X.numpy()], [(y.shape, np.float32)])
    assert np.array_equal(from_c, y)
    model.apply(tq.disable_fake_quant)
    plain = lowbit.load(model, inputs=(X,))
    assert not {"quantize_linear", "dequantize_linear"} & {n.op for n in plain.nodes}


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="torch has no fbgemm kernels here to compare with")
def test_quantized_modules_of_torch_ao() -> None:
    """torch.ao's quantized Linear and Conv → `lowbit.load`"""
    torch.backends.quantized.engine = "fbgemm"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tq.convert(fake_quantized())
        graph = lowbit.load(model, inputs=(X,))
        want = model(X).detach().numpy()
    assert {"q_conv", "q_linear"} <= {n.op for n in lower(graph).graph.nodes}
    y = lowbit.compile(graph)(X.numpy())
    step = float(model.fc.scale)
    assert np.abs(want - y).max() <= 1.001 * step and np.mean(np.abs(want - y) > 0.5 * step) < 0.1


def test_pt2e_by_torchao() -> None:
    """PT2E by torchao → `lowbit.load`"""
    pytest.importorskip("torchao", reason="torchao is not installed: its programs are made by hand above")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 36, 10)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
        prepared = prepare_pt2e(torch.export.export(model, (X,)).module(), quantizer)
        prepared(X)
        program = torch.export.export(convert_pt2e(prepared), (X,))
    graph = lowbit.load(program)
    assert [n.op for n in lower(graph).graph.nodes] == ["quantize_linear", "q_conv", "q_conv", "reshape", "q_linear"]
    assert_within_one_step(program, graph, X)


def test_what_cannot_be_read_says_so() -> None:
    class Dynamic(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            scale, zero = D.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
            return D.dequantize_per_tensor.tensor(
                D.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8), scale, zero, 0, 255, torch.uint8
            )

    class Odd(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -(2**40), 2**40)

    with pytest.raises(LowbitError, match=r"choose_qparams"):
        lowbit.load(Dynamic(), inputs=(torch.randn(2, 2),))
    with pytest.raises(LowbitError, match="fit no dtype"):
        lowbit.load(Odd(), inputs=(torch.randn(2, 2),))
    lstm = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamic = tq.quantize_dynamic(lstm, {torch.nn.Linear}, dtype=torch.qint8)
    with pytest.raises(LowbitError, match=r"0: torch.ao's Linear has no form that can be exported"):
        lowbit.load(dynamic, inputs=(torch.randn(2, 4),))
