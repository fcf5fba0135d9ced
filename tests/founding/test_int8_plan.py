"""The int8 plan with observers, demos and a notebook."""

from __future__ import annotations

from typing import Any

import pytest

import lowbit
from lowbit import LowbitError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import lowbit.torch as lt  # noqa: E402


def net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()


def loader() -> Any:
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.zeros(64))
    return torch.utils.data.DataLoader(data, batch_size=16)


def test_calibrate_model_loader_in_one_call() -> None:
    """`calibrate(model, loader)` → `lowbit.torch.calibrate`"""
    model, plain = net(), net()
    assert lt.calibrate(model, loader()) is model  # prepared by it: no quantize_ before
    x = torch.randn(8, 6)
    assert torch.equal(model(x), plain(x))  # calibration computes in float
    lt.convert(model)
    assert model[0].quant_mode == "static" and 0 < float((model(x) - plain(x)).detach().norm() / plain(x).detach().norm()) < 0.05
    three = lt.quantize_(net(), "int8")
    lt.convert(lt.calibrate(three, loader()))
    assert torch.equal(three(x), model(x))


def test_calibrate_prepares_by_a_recipe_and_takes_more_data() -> None:
    """`calibrate` again, and by another recipe → `lowbit.torch.calibrate`"""
    model = lt.calibrate(net(), loader(), recipe="w4a8", method="percentile")
    lt.calibrate(model, [torch.randn(4, 6)])
    lt.convert(model)
    assert model[0].weight.quant_params.dtype.bits <= 8 and model[0].quant_mode == "static"


WRONG = {
    "no model": (lambda: lt.calibrate(3, []), "int given, a torch.nn.Module needed", "lowbit.calibrate takes graphs"),
    "no data": (lambda: lt.calibrate(net(), []), "there is no data to calibrate with", "an iterable of batches"),
    "no iterable": (lambda: lt.calibrate(net(), 5), "data is 5", "batches as the model takes them"),
    "wrong size": (lambda: lt.calibrate(net(), [torch.ones(2, 7)]), "the model does not take it", "batches as forward takes them"),
    "no recipe": (lambda: lt.calibrate(net(), loader(), recipe="int9"), "there is no recipe 'int9'", ""),
    "dynamic": (lambda: lt.calibrate(net(), loader(), recipe="int8-dynamic"), "has no static layers", "quantize_(model, 'int8-dynamic')"),
    "too late": (lambda: lt.calibrate(lt.quantize_(net()), loader(), recipe="int8"), "is prepared already", "calibrate(model, data)"),
    "static": (lambda: lt.calibrate(lt.quantize_(net(), data=loader()), loader()), "the model is static already", "dequantize_(model)"),
    "a module as a graph": (lambda: lowbit.calibrate(net(), loader()), "Sequential", "lowbit.torch.calibrate(model, data)"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_calibrations_say_what_to_write(case: str) -> None:
    call, text, hint = WRONG[case]
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value).partition("Try: ")[2]
