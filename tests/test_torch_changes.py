"""Constants that change after quantization: what a module computes is what it holds now."""

from __future__ import annotations

from typing import Any

import pytest

from lowbit.errors import QuantError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import lowbit.torch as lt  # noqa: E402
from lowbit import PerAxis  # noqa: E402
from lowbit.torch import quantize, quantize_int8  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
@pytest.mark.parametrize("write", [lambda b: b.add_(10), lambda b: b.data.add_(10), lambda b: setattr(b, "data", b.data + 10)])
def test_a_bias_that_is_written_is_the_one_that_is_added(recipe: str, write: Any) -> None:
    m = lt.quantize_(nn.Sequential(nn.Linear(64, 8)), recipe).eval()
    x = torch.randn(3, 64)
    with torch.no_grad():
        before = m(x)
        write(m[0].bias)
        assert torch.allclose(m(x), before + 10, atol=1e-5)
        m[0].bias = None
        assert torch.allclose(m(x), lt.quantize_(m, recipe).eval()(x), atol=1e-4)


@pytest.mark.parametrize("layer", [nn.Linear(16, 8), nn.Conv1d(16, 8, 1)], ids=["Linear", "Conv1d"])
def test_a_static_layer_alone_follows_its_bias(layer: nn.Module) -> None:
    kind = lt.modules.SWAPS[type(layer)]
    q = kind.from_float(layer).start_calibration().eval()
    x = torch.randn(2, 16, 16)
    with torch.no_grad():
        q(x)
        q.finish_calibration()
        before = q(x)
        q.bias.add_(1)
        clean = kind.swapped(kind.float_type()(16, 8, *([1] if kind.op == "conv" else [])))
        clean.load_state_dict(q.state_dict())
        assert not torch.equal(q(x), before) and torch.equal(q(x), clean.eval()(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_recurrence_follows_its_biases(kind: Any) -> None:
    m = lt.quantize_(kind(8, 8), "int8-dynamic").eval()
    x = torch.randn(5, 2, 8)
    with torch.no_grad():
        before = m(x)[0]
        m.bias_hh_l0.data.fill_(0.5)
        other = lt.quantize_(kind(8, 8), "int8-dynamic").eval()
        other.load_state_dict(m.state_dict())
        assert not torch.equal(m(x)[0], before) and torch.equal(m(x)[0], other(x)[0])


def test_attention_follows_its_biases() -> None:
    m = lt.quantize_(nn.MultiheadAttention(16, 2, batch_first=True), "int8-dynamic").eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        before = m(x, x, x)[0]
        m.out_proj.bias.add_(1)
        assert torch.allclose(m(x, x, x)[0], before + 1, atol=1e-5)
        m.in_proj_bias[32:].add_(1)
        assert not torch.allclose(m(x, x, x)[0], before + 1, atol=1e-3)


def test_numbers_copied_into_a_quantized_tensor_are_seen_by_all_that_share_its_memory() -> None:
    x = quantize_int8(torch.randn(1, 3, 6, 6))
    w, other = (quantize(s * torch.randn(4, 3, 3, 3), "int8", granularity=PerAxis(0)) for s in (1, 5))
    alias = w.detach()
    F.conv2d(x, w), F.conv2d(x, alias), alias.quant_params
    w.copy_(other)
    want = F.conv2d(x, other)
    assert torch.equal(F.conv2d(x, w), want) and torch.equal(F.conv2d(x, alias), want)
    assert w.quant_params == alias.quant_params == alias.detach().quant_params == other.quant_params


def test_data_of_a_quantized_tensor_cannot_be_exchanged() -> None:
    q = quantize_int8(torch.randn(2, 2))
    with pytest.raises(QuantError, match="does not change"):
        q.data = torch.zeros(2, 2)


def test_sessions_do_not_pile_up_with_the_scales_of_activations() -> None:
    w = quantize_int8(torch.randn(2, 1, 1, 1))
    for i in range(40):
        F.conv2d(quantize(torch.ones(1, 1, 2, 2), "int8", scale=1 + i), w)
    made = w.__dict__["_compiled"]
    assert len(made) == made.LIMIT


def test_a_batch_of_none_gives_none() -> None:
    for recipe in ("int8-dynamic", "int4-weights"):
        m = lt.quantize_(nn.Linear(64, 8), recipe).eval()
        assert m(torch.randn(0, 64)).shape == (0, 8)
