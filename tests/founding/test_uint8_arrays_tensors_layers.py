"""uint8 arrays, tensors and layers."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit import LowbitError, PerAxis, QuantParams

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import lowbit.torch as lt  # noqa: E402

X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


# -- arrays and tensors ---------------------------------------------------------------------------------------------------------


def test_quantize_uint8_takes_scale_and_zero_point_positionally() -> None:
    """`x.quantize_uint8(scale, zero_point)` → `lowbit.quantize_uint8`, `lowbit.torch.quantize_uint8`, `lowbit.array(x).quantize_uint8`"""
    want = np.clip(np.rint(X / np.float32(0.02)) + 100, 0, 255)
    for made in (
        lowbit.array(X).quantize_uint8(0.02, 100),
        lowbit.quantize_uint8(X, 0.02, 100),
        lowbit.quantize_uint8(X.tolist(), 0.02, 100),
    ):
        assert isinstance(made, lowbit.QArray) and made.dtype.name == "uint8" and np.array_equal(made.ints, want)
    t = torch.from_numpy(X)
    for q in (lt.quantize_uint8(t, 0.02, 100), lt.quantize_uint8(lt.quantize(t, "int16"), 0.02, 100)):
        assert isinstance(q, lt.QTensor) and q.quant_params == QuantParams("uint8", 0.02, 100)
    assert np.array_equal(lt.quantize_uint8(t, 0.02, 100).ints.numpy(), want)


def test_quantize_int8_takes_scale_and_zero_point_positionally() -> None:
    """`x.quantize_int8(scale, zero_point)` → `lowbit.quantize_int8`, `lowbit.torch.quantize_int8`, `lowbit.array(x).quantize_int8`"""
    want = np.clip(np.rint(X / np.float32(0.02)) - 5, -128, 127)
    for made in (lowbit.array(X).quantize_int8(0.02, -5), lowbit.quantize_int8(X, 0.02, -5)):
        assert np.array_equal(made.ints, want)
    assert np.array_equal(lt.quantize_int8(torch.from_numpy(X), 0.02, -5).ints.numpy(), want)
    assert np.array_equal(lowbit.quantize_int8(X).ints, lowbit.quantize_array(X, "int8").ints)
    per_row = lowbit.quantize_int8(X, np.full(6, 0.05, np.float32), granularity=PerAxis(0))
    assert per_row.quant_params.granularity == PerAxis(0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int4", "uint4", "binary"])
def test_astype_quantizes_and_never_wraps(dtype: str) -> None:
    """`array.astype("uint8")` → `lowbit.array(x).astype`"""
    x = lowbit.array(X * 1000)  # NumPy's own astype would wrap
    made = x.astype(dtype)
    assert isinstance(made, lowbit.QArray) and made.dtype.name == dtype
    assert np.array_equal(made.ints, lowbit.quantize_array(X * 1000, dtype).ints)
    assert made.astype("float32").dtype == np.float32
    assert x.astype("int8", scale=100.0).quant_params == QuantParams("int8", 100.0)


def test_astype_of_other_dtypes_is_numpys_and_refuses_to_wrap() -> None:
    """`array.astype` of a float array never wraps → `lowbit.array(x).astype`"""
    assert lowbit.array(X).astype(np.float64).dtype == np.float64
    assert np.array_equal(lowbit.array(X * 10).astype("int32"), (X * 10).astype(np.int32))
    assert lowbit.array(X).astype("float16", copy=False).dtype == np.float16
    assert lowbit.array(np.zeros((0, 3))).astype("int64").shape == (0, 3)
    for bad in ([1e10], [np.nan], [-np.inf]):
        with pytest.raises(LowbitError, match="they would wrap"):
            lowbit.array(bad).astype("int32")


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_original_dtype(source: str, tmp_path: Path) -> None:
    """`original_dtype` → `lowbit.QArray.original_dtype`, `lowbit.torch.QTensor.original_dtype`"""
    x = X.astype(source)
    q = lowbit.quantize_array(x, "int8")
    q.save(tmp_path / "q")
    for made in (
        q,
        q.T,
        q[1:],
        q.reshape(8, 6),
        q.astype("int4"),
        lowbit.load_array(tmp_path / "q"),
        lowbit.auto_quantize(x),
        copy.deepcopy(q),
    ):
        assert made.original_dtype.name == source
        assert made.astype(made.original_dtype).dtype == x.dtype
    assert lowbit.quantize_array([1, 2, 3]).original_dtype.name == "float32"
    t = lt.quantize(torch.from_numpy(x), "int8")
    kept = io.BytesIO()
    torch.save(t, kept)
    kept.seek(0)
    for same in (
        t,
        t.T,
        t[1:],
        t.reshape(8, 6),
        t.clone(),
        copy.deepcopy(t),
        t.astype("int4"),
        torch.load(kept),
        lt.QTensor.from_qarray(q),
    ):
        assert same.original_dtype == getattr(torch, source)
        assert same.astype(same.original_dtype).dtype == getattr(torch, source)
    assert t.qarray().original_dtype.name == source


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int4", "uint4"])
def test_zeros_full_and_empty(dtype: str) -> None:
    """`empty`, `full`, `zeros` of a shape, dtype and parameters → `lowbit.empty`, `lowbit.full`, `lowbit.zeros`, `lowbit.torch.zeros`"""
    own = QuantParams(dtype, 0.25, 3)
    for module in (lowbit, lt):
        for made, value in (
            (module.zeros((2, 3), dtype), 0.0),
            (module.full((2, 3), 0.75, dtype), 0.75),
            (module.full((2, 3), -2, dtype), -2),
        ):
            assert tuple(made.shape) == (2, 3) and made.quant_params.dtype.name == dtype
            assert made.tolist() == [[value] * 3] * 2
        assert module.zeros((2, 3), params=own).ints.tolist() == [[3] * 3] * 2
        assert module.full(2, 0.3, dtype, own).tolist() == [0.25, 0.25]
        assert module.empty((5, 3), dtype, own).quant_params == own and tuple(module.empty((0, 3)).shape) == (0, 3)
    rows = QuantParams(dtype, np.array([0.5, 1.0], np.float32), None, None, PerAxis(0))
    assert lowbit.full((2, 3), 1.0, params=rows).tolist() == [[1.0] * 3] * 2


def test_quant_params_by_name() -> None:
    """`QuantParams.int8_symmetric()`, `uint8_asymmetric()`, `int4_symmetric()` … → `lowbit.QuantParams.int8_symmetric`"""
    names = [
        "int8_symmetric", "int8_asymmetric", "uint8_symmetric", "uint8_asymmetric", "int4_symmetric", "uint4_asymmetric",
        "int16_symmetric", "binary_symmetric", "int8_logarithmic",
    ]  # fmt: skip
    for name in names:
        made = getattr(QuantParams, name)
        assert (made().dtype.name, made().scheme) == tuple(name.split("_")) and made(0.5).scale == np.float32(0.5)
        assert made(np.full(6, 0.5), granularity=PerAxis(0)).granularity == PerAxis(0)
        assert lowbit.quantize_array(X, params=made(0.5)).dtype.name == name.split("_")[0]
    assert QuantParams.uint8_asymmetric(0.1, 7) == QuantParams("uint8", 0.1, 7)


def wrong_arrays() -> dict[str, tuple[Any, str, str]]:
    x, t = lowbit.array(X), torch.from_numpy(X)
    return {
        "zero point alone": (lambda: x.quantize_uint8(None, 3), "zero_point= needs scale=", "give both"),
        "zero point outside": (lambda: lt.quantize_uint8(t, 0.1, -1), "zero point -1", ""),
        "scale below zero": (lambda: lowbit.quantize_int8(x, -0.1), "not a finite positive float32", ""),
        "dtype twice": (lambda: lowbit.quantize_int8(x, dtype="int4"), "quantize_int8 has its dtype", "lowbit.quantize_array(x, 'int4')"),
        "text": (lambda: lowbit.quantize_int8("abc"), "", ""),
        "no dtype": (lambda: x.astype("int5"), "'int5' is not one of lowbit's", "int4"),
        "copy of a quantized": (lambda: x.astype("int8", copy=False), "astype('int8') quantizes", "x.astype('int8')"),
        "order of a quantized": (lambda: x.astype("uint8", "C"), "astype('uint8') quantizes", "x.astype('uint8')"),
        "scale of a float": (lambda: x.astype("float64", scale=1.0), "scale= is for quantized dtypes", "x.quantize('int8', scale=…)"),
        "wraps": (lambda: (x * 1e12).astype("int32"), "do not fit int32, they would wrap", "np.clip(x, -2147483648, 2147483647)"),
        "shape": (lambda: lowbit.zeros("ab", "int8"), "shape 'ab' is none", "lowbit.zeros((2, 3), 'int8')"),
        "negative": (lambda: lowbit.zeros((2, -1), "int8"), "a size below 0", "sizes from 0 on"),
        "huge": (lambda: lowbit.empty((2**30, 2**30), "int8"), "more than 1,099,511,627,776 elements", "(2, 3)"),
        "float zeros": (lambda: lowbit.zeros(3, "float32"), "float32 is not a quantized dtype", "int8"),
        "nan": (lambda: lowbit.full(3, float("nan"), "int8"), "fill_value=nan, a finite number is needed", "lowbit.full((2, 3), 1.5"),
        "params": (lambda: lowbit.full(3, 1.0, "int8", 0.5), "params is 0.5, QuantParams are needed", "lowbit.QuantParams('int8'"),
        "two dtypes": (lambda: lowbit.zeros(3, "int8", QuantParams("int4", 1.0)), "dtype int8 with parameters of int4", "dtype='int4'"),
        "rows": (lambda: lowbit.zeros(3, params=QuantParams("int8", [1.0, 1.0], None, None, PerAxis(0))), "do not fit", "another axis"),
        "original": (lambda: lowbit.QArray([1], QuantParams("int8", 1.0), original_dtype="float31"), "'float31' is not one", "float32"),
        "named scale": (lambda: QuantParams.int8_symmetric(0.0), "not a finite positive float32", ""),
        "named zero point": (lambda: QuantParams.uint8_asymmetric(1.0, 256), "256", ""),
    }  # fmt: skip


@pytest.mark.parametrize("case", list(wrong_arrays()))
def test_wrong_calls_of_arrays_say_what_to_write(case: str) -> None:
    call, text, hint = wrong_arrays()[case]
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value).partition("Try: ")[2]


# -- layers ---------------------------------------------------------------------------------------------------------------------

LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Linear": (lambda: lt.Linear(12, 5), (7, 12)),
    "Conv1d": (lambda: lt.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
    "Conv2d": (lambda: lt.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 9, 9)),
    "ConvTranspose2d": (lambda: lt.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5)),
    "LSTM": (lambda: lt.LSTM(6, 5), (7, 2, 6)),
    "GRU": (lambda: lt.GRU(6, 5), (7, 2, 6)),
    "MultiheadAttention": (lambda: lt.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8)),
    "Embedding": (lambda: lt.Embedding(20, 6), (2, 3)),
}


def given(name: str) -> Any:
    """A layer and what it is called with."""
    torch.manual_seed(0)
    made, shape = LAYERS[name]
    x = torch.randint(0, 20, shape) if name == "Embedding" else torch.randn(shape)
    return made(), (x, x, x) if name == "MultiheadAttention" else (x,)


def first(y: Any) -> Any:
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", LAYERS)
def test_quantize_weights_then_eval_multiplies_integers(name: str) -> None:
    """`layer.quantize_weights()`, then eval → `lowbit.torch.Linear.quantize_weights`, `lowbit.torch.quantize_weights`"""
    layer, xs = given(name)
    want = first(layer.eval()(*xs)).detach()
    assert layer.quantize_weights() is layer and layer.is_quantized
    assert layer.quant_mode == ("weights" if name == "Embedding" else "dynamic")
    with torch.no_grad():
        got = first(layer(*xs))
    noise = float((got - want).norm() / want.norm())
    assert 0 < noise < 0.02  # 8 bits: about 40 dB
    if name != "Embedding":  # multiplied as floats, the numbers would be others
        with torch.no_grad():
            assert not torch.equal(got, first(layer._real(*xs)))


def test_a_dynamic_convolution_is_the_integers_of_each_image() -> None:
    """Dynamic convolution → `lowbit.torch.Conv2d`"""
    layer, (x,) = given("Conv2d")
    x[1] *= 50
    layer.quantize_weights().eval()
    scale = x.abs().amax((1, 2, 3), keepdim=True) / 127
    sums = torch.nn.functional.conv2d(torch.round(x / scale).double(), layer.weight.ints.double(), None, 2, 1)
    want = sums * torch.from_numpy(layer.weight.quant_params.scale.copy()).reshape(1, -1, 1, 1) * scale + layer.bias.reshape(1, -1, 1, 1)
    assert torch.allclose(layer(x), want.float(), rtol=1e-6, atol=1e-5)
    assert torch.equal(layer(x)[:1], layer(x[:1])) and torch.equal(layer(x[0]), layer(x)[0])
    assert layer(torch.zeros(1, 4, 9, 9)).isfinite().all()


@pytest.mark.parametrize("name", ["Linear", "Conv1d", "Conv2d", "ConvTranspose2d"])
def test_layers_are_static_where_the_observer_has_seen_data(name: str) -> None:
    """Static where the observer has seen data → `lowbit.torch.Linear.start_calibration`"""
    layer, xs = given(name)
    layer.eval().start_calibration()
    want = layer(*xs).detach()
    layer.quantize_weights()
    assert layer.quant_mode == "static" and layer.input_params is not None and layer.output_params is not None
    y = layer(*xs).detach()
    assert torch.equal(lt.quantize(y, params=layer.output_params).dequantize(), y) and float((y - want).norm() / want.norm()) < 0.05
    unseen = given(name)[0].eval().start_calibration().quantize_weights()
    assert unseen.quant_mode == "dynamic" and unseen(*xs).shape == want.shape  # never an error for want of data


@pytest.mark.parametrize("name", LAYERS)
def test_training_is_float32_with_gradients(name: str) -> None:
    """In training float32 with gradients → `lowbit.torch.Linear.train`"""
    layer, xs = given(name)
    before = {n: p for n, p in layer.named_parameters()}
    plain = copy.deepcopy(layer).train()
    layer.quantize_weights().eval()
    layer.train()
    assert {n: id(p) for n, p in layer.named_parameters()} == {n: id(p) for n, p in before.items()}  # an optimizer's own
    torch.manual_seed(1)
    y = first(layer(*xs))
    torch.manual_seed(1)
    assert torch.equal(y, first(plain(*xs))) and y.dtype == torch.float32
    y.square().sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    with torch.no_grad():
        for p in layer.parameters():
            p += 0.5
    layer.eval()
    assert layer.is_quantized and layer.quant_mode == ("weights" if name == "Embedding" else "dynamic")
    assert torch.equal(first(layer(*xs)), first(copy.deepcopy(layer).dequantize_weights().quantize_weights()(*xs)))


def test_quantizing_in_training_mode_trains_on() -> None:
    """quantize_weights while training → `lowbit.torch.Linear.quantize_weights`"""
    layer = lt.Linear(4, 3).quantize_weights()
    assert layer.training and layer.is_quantized
    layer(torch.ones(2, 4)).sum().backward()
    assert layer.weight.grad is not None and layer.eval().is_quantized


@pytest.mark.parametrize("name", LAYERS)
def test_dequantize_weights_gives_back_the_very_float_weights(name: str) -> None:
    """`layer.dequantize_weights()` → `lowbit.torch.Linear.dequantize_weights`, `lowbit.torch.dequantize_weights`"""
    layer, xs = given(name)
    want = first(layer.eval()(*xs))
    before = dict(layer.named_parameters())
    assert layer.quantize_weights().keeps_float
    layer.dequantize_weights()
    assert all(p is before[n] for n, p in layer.named_parameters()) and torch.equal(first(layer(*xs)), want)
    layer.quantize_weights(keep_float=False)
    assert not layer.keeps_float
    layer.dequantize_weights()
    others = dict(layer.named_parameters())
    name_of = layer.weights[0]
    assert others[name_of] is not before[name_of] and torch.allclose(others[name_of], before[name_of], atol=0.02)


def test_quantizing_to_another_dtype_starts_from_the_floats() -> None:
    """quantize_weights of another dtype → `lowbit.torch.Linear.quantize_weights`"""
    torch.manual_seed(0)
    layer = lt.Linear(64, 8).quantize_weights("int4", 32)
    floats = layer._kept.floats["weight"]
    layer.quantize_weights("int8", "channel")
    fresh = lt.quantize(floats.detach(), "int8", scheme="symmetric_restricted", granularity=PerAxis(0))
    assert torch.equal(layer.weight.ints, fresh.ints)


def test_a_saved_file_keeps_integers_only_and_says_so() -> None:
    """A saved file keeps integers only → `lowbit.torch.restore_`"""
    layer, xs = given("Linear")
    layer.quantize_weights().eval()
    state = layer.state_dict()
    assert isinstance(state["weight"], lt.QTensor) and state["_extra_state"]["float weights"] == "not saved, integers only"
    assert not any(isinstance(v, torch.Tensor) and v.shape == (5, 12) and not isinstance(v, lt.QTensor) for v in state.values())
    again = lt.restore_(torch.nn.Linear(12, 5), state)
    assert torch.equal(again(*xs), layer(*xs)) and not again.keeps_float
    with pytest.warns(lowbit.LowbitWarning, match="the file had integers only, its weights are the floats that they stand for"):
        again.dequantize_weights()
    whole = io.BytesIO()
    torch.save(layer, whole)
    whole.seek(0)
    read = torch.load(whole, weights_only=False)
    assert not read.keeps_float and torch.equal(read(*xs), layer(*xs))
    assert copy.deepcopy(layer).keeps_float and "float weights beside" in repr(layer)


def test_a_whole_model_s_layers_decide_by_themselves() -> None:
    """`model.quantize_weights()` → `lowbit.torch.quantize_weights`"""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    before, x = dict(model.named_parameters()), torch.randn(5, 1, 8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    want = model.eval()(x).detach()
    lt.quantize_weights(model)
    assert 0 < float((model(x) - want).norm() / want.norm()) < 0.03
    model.train()(x).square().mean().backward()
    optimizer.step()
    assert float(model.eval()(x).norm()) < float(want.norm())  # what training changed is quantized anew
    lt.dequantize_weights(model)
    assert all(p is before[n] for n, p in model.named_parameters())


def test_quantizable_is_a_flag_that_an_op_of_your_own_can_set(tmp_path: Path) -> None:
    """`quantizable` → `lowbit.Op`"""
    from lowbit.ir.build import Builder
    from lowbit.ir.interp import run
    from lowbit.lower import lower
    from lowbit.ops import q_elementwise
    from lowbit.ops.op import OPS
    from lowbit.ops.quant import QUANTIZABLE

    cube = lowbit.Op("founding_cube", lambda x: x, lambda x: x**3, quantizable=True)
    lowbit.register(cube)
    try:
        b = Builder()
        weight = b.constant(np.eye(8, dtype=np.float32), "w")
        hidden = b.add("linear", b.input("x", lowbit.TensorType((6, 8), "float32")), weight, None, name="fc")
        g = b.finish({"y": b.add("founding_cube", hidden, name="cube")})
        q = lowbit.quantize(g, [{"x": X}], rules=[lowbit.CalibratedQuantRule(".*")])
        integer = lower(q).graph
        assert "q_table" in [n.op for n in integer.nodes] and "founding_cube" not in [n.op for n in integer.nodes]
        assert np.array_equal(lowbit.compile(q)(X), run(integer, {"x": X})["y"])
        import codegen_tools

        emitted = lowbit.emit_c(q, tmp_path / "c", float_io=True, measure=False)
        (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([X], [((6, 8), np.float32)])
        assert np.array_equal(from_c, run(integer, {"x": X})["y"])
        plain = lowbit.Op("founding_plain", lambda x: x, lambda x: x)
        assert not plain.quantizable and "founding_plain" not in QUANTIZABLE
        bad = lowbit.Op("founding_rows", lambda x: x, lambda x: x / np.sum(x), quantizable=True)
        lowbit.register(bad)
        b = Builder()
        g = b.finish({"y": b.add("founding_rows", b.input("x", lowbit.TensorType((6, 8), "float32")))})
        with pytest.raises(LowbitError, match="'founding_rows' is no function of one value"):
            lower(lowbit.quantize(g, [{"x": X}], rules=[lowbit.CalibratedQuantRule(".*")], guard=False))
        with pytest.raises(LowbitError, match="has inputs a, b; quantizable=True is for functions of one value"):
            lowbit.register(lowbit.Op("founding_two", lambda a, b: a, lambda a, b: a, quantizable=True))
    finally:
        for name in ("founding_cube", "founding_rows"):
            OPS.pop(name, None)
            QUANTIZABLE.pop(name, None)
            q_elementwise._TABLES.remove(name)


WRONG_LAYERS = {
    "keep_float": (lambda: lt.Linear(3, 3).quantize_weights(keep_float="no"), "keep_float='no', True or False is needed", ""),
    "dtype": (lambda: lt.Linear(3, 3).quantize_weights("int5"), "'int5' is not one of lowbit's", "int8"),
    "granularity": (lambda: lt.Linear(3, 3).quantize_weights("int8", "row"), "granularity 'row' is none", '"channel"'),
    "static": (lambda: lt.Linear(3, 3).to_mode("static"), "static needs the parameters of its input", "calibrate it, or mode 'dynamic'"),
    "no model": (lambda: lt.quantize_weights([1]), "list given, a torch.nn.Module needed", "lowbit.torch.quantize_weights("),
    "no layers": (lambda: lt.quantize_weights(torch.nn.ReLU()), "no layer whose weights can be quantized", "Linear, Conv1d"),
    "no dtype": (lambda: lt.quantize_weights(torch.nn.Linear(2, 2), 8), "dtype=8, a dtype is needed", 'quantize_weights(model, "int8")'),
    "no tensor": (lambda: lt.dequantize_weights(3), "int given, a torch.nn.Module needed", "dequantize_weights(model)"),
    "float64": (lambda: lt.Linear(3, 3).quantize_weights().eval()(torch.ones(1, 3).double()), "torch.float64 given", "x.float()"),
}


@pytest.mark.parametrize("case", list(WRONG_LAYERS))
def test_wrong_calls_of_layers_say_what_to_write(case: str) -> None:
    call, text, hint = WRONG_LAYERS[case]
    with pytest.raises(LowbitError) as e:
        call()
    assert text in str(e.value) and hint in str(e.value).partition("Try: ")[2]
