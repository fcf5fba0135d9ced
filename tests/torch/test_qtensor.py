"""QTensor: a torch tensor with the numbers of a QArray."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit import PerAxis, PerBlock, PerTensor
from lowbit.errors import QuantError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from lowbit.torch import QTensor, quantize, quantize_int8, quantize_uint8  # noqa: E402

DTYPES = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "binary")
GRAINS = (PerTensor(), PerAxis(0), PerAxis(-1), PerBlock(1, 4))


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def pairs() -> list[Any]:
    return [(d, g) for d in DTYPES for g in GRAINS]


@pytest.mark.parametrize(("dtype", "grain"), pairs(), ids=str)
def test_numbers_and_bytes_are_those_of_a_qarray(dtype: str, grain: Any) -> None:
    x = values(5, 11)
    t, a = quantize(x, dtype, granularity=grain), lowbit.quantize_array(x.numpy(), dtype, granularity=grain)
    assert t.quant_params == a.quant_params
    assert np.array_equal(t.ints.numpy(), a.ints)
    assert np.array_equal(t.packed.reshape(-1).numpy(), a.packed.reshape(-1))
    assert t.dequantize().numpy().tobytes() == a.dequantize().tobytes()
    assert QTensor.from_qarray(a).qarray().dequantize().tobytes() == a.dequantize().tobytes()


def test_logarithmic_numbers_are_those_of_a_qarray() -> None:
    x = values(4, 4)
    t, a = quantize(x, "int4", scheme="logarithmic"), lowbit.quantize_array(x.numpy(), "int4", scheme="logarithmic")
    assert t.dequantize().numpy().tobytes() == a.dequantize().tobytes()


def test_short_names_and_own_scales() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, float("nan"), float("inf")])
    assert quantize_uint8(x, scale=0.5, zero_point=3).ints.tolist() == [3, 5, 7, 3, 255]
    assert quantize_int8(x, scale=torch.tensor(0.5)).ints.tolist() == [0, 2, 4, 0, 127]
    p = lowbit.QuantParams("int8", 0.25)
    assert quantize(x, params=p).quant_params is p


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zero_point": 1}, "zero_point= needs scale="),
        ({"params": lowbit.QuantParams("int8", 1.0), "scheme": "symmetric"}, "params= already has"),
        ({"params": lowbit.QuantParams("int8", 1.0), "dtype": "uint8"}, "dtype uint8 with parameters of int8"),
        ({"params": 3}, "params= is int"),
        ({"dtype": "int8", "scale": [1.0, 2.0], "granularity": PerAxis(0)}, "do not fit an array of shape"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantError, match=message):
        quantize(values(3, 3), **given)


VIEWS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda t: t.T, lambda a: a.T),
    (lambda t: t.permute(1, 0), lambda a: a.transpose(1, 0)),
    (lambda t: t.transpose(-1, 0), lambda a: a.transpose(1, 0)),
    (lambda t: t[1:3], lambda a: a[1:3]),
    (lambda t: t[:, 4:8], lambda a: a[:, 4:8]),
    (lambda t: t[2], lambda a: a[2]),
    (lambda t: t[-1, 3], lambda a: a[-1, 3]),
    (lambda t: t[None], lambda a: a[None]),
    (lambda t: t.unsqueeze(2), lambda a: a[:, :, None]),
    (lambda t: t[torch.tensor([2, 0])], lambda a: a[np.array([2, 0])]),
    (lambda t: t[None].squeeze(0), lambda a: a[None][0]),
    (lambda t: t.unbind(0)[1], lambda a: a[1]),
    (lambda t: t.chunk(2, 0)[1], lambda a: a[2:4]),
    (lambda t: t.narrow(0, 1, 2), lambda a: a[1:3]),
    (lambda t: t.T.contiguous(), lambda a: a.T),
    (lambda t: t.clone(), lambda a: a),
    (lambda t: t.detach(), lambda a: a),
]


@pytest.mark.parametrize(("dtype", "grain"), pairs(), ids=str)
def test_views_keep_their_parameters_as_those_of_a_qarray_do(dtype: str, grain: Any) -> None:
    x = values(4, 8)
    t, a = quantize(x, dtype, granularity=grain), lowbit.quantize_array(x.numpy(), dtype, granularity=grain)
    for of_tensor, of_array in VIEWS:
        seen, wanted = of_tensor(t), of_array(a)
        assert isinstance(seen, QTensor)
        assert seen.dequantize().numpy().tobytes() == wanted.dequantize().tobytes()
        assert seen.quant_params == wanted.quant_params


def test_reshape_follows_the_laws_of_qarray() -> None:
    x = values(4, 6)
    one = quantize_int8(x)
    assert one.reshape(2, 12).view(-1).dequantize().equal(one.dequantize().reshape(-1))
    rows = quantize_int8(x, granularity=PerAxis(0))
    assert rows.reshape(4, 2, 3).quant_params.granularity == PerAxis(0)
    assert rows.flatten(1).dequantize().equal(rows.dequantize())
    with pytest.raises(QuantError, match="cuts through the scales"):
        rows.reshape(24)
    assert rows.expand(2, 4, 6).quant_params.granularity == PerAxis(1)
    assert rows.T.reshape(2, 3, 4).dequantize().equal(rows.dequantize().T.reshape(2, 3, 4))


def test_two_quantized_matrices_multiply_in_integers() -> None:
    a, b = values(3, 5, 7), values(7, 4, seed=1)
    for da, db, grain in (("int8", "int8", PerTensor()), ("uint8", "int8", PerAxis(1)), ("int16", "int4", PerBlock(0, 3))):
        ta, tb = quantize(a, da), quantize(b, db, granularity=grain)
        wanted = ta.qarray() @ tb.qarray()
        for y in (ta @ tb, torch.matmul(ta, tb), ta.matmul(tb)):
            assert type(y) is torch.Tensor and y.numpy().tobytes() == wanted.tobytes()
    q = quantize_int8(a[0])
    assert torch.mm(q, q.T).numpy().tobytes() == (q.qarray() @ q.qarray().T).tobytes()
    assert (q @ q[0]).numpy().tobytes() == (q.qarray() @ q.qarray()[0]).tobytes()


def test_what_has_no_integer_product_is_dequantized() -> None:
    a, b = quantize(values(3, 4), "int4", scheme="logarithmic"), quantize_int8(values(4, 2))
    assert (a @ b).equal(a.dequantize() @ b.dequantize())
    assert (a @ values(4, 2)).equal(a.dequantize() @ values(4, 2))


def test_linear_of_quantized_operands_is_the_integer_product_and_the_bias() -> None:
    x, w, bias = quantize_uint8(values(2, 3, 8)), quantize_int8(values(5, 8), granularity=PerAxis(0)), values(5)
    wanted = (x.qarray() @ w.qarray().T) + bias.numpy()
    assert F.linear(x, w, bias).numpy().tobytes() == wanted.tobytes()


def test_conv2d_of_quantized_operands_is_exact() -> None:
    x, w = quantize_uint8(values(2, 6, 7, 7)), quantize_int8(values(4, 3, 3, 3), granularity=PerAxis(0))
    y = F.conv2d(x, w, None, stride=2, padding=1, groups=2)
    exact = F.conv2d(
        (x.ints.double() - int(x.quant_params.zero_point)), w.ints.double(), None, stride=2, padding=1, groups=2
    )  # integers below 2^53
    scale = x.quant_params.scale * w.quant_params.scale
    assert y.numpy().tobytes() == (exact.numpy().astype(np.float32) * scale.reshape(-1, 1, 1)).tobytes()
    bias = values(4)
    assert F.conv2d(x, w, bias, stride=2, padding=1, groups=2).equal(y + bias.reshape(-1, 1, 1))


def test_other_operations_see_the_dequantized_tensor() -> None:
    q = quantize_int8(values(3, 4))
    x = q.dequantize()
    for f in (
        lambda t: t + 1,
        torch.relu,
        lambda t: t.sum(0),
        torch.softmax,
        lambda t: torch.cat([t, t]),
        lambda t: 2 * t,
        lambda t: t > 0,
    ):
        args = (-1,) if f is torch.softmax else ()
        y = f(q, *args)
        assert type(y) is torch.Tensor and y.equal(f(x, *args))
    assert q.to(torch.float16).equal(x.half())
    assert q.tolist() == x.tolist() and np.array_equal(q.numpy(), x.numpy())
    assert float(q[0, 0]) == float(x[0, 0])


def test_embedding_dequantizes_only_the_rows_it_needs() -> None:
    table = quantize(values(10, 6), "int4", granularity=PerAxis(0))
    index = torch.tensor([[1, 9], [0, 1]])
    assert F.embedding(index, table).equal(table.dequantize()[index])


@pytest.mark.parametrize("write", [lambda q: q.add_(1), lambda q: q.__setitem__(0, 1.0), lambda q: q.zero_(), lambda q: q[0].fill_(2)])
def test_writing_into_one_is_refused(write: Any) -> None:
    q = quantize_int8(values(3, 4))
    before = q.dequantize()
    with pytest.raises(QuantError, match="would write into a QTensor, which does not change") as e:
        write(q)
    assert "quantize again" in str(e.value)
    assert q.dequantize().equal(before)


def test_a_float_cannot_be_copied_into_one_and_it_has_no_gradient() -> None:
    q = quantize_int8(values(3, 4))
    with pytest.raises(QuantError, match="copy_ of a float tensor"):
        q.copy_(values(3, 4))
    with pytest.raises(QuantError, match="integers have no slope"):
        q.requires_grad_()
    x = torch.zeros(3, 4)
    x.add_(q)  # but it may be read
    assert x.equal(q.dequantize())


def test_astype_requantizes_with_one_rounding() -> None:
    q = quantize(values(4, 8), "int8", granularity=PerAxis(0))
    a = q.qarray()
    for d in ("uint8", "int4", "int16"):
        made = q.astype(d)
        assert isinstance(made, QTensor) and np.array_equal(made.ints.numpy(), a.astype(d).ints)
    assert q.astype("int8") is q
    assert q.astype(torch.float64).dtype == torch.float64 and q.astype("float32").equal(q.dequantize())
    with pytest.raises(QuantError, match=r"astype\(int8\) with parameters of uint8"):
        q.astype("int8", params=lowbit.QuantParams("uint8", 1.0))


BY_ROWS = PerAxis(0)


def layer(dtype: str = "int8", grain: Any = BY_ROWS) -> nn.Linear:
    made = nn.Linear(8, 4)
    made.weight = nn.Parameter(quantize(values(4, 8), dtype, granularity=grain), requires_grad=False)
    return made


@pytest.mark.parametrize(("dtype", "grain"), [("int8", PerAxis(0)), ("int4", PerBlock(1, 4)), ("uint8", PerTensor())], ids=str)
def test_state_dicts_files_and_copies_keep_the_numbers(dtype: str, grain: Any) -> None:
    m = layer(dtype, grain)
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other = layer(dtype, grain)
    other.weight = nn.Parameter(quantize(values(4, 8, seed=3), dtype, granularity=grain), requires_grad=False)
    other.load_state_dict(state)
    for again in (state["weight"], other.weight, copy.deepcopy(m).weight, m.to("cpu").weight):
        assert isinstance(again, QTensor)
        assert again.quant_params == m.weight.quant_params and again.packed.equal(m.weight.packed)
    assert isinstance(copy.deepcopy(m).weight, nn.Parameter)
    on_meta = copy.deepcopy(m).to("meta").weight
    assert isinstance(on_meta, QTensor) and on_meta.device.type == "meta" and on_meta.packed.dtype == m.weight.packed.dtype
    x = values(2, 8)
    assert other(x).shape == (2, 4) and copy.deepcopy(m)(x).equal(m(x))


def test_a_copy_has_memory_of_its_own() -> None:
    q = quantize_int8(values(3, 4))
    assert copy.deepcopy(q).packed.data_ptr() != q.packed.data_ptr()
    both = copy.deepcopy([q, q])
    assert both[0] is both[1]


def test_gradients_flow_through_frozen_quantized_weights_to_what_is_before_them() -> None:
    m = layer()
    down, up = nn.Linear(8, 2, bias=False), nn.Linear(2, 4, bias=False)  # an adapter beside the frozen layer
    x = values(3, 8).requires_grad_()
    (m(x) + up(down(x))).square().sum().backward()
    plain = nn.Linear(8, 4)
    plain.load_state_dict({"weight": m.weight.dequantize(), "bias": m.bias.detach()})
    y = values(3, 8).requires_grad_()
    (plain(y) + up(down(y))).square().sum().backward()
    assert torch.allclose(x.grad, y.grad) and x.grad.abs().sum() > 0
    assert m.weight.grad is None and up.weight.grad is not None


def test_compiled_modules_with_quantized_weights_give_what_eager_ones_give() -> None:
    m = nn.Sequential(layer(), nn.ReLU()).eval()
    x = values(3, 8)
    assert torch.allclose(torch.compile(m, backend="aot_eager")(x), m(x), atol=1e-6)


@pytest.mark.parametrize(("shape", "axis"), [((3, 64), 1), ((64, 5), 0), ((2, 64, 3), -2), ((3, 70), 1)])
@pytest.mark.parametrize("scheme", ["symmetric", "asymmetric"])
def test_blocks_that_are_whole_and_blocks_that_are_not_have_the_bits_of_qarray(shape: tuple[int, ...], axis: int, scheme: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    q = lowbit.quantize_array(x, "int4", scheme=scheme, granularity=lowbit.PerBlock(axis, 32))
    assert QTensor.from_qarray(q).dequantize().numpy().tobytes() == np.asarray(q.dequantize()).tobytes()


@pytest.mark.parametrize("granularity", [lowbit.PerTensor(), lowbit.PerAxis(0), lowbit.PerBlock(1, 8)])
def test_a_packed_weight_is_unpacked_once_for_all_products(granularity: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, w = quantize_int8(torch.randn(3, 16)), quantize(torch.randn(5, 16), "int4", granularity=granularity)
    y = F.linear(x, w)
    assert torch.equal(y, x @ w.t())
    with monkeypatch.context() as m:
        m.setattr(QTensor, "t", lambda _: pytest.fail("transposed and packed again"))
        assert torch.equal(F.linear(x, w), y)
    other = quantize(torch.randn(5, 16), "int4", granularity=granularity)
    w.copy_(other)
    assert torch.equal(F.linear(x, w), F.linear(x, other)) and not torch.equal(F.linear(x, w), y)
