"""Quantized modules: what a rule decides for a layer in a graph, it decides for the module; and they compute the same bits."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from codegen_tools import Compiled, has

import lowbit
from lowbit import CalibratedQuantRule, DynamicQuantRule, FloatRule, WeightOnlyRule
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, LowbitWarning, QuantError, ShapeError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import lowbit.torch as lt  # noqa: E402
from lowbit.ir.interp import run as interpret  # noqa: E402
from lowbit.lower import lower  # noqa: E402
from lowbit.quantization.recipes import recipe  # noqa: E402
from lowbit.torch import QTensor  # noqa: E402
from lowbit.torch.modules import SWAPS  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Net(nn.Module):
    """A convolution with a batch norm, a residual sum, a pool and a linear layer: quantized inside and between the modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8 * 4 * 4, 10)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.conv1(x)))
        x = F.max_pool2d(x + F.relu(self.conv2(x)), 2)
        return self.head(x.flatten(1))


def batches(count: int = 4) -> list[Any]:
    return [torch.randn(2, 3, 8, 8) for _ in range(count)]


def arrays(data: list[Any]) -> list[Any]:
    return [(x.numpy(),) for x in data]


@pytest.fixture(scope="module")
def static() -> Iterator[tuple[Any, Any, Any]]:
    """A float model, the data, and the model quantized by them."""
    torch.manual_seed(0)
    model, data = Net().eval(), batches()
    yield model, data, lt.quantize_(copy.deepcopy(model), "int8", data=data)


def test_eager_interpreter_and_session_give_the_same_bits(static: Any) -> None:
    model, data, quantized = static
    graph = lowbit.load(model, inputs=(data[0],), dynamic={"x": {0: "batch"}})
    q = lowbit.quantize(graph, arrays(data), recipe="int8")
    x = torch.randn(3, 3, 8, 8)
    y = quantized(x).numpy()
    assert y.tobytes() == np.asarray(lowbit.compile(q)(x.numpy())).tobytes()
    assert y.tobytes() == interpret(lower(q).graph, {"x": x.numpy()})["output"].tobytes()
    assert lowbit.load(quantized) == q  # and what ships is what was evaluated
    assert lowbit.compile(lowbit.load(quantized))(x.numpy()).tobytes() == y.tobytes()  # type: ignore[union-attr]


def test_rules_in_front_of_a_recipe_leave_its_guard_on() -> None:
    chain = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 4)).eval()
    data = [torch.randn(8, 16) for _ in range(4)]
    rules = [FloatRule("^4$", because="mine"), *recipe("int8")]
    m = lt.quantize_(copy.deepcopy(chain), rules, data=data)
    graph = lowbit.load(m)
    assert " dB" in graph.notes["decided"] and type(m[4]) is nn.Linear
    plain = lt.quantize_(copy.deepcopy(chain), rules, data=data, guard=False)
    assert lowbit.load(plain).notes["guard"].startswith("off (guard=False)")


@pytest.mark.skipif(not has("gcc"), reason="no C compiler")
def test_the_generated_c_gives_the_bits_of_the_model(tmp_path: Any) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)).eval()
    m = lt.quantize_(net, "int8", data=batches(), guard=False)
    emitted = lowbit.emit_c(lowbit.load(m, shapes={"batch": 2}), tmp_path / "c", float_io=True, measure=False)
    x = torch.randn(2, 3, 8, 8)
    y = Compiled(tmp_path / "c", emitted).run([x.numpy()], [((2, 5), np.float32)])[0]
    assert y.tobytes() == m(x).numpy().tobytes()


def test_a_chain_of_layers_gives_layer_by_layer_what_its_graph_gives() -> None:
    chain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 2), nn.ReLU6(), nn.Flatten(), nn.Linear(16, 5))
    m = lt.quantize_(chain.eval(), "int8", data=batches(), guard=False)
    x = torch.randn(3, 3, 8, 8)
    assert type(m).forward(m, x).equal(m(x))  # what lies between its layers only moves integers and limits them


def test_state_dicts_copies_and_files_hold_all_that_a_converted_model_is(static: Any) -> None:
    model, _, quantized = static
    x = torch.randn(3, 3, 8, 8)
    y = quantized(x)
    file = io.BytesIO()
    torch.save(quantized.state_dict(), file)
    file.seek(0)
    restored = lt.restore_(Net(), torch.load(file, weights_only=True))
    assert restored(x).equal(y) and lowbit.load(restored) == lowbit.load(quantized)
    assert restored.head(torch.ones(1, 128)).equal(quantized.head(torch.ones(1, 128)))
    copied = copy.deepcopy(quantized)
    assert copied(x).equal(y) and copied.forward.model is copied
    quantized.load_state_dict(copied.state_dict())
    assert quantized(x).equal(y)
    weights = sum(t.numel() for t in quantized.state_dict().values() if isinstance(t, QTensor) and t.dim() > 1)
    assert weights == sum(p.numel() for n, p in model.named_parameters() if p.dim() > 1)
    held = quantized.lowbit_graph.get_state()["tensors"]
    assert sum(t.numel() for t in held.values()) < weights / 10  # the graph's text holds no weight twice


def test_a_converted_model_goes_through_safetensors(static: Any, tmp_path: Any) -> None:
    _, _, quantized = static
    lt.save_safetensors(quantized, tmp_path / "m.safetensors")
    restored = lt.restore_(Net(), lt.load_safetensors(tmp_path / "m.safetensors"))
    x = torch.randn(3, 3, 8, 8)
    assert restored(x).equal(quantized(x)) and restored.conv1.weight.quant_params == quantized.conv1.weight.quant_params
    for given in (b"nothing", b"\2" + b"\0" * 7 + b"{}"):
        (tmp_path / "bad.safetensors").write_bytes(given)
        with pytest.raises(FormatError, match="not a state of"):
            lt.load_safetensors(tmp_path / "bad.safetensors")
    with pytest.raises(FormatError, match="a set cannot be stored"):
        lt.save_safetensors({"x": {1}}, tmp_path / "m.safetensors")


def test_training_is_float_and_gradients_reach_the_inputs(static: Any) -> None:
    _, _, quantized = static
    m = copy.deepcopy(quantized)
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.abs().sum() > 0 and all(p.grad is None for n, p in m.named_parameters())
    m.train()
    wide = m.head(torch.ones(1, 128))
    assert torch.allclose(wide, F.linear(torch.ones(1, 128), m.head.weight.dequantize(), m.head.bias.dequantize()))


def test_compiled_by_torch_a_converted_model_gives_the_same_bits(static: Any) -> None:
    _, _, quantized = static
    x = torch.randn(2, 3, 8, 8)
    assert torch.compile(quantized, backend="eager")(x).equal(quantized(x))


def test_torch_does_not_trace_into_the_compiler_of_lowbit() -> None:
    model = lt.quantize_(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), "int8-dynamic")
    x = torch.randn(3, 8)
    want = copy.deepcopy(model)(x)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        told = torch._dynamo.explain(model)(x)
        assert torch.compile(model, backend="eager")(x).equal(want)
    assert told.graph_break_count <= 2 * 2  # a layer's session is found, and run


def test_another_shape_than_the_graph_allows_is_refused_with_a_way_out(static: Any) -> None:
    with pytest.raises(ShapeError) as e:
        static[2](torch.randn(1, 3, 10, 10))
    assert "dynamic={argument: {axis: name}}" in str(e.value)


def test_calibrating_and_converting_apart_is_the_same_as_at_once(static: Any) -> None:
    model, data, quantized = static
    m = lt.quantize_(copy.deepcopy(model), "int8")
    assert m.head.quant_mode == "float"
    lt.calibrate(m, [(x, torch.zeros(2)) for x in data[:2]])  # labels are left out
    assert m.head.quant_mode == "calibration" and m.head.input_observer.count == 2 * 2 * 128
    lt.calibrate(m, data[2:])
    lt.convert(m)
    x = torch.randn(3, 3, 8, 8)
    assert m(x).equal(quantized(x)) and m.training == model.training


def test_rules_decide_by_path_and_the_rest_stays_plain() -> None:
    rules = [FloatRule("conv1"), WeightOnlyRule("conv2", "int4"), DynamicQuantRule("head")]
    m = lt.quantize_(Net().eval(), rules)
    assert type(m.conv1) is nn.Conv2d and m.conv2.quant_mode == "weights" and m.head.quant_mode == "dynamic"
    assert m.conv2.weight.quant_params.dtype.name == "int4" and m.head.weight.quant_params.dtype.name == "int8"
    graph = lowbit.load(Net().eval(), inputs=(batches()[0],))
    assert m(batches()[0]).shape == (2, 10) and len(graph.nodes) > 3


def test_static_dynamic_and_float_layers_live_in_one_model() -> None:
    rules = [FloatRule("conv2"), DynamicQuantRule("head"), CalibratedQuantRule(".*")]
    model, data = Net().eval(), batches()
    m = lt.quantize_(copy.deepcopy(model), rules, data=data)
    graph = lowbit.load(model, inputs=(data[0],), dynamic={"x": {0: "batch"}})
    q = lowbit.quantize(graph, arrays(data), rules=rules)
    x = torch.randn(3, 3, 8, 8)
    assert m(x).numpy().tobytes() == np.asarray(lowbit.compile(q)(x.numpy())).tobytes()
    assert (m.conv1.quant_mode, m.head.quant_mode) == ("static", "dynamic") and type(m.conv2) is nn.Conv2d


@pytest.mark.parametrize("rows", [(5,), (2, 3), ()])
def test_dynamic_linear_is_the_graphs(rows: tuple[int, ...]) -> None:
    layer = nn.Linear(40, 12).eval()
    graph = lowbit.load(layer, inputs=(torch.zeros(2, 40),), dynamic={"input": {0: "rows"}})
    s = lowbit.compile(lowbit.quantize(graph, recipe="int8-dynamic"))
    m = lt.quantize_(layer, "int8-dynamic")
    x = torch.randn(*rows, 40)
    wanted = np.asarray(s(x.reshape(-1, 40).numpy())).reshape(*rows, 12)
    assert m(x).detach().numpy().tobytes() == wanted.tobytes()
    assert type(m) is lt.Linear and m.is_quantized
    g = torch.randn(3, 40, requires_grad=True)
    m(g).sum().backward()
    assert torch.allclose(g.grad, m.weight.dequantize().sum(0).expand(3, 40), atol=1e-5)


LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(20, 7), (5, 20)),
    "linear without bias": (lambda: nn.Linear(20, 7, bias=False), (5, 20)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 11)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, padding=(1, 2), groups=2), (2, 4, 9, 7)),
    "conv2d same": (lambda: nn.Conv2d(4, 6, 4, padding="same", dilation=2), (2, 4, 9, 9)),
    "conv2d reflect": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (2, 4, 9, 7)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 5)),
    "transposed groups": (lambda: nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2), (2, 4, 5, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_static_layer_is_the_graphs_and_alone_it_is_the_same(name: str) -> None:
    make, shape = LAYERS[name]
    layer, data = make().eval(), [torch.randn(shape) for _ in range(3)]
    graph = lowbit.load(layer, inputs=(data[0],))
    q = lowbit.quantize(graph, arrays(data), recipe="int8", guard=False)
    m = lt.quantize_(copy.deepcopy(layer), "int8", data=data, guard=False)
    x = torch.randn(shape)
    y = m(x).numpy()
    assert y.tobytes() == np.asarray(lowbit.compile(q)(x.numpy())).tobytes()
    alone = type(m).forward(m, x)  # without the graph
    assert m.quant_mode == "static" and alone.numpy().tobytes() == y.tobytes()
    assert (m(data[0]) - layer(data[0])).abs().max() < 0.1
    assert m.dequantize_weights().quant_mode == "float" and not m.is_quantized


@pytest.mark.parametrize("name", LAYERS)
def test_layers_calibrate_by_themselves(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make().eval()
    kind = SWAPS[type(layer)]
    m = kind.from_float(layer).start_calibration()
    for _ in range(3):
        x = torch.randn(shape)
        assert m(x).equal(layer(x))
    m.finish_calibration()
    assert m.quant_mode == "static" and m.input_params.dtype.name == "int8" and type(layer) is not kind
    assert (m(x) - layer(x)).abs().max() < 0.1
    assert m.train()(x).requires_grad or not any(p.requires_grad for p in m.parameters())


def test_embedding_is_integers_that_are_moved() -> None:
    m = lt.Embedding.from_float(nn.Embedding(12, 6)).quantize_weights("int8").eval()
    index = torch.tensor([[0, 11], [3, 3]])
    assert m(index).equal(m.weight.dequantize()[index]) and m.weight.quant_params.scale.shape == (12,)

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(12, 6), nn.Linear(6, 12)

        def forward(self, t: Any) -> Any:
            return self.head(self.table(t))

    words, data = Words().eval(), [torch.randint(0, 12, (2, 5)) for _ in range(3)]
    q = lt.quantize_(copy.deepcopy(words), "int8", data=data, guard=False)
    assert isinstance(q.table.weight, QTensor)
    assert type(q).forward(q, data[0]).equal(q(data[0]))


def test_a_model_that_cannot_be_traced_is_converted_layer_by_layer_and_says_why() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return self.a(x) if x.sum() > 0 else self.b(x)

    m = Branching().eval()
    data = [torch.ones(2, 8), -torch.ones(2, 8)]
    with pytest.warns(LowbitWarning, match="Branching is converted layer by layer: its forward decides by the values of data"):
        lt.quantize_(m, "int8", data=data)
    assert (
        m.a.quant_mode == m.b.quant_mode == "static"
        and (m(data[0]) - F.linear(data[0], m.a.weight.dequantize(), m.a.bias)).abs().max() < 0.05
    )


@pytest.mark.parametrize("recipe", ["w4a8", "w4a8-block", "w1a8", "uint8", "int4-weights", "w4a8-dynamic"])
def test_models_of_every_width_come_back_from_a_file_as_they_were(recipe: str) -> None:
    def net() -> nn.Sequential:
        return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4)).eval()

    m = lt.quantize_(net(), recipe, data=[torch.randn(4, 64) for _ in range(2)], guard=False)
    file, x = io.BytesIO(), torch.randn(3, 64)
    torch.save(m.state_dict(), file)
    file.seek(0)
    assert lt.restore_(net(), torch.load(file, weights_only=True))(x).equal(m(x))
    if hasattr(m, "lowbit_graph"):
        assert np.asarray(lowbit.compile(lowbit.load(m))(x.numpy())).tobytes() == m(x).numpy().tobytes()


def test_another_devices_kernel_is_asked_for_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowbit.torch import kernels

    m = lt.Linear(64, 8).quantize_weights("int4", 32).to_mode("weights").eval().to("meta")
    monkeypatch.setitem(kernels.KERNELS, ("meta", "weight_only"), lambda x, w, b: torch.full((x.shape[0], w.shape[0]), 7.0))
    assert m(torch.zeros(3, 64, device="meta")).eq(7).all()


def test_quantizing_again_and_giving_up_leave_plain_layers() -> None:
    m = lt.quantize_(Net().eval(), "int8-dynamic")
    lt.quantize_(m, [DynamicQuantRule("conv")])
    assert m.conv1.quant_mode == "weights" and type(m.head) is nn.Linear
    lt.dequantize_(m)
    assert type(m.conv1) is nn.Conv2d and set(m.conv1.__dict__) == set(nn.Conv2d(1, 1, 1).__dict__)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: lt.quantize_(3), InputError, "int given, a torch.nn.Module needed"),
        (lambda: lt.quantize_(nn.ReLU()), QuantError, "nothing in the model is quantized, for it has no layer that can be"),
        (lambda: lt.quantize_(Net(), [FloatRule(".*")]), QuantError, "nothing in the model is quantized"),
        (lambda: lt.quantize_(Net(), "int9"), QuantError, "there is no recipe 'int9'"),
        (lambda: lt.convert(Net()), InputError, "waits for no calibration"),
        (lambda: lt.convert(lt.quantize_(Net(), "int8")), CalibrationError, "the model has seen no data"),
        (lambda: lt.quantize_(Net(), "int8", data=[]), CalibrationError, "there is no data to calibrate with"),
        (lambda: lt.Linear(3, 3).to_mode("static"), QuantError, "static needs the parameters of its input"),
        (lambda: lt.Linear(3, 3).to_mode("fast"), QuantError, "mode 'fast' does not exist"),
        (lambda: lt.Linear(3, 3).finish_calibration(), QuantError, "it has not been calibrated"),
        (lambda: lt.Linear.from_float(nn.Conv1d(1, 1, 1)), InputError, "Conv1d given, Linear needed"),
        (lambda: lt.quantize_(Net(), 5), InputError, "int given, a list of rules is needed"),
        (lambda: lt.quantize_(Net(), "int8", data=3), InputError, "data is 3, a list"),
        (lambda: lt.quantize_(Net(), "int8", data=[torch.zeros(1, 2)]), InputError, "batch 0: the model does not take it"),
        (lambda: lt.quantize_(Net(), "int8", dynamic=4), InputError, "dynamic=4, dimensions by argument are needed"),
        (lambda: lt.quantize_(Net(), "int8", data=batches(), dynamic={"foo": {0: "b"}}), InputError, "foo"),
        (lambda: lt.calibrate(3, batches()), InputError, "int given, a torch.nn.Module needed"),
        (lambda: lt.convert(3), InputError, "int given, a torch.nn.Module needed"),
        (lambda: lt.dequantize_(3), InputError, "int given, a torch.nn.Module needed"),
        (lambda: lt.restore_(Net(), [1]), InputError, "list given, a state dict is needed"),
        (lambda: lt.restore_(nn.Linear(3, 4), nn.Linear(3, 3).state_dict()), InputError, "the state is not that of this model"),
        (lambda: lt.save_safetensors(5, "x"), InputError, "int given, a module or a state dict is needed"),
        (lambda: lt.load_safetensors(5), LowbitError, "a path is needed, int given"),
        (lambda: lt.prepare_qat(3, inputs=()), InputError, "int given, a torch.nn.Module needed"),
        (lambda: lt.prepare_qat(Net(), inputs=(), warmup=-1), InputError, "warmup=-1, a whole number from 0"),
        (lambda: lt.prepare_qat(Net(), inputs=(batches()[0],), calibration=5), InputError, "calibration is 5, a list"),
        (lambda: lt.quantize("abc"), LowbitError, "x is 'abc', which is no tensor of numbers"),
        (lambda: lt.quantize(torch.zeros(2, dtype=torch.complex64)), LowbitError, "complex numbers have no quantized form"),
        (lambda: lt.restore_(nn.ReLU(), lt.Linear(3, 3).state_dict()), InputError, "the model has none"),
    ],
)
def test_what_cannot_be_done_is_said(act: Any, error: type[LowbitError], message: str) -> None:
    with pytest.raises(error, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        act()


def test_quantizing_is_all_or_nothing() -> None:
    with pytest.warns(FutureWarning):  # that of torch: it has a newer one
        normed = nn.utils.weight_norm(nn.Linear(16, 4))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), normed).eval()
    handle = model[0].register_forward_hook(lambda *_: None)
    x = torch.randn(3, 8)
    want, keys = model(x), list(model.state_dict())
    refused = r"2: its weight is computed anew for each call.*\s+Try: torch.nn.utils.remove_weight_norm"
    for call, text in (
        (lambda: lt.quantize_(model, "int8-dynamic"), refused),
        (lambda: lt.quantize_(model, [FloatRule("2"), CalibratedQuantRule(".*")], data=[torch.randn(3, 9)]), "batch 0: the model does not"),
        (lambda: lt.quantize_(model, [FloatRule(".*")]), "nothing in the model is quantized"),
    ):
        with pytest.raises(LowbitError, match=text):
            call()
        assert type(model[0]) is nn.Linear and "_lowbit_pending" not in model.__dict__
        assert list(model.state_dict()) == keys and model(x).equal(want)
    handle.remove()
    assert not model[0]._forward_hooks  # the handle still has what it removes from
    quantized = lt.quantize_(nn.Sequential(nn.Linear(8, 4)), "int8-dynamic").eval()
    y = quantized(x)
    with pytest.raises(LowbitError, match="the model does not take it"):
        lt.quantize_(quantized, "int8", data=[torch.randn(3, 9)])
    assert quantized(x).equal(y)  # it stays quantized as it was
