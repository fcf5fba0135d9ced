"""The int8 plan with observers, demos and a notebook."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit import LowbitError
from lowbit.ir.build import Builder
from lowbit.lower import lower
from lowbit.types import TensorType

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


# -- observers and calibration functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1000, 3000, 10_000, 30_000])
def test_entropy_observer_is_useful_below_100_000_values(count: int) -> None:
    """Entropy observer with few values → `lowbit.EntropyObserver`"""
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    far = np.concatenate([x, [40, -55]]).astype(np.float32)
    for dtype in ("int8", "int4"):
        lo, hi = lowbit.EntropyObserver().observe(far).range(dtype, "symmetric")
        assert 2 < hi < 8 and -8 < lo < -2  # two outliers do not take the codes of all others
        clean = lowbit.EntropyObserver().observe(x).params(dtype, "symmetric")
        whole = lowbit.MinMaxObserver().observe(x).params(dtype, "symmetric")
        kept, all_of_it = (lowbit.sqnr_db(x, lowbit.quantize_array(x, params=p).dequantize()) for p in (clean, whole))
        assert kept > all_of_it - 1
    halves = lowbit.EntropyObserver().observe(far[::2]) + lowbit.EntropyObserver().observe(far[1::2])
    assert halves.params("int8") == lowbit.EntropyObserver().observe(far).params("int8")


def nine_tenths(values: Any) -> tuple[float, float]:
    """A calibration function: the range of the inner nine tenths."""
    return float(np.quantile(values, 0.05)), float(np.quantile(values, 0.95))


def graph() -> lowbit.Graph:
    rng, b = np.random.default_rng(0), Builder("net")
    x = b.input("x", TensorType((16, 8), "float32"))
    weight = b.constant((rng.standard_normal((4, 8)) / 3).astype(np.float32))
    return b.finish({"y": b.add("linear", x, weight, None, name="fc")})


def test_a_calibration_function_of_your_own(tmp_path: Path) -> None:
    """A user's own calibration function, `calibrate(method=fn)` → `lowbit.calibrate`, `lowbit.register_method`"""
    samples = [{"x": np.random.default_rng(i).uniform(-1, 1, (16, 8)).astype(np.float32)} for i in range(8)]
    record = lowbit.calibrate(graph(), samples, method=nine_tenths)
    lo, hi = record.taps["x"].range("int8")  # type: ignore[union-attr]
    assert abs(float(lo) + 0.9) < 0.05 and abs(float(hi) - 0.9) < 0.05
    name = lowbit.register_method(nine_tenths, "nine tenths")
    assert lowbit.calibrate(graph(), samples, method=name).params("x", "int8") == record.params("x", "int8")
    assert lowbit.calibrate_from_samples([s["x"] for s in samples], "int8", nine_tenths) == record.params("x", "int8")
    record.save(tmp_path / "r.json")
    assert lowbit.CalibrationRecord.load(tmp_path / "r.json").params("x", "int8") == record.params("x", "int8")
    parts = [lowbit.calibrate(graph(), part, method=nine_tenths) for part in (samples[:3], samples[3:])]
    assert (parts[0] + parts[1]).params("x", "int8") == record.params("x", "int8")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        assert lowbit.calibrate(graph(), samples, method=nine_tenths, executor=executor).params("x", "int8") == record.params("x", "int8")
    q = lowbit.quantize(graph(), samples, rules=[lowbit.CalibratedQuantRule(".*")], method=nine_tenths)
    assert "q_linear" in [n.op for n in lower(q).graph.nodes]


@pytest.mark.parametrize(
    ("call", "text", "hint"),
    [
        (lambda: lowbit.register_method(3), "3 cannot be called", "(lo, hi)"),  # type: ignore[arg-type]
        (lambda: lowbit.register_method(nine_tenths, ""), "name='', a text is needed", 'register_method(fn, "mine")'),
        (lambda: lowbit.register_method(nine_tenths, "minmax"), "'minmax' is one of lowbit's methods", "another name"),
        (lambda: lowbit.calibrate_from_samples([[1.0]], "int8", "mine.fn"), "no calibration method 'mine.fn'", "lowbit.register_method"),
        (lambda: lowbit.calibrate_from_samples([[1.0]], "int8", lambda v: 3), "it gave 3, a range (lo, hi) is needed", "values.min()"),
        (lambda: lowbit.calibrate_from_samples([[1.0]], "int8", lambda v: (2, 1)), "it gave (2, 1)", "return float(lo), float(hi)"),
        (lambda: lowbit.calibrate_from_samples([[1.0]], "int8", lambda v: 1 / 0), "ZeroDivisionError", "an array of values"),
        (
            lambda: lowbit.calibrate_from_samples([[1.0]], "int8", nine_tenths, percentile=9),
            "has no option 'percentile'",
            "its options are",
        ),
    ],
)
def test_wrong_calibration_functions_say_what_to_write(call: Any, text: str, hint: str) -> None:
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value).partition("Try: ")[2]
