"""The PyTorch frontend as a whole: names, modes, symbolic dims, exported programs, and what is said when something is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_modules import Function, assert_same, check, tensors, with_statistics

from lowbit.errors import InputError, LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.torch import load_torch
from lowbit.ir.interp import run
from lowbit.ir.verify import verify


def test_initial_states_are_inputs_of_the_graph() -> None:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 5, 2)

        def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            return self.lstm(x, state)

    model = with_statistics(Stateful()).eval()
    x, h, c = tensors((6, 2, 4), (2, 2, 5), (2, 2, 5))
    graph = verify(load_torch(model, (x, (h, c))))
    assert [v.name for v in graph.inputs] == ["x", "state_0", "state_1"]
    assert list(graph.outputs) == ["output_0", "output_1_0", "output_1_1"]
    want = torch.utils._pytree.tree_leaves(model(x, (h, c)))
    got = run(graph, {"x": x.numpy(), "state_0": h.numpy(), "state_1": c.numpy()})
    for g, w in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(g, w.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("layer", [nn.LSTM(4, 5, 2, bidirectional=True), nn.GRU(4, 5), nn.RNN(4, 5)], ids=["lstm", "gru", "rnn"])
def test_a_recurrent_layer_takes_sequences_of_any_length(layer: nn.Module) -> None:
    graph = verify(load_torch(layer, {"input": tensors((6, 2, 4))[0]}, dynamic={"input": {0: "seq", 1: "batch"}}))
    for shape in ((1, 3, 4), (9, 1, 4)):
        assert_same(graph, layer.eval(), tensors(shape))
    assert layer(tensors((3, 1, 4))[0])[0].shape[0] == 3, "the layer itself works as before"


def test_packed_sequences_are_refused() -> None:
    def f(x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
        return nn.LSTM(4, 5)(packed)[0].data

    assert "UnsupportedOp" in error(Function(f), tensors((3, 2, 4))[0])


def test_rotary_attention_of_the_llama_kind_keeps_symbolic_sequence_length() -> None:
    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wq, self.wk, self.wv = nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
            self.norm = nn.RMSNorm(16, eps=1e-6)
            self.register_buffer("inv_freq", 1 / 10000 ** (torch.arange(0, 4, 2).float() / 4), persistent=False)

        @staticmethod
        def rotate(x: Tensor) -> Tensor:
            return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)

        def forward(self, x: Tensor) -> Tensor:
            b, t, _ = x.shape
            variance = x.float().pow(2).mean(-1, keepdim=True)
            y = self.norm(x * torch.rsqrt(variance + 1e-6))
            q = self.wq(y).view(b, t, 4, 4).transpose(1, 2)
            k = self.wk(y).view(b, t, 2, 4).transpose(1, 2)
            v = self.wv(y).view(b, t, 2, 4).transpose(1, 2)
            angle = torch.arange(t)[:, None].float() * self.inv_freq[None]
            angle = torch.cat((angle, angle), -1)
            q, k = (z * angle.cos() + self.rotate(z) * angle.sin() for z in (q, k))
            k, v = (z[:, :, None].expand(b, 2, 2, t, 4).reshape(b, 4, t, 4) for z in (k, v))
            mask = torch.full((t, t), float("-inf")).triu(1)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return x + y.transpose(1, 2).contiguous().view(b, t, -1)

    model = with_statistics(Llama()).eval()
    graph = verify(load_torch(model, tensors((1, 5, 16))[0], dynamic={"x": {0: "batch", 1: "seq"}}))
    assert str(graph.outputs["output"].type) == "float32[batch, seq, 16]"
    for shape in ((1, 5, 16), (3, 1, 16), (2, 9, 16)):
        assert_same(graph, model, tensors(shape))


def test_shape_arithmetic_becomes_dims_and_leaves_no_nodes() -> None:
    def f(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = F.max_pool2d(x, 3, 2, 1)
        return y.reshape(n, c, (h - 1) // 2 + 1, -1).flatten(2) * (h * w)

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return f(x)

    graph = verify(load_torch(Model(), tensors((2, 3, 9, 11)), dynamic={"x": {2: "h", 3: "w"}}))
    assert {n.op for n in graph} <= {"max_pool", "reshape", "dims", "cast", "mul"}
    for shape in ((2, 3, 9, 11), (2, 3, 6, 4)):
        assert_same(graph, Model(), tensors(shape))


def test_an_assignment_into_a_new_tensor_is_followed() -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.zeros(2, 5)
        y[:, 1:4] = x
        y[0] += 1
        y[:, -1].mul_(2).add_(3)
        return y

    check(Function(f), (2, 3))


def test_no_grad_inside_forward_changes_nothing() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        @torch.no_grad()
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                y = self.inner(x)
            return y * 2

    graph = check(Model(), (2, 3))
    assert [n.op for n in graph] == ["linear", "mul"] and graph.nodes[0].name == "inner"


def test_outputs_are_named_by_the_keys_of_a_dict() -> None:
    graph = check(Function(lambda x: {"a": x + 1, "b": (x, x * 2)}), (2,))
    assert list(graph.outputs) == ["a", "b_0", "b_1"]


def test_arguments_given_by_name_name_the_inputs() -> None:
    class Model(nn.Module):
        def forward(self, input: Tensor, scale: float = 2.0, mask: Tensor | None = None) -> Tensor:
            return input * scale if mask is None else input * mask

    x = tensors((2, 3))[0]
    assert [v.name for v in load_torch(Model(), {"input": x}).inputs] == ["input"]
    assert [v.name for v in load_torch(Model(), {"input": x, "mask": x}).inputs] == ["input", "mask"]
    assert [v.name for v in load_torch(Model(), x.numpy()).inputs] == ["input"]


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))


def test_a_module_in_training_is_loaded_in_eval_mode_and_left_as_it_was() -> None:
    model = with_statistics(Small()).train()
    model.body[1].eval()  # a frozen batch norm, as in fine-tuning
    x = tensors((2, 3, 6, 6))[0]
    before = {k: v.clone() for k, v in model.state_dict().items()}
    graph = load_torch(model, x)
    assert [m.training for m in (model, model.body[0], model.body[1])] == [True, True, False]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert "dropout" not in str(graph)
    assert_same(graph, model.eval(), [x])


def test_training_on_does_not_change_the_graph() -> None:
    model = with_statistics(Small()).eval()
    x = tensors((2, 3, 6, 6))[0]
    graph = load_torch(model, x)
    want = run(graph, {"x": x.numpy()})["output"]
    with torch.no_grad():
        model.head.weight.zero_()
    np.testing.assert_array_equal(run(graph, {"x": x.numpy()})["output"], want)


def test_constants_are_named_by_the_state_dict_and_nodes_by_the_module_path() -> None:
    graph = load_torch(Small(), tensors((2, 3, 6, 6)))
    names = {
        "body.0.weight",
        "body.0.bias",
        "body.1.weight",
        "body.1.bias",
        "body.1.running_mean",
        "body.1.running_var",
        "head.weight",
        "head.bias",
    }
    assert names <= set(graph.constants)
    assert [(n.op, n.name) for n in graph if n.name != "mean"] == [
        ("conv", "body.0"), ("batch_norm", "body.1"), ("relu", "body.2"), ("linear", "head")
    ]  # fmt: skip


@pytest.mark.parametrize("decomposed", [False, True], ids=["as exported", "core ATen"])
def test_an_exported_program_is_taken_as_it_is(decomposed: bool) -> None:
    model = with_statistics(Small()).eval()
    x = tensors((2, 3, 6, 6))[0]
    program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    graph = verify(load_torch(program.run_decompositions() if decomposed else program, dynamic={"x": {0: "batch"}}))
    assert str(graph.inputs[0].type) == "float32[batch, 3, 6, 6]"
    assert_same(graph, model, [x])


def test_dims_of_an_exported_program_are_called_by_input_and_axis() -> None:
    program = torch.export.export(Small().eval(), (tensors((2, 3, 6, 6))[0],), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    assert load_torch(program).symbols == ("x_0",)


def test_a_dimension_may_be_a_multiple_of_what_changes() -> None:
    class Hourglass(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.interpolate(F.max_pool2d(F.max_pool2d(x, 2), 2), scale_factor=4) + x

    graph = load_torch(Hourglass(), tensors((1, 3, 16, 8)), dynamic={"x": {0: "batch", 2: "4*h", 3: "4*w"}})
    assert str(graph.outputs["output"].type) == "float32[batch, 3, 4*h, 4*w]"
    assert_same(graph, Hourglass(), tensors((2, 3, 12, 20)))
    with pytest.raises(ShapeError, match=r"shape \(2, 3, 13, 20\) given, \(batch, 3, 4\*h, 4\*w\) needed with batch=2, w=5"):
        run(graph, {"x": np.zeros((2, 3, 13, 20), np.float32)})


def test_one_name_for_two_dims_is_one_symbol() -> None:
    class Model(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.cat([a, b], 1)

    graph = load_torch(Model(), tuple(tensors((1, 3), (1, 4))), dynamic={"a": {0: "batch"}, "b": {0: "batch"}})
    assert graph.symbols == ("batch",) and str(graph.outputs["output"].type) == "float32[batch, 7]"


# -- errors --------------------------------------------------------------------------------------------------------------


def error(model: Any, *inputs: Any, **options: Any) -> str:
    with pytest.raises(LowbitError) as e:
        load_torch(model, tuple(inputs) if inputs else None, **options)
    return f"{type(e.value).__name__}: {e.value}"


def test_a_module_without_inputs_says_what_to_give() -> None:
    assert error(Small()) == (
        "InputError: Small: example inputs are needed to trace a module.\n"
        "  Try: load(module, inputs=(torch.zeros(1, 3, 224, 224),)): their shapes matter"
    )


def test_something_else_than_a_module_is_refused() -> None:
    with pytest.raises(InputError, match=r"str given, a torch.nn.Module or a torch.export.ExportedProgram needed"):
        load_torch("model.pt")  # type: ignore[arg-type]


def test_inputs_that_do_not_fit_forward_are_named() -> None:
    x = tensors((1, 3, 6, 6))[0]
    assert "InputError: Small: the inputs do not fit forward(x" in error(Small(), x, x)


def test_unsupported_ops_are_listed_at_once_with_their_module() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Function(lambda x: torch.linalg.svd(x)[1] + torch.linalg.eigvalsh(x))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + torch.bincount(x.long().flatten(), minlength=3)[:3]

    text = error(Model(), torch.eye(3))
    assert "UnsupportedOp:" in text and "operator are not supported" in text
    assert "_linalg_svd.default (1x, first in 'inner')" in text and "_linalg_eigh.default (1x, first in 'inner')" in text


def test_control_flow_by_data_is_refused_with_a_way_out() -> None:
    text = error(Function(lambda x: x + 1 if x.sum() > 0 else x), tensors((2,))[0])
    assert text.startswith("UnsupportedOp: Function: its forward decides by the values of data")
    assert "torch.where" in text


def test_a_shape_that_depends_on_data_is_refused() -> None:
    assert "depends on" in error(Function(lambda x: x[x > 0]), tensors((4,))[0])


def test_writing_to_a_buffer_is_refused_by_its_name() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return x + self.calls

    text = error(Counter(), tensors((2,))[0])
    assert text.startswith("UnsupportedOp: its forward writes to calls: a graph has no memory from call to call")


def test_random_numbers_are_refused() -> None:
    assert "randn_like.default 'randn_like': it draws random numbers" in error(
        Function(lambda x: x + torch.randn_like(x)), tensors((2,))[0]
    )


def test_batch_norm_by_the_batch_is_refused() -> None:
    assert "batch norm that takes its statistics from the batch" in error(nn.BatchNorm1d(3, track_running_stats=False), tensors((2, 3))[0])


def test_a_projected_lstm_is_refused_with_the_reason() -> None:
    assert "lstm.default 'lstm': an LSTM with proj_size is not supported" in error(nn.LSTM(4, 5, proj_size=2), tensors((3, 1, 4))[0])


def test_a_dimension_that_cannot_change_is_named() -> None:
    text = error(Function(lambda x: x.view(4, 3) * 1), tensors((4, 3))[0], dynamic={"xs": ({0: "batch"},)})
    assert "ShapeError" in text and "cannot change" in text


def test_a_size_that_another_input_fixes_is_said_with_the_entry_that_is_missing() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    with pytest.raises(ShapeError) as e:
        load_torch(Two(), tensors((2, 4), (2, 4)), dynamic={"x": {0: "batch"}})
    assert str(e.value) == (
        "Two: dynamic= lets batch of 'x' change, its forward fixes it to 2.\n"
        "  Try: if y changes with it: dynamic={'x': {0: 'batch'}, 'y': {0: 'batch'}}; else leave it out"
    )


def test_dynamic_names_what_is_not_there() -> None:
    x = tensors((2, 3, 6, 6))[0]
    assert (
        error(Small(), x, dynamic={"y": {0: "n"}})
        == "InputError: Small: dynamic= names y, which is no argument of forward.\n  Try: its arguments are x"
    )
    with pytest.raises(ShapeError, match="dynamic= names axis 4 of 'x', which has rank 4"):
        load_torch(Small(), x, dynamic={"x": {4: "n"}})


def test_an_error_in_forward_is_told() -> None:
    with pytest.raises(UnsupportedOp, match=r"Small: torch.export cannot trace it: RuntimeError: .*channels"):
        load_torch(Small(), tensors((1, 5, 6, 6)))


def test_the_frontend_is_imported_without_torch() -> None:
    code = "import sys, lowbit.frontends.torch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
