"""A table of words that is also the head's weight is stored once, in few bits as in floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.report.coverage import coverage
from lowbit.torch import QTensor, dequantize_, load_safetensors, quantize_, restore_, save_safetensors
from lowbit.types import TensorType
from zoo.sequence import GPT, RNNLanguageModel


@pytest.mark.parametrize("model", [RNNLanguageModel("lstm", 300, 64, 64, 2, tied=True), GPT(300, 16, 64, 4, 1)], ids=["lstm", "gpt"])
def test_a_tied_table_is_stored_once(model: nn.Module) -> None:
    graph = lowbit.load(model.eval(), inputs=(torch.zeros(2, 16, dtype=torch.int64),))
    data = [np.random.default_rng(i).integers(0, 300, (2, 16)) for i in range(4)]
    small = lowbit.quantize(graph, data, guard=False)
    tables = [str(c.value.type) for c in small.constants.values() if c.value.type.shape == (300, 64)]
    assert tables == ["int8[300, 64]"]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def twice(op: str) -> Graph:
    """One weight in two layers: a matrix for linear layers, or a matrix on both sides of a product."""
    b = Builder("twice")
    x = b.input("x", TensorType((4, 16), "float32"))
    w = b.constant(rng(1).standard_normal((16, 16)).astype(np.float32), name="w")
    h = b.add("linear", x, w, name="first", out="h")
    return b.finish(
        {"y": b.add("linear", h, w, name="second", out="y")} if op == "linear" else {"y": b.add("matmul", h, w, name="second", out="y")}
    )


def table_and_head() -> Graph:
    """A table whose rows go out as floats, and whose transpose is the head."""
    b = Builder("tied")
    ids = b.input("ids", TensorType((4,), "int64"))
    x = b.input("x", TensorType((4, 16), "float32"))
    w = b.constant(rng(1).standard_normal((9, 16)).astype(np.float32), name="w")
    rows = b.add("gather", w, ids, axis=0, name="embed", out="rows")
    return b.finish({"rows": rows, "y": b.add("linear", x, w, name="head", out="y")})


@pytest.mark.parametrize("recipe", ["int8", "uint8", "int16", "w4a8", "w4a8-block"])
def test_layers_that_share_weights_share_them_as_integers(recipe: str) -> None:
    graph = twice("linear")
    data = [{"x": rng(i).standard_normal((4, 16)).astype(np.float32)} for i in range(4)]
    low = lower(lowbit.quantize(graph, data, recipe=recipe, guard=False)).graph
    weights = [c.value for c in low.constants.values() if c.value.type.shape == (16, 16)]
    assert len(weights) == 1
    assert [n.op for n in low.nodes if weights[0] in n.inputs] in (["q_linear"] * 2, ["q_linear_blocks"] * 2)
    want, got = run(low, data[0]), lowbit.compile(low).run(data[0])
    assert np.array_equal(want["y"], got["y"])


def test_a_table_that_is_gathered_as_it_is_stored_is_the_heads_weight() -> None:
    graph = table_and_head()
    data = [{"ids": rng(i).integers(0, 9, 4), "x": rng(i).standard_normal((4, 16)).astype(np.float32)} for i in range(4)]
    low = lower(lowbit.quantize(graph, data, guard=False)).graph
    assert [str(c.value.type) for c in low.constants.values() if c.value.type.shape == (9, 16)] == ["int8[9, 16]"]


def test_weights_that_are_not_the_same_integers_are_not_shared() -> None:
    graph = twice("matmul")  # columns have scales there, rows here
    data = [{"x": rng(i).standard_normal((4, 16)).astype(np.float32)} for i in range(4)]
    low = lower(lowbit.quantize(graph, data, guard=False)).graph
    assert len([c for c in low.constants.values() if c.value.type.shape == (16, 16)]) == 2


def test_the_report_says_that_a_table_is_stored_twice_and_a_rule_stores_it_once() -> None:
    graph = table_and_head()
    data = [{"ids": rng(i).integers(0, 9, 4), "x": rng(i).standard_normal((4, 16)).astype(np.float32)} for i in range(4)]

    def told(**given: Any) -> list[str]:
        q = lowbit.quantize(graph, data, recipe="w4a8", guard=False, **given)
        return [r for r in coverage(graph, q).remarks if r.startswith("shared: ")]

    assert told() == [
        "shared: w is stored 2 times (int8 for embed, int4 for head), 216 bytes; a rule that gives head 8 bits stores it once"
    ]
    assert told(rules=[lowbit.CalibratedQuantRule("^head$", "int8")]) == []


@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_without_calibration_a_tied_table_is_stored_once_too_and_modules_share_it(kind: str, recipe: str) -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return (RNNLanguageModel("lstm", 300, 64, 64, 2, tied=True) if kind == "lstm" else GPT(300, 16, 64, 4, 1)).eval()

    model, ids = build(), torch.randint(0, 300, (2, 16))
    small = lowbit.quantize(lowbit.load(model, inputs=(ids,)), recipe=recipe)
    tables = [str(c.value.type) for c in small.constants.values() if c.value.type.shape == (300, 64)]
    assert tables == ["int8[300, 64]"]  # eight bits for rows that are looked up, also where weights have four
    quantize_(model, recipe)
    table = model.embed if kind == "lstm" else model.tok
    assert table.weight is model.head.weight and isinstance(table.weight, QTensor)
    with torch.no_grad():
        y = model(ids)
    torch.testing.assert_close(y, torch.from_numpy(np.asarray(lowbit.compile(small)(ids.numpy()))), atol=1e-4, rtol=0)
    again = restore_(build(), model.state_dict())
    assert (again.embed if kind == "lstm" else again.tok).weight is again.head.weight
    with torch.no_grad():
        assert again(ids).equal(y)
    plain = dequantize_(model)
    assert (plain.embed if kind == "lstm" else plain.tok).weight is plain.head.weight


def test_a_safetensors_file_holds_a_tied_table_once(tmp_path: Path) -> None:
    model = quantize_(GPT(300, 16, 64, 4, 1).eval(), "int8-dynamic")
    save_safetensors(model, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "pt") as f:
        assert [k for k in f.keys() if f.get_slice(k).get_shape() == [300, 64]] == ["tok.weight:ints"]  # noqa: SIM118 - it is no dict
    ids = torch.arange(16)[None]
    with torch.no_grad():
        assert restore_(GPT(300, 16, 64, 4, 1), load_safetensors(tmp_path / "m.safetensors"))(ids).equal(model(ids))
