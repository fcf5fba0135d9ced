"""The Triton kernels in Triton's interpreter, on the host, against lowbit's own arithmetic. Run by test_gpu.py with TRITON_INTERPRET=1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import lowbit
from lowbit.matmul import matmul as int_matmul
from lowbit.numerics import dequantize_with, quantize_with, requantize_with
from lowbit.ops.op import get_op
from lowbit.ops.quantize_rows import quantize_rows as rows_real
from lowbit.torch import Conv1d, Conv2d, Linear, kernels, quantize_
from lowbit.torch.gpu import launch, table
from lowbit.torch.qtensor import QTensor, quantize

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 0.25, -0.25, 0.75, 1.25, 1e-42, -1e-42, 3e38, -3e38, np.inf, -np.inf, np.nan, 63.5, -64.5, 1e-3], np.float32)


def tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(x))


def bits(x: torch.Tensor) -> bytes:
    return x.numpy().tobytes()


@pytest.mark.parametrize(("kind", "store"), [("int8", torch.int8), ("uint8", torch.uint8), ("int4", torch.int8), ("int16", torch.int16)])
def test_quantize_and_dequantize(kind: str, store: torch.dtype) -> None:
    d = lowbit.dtypes.dtype(kind)
    assert d.min is not None and d.max is not None
    x = np.concatenate([SPECIAL, RNG.standard_normal(1500).astype(np.float32) * 20])
    for scale, zero in ((np.float32(0.5), 3), (np.float32(0.1), d.min + 1), (np.float32(0.037), d.max)):
        q = launch.quantize(tensor(x), tensor(scale), tensor(np.int32(zero)), d.min, d.max, store)
        want = quantize_with(x, scale, zero, d)
        assert np.array_equal(q.numpy(), want)
        assert bits(launch.dequantize(q, tensor(scale), tensor(np.int32(zero)))) == dequantize_with(want, scale, zero).tobytes()


def test_each_channel_has_its_scale() -> None:
    x = RNG.standard_normal((3, 5, 7)).astype(np.float32)
    scale, zero = RNG.uniform(0.01, 0.1, 5).astype(np.float32), RNG.integers(-9, 9, 5).astype(np.int32)
    q = launch.quantize(tensor(x), tensor(scale), tensor(zero), -128, 127, axis=1)
    assert np.array_equal(q.numpy(), quantize_with(x, scale[:, None], zero[:, None], "int8"))
    assert (
        bits(launch.dequantize(q, tensor(scale), tensor(zero), axis=1))
        == dequantize_with(q.numpy(), scale[:, None], zero[:, None]).tobytes()
    )


@pytest.mark.parametrize("k", [1, 16, 37, 5000])
def test_rows(k: int) -> None:
    x = RNG.standard_normal((5, k)).astype(np.float32)
    x[1] = 0
    x[2, 0], x[3, 0], x[4, :] = np.nan, np.inf, 1e-44
    q, scale = launch.quantize_rows(tensor(x))
    want, scales = rows_real(x)
    assert np.array_equal(q.numpy(), want)
    assert bits(scale) == np.asarray(scales).reshape(-1).tobytes()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 32, 64), (33, 70, 130), (3, 129, 257)])
@pytest.mark.parametrize("kinds", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("int4", "int4")])
def test_integer_products_have_the_bits_of_lowbits_matmul(m: int, n: int, k: int, kinds: tuple[str, str]) -> None:
    a = lowbit.quantize_array(RNG.standard_normal((m, k)).astype(np.float32), kinds[0], scheme="asymmetric")
    w = lowbit.quantize_array(RNG.standard_normal((n, k)).astype(np.float32), kinds[1], granularity=lowbit.PerAxis(0))
    y = table.product(QTensor.from_qarray(a), QTensor.from_qarray(w))
    assert y is not None
    want = int_matmul(a.ints, a.quant_params, w.ints.T, w.T.quant_params)
    assert bits(y) == np.asarray(want).tobytes()
    bias = RNG.standard_normal(n).astype(np.float32)
    with_bias = table.linear(QTensor.from_qarray(a), QTensor.from_qarray(w), tensor(bias))
    assert with_bias is not None and bits(with_bias) == (want + bias).tobytes()


def test_without_tensor_cores_the_product_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((20, 200), (30, 200)))
    monkeypatch.setattr(launch, "tensor_cores", lambda x: False)
    y = launch.matmul(tensor(a), tensor(b), torch.ones(1), torch.ones(1))
    assert np.array_equal(y.numpy(), (a.astype(np.int64) @ b.astype(np.int64).T).astype(np.float32))


@pytest.fixture
def by_dp4a(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "way", lambda x: "dp4a")


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 32, 64), (33, 70, 130), (3, 129, 257)])
@pytest.mark.parametrize("kinds", [("int8", "int8"), ("uint8", "uint8"), ("int4", "int4")])
def test_dp4a_has_the_bits_of_lowbits_matmul(by_dp4a: None, m: int, n: int, k: int, kinds: tuple[str, str]) -> None:
    a = lowbit.quantize_array(RNG.standard_normal((m, k)).astype(np.float32), kinds[0], scheme="asymmetric")
    w = lowbit.quantize_array(RNG.standard_normal((n, k)).astype(np.float32), kinds[1], granularity=lowbit.PerAxis(0))
    bias = RNG.standard_normal(n).astype(np.float32)
    y = table.product(QTensor.from_qarray(a), QTensor.from_qarray(w), tensor(bias))
    assert y is not None
    assert bits(y) == (np.asarray(int_matmul(a.ints, a.quant_params, w.ints.T, w.T.quant_params)) + bias).tobytes()


@pytest.mark.parametrize("zero", [0, -5])
def test_layers_by_dp4a_are_those_of_graphs(by_dp4a: None, zero: int) -> None:
    x, scale = RNG.standard_normal((18, 99)).astype(np.float32), np.float32(0.031)
    x.flat[: SPECIAL.size] = SPECIAL
    w, m = RNG.integers(-127, 128, (40, 99)).astype(np.int8), RNG.uniform(1e-4, 1e-3, 40).astype(np.float32)
    bias, real_bias = RNG.integers(-9999, 9999, 40).astype(np.int32), RNG.standard_normal(40).astype(np.float32)
    acc = (quantize_with(x, scale, zero, "int8").astype(np.int64) - zero) @ w.astype(np.int64).T
    y = launch.linear_integers(tensor(x), float(scale), zero, tensor(w), tensor(m), tensor(bias), -3, -100, 90)
    assert np.array_equal(y.numpy(), requantize_with(acc + bias, m, -3, "int8", qmin=-100, qmax=90))
    reals = launch.linear_scaled(tensor(x), float(scale), zero, tensor(w), tensor(m), tensor(bias))
    assert bits(reals) == ((acc + bias).astype(np.float32) * m).tobytes()
    static = launch.linear_static(tensor(x), float(scale), zero, tensor(w), tensor(m), tensor(real_bias))
    assert bits(static) == (acc.astype(np.float32) * (scale * m) + real_bias).tobytes()


@pytest.mark.parametrize(("bits_each", "low", "high"), [(4, -8, 8), (8, -128, 128)])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 2), (16, 8, 64), (65, 17, 128), (40, 9, 130)])
def test_fragments_of_the_tensor_cores_are_products_of_matrices(bits_each: int, low: int, high: int, m: int, n: int, k: int) -> None:
    a, b = (RNG.integers(low, high, s).astype(np.int8) for s in ((m, k), (n, k)))
    sa, sb = (RNG.uniform(0.01, 0.1, size).astype(np.float32) for size in (m, n))
    bias = RNG.standard_normal(n).astype(np.float32)

    def stored(q: Any) -> torch.Tensor:
        return tensor(q if bits_each == 8 else (q[:, ::2] & 15 | q[:, 1::2] << 4).astype(np.int8))

    y = launch.matmul_s4(stored(a), stored(b), tensor(sa), tensor(sb), tensor(bias), bits=bits_each)
    acc = a.astype(np.int64) @ b.astype(np.int64).T
    assert bits(y) == (acc.astype(np.float32) * (sa[:, None] * sb) + bias).tobytes()


GEOMETRY = [
    ((1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 2), (2, 0, 1, 3), (2, 1), 2),
    ((1, 1), (1, 1, 1, 1), (1, 1), 6),
]


@pytest.mark.parametrize(("stride", "pads", "dilation", "groups"), GEOMETRY)
@pytest.mark.parametrize("to", ["int8", "float32"])
def test_convolutions_are_those_of_graphs(stride: Any, pads: Any, dilation: Any, groups: int, to: str) -> None:
    x = RNG.standard_normal((2, 6, 9, 7)).astype(np.float32)
    w = RNG.integers(-127, 128, (12, 6 // groups, 3, 3)).astype(np.int8)
    m, bias = RNG.uniform(1e-4, 1e-3, 12).astype(np.float32), RNG.integers(-9999, 9999, 12).astype(np.int32)
    scale, zero = np.float32(0.03), 7
    geometry: dict[str, Any] = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}
    attrs = {"x_zero": zero, "y_zero": -3, "lo": -100, "hi": 90, "to": to, "bound": 1 << 30}
    want = get_op("q_conv").run([quantize_with(x, scale, zero, "int8"), w, m, bias], {**geometry, **attrs})[0]
    y = (-3, -100, 90) if to == "int8" else None
    got = launch.conv_integers(tensor(x), float(scale), zero, tensor(w), tensor(m), tensor(bias), y, **geometry)
    assert bits(got) == want.tobytes()


@pytest.mark.parametrize("zero", [0, -5])
def test_quantizing_on_the_way_is_quantizing_before(zero: int) -> None:
    x, scale = RNG.standard_normal((18, 100)).astype(np.float32), np.float32(0.031)
    x.flat[: SPECIAL.size] = SPECIAL
    w, sw = RNG.integers(-127, 128, (40, 100)).astype(np.int8), RNG.uniform(0.01, 0.1, 40).astype(np.float32)
    bias = RNG.standard_normal(40).astype(np.float32)
    acc = (quantize_with(x, scale, zero, "int8").astype(np.int64) - zero) @ w.astype(np.int64).T
    want = acc.astype(np.float32) * (scale * sw) + bias
    assert bits(launch.linear_static(tensor(x), float(scale), zero, tensor(w), tensor(sw), tensor(bias))) == want.tobytes()


@pytest.mark.parametrize("zero", [0, 7])
def test_the_requantized_layer_is_that_of_graphs(zero: int) -> None:
    q, w = RNG.integers(-128, 128, (18, 100)).astype(np.int8), RNG.integers(-127, 128, (40, 100)).astype(np.int8)
    m, bias = RNG.uniform(1e-4, 1e-3, 40).astype(np.float32), RNG.integers(-9999, 9999, 40).astype(np.int32)
    acc = (q.astype(np.int64) - zero) @ w.astype(np.int64).T + bias
    want = requantize_with(acc, m, -3, "int8", qmin=-100, qmax=90)
    assert np.array_equal(launch.linear_requantized(tensor(q), zero, tensor(w), tensor(m), tensor(bias), -3, -100, 90).numpy(), want)


@pytest.mark.parametrize("size", [32, 64, 128, 256])
@pytest.mark.parametrize("scheme", ["symmetric", "asymmetric"])
def test_four_bit_weights_by_block(size: int, scheme: Any) -> None:
    m, n, k = 5, 40, 160  # the last block of 64 and 128 is shorter, that of 256 the only one
    x = RNG.standard_normal((m, k)).astype(np.float32)
    w = lowbit.quantize_array(RNG.standard_normal((n, k)).astype(np.float32), "int4", scheme=scheme, granularity=lowbit.PerBlock(1, size))
    bias = RNG.standard_normal(n).astype(np.float32)
    q, sx = (np.asarray(v) for v in rows_real(x))
    scale, zero = (np.broadcast_to(v, (n, -(-k // size))) for v in (w.quant_params.scale, w.quant_params.zero_point))
    t, rows = np.zeros((m, n), np.float32), sx.reshape(-1, 1)
    for b in range(-(-k // size)):
        at = slice(b * size, (b + 1) * size)
        acc = q[:, at].astype(np.int64) @ (w.ints[:, at].astype(np.int64) - zero[:, b : b + 1]).T
        t = t + acc.astype(np.float32) * (rows * scale[:, b] if size > k else scale[:, b])
    y = table.linear_rows(tensor(x), QTensor.from_qarray(w), tensor(bias))
    assert y is not None and bits(y) == ((t if size > k else t * rows) + bias).tobytes()
    whole = np.rint(x * 8).astype(np.float32)  # small integers, and scales that are powers of two: sums are exact in any order
    even = lowbit.QArray(w.ints, lowbit.QuantParams("int4", np.exp2(np.rint(np.log2(scale))), zero, scheme, lowbit.PerBlock(1, size)))
    y = table.weight_only(tensor(whole), QTensor.from_qarray(even), None)
    assert y is not None and np.array_equal(
        y.numpy(), (whole.astype(np.float64) @ even.dequantize().astype(np.float64).T).astype(np.float32)
    )


# --- chosen by themselves: with tensors that pass for a GPU's ---


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tensors of the host get the GPU's kernels, in Triton's interpreter; which kernels were launched."""
    launched: list[str] = []
    monkeypatch.setattr(kernels, "kind", lambda t: "cuda")

    def noted(name: str, launcher: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            launched.append(name)
            return launcher(*args, **options)

        return call

    products = ("matmul", "matmul_int4", "matmul_s4", "linear_integers", "linear_scaled", "conv_integers")
    for name in ("quantize", "dequantize", "quantize_rows", *products):
        monkeypatch.setattr(launch, name, noted(name, getattr(launch, name)))
    return launched


@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "int16"])
@pytest.mark.parametrize("granularity", [lowbit.PerTensor(), lowbit.PerAxis(0), lowbit.PerAxis(1)])
def test_tensors_are_quantized_and_dequantized_by_the_kernels(on_gpu: list[str], kind: str, granularity: Any) -> None:
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    want = lowbit.quantize_array(x, kind, scheme="asymmetric", granularity=granularity)
    q = quantize(tensor(x), kind, scheme="asymmetric", granularity=granularity)
    assert np.array_equal(q.ints.numpy(), want.ints) and bits(q.dequantize()) == np.asarray(want.dequantize()).tobytes()
    assert on_gpu == ["quantize", "dequantize"]


def test_products_of_tensors_are_the_kernels(on_gpu: list[str]) -> None:
    a, b = (quantize(tensor(RNG.standard_normal((6, 6)).astype(np.float32)), "int8") for _ in range(2))
    on_gpu.clear()
    y, z = a @ b, torch.nn.functional.linear(a, b)
    assert on_gpu == ["matmul", "matmul"]
    assert np.array_equal(y.numpy(), np.asarray(a.qarray() @ b.qarray())) and np.array_equal(
        z.numpy(), np.asarray(a.qarray() @ b.qarray().T)
    )


def test_products_of_symmetric_int4_are_those_of_the_tensor_cores(on_gpu: list[str]) -> None:
    a = quantize(tensor(RNG.standard_normal((19, 34)).astype(np.float32)), "int4")
    w = quantize(tensor(RNG.standard_normal((9, 34)).astype(np.float32)), "int4", granularity=lowbit.PerAxis(0))
    on_gpu.clear()
    y = torch.nn.functional.linear(a, w)
    assert on_gpu == ["matmul_s4"] and np.array_equal(y.numpy(), np.asarray(a.qarray() @ w.qarray().T))


@pytest.mark.parametrize("reals", [False, True])
def test_static_layers_are_integers_with_the_bits_of_the_cpu(on_gpu: list[str], monkeypatch: pytest.MonkeyPatch, reals: bool) -> None:
    layer = static_layer()
    if reals:
        layer.output_params = None
    x = tensor(RNG.standard_normal((2, 9, 40)).astype(np.float32))
    with torch.no_grad():
        y = layer(x)
        assert on_gpu == (["linear_scaled"] if reals else ["linear_integers", "dequantize"])
        layer(x)  # its constants are there already
        monkeypatch.setattr(kernels, "kind", lambda t: t.device.type)
        assert torch.equal(y, layer(x))


def static_layer() -> Linear:
    torch.manual_seed(0)
    layer = Linear.from_float(torch.nn.Linear(40, 24)).eval()
    with pytest.MonkeyPatch.context() as host:
        host.setattr(kernels, "kind", lambda t: "cpu")
        layer.start_calibration()
        layer(torch.randn(64, 40))
        layer.finish_calibration()
    return layer


@pytest.mark.parametrize("made", [torch.nn.Conv2d(4, 6, 3, padding=1, groups=2), torch.nn.Conv1d(4, 6, 5, stride=2, padding=2)])
@pytest.mark.parametrize("reals", [False, True])
def test_static_convolutions_are_integers_with_the_bits_of_the_cpu(
    on_gpu: list[str], monkeypatch: pytest.MonkeyPatch, made: torch.nn.Module, reals: bool
) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, *[9] * (1 if isinstance(made, torch.nn.Conv1d) else 2))
    with pytest.MonkeyPatch.context() as host:
        host.setattr(kernels, "kind", lambda t: "cpu")
        layer: Any = prepared(made)
        layer.start_calibration()
        layer(x)
        layer.finish_calibration()
    if reals:
        layer.output_params = None
    with torch.no_grad():
        y, one = layer(x), layer(x[0])
        assert on_gpu == (["conv_integers", "quantize"] if reals else ["conv_integers", "quantize", "dequantize"]) * 2
        monkeypatch.setattr(kernels, "kind", lambda t: t.device.type)
        assert torch.equal(y, layer(x)) and torch.equal(one, layer(x[0]))


def prepared(made: torch.nn.Module) -> Any:
    """A convolution of lowbit's, with the weights of torch's."""
    kind = Conv1d if isinstance(made, torch.nn.Conv1d) else Conv2d
    return kind.from_float(made).eval()


def test_a_static_layer_follows_its_parameters(on_gpu: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = static_layer(), torch.randn(3, 40)
    with torch.no_grad():
        layer(x)
        assert layer.bias is not None
        layer.bias.add_(0.5)
        y = layer(x)
        monkeypatch.setattr(kernels, "kind", lambda t: t.device.type)
        assert torch.equal(y, layer(x))


@pytest.mark.parametrize(("recipe", "launches"), [("int8-dynamic", ["quantize_rows", "matmul"]), ("int4-weights", ["matmul_int4"])])
def test_modules_find_the_kernels(on_gpu: list[str], recipe: str, launches: list[str]) -> None:
    layer = quantize_(torch.nn.Linear(64, 24).eval(), recipe)
    on_gpu.clear()
    with torch.no_grad():
        y = layer(torch.randn(5, 64))
    assert on_gpu == launches and y.shape == (5, 24)


def test_nothing_is_nothing() -> None:
    none = torch.empty(0, 8, dtype=torch.int8)
    assert launch.matmul(none, torch.ones(3, 8, dtype=torch.int8), torch.ones(1), torch.ones(1)).shape == (0, 3)
    assert launch.quantize(torch.empty(0), torch.ones(1), torch.zeros(1), -128, 127).shape == (0,)
