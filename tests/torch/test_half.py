"""Activations of 16 bits: a quantized layer takes float16 and bfloat16, computes what it always does, and rounds its results to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lowbit
import lowbit.torch as lt
from lowbit.torch.qtensor import QTensor

HALF = [torch.float16, torch.bfloat16]
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(32, 8), (3, 32)),
    "conv": (lambda: nn.Conv2d(3, 4, 3), (2, 3, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 2), (2, 3, 4, 4)),
    "lstm": (lambda: nn.LSTM(8, 6), (5, 2, 8)),
    "gru": (lambda: nn.GRU(8, 6), (5, 2, 8)),
}


def first(y: Any) -> Tensor:
    result: Tensor = y[0] if isinstance(y, tuple) else y
    return result


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_give_the_rounded_results_of_float32(kind: str, recipe: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[kind]
    layer, x = lt.quantize_(make(), recipe).eval(), torch.randn(shape).to(dtype)
    with torch.no_grad():
        y = first(layer(x))
        assert y.dtype == dtype and torch.equal(y, first(layer(x.float())).to(dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_attention_stays_attention_of_one_tensor_with_itself(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, x = lt.quantize_(nn.MultiheadAttention(8, 2), "int8-dynamic").eval(), torch.randn(5, 2, 8).to(dtype)
    with torch.no_grad():
        wide = x.float()
        y, want = layer(x, x, x, need_weights=False)[0], layer(wide, wide, wide, need_weights=False)[0]
    assert y.dtype == dtype and torch.equal(y, want.to(dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_a_static_layer_calibrates_and_runs_on_them(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = lt.Linear.from_float(nn.Linear(16, 4)).eval()
    layer.start_calibration()
    layer(torch.randn(32, 16))
    layer.finish_calibration()
    x = torch.randn(3, 16).to(dtype)
    with torch.no_grad():
        assert torch.equal(layer(x), layer(x.float()).to(dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
def test_a_model_of_16_bits_is_quantized_from_its_numbers(recipe: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 8)).to(dtype).eval()
    wide = lt.quantize_(copy.deepcopy(model).float(), recipe)
    small, x = lt.quantize_(model, recipe), torch.randn(3, 32).to(dtype)
    assert small[1].weight.dtype == dtype and isinstance(small[0].weight, QTensor)
    assert torch.equal(small[0].weight.packed, wide[0].weight.packed) and torch.equal(
        small[0].weight.dequantize(), wide[0].weight.dequantize()
    )
    with torch.no_grad():
        assert small(x).dtype == dtype and torch.equal(small[0](x), wide[0](x.float()).to(dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_half_of_a_model_leaves_integers_and_scales_as_they_are(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = lt.quantize_(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)).eval(), "int8-dynamic"), torch.randn(2, 16).to(dtype)
    with torch.no_grad():
        before = model[0](x)
        model.to(dtype)
        assert model[1].weight.dtype == dtype and model[0].bias.dtype == torch.float32 and model[0].weight._scale.dtype == torch.float32
        assert torch.equal(model[0](x), before) and model(x).dtype == dtype


@pytest.mark.parametrize("dtype", HALF)
def test_a_converted_model_takes_them(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    lt.quantize_(model, "int8", data=[torch.randn(8, 16) for _ in range(3)], guard=False)
    x = torch.randn(2, 16).to(dtype)
    with torch.no_grad():
        assert torch.equal(model(x), model(x.float()).to(dtype))
    session = lowbit.compile(lowbit.load(model))
    assert torch.equal(model(x), torch.from_numpy(session(x.float().numpy())).to(dtype))


def test_gradients_pass_in_16_bits() -> None:
    layer, x = lt.quantize_(nn.Linear(8, 4).eval(), "int8-dynamic"), torch.randn(3, 8, dtype=torch.bfloat16, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.bfloat16 and bool(x.grad.any())


def test_autocast_changes_nothing() -> None:
    layer, x = lt.quantize_(nn.Linear(8, 4).eval(), "int8-dynamic"), torch.randn(3, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert torch.equal(y, layer(x))
