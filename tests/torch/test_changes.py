"""Constants that change after quantization: what a module computes is what it holds now."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import pytest

import lowbit
from lowbit.errors import DTypeError, InputError, LowbitWarning, QuantError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import lowbit.torch as lt  # noqa: E402
from lowbit import CalibratedQuantRule, FloatRule, PerAxis  # noqa: E402
from lowbit.torch import quantize, quantize_int8  # noqa: E402
from lowbit.torch.layer import mark  # noqa: E402


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


@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
def test_numbers_copied_in_inference_mode_are_the_ones_that_are_multiplied(recipe: str) -> None:
    with torch.inference_mode():  # tensors that are made here have no versions
        m, other = (lt.quantize_(nn.Sequential(nn.Linear(32, 16, bias=False)).eval(), recipe) for _ in range(2))
        x = torch.randn(3, 32)
        before, want = m(x), other(x)
        for mine, theirs in zip(m.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)
        assert torch.equal(m(x), want) and not torch.equal(want, before)
        m.load_state_dict(lt.quantize_(nn.Sequential(nn.Linear(32, 16, bias=False)).eval(), recipe).state_dict())
        assert not torch.equal(m(x), want)


def test_in_inference_mode_all_that_share_memory_see_what_is_copied_into_it() -> None:
    with torch.inference_mode():
        w, other = (quantize(s * torch.randn(4, 8), "int8", granularity=PerAxis(0)) for s in (1, 5))
        x, alias, turned = quantize_int8(torch.randn(2, 8)), w.detach(), w.t()
        F.linear(x, alias), alias.quant_params, turned.quant_params
        w.copy_(other)
        assert torch.equal(F.linear(x, alias), F.linear(x, other)) and torch.equal(x @ turned, F.linear(x, other))
        assert alias.quant_params == other.quant_params and turned.quant_params == other.t().quant_params


@pytest.mark.parametrize("inference", [False, True])
def test_a_converted_model_of_inference_mode_notices_what_is_copied_into_it(inference: bool) -> None:
    with torch.inference_mode(inference):
        m, other = converted(), converted()
    with torch.inference_mode():
        x = torch.randn(3, 8)
        before = m(x)
        m[0].weight.copy_(other[0].weight)
        with pytest.warns(LowbitWarning, match="'0.weight' has other numbers"):
            after = m(x)
        assert not torch.equal(after, before)


def test_a_bias_on_another_device_is_not_copied_to_be_compared(monkeypatch: Any) -> None:
    q = lt.modules.Linear(8, 4, device="meta")
    bias, copied = q.bias, []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda t: copied.append(t) or torch.zeros(t.shape))
    first = mark(bias)
    assert mark(bias) == first and not copied
    with torch.no_grad():
        bias.add_(1)
    assert mark(bias) != first and mark(nn.Parameter(bias.detach())) != mark(bias) and not copied


def test_a_bias_of_inference_mode_on_another_device_is_compared_by_its_numbers(monkeypatch: Any) -> None:
    with torch.inference_mode():  # no version tells what is written into it
        bias = torch.zeros(4, device="meta")
        monkeypatch.setattr(torch.Tensor, "cpu", lambda t: torch.arange(4.0))
        assert mark(bias) == torch.arange(4.0).numpy().tobytes()


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


# --- a converted model: its graph, as long as it is what the graph was made from ---


def converted() -> Any:
    rules = [FloatRule("2"), CalibratedQuantRule(".*")]
    return lt.quantize_(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), rules, data=[torch.randn(16, 8)])


class Adapter(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base, self.scale = base, nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any) -> Any:
        return self.base(x) * self.scale


def train_head(m: Any) -> None:
    m[2].bias.add_(10)


def replace_data(m: Any) -> None:
    m[2].bias.data = m[2].bias.data + 10


def write_data(m: Any) -> None:
    m[2].bias.data.fill_(3)  # which no version counts


def wrap(m: Any) -> None:
    m[2] = Adapter(m[2])


def of_another_mode(m: Any) -> None:
    m[0].dequantize_weights()


CHANGES = [
    (train_head, "'2.bias' has other numbers"),
    (replace_data, "'2.bias' has other numbers"),
    (write_data, "'2.bias' has other numbers"),
    (wrap, "'2' is Adapter, and was Linear"),
    (of_another_mode, "'0' is Linear float, and was Linear static"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=[c.__name__ for c, _ in CHANGES])
@torch.no_grad()
def test_a_converted_model_that_changed_runs_its_modules_and_says_why_once(change: Any, said: str) -> None:
    m, x = converted(), torch.randn(3, 8)
    m(x)
    change(m)
    with pytest.warns(LowbitWarning, match=said) as seen:
        y = m(x)
    assert len(seen) == 1 and "quantize_(model" in str(seen[0].message)
    assert torch.equal(y, nn.Sequential.forward(m, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(m(x), y)
    with pytest.raises(InputError, match=said):  # nor is the old graph what ships
        lowbit.load(m)
    again = lt.quantize_(m, "int8", data=[torch.randn(16, 8)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again(x)


@torch.no_grad()
def test_hooks_on_layers_are_called_by_the_modules_and_the_graph_runs_again_without_them() -> None:
    m, x, seen = converted(), torch.randn(3, 8), []
    y = m(x)
    whole = m.register_forward_hook(lambda *_: seen.append("whole"))  # the root's own needs no module to run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(m(x), y) and seen == ["whole"]
    whole.remove()
    hook = m[0].register_forward_hook(lambda *_: seen.append("layer"))
    with pytest.warns(LowbitWarning, match="'0' has a hook, which sees its forward"):
        m(x)
    assert seen == ["whole", "layer"]
    assert lowbit.load(m).nodes  # it is what ships
    hook.remove()
    assert torch.equal(m(x), y) and seen == ["whole", "layer"]


@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_float_state_is_not_put_into_a_quantized_layer(recipe: str, strict: bool) -> None:
    m, x = lt.quantize_(nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 32)).eval(), recipe), torch.randn(3, 32)
    y, state = m(x), nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 32)).state_dict()
    with pytest.raises(InputError, match="the state holds a float 'weight', the layer is quantized") as e:
        m.load_state_dict(state, strict=strict)
    assert e.value.where == "0" and e.value.hint == "load it into the float model and quantize_ that, or dequantize_(model) first"
    assert torch.equal(m(x), y)


@pytest.mark.parametrize("make", [lambda: nn.LSTM(8, 8), lambda: nn.MultiheadAttention(8, 2), lambda: nn.Conv2d(3, 4, 3)])
def test_nor_into_any_other(make: Any) -> None:
    m = lt.quantize_(make().eval(), "int8-dynamic")
    with pytest.raises(InputError, match="the state holds a float"):
        m.load_state_dict(make().state_dict(), strict=False)


@torch.no_grad()
def test_a_change_is_seen_in_copies_and_after_a_file() -> None:
    m, x = converted(), torch.randn(3, 8)
    fresh = copy.deepcopy(m)  # changed before it ever ran
    for each in (m, fresh):
        train_head(each)
        with pytest.warns(LowbitWarning, match="'2.bias' has other numbers"):
            each(x)
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    other = lt.restore_(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.load(file, weights_only=True))
    with pytest.warns(LowbitWarning, match="'2.bias' has other numbers"):
        assert torch.equal(other(x), m(x))


@torch.no_grad()
def test_what_moves_a_converted_model_and_leaves_its_numbers_leaves_its_graph() -> None:
    m, x = converted(), torch.randn(3, 8)
    y = m(x)
    moves: list[Any] = [
        lambda: m.float(), lambda: m.to("cpu"), lambda: m.share_memory(), lambda: m.requires_grad_(False), lambda: m.train().eval(),
        lambda: m.load_state_dict(m.state_dict()), lambda: m[2].bias.add_(0), lambda: m.zero_grad(),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for move in moves:
            move()
            assert torch.equal(m(x), y)
        assert torch.equal(copy.deepcopy(m)(x), y)


def test_shared_memory_is_the_memory_of_the_integers() -> None:
    q = quantize_int8(torch.randn(4, 4))
    assert not q.is_shared()
    assert q.share_memory_() is q and q.is_shared() and q.packed.is_shared()
    m = lt.quantize_(nn.Sequential(nn.Linear(8, 8)), "int8-dynamic").eval()
    x = torch.randn(2, 8)
    y = m(x)
    assert torch.equal(m.share_memory()(x), y) and m[0].weight.is_shared()


# --- gradients, dtypes, arguments ---


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_gradient_reaches_the_first_state(kind: Any) -> None:
    m = lt.quantize_(kind(4, 4), "int8-dynamic").eval()
    h = torch.zeros(1, 2, 4, requires_grad=True)
    m(torch.randn(3, 2, 4), (h, torch.zeros(1, 2, 4)) if kind is nn.LSTM else h)[0].sum().backward()
    assert h.grad is not None and bool(h.grad.any())


def test_a_gradient_reaches_a_mask_of_attention() -> None:
    m = lt.quantize_(nn.MultiheadAttention(8, 2), "int8-dynamic").eval()
    mask, x = torch.zeros(3, 3, requires_grad=True), torch.randn(3, 2, 8)
    m(x, x, x, attn_mask=mask)[0].square().sum().backward()
    assert mask.grad is not None and bool(mask.grad.any())


def test_a_gradient_that_passes_an_integer_layer_reaches_its_bias() -> None:
    m = lt.quantize_(nn.Linear(8, 4), "int8-dynamic").eval()
    m(torch.randn(5, 8, requires_grad=True)).sum().backward()
    assert m.bias.grad.tolist() == [5.0] * 4


@pytest.mark.parametrize(("dtype", "recipe"), [(torch.float64, "int8-dynamic"), (torch.float16, "int8"), (torch.bfloat16, "int8")])
def test_other_floats_are_refused_where_they_have_no_place(dtype: Any, recipe: str) -> None:
    """Static models are exported, which takes float32; no layer takes float64."""
    m = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8).to(dtype))
    with pytest.raises(DTypeError, match=r"its parameters are torch\..*float32 is needed") as e:
        lt.quantize_(m, recipe)
    assert e.value.hint == "model.float()" and all(type(layer) is nn.Linear for layer in m)
    q, x = lt.quantize_(m.float(), "int8-dynamic").eval(), torch.randn(2, 8)
    y = q(x)
    if dtype == torch.float64:
        with pytest.raises(DTypeError, match=r"a quantized layer cannot be torch\.float64"):
            q.to(dtype)
    assert torch.equal(q(x), y)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.masks = nn.Linear(8, 8), 0

    def forward(self, x: Any, mask: Any = None, loud: bool = False) -> Any:
        assert loud is False
        self.masks += mask is not None
        return self.layer(x if mask is None else x * mask)


def test_calibration_hands_on_the_optional_tensors_of_a_batch_and_leaves_out_labels() -> None:
    m = lt.quantize_(Masked(), "int8")
    x, mask, labels = torch.randn(2, 8), torch.ones(2, 8), torch.zeros(2)
    lt.calibrate(m, [(x, mask, labels)])
    assert m.masks == 1
    assert [len(args) for args, _ in lt.calibrate(m, [(x,)]).__dict__["_lowbit_pending"].batches] == [2, 1]


# --- what torch would look into ---


@pytest.mark.parametrize("make", [lambda: lt.quantize_(nn.Sequential(nn.Linear(8, 4)).eval(), "int8-dynamic"), lambda: converted()])
def test_transforms_and_export_say_why_they_end_at_integers(make: Any) -> None:
    m, x = make(), torch.randn(2, 8)
    for transformed in (lambda: torch.vmap(m)(x), lambda: torch.func.jacrev(m)(x), lambda: torch.func.jvp(m, (x,), (x,))):
        with pytest.raises(InputError, match=r"torch\.func's transforms .* do not reach into a layer on integers") as e:
            transformed()
        assert e.value.hint is not None and "dequantize_(model)" in e.value.hint
    with pytest.raises(InputError, match=r"torch\.export cannot look into a layer on integers") as e:
        torch.export.export(m, (x,))
    assert e.value.hint is not None and "lowbit.load(model)" in e.value.hint
    with pytest.raises(DTypeError, match=r"torch\.float64 given") as d:
        m(x.double())
    assert d.value.hint == "x.float()"
    floats = m.train()
    assert torch.vmap(floats)(x).shape == (2, 4) and torch.func.jacrev(floats)(x[0]).shape == (4, 8)


def test_a_number_of_a_tensor_is_formatted_as_a_number() -> None:
    q = quantize_int8(torch.tensor([0.5, -1.0]))
    assert f"{q[0]:.2f}" == "0.50" and f"{q}" == repr(q)
