"""Recurrent layers and attention as quantized modules."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

import lowbit

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
from torch import nn  # noqa: E402

import lowbit.torch as lt  # noqa: E402
from lowbit.torch import QTensor  # noqa: E402

RECURRENT: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(6, 5),
    "lstm both ways": lambda: nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True),
    "lstm without bias": lambda: nn.LSTM(6, 5, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(6, 5, 2),
    "gru both ways": lambda: nn.GRU(6, 5, bidirectional=True, batch_first=True),
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def flat(result: Any) -> list[Any]:
    y, last = result
    return [y, *(last if isinstance(last, tuple) else (last,))]


@pytest.mark.parametrize("name", RECURRENT)
def test_dynamic_recurrences_are_the_graphs_to_the_bit(name: str) -> None:
    layer = RECURRENT[name]().eval()
    x = torch.randn(4, 3, 6)
    q = lowbit.quantize(lowbit.load(layer, inputs=(x,)), recipe="int8-dynamic")
    wanted = lowbit.compile(q)(x.numpy())
    m = lt.quantize_(copy.deepcopy(layer), "int8-dynamic")
    with torch.no_grad():
        for mine, theirs, real in zip(flat(m(x)), wanted, flat(layer(x)), strict=True):
            assert mine.numpy().tobytes() == np.asarray(theirs).tobytes()
            assert (mine - real).abs().max() < 0.05


@pytest.mark.parametrize("name", RECURRENT)
def test_static_recurrences_are_the_graphs_and_alone_they_are_the_same(name: str) -> None:
    layer = RECURRENT[name]().eval()
    data = [torch.randn(4, 3, 6) for _ in range(3)]
    m = lt.quantize_(copy.deepcopy(layer), "int8", data=data, guard=False)
    q = lowbit.quantize(lowbit.load(layer, inputs=(data[0],)), [(d.numpy(),) for d in data], recipe="int8", guard=False)
    x = torch.randn(4, 3, 6)
    for mine, theirs, alone in zip(flat(m(x)), lowbit.compile(q)(x.numpy()), flat(type(m).forward(m, x)), strict=True):
        assert mine.numpy().tobytes() == np.asarray(theirs).tobytes()
        assert alone.equal(mine) or (layer.num_layers > 1 and mine.shape[0] == layer.num_layers * 2 > 2)  # a graph joins states on one grid
    with torch.no_grad():
        assert max((a - b).abs().max() for a, b in zip(flat(m(data[0])), flat(layer(data[0])), strict=True)) < 0.05


@pytest.mark.parametrize("name", ["lstm both ways", "gru"])
def test_states_handed_on_continue_a_sequence(name: str) -> None:
    m = lt.quantize_(RECURRENT[name]().eval(), "int8-dynamic")
    x = torch.randn(4, 4, 6)
    with torch.no_grad():
        _, state = m(x)
        zero = tuple(torch.zeros_like(s) for s in state) if isinstance(state, tuple) else torch.zeros_like(state)
        assert m(x, zero)[0].equal(m(x)[0])
        assert not m(x, state)[0].equal(m(x)[0])
        alone, _ = m(x[:, 0] if not m.batch_first else x[0])
        assert alone.equal(m(x)[0][:, 0] if not m.batch_first else m(x)[0][0])


def test_gradients_training_and_packed_sequences_are_float() -> None:
    m = lt.quantize_(nn.LSTM(6, 5, batch_first=True).eval(), "int8-dynamic")
    x = torch.randn(2, 4, 6, requires_grad=True)
    m(x)[0].sum().backward()
    assert x.grad.abs().sum() > 0
    wide = nn.LSTM(6, 5, batch_first=True)
    wide.load_state_dict({k: v.dequantize() if isinstance(v, QTensor) else v for k, v in m.state_dict().items() if k != "_extra_state"})
    with torch.no_grad():
        packed = nn.utils.rnn.pack_padded_sequence(x.detach(), torch.tensor([4, 2]), batch_first=True)
        assert m(packed)[0].data.equal(wide(packed)[0].data)
        assert m.train()(x.detach())[0].equal(wide(x.detach())[0])


def test_attention_is_the_graphs_where_it_is_static_and_plain() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    block, data = Block().eval(), [torch.randn(2, 5, 8) for _ in range(3)]
    m = lt.quantize_(copy.deepcopy(block), "int8", data=data, guard=False)
    x = torch.randn(2, 5, 8)
    q = lowbit.quantize(
        lowbit.load(block, inputs=(x,), dynamic={"x": {0: "batch"}}), [(d.numpy(),) for d in data], recipe="int8", guard=False
    )
    assert m(x).numpy().tobytes() == np.asarray(lowbit.compile(q)(x.numpy())).tobytes()
    assert isinstance(m.attention.out_proj.weight, QTensor) and m.attention.quant_mode == "static"
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    again = lt.restore_(Block(), torch.load(file, weights_only=True))
    assert again(x).equal(m(x)) and again.attention(x, x, x, need_weights=False)[0].equal(m.attention(x, x, x, need_weights=False)[0])
    with torch.no_grad():
        assert (m.attention(x, x, x)[0] - block.attention(x, x, x)[0]).abs().max() < 0.05  # with weights: in float


@pytest.mark.parametrize(
    "options", [{}, {"need_weights": False}, {"average_attn_weights": False}, {"mask": True}, {"padding": True}], ids=str
)
@pytest.mark.parametrize("first", [True, False])
def test_dynamic_attention_takes_what_torchs_takes(first: bool, options: dict[str, Any]) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=first, kdim=6, vdim=4).eval()
    m = lt.quantize_(copy.deepcopy(layer), "int8-dynamic")
    lead = (2, 5) if first else (5, 2)
    q, k, v = torch.randn(*lead, 8), torch.randn(*lead, 6), torch.randn(*lead, 4)
    options = dict(options)
    if options.pop("mask", False):
        options["attn_mask"] = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    if options.pop("padding", False):
        options["key_padding_mask"] = torch.tensor([[False] * 4 + [True], [False] * 5])
    with torch.no_grad():
        for mine, theirs in zip(m(q, k, v, **options), layer(q, k, v, **options), strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or (mine.shape == theirs.shape and (mine - theirs).abs().max() < 0.05)
    assert all(isinstance(getattr(m, n), QTensor) for n in m.weights)
    assert type(lt.dequantize_(m).out_proj.weight) is nn.Parameter


def test_dequantized_they_are_torchs_own_again() -> None:
    for make in RECURRENT.values():
        m = lt.dequantize_(lt.quantize_(make().eval(), "int8-dynamic"))
        assert type(m) in (nn.LSTM, nn.GRU) and m.mode in ("LSTM", "GRU") and set(m.__dict__) == set(make().__dict__)
        assert len(m(torch.randn(4, 3, 6))) == 2


def test_a_model_of_words_keeps_its_bits_through_a_file() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.rnn, self.head = nn.Embedding(20, 8), nn.GRU(8, 6, batch_first=True), nn.Linear(6, 20)

        def forward(self, t: Any, state: Any) -> Any:
            y, state = self.rnn(self.table(t), state)
            return {"logits": self.head(y), "state": state}

    words, data = Words().eval(), [(torch.randint(0, 20, (2, 5)), torch.zeros(1, 2, 6)) for _ in range(3)]
    m = lt.quantize_(copy.deepcopy(words), "int8", data=data, dynamic={"t": {1: "time"}})
    t, state = torch.randint(0, 20, (2, 9)), torch.zeros(1, 2, 6)
    y = m(t, state=state)
    assert set(y) == {"logits", "state"} and y["logits"].shape == (2, 9, 20)
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    again = lt.restore_(Words(), torch.load(file, weights_only=True))(t, state)
    assert again["logits"].equal(y["logits"]) and again["state"].equal(y["state"])
    assert lowbit.compile(lowbit.load(m)).run({"t": t.numpy(), "state": state.numpy()})["logits"].tobytes() == y["logits"].numpy().tobytes()
