"""Quantization-aware training: its numbers are those of the graph that ships, its gradients those of the papers."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import lowbit
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run as outputs
from lowbit.numerics import dequantize_with, quantize_with
from lowbit.passes.common_subexpressions import common_subexpressions
from lowbit.quant_params import quantize
from lowbit.quantization.recipes import recipe as recipe_rules
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule, QuantRule
from lowbit.torch import quantize_
from lowbit.torch.qat import ActivationFake, QatModel, WeightFake, fake_quantize, prepare_qat
from lowbit.torch.qat.fake import RowsFake
from zoo.vision import ResNet9

BATCH = {"x": {0: "batch"}}


class Residual(nn.Module):
    """Convolutions with batch norm, a shortcut, dropout, a depthwise and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.b2 = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8)
        self.pool, self.drop = nn.MaxPool2d(2), nn.Dropout(0.5)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.fc = nn.Linear(4 * 64, 10)
        for bn in (self.b1, self.b2):
            nn.init.normal_(bn.running_mean, std=0.1)
            nn.init.uniform_(bn.running_var, 0.5, 2.0)
            nn.init.uniform_(bn.weight, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.b1(self.c1(x))))
        x = torch.relu(x + self.b2(self.c2(x)))
        y: Tensor = self.fc(self.drop(self.up(x)).flatten(1))
        return y


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: threads would wait for each other
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def net() -> Residual:
    torch.manual_seed(0)
    return Residual().eval()


def samples(count: int = 3, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((4, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def prepared(net: nn.Module, recipe: str = "int8", **options: Any) -> QatModel:
    options = {"calibration": samples(), **options}
    return prepare_qat(net, recipe, inputs=(torch.zeros(2, 3, 8, 8),), dynamic=BATCH, **options)


def train(qat: QatModel, steps: int, optimizer: torch.optim.Optimizer, first: int = 0) -> None:
    qat.train()
    for i in range(first, first + steps):
        torch.manual_seed(i)
        x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(qat(x), y).backward()
        optimizer.step()


# -- numbers and gradients ------------------------------------------------------------------------------------------------------------

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=200, deadline=None)
@given(
    x=st.lists(FLOATS, min_size=1, max_size=20),
    scale=st.floats(2.0**-20, 2.0**20, width=32),
    kind=st.sampled_from(["int8", "uint8", "int4", "uint4", "int16"]),
    share=st.floats(0, 1),
)
def test_the_forward_pass_has_the_bits_of_quantize_and_dequantize(x: list[float], scale: float, kind: str, share: float) -> None:
    d = lowbit.dtypes.dtype(kind)
    assert d.min is not None and d.max is not None
    zero = d.min + round(share * (d.max - d.min))
    data = np.array(x, np.float32)
    want = dequantize_with(quantize_with(data, np.float32(scale), zero, d), np.float32(scale), zero)
    got = fake_quantize(torch.from_numpy(data), torch.tensor(scale), torch.tensor(zero), d.min, d.max)
    assert got.numpy().tobytes() == want.tobytes()


def test_ties_go_to_even_and_a_rounded_zero_has_no_sign() -> None:
    x = torch.tensor([-1.25, -0.75, -0.25, -0.0, 0.25, 0.75, 1.25])
    y = fake_quantize(x, torch.tensor(0.5), torch.tensor(0), -128, 127)
    assert y.tolist() == [-1.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert not torch.signbit(y[2:5]).any()


def lsq(x: Any, s: Any, low: int, high: int, g: Any) -> tuple[Any, Any]:
    """Esser et al., Learned Step Size Quantization, equations 1 to 5, term by term: to the data, and to the step before its factor."""
    v = x / s
    to_step = np.where(v <= low, low, np.where(v >= high, high, -v + np.rint(v)))
    return np.where((v > low) & (v < high), g, 0), g * to_step


def test_the_gradients_are_those_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-60, 60, (5, 64)).astype(np.float32) / 16  # everything is exact in float32, so the order of the sum is no matter
    g = rng.integers(-4, 5, x.shape).astype(np.float32)
    for zero, low, high in ((0, -8, 7), (-8, 0, 15), (3, -11, 4)):
        data, step = torch.from_numpy(x).requires_grad_(), torch.tensor(0.25, requires_grad=True)
        fake_quantize(data, step, torch.tensor(zero), -8, 7).backward(torch.from_numpy(g))
        to_x, to_step = lsq(x, np.float32(0.25), low, high, g)
        assert data.grad is not None and step.grad is not None
        assert np.array_equal(data.grad.numpy(), to_x)
        assert step.grad.item() == pytest.approx(to_step.sum() / np.sqrt(x.size * high), rel=1e-6)  # one rounding of the factor, one more


def test_each_channel_has_a_step_of_its_own_and_its_own_count() -> None:
    seen = np.array([[1, -2, 3, 0.3], [0.1, 0.2, -0.3, 0]], np.float32)
    fake = WeightFake(lowbit.params_from_data(seen, "int4", "symmetric_restricted", lowbit.PerAxis(0)), learn=True)
    w = torch.tensor([[1.0, -2.0, 4.0, 0.3], [0.1, 0.2, -0.3, 0.0]], requires_grad=True)
    g = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    fake(w).backward(torch.from_numpy(g))
    scale = fake.scale.detach().numpy().reshape(2, 1)
    to_w, to_step = lsq(w.detach().numpy(), scale, -7, 7, g)
    assert w.grad is not None and fake.step.grad is not None
    assert np.array_equal(w.grad.numpy(), to_w)
    np.testing.assert_allclose(fake.step.grad.numpy() * scale[:, 0], to_step.sum(1) / np.sqrt(4 * 7), rtol=1e-6)


def test_an_activations_count_is_that_of_one_sample() -> None:
    fake = ActivationFake("x", lowbit.params_from_range(-1.0, 1.0, "int8", "asymmetric"), "asymmetric", learn=True, ready=True, fixed=False)
    x = torch.full((6, 5, 2), 100.0)
    fake(x).sum().backward()
    zero = int(fake.zero_point)
    assert fake.step.grad is not None
    assert float(fake.step.grad * fake.unit) == pytest.approx(60 * (127 - zero) / np.sqrt(10 * (127 - zero)), rel=1e-6)


def test_where_no_step_learns_the_largest_number_has_a_gradient() -> None:
    x = torch.tensor([[0.5, -3.0, 1.0], [0.01, 0.02, -0.02]], requires_grad=True)
    RowsFake()(x).sum().backward()
    assert x.grad is not None and x.grad.eq(1).all()
    w = torch.tensor([[1.0, -2.0, 4.0, 0.3], [0.1, 0.2, -0.3, 0.0]], requires_grad=True)
    fake = WeightFake(lowbit.params_from_data(w.detach().numpy(), "int4", "symmetric_restricted", lowbit.PerAxis(0)), learn=False)
    fake(w).sum().backward()
    assert w.grad is not None and w.grad.eq(1).all()
    seen = torch.tensor([-9.0, -8.4, 7.4, 7.6, torch.nan], requires_grad=True)
    fake_quantize(seen, torch.tensor(1.0), torch.tensor(0), -8, 7, 0.0).sum().backward()
    assert seen.grad is not None and seen.grad.tolist() == [0, 1, 1, 0, 0]  # what rounds out of the range has none


def test_every_weight_of_a_recurrence_learns() -> None:
    model, data, recipe = recurrent()
    qat = prepare_qat(model, recipe, inputs=(torch.from_numpy(data(0)),), dynamic=BATCH, calibration=[(data(0),)])
    qat.train()(torch.from_numpy(data(1))).square().mean().backward()
    for name in ("weight_ih_l0", "weight_hh_l0"):
        w = getattr(qat.model.lstm, name)
        largest = w.detach().abs().argmax(1, keepdim=True)
        assert w.grad is not None and w.grad.gather(1, largest).ne(0).all()


def test_gradient_descent_moves_the_scale_itself_and_adam_parts_of_it() -> None:
    for optimizer, by in ((torch.optim.SGD, 2.0**-12), (torch.optim.Adam, 2.0**-10 * 2.0**-8)):
        fake = ActivationFake("x", lowbit.QuantParams("int8", 2.0**-8, 0), "symmetric", learn=True, ready=True, fixed=False)
        descent = optimizer([fake.step], 2.0**-10)
        (fake.scale * 0.25).sum().backward()  # the scale's gradient is 1/4
        descent.step()
        assert float(fake.scale.detach()) == pytest.approx(2.0**-8 - by, rel=1e-6)


# -- the same network as lowbit.quantize ----------------------------------------------------------------------------------------------

W4A4: list[QuantRule] = [CalibratedQuantRule(".*", "int4", "int4")]


@pytest.mark.parametrize("recipe", ["int8", "uint8", "int16", "w4a8", "w4a8-block", "int4-weights", "int8-dynamic"])
def test_before_training_it_is_the_graph_of_quantize(net: Residual, recipe: str) -> None:
    graph = lowbit.load(net, inputs=(torch.zeros(2, 3, 8, 8),), dynamic=BATCH)
    record = lowbit.calibrate(graph, samples(), recipe=recipe)
    if recipe == "int4-weights":  # training learns scales alone: no offsets
        want = lowbit.quantize(graph, record, rules=[replace(rule, offsets=False) for rule in recipe_rules(recipe)])
    else:
        want = lowbit.quantize(graph, record, recipe=recipe)
    qat = prepared(net, recipe)
    got = lowbit.load(qat)
    assert str(common_subexpressions(got)) == str(common_subexpressions(want))
    x = samples(1, seed=5)[0]
    with torch.no_grad():
        y = qat.eval()(torch.from_numpy(x["x"])).numpy()
    # Float sums have another order in torch: where that moves a value over a tie, its code is off by one.
    assert np.abs(y - outputs(want, x)["output"]).max() < 0.2 * np.abs(y - net(torch.from_numpy(x["x"])).detach().numpy()).max()


def powers_of_two(qat: QatModel) -> None:
    """Steps that are powers of two: all products and sums of small integers are then exact in float32, in any order."""
    for fake in qat.modules():
        if isinstance(fake, ActivationFake | WeightFake):
            with torch.no_grad():
                fake.unit.copy_(torch.exp2(torch.round(torch.log2(fake.scale))))
                fake.step.fill_(1.0)


@pytest.mark.parametrize("rules", [None, W4A4], ids=["int8", "w4a4"])
def test_where_sums_are_exact_torch_graph_and_native_session_give_the_same_bits(net: Residual, rules: list[QuantRule] | None) -> None:
    qat = prepared(net, rules=rules, freeze_bn=1)
    train(qat, 3, torch.optim.Adam(qat.parameters(), 1e-3))
    powers_of_two(qat)
    graph = lowbit.load(qat.eval(), inputs=(torch.zeros(4, 3, 8, 8),))
    session = lowbit.compile(graph)
    assert "interpreted" not in session.backend
    for x in samples(3, seed=9):
        with torch.no_grad():
            y = qat(torch.from_numpy(x["x"])).numpy()
        assert y.tobytes() == outputs(graph, x)["output"].tobytes()
        assert y.tobytes() == session(x["x"]).tobytes()


def test_the_loaded_graph_has_the_trained_steps_and_the_integers_of_the_trained_weights(net: Residual) -> None:
    qat = prepared(net, "w4a8", freeze_bn=0)
    train(qat, 3, torch.optim.Adam(qat.parameters(), 1e-2))
    before, graph = lowbit.load(prepared(net, "w4a8")), lowbit.load(qat.eval())
    moved = 0
    for (name, _), fake in qat._weights.items():
        scale, ints = graph.constants[f"{name}:int4:scale"].data, graph.constants[f"{name}:int4"].data
        assert np.array_equal(scale, fake.params().scale)
        moved += not np.array_equal(scale, before.constants[f"{name}:int4:scale"].data)
        if name == "fc.weight":
            assert np.array_equal(ints, quantize(qat.model.fc.weight.detach().numpy(), fake.params()))
    for name, tap in qat._taps.items():
        assert graph.constants[f"{name}:scale"].data == tap.params().scale
    assert moved == len(qat._weights)


def transformer() -> tuple[nn.Module, Callable[[int], Any], str]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.pos = nn.Embedding(50, 32), nn.Parameter(torch.randn(12, 32) * 0.1)
            self.enc = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
            self.head = nn.Linear(32, 50)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.head(self.enc(self.emb(x) + self.pos))
            return y

    return Net().eval(), lambda seed: np.random.default_rng(seed).integers(0, 50, (4, 12)), "int8"


def recurrent() -> tuple[nn.Module, Callable[[int], Any], str]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.lstm, self.head = nn.Embedding(50, 24), nn.LSTM(24, 32, batch_first=True), nn.Linear(32, 50)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.head(self.lstm(self.emb(x))[0])
            return y

    return Net().eval(), lambda seed: np.random.default_rng(seed).integers(0, 50, (4, 12)), "w4a8"


@pytest.mark.parametrize("made", [transformer, recurrent])
def test_attention_embeddings_and_recurrences_train_with_the_graphs_rounding(made: Callable[[], Any]) -> None:
    model, data, recipe = made()
    qat = prepare_qat(model, recipe, inputs=(torch.from_numpy(data(0)),), dynamic=BATCH, calibration=[(data(i),) for i in range(3)])
    x = data(7)
    with torch.no_grad():
        y, float_y = qat.eval()(torch.from_numpy(x)).numpy(), model(torch.from_numpy(x)).numpy()
    z = outputs(lowbit.load(qat), {"x": x})["output"]
    # What torch's LSTM does inside one step is not rounded in training; all the rest is.
    assert np.abs(y - z).mean() < 0.1 * np.abs(z - float_y).mean()
    qat.train()(torch.from_numpy(x)).square().mean().backward()
    assert all(p.grad is not None for p in qat.parameters() if p.requires_grad)


def test_a_parameter_that_is_data_is_rounded_too() -> None:
    model, data, recipe = transformer()
    qat = prepare_qat(model, recipe, inputs=(torch.from_numpy(data(0)),), calibration=[(data(1),)])
    table, position = qat._weights["emb.weight", "int8"], qat._weights["pos", "int8"]
    assert table.unit.shape == (50,) and table.learn  # a scale for each row
    assert position.unit.dim() == 0 and not position.learn


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(50, 32), nn.Linear(32, 50, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(torch.relu(self.emb(x)))
        return y


@pytest.mark.parametrize("recipe", ["int8", "w4a8"])
def test_a_tied_weight_is_rounded_where_it_is_read(recipe: str) -> None:
    net, ids = Tied().eval(), torch.arange(48).reshape(4, 12)
    qat = prepare_qat(net, recipe, inputs=(ids,), calibration=[(ids,)])
    assert list(qat._weights) == [("emb.weight", "int8")] + ([] if recipe == "int8" else [("emb.weight", "int4")])
    optimizer = torch.optim.Adam(qat.parameters(), 1e-3)
    qat.train()(ids).square().mean().backward()
    optimizer.step()
    powers_of_two(qat.eval())
    with torch.no_grad():
        y = qat(ids).numpy()
    graph = lowbit.load(qat)
    assert y.tobytes() == outputs(graph, {"x": ids.numpy()})["output"].tobytes() == lowbit.compile(graph)(ids.numpy()).tobytes()


def test_a_parameter_that_was_nothing_when_training_began_is_said() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.gate = nn.Linear(4, 4), nn.Parameter(torch.ones(4, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(torch.relu(self.fc(x)) * self.gate)

    qat = prepare_qat(Gated(), inputs=(torch.ones(4, 2, 4),), calibration=[(torch.ones(4, 2, 4),)], inplace=True)
    with torch.no_grad():
        qat.model.gate.mul_(2)
    with pytest.raises(lowbit.QuantError, match=r"was simplified away when training was prepared[\s\S]*Try: begin with another value"):
        lowbit.load(qat)


class Scaled(nn.Module):
    """Constant factors behind layers: a number behind a batch norm, one for each channel, a quotient."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.fc, self.gamma, self.head = nn.Linear(8, 6), nn.Parameter(torch.rand(6) + 0.5), nn.Linear(6, 10, bias=False)
        nn.init.uniform_(self.b1.running_var, 0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.b1(self.c1(x)) * 0.3).mean((2, 3))
        y: Tensor = self.head(torch.relu(self.gamma * self.fc(x))) / 3
        return y


@pytest.mark.parametrize("made", [lambda: ResNet9(4), Scaled])
def test_every_weight_of_a_network_with_constant_factors_has_a_fake(made: Callable[[], nn.Module]) -> None:
    model = made().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", lowbit.LowbitWarning)
        qat = prepared(model)
    x = samples(1, 5)[0]["x"]

    def weights_agree() -> None:
        graph, seen = lowbit.load(qat.eval()), list[Any]()
        hooks = [m.fake.register_forward_hook(lambda m, a, out: seen.append((m, out.detach().numpy()))) for m in qat.layers]
        y = qat(torch.from_numpy(x)).detach().numpy()
        for hook in hooks:
            hook.remove()
        names = {fake: name for (name, _), fake in qat._weights.items()}
        assert len(seen) == sum(n.op in ("conv", "linear") for n in graph.nodes) == len(names)
        for fake, out in seen:
            ints, scale = (graph.constants[f"{names[fake]}:int8{end}"].data for end in ("", ":scale"))
            assert out.tobytes() == dequantize_with(ints, scale.reshape(-1, *[1] * (ints.ndim - 1)), 0).tobytes()
        z = outputs(graph, {"x": x})["output"]
        assert np.abs(y - z).max() < 0.05 * np.abs(z).max()  # a step or two of int8: float sums have another order in torch

    weights_agree()
    train(qat, 2, torch.optim.Adam(qat.parameters(), 1e-3))
    assert all(p.grad is not None for p in qat.model.parameters()) and qat.model.fc.weight.grad.abs().sum() > 0
    weights_agree()


# -- batch norm, observers, warm-up ---------------------------------------------------------------------------------------------------


def test_folded_weights_are_those_of_the_graph_to_the_bit(net: Residual) -> None:
    qat = prepared(net, "int16")
    train(qat, 2, torch.optim.Adam(qat.parameters(), 1e-2))
    graph = lowbit.load(qat.eval())
    seen: list[Any] = []
    layer = next(m for m in qat.layers if m._bn[0] is qat.model.b1)
    layer.fake.register_forward_hook(lambda m, args, out: seen.append(out.detach().numpy()))
    qat(torch.zeros(1, 3, 8, 8))
    real = dequantize_with(graph.constants["c1.weight:int8"].data, graph.constants["c1.weight:int8:scale"].data.reshape(-1, 1, 1, 1), 0)
    assert seen[0].tobytes() == real.tobytes()


def test_batch_norm_in_training_normalizes_by_the_batch_and_learns_its_statistics(net: Residual) -> None:
    qat = prepared(net, "int16-w16", calibration=None, warmup=1).train()
    reference = Residual().train()
    reference.load_state_dict(net.state_dict())
    for m in (*reference.modules(), *qat.modules()):
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    x = torch.randn(16, 3, 8, 8)
    y, want = qat(x), reference(x)
    assert (y - want).abs().max() < 2e-3 * want.abs().max()  # 16 bits: all that differs is rounding
    np.testing.assert_allclose(qat.model.b1.running_var.numpy(), reference.b1.running_var.numpy(), rtol=1e-3)
    assert qat.model.b1.num_batches_tracked == reference.b1.num_batches_tracked == 1


def test_frozen_batch_norms_keep_their_statistics_and_still_learn(net: Residual) -> None:
    qat = prepared(net, freeze_bn=2)
    optimizer = torch.optim.SGD(qat.parameters(), 0.1)
    train(qat, 2, optimizer)
    mean, weight = qat.model.b1.running_mean.clone(), qat.model.b1.weight.clone()
    assert not torch.equal(mean, net.b1.running_mean)
    train(qat, 2, optimizer)
    assert torch.equal(qat.model.b1.running_mean, mean) and not torch.equal(qat.model.b1.weight, weight)


def test_while_ranges_warm_up_they_follow_the_data_and_then_the_steps_learn(net: Residual) -> None:
    qat = prepared(net, calibration=None, warmup=2)
    with pytest.raises(lowbit.LowbitError, match=r"the range of 'x' is not known yet[\s\S]*Try: prepare_qat\(…, calibration=…\), or train"):
        qat.eval()(torch.zeros(1, 3, 8, 8))
    fake = qat._taps["x"]
    optimizer = torch.optim.SGD(qat.parameters(), 1.0)
    train(qat, 2, optimizer)
    torch.manual_seed(0)
    first, _ = torch.randn(8, 3, 8, 8), torch.manual_seed(1)
    second = torch.randn(8, 3, 8, 8)
    low, high = (0.9 * float(f(first)) + 0.1 * float(f(second)) for f in (torch.min, torch.max))
    assert float(fake.low) == pytest.approx(low, rel=1e-6) and float(fake.high) == pytest.approx(high, rel=1e-6)
    assert fake.params() == lowbit.params_from_range(float(fake.low), float(fake.high), "int8", "asymmetric")
    scale = fake.scale.detach()
    train(qat, 1, optimizer, first=2)
    assert float(fake.low) == pytest.approx(low, rel=1e-6) and not torch.equal(fake.scale.detach(), scale)


def test_observers_switch_off(net: Residual) -> None:
    qat = prepared(net, learn_step=False, warmup=None)
    optimizer = torch.optim.SGD(qat.parameters(), 0.01)
    assert not list(qat.step_sizes())
    before = qat._taps["x"].params()
    train(qat, 2, optimizer)
    seen = qat._taps["x"].params()
    assert seen != before
    qat.freeze_observers()
    train(qat, 2, optimizer, first=2)
    assert qat._taps["x"].params() == seen


def test_training_resumed_from_a_checkpoint_goes_on_with_the_same_bits(net: Residual) -> None:
    def fresh() -> tuple[QatModel, torch.optim.Optimizer]:
        qat = prepared(net, "w4a8", calibration=None, warmup=2, freeze_bn=3)
        return qat, torch.optim.Adam(qat.parameters(), 1e-3)

    straight, optimizer = fresh()
    train(straight, 5, optimizer)
    qat, optimizer = fresh()
    for first, steps in ((0, 1), (1, 2), (3, 2)):
        train(qat, steps, optimizer, first)
        file = io.BytesIO()
        torch.save({"model": qat.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        qat, optimizer = fresh()
        qat.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for (name, a), b in zip(straight.state_dict().items(), qat.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert str(lowbit.load(straight)) == str(lowbit.load(qat))


def test_the_module_itself_is_trained_only_in_place(net: Residual) -> None:
    before = net.fc.weight.clone()
    copied, own = prepared(net), prepared(net, inplace=True)
    train(copied, 1, torch.optim.SGD(copied.parameters(), 0.1))
    assert torch.equal(net.fc.weight, before)
    train(own, 1, torch.optim.SGD(own.parameters(), 0.1))
    assert not torch.equal(net.fc.weight, before)


def test_rules_decide_what_is_rounded_in_training(net: Residual) -> None:
    qat = prepared(net, rules=[FloatRule("^fc"), CalibratedQuantRule(".*")])
    assert ("fc.weight", "int8") not in qat._weights and ("c1.weight", "int8") in qat._weights
    float_only = lowbit.load(prepared(net, rules=[FloatRule(".*")]))
    assert not any(n.op == "quantize_linear" for n in float_only.nodes)


# -- what goes wrong ------------------------------------------------------------------------------------------------------------------


def bad_calls(net: nn.Module) -> Iterator[tuple[Callable[[], Any], str]]:
    x = torch.zeros(2, 3, 8, 8)
    yield (
        lambda: prepare_qat(net, inputs=(x,)),
        r"prepare_qat: there are no ranges to begin with.\s+Try: calibration=data or a record; or warmup=100",
    )
    yield (
        lambda: prepare_qat(net, inputs=None, warmup=1),
        r"Residual: example inputs are needed to trace a module.\s+Try: prepare_qat\(model, inputs",
    )
    yield lambda: prepare_qat(net, inputs=(x, x), warmup=1), r"Residual: the inputs do not fit forward\(x: "
    yield lambda: prepared(net)(x, x), "too many positional arguments"
    done = quantize_(copy.deepcopy(net), "int8-dynamic")
    yield (
        lambda: prepared(done),
        r"prepare_qat: the model is quantized already \(c1\).\s+Try: the float model; dequantize_\(model\) first",
    )
    yield lambda: prepared(net, "w1a8"), r"binary weights are not trained.\s+Try: int4 or int8 weights"
    mixed = [CalibratedQuantRule("^c2", "int16"), CalibratedQuantRule(".*")]
    yield lambda: prepared(net, rules=mixed), r"conv 'c2'.*as int16, which is kept as int8: training knows one width for a value"


def test_errors_say_what_to_do(net: Residual) -> None:
    for call, text in bad_calls(net):
        with pytest.raises((lowbit.LowbitError, TypeError), match=text):
            call()


def test_a_weight_that_training_cannot_follow_is_said() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, torch.tanh(self.w))

    with pytest.warns(lowbit.LowbitWarning, match=r"its weight is computed from parameters; training does not see its weight rounded"):
        qat = prepare_qat(Net(), inputs=(torch.zeros(2, 4),), calibration=[(np.ones((2, 4), np.float32),)])
    assert isinstance(lowbit.load(qat), Graph)
