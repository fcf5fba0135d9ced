"""Every network of the zoo, through torch.export and through ONNX, computes what PyTorch computes."""

from __future__ import annotations

import io
import logging
import warnings

import numpy as np
import pytest
import torch

from lowbit.frontends.onnx import load_onnx
from lowbit.frontends.torch import load_torch
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.text import parse_graph, print_graph
from lowbit.ir.verify import verify
from lowbit.passes import simplify
from zoo import ZOO, Entry

TOLERANCE = 1e-4  # of the output's range


def assert_equals_torch(graph: Graph, entry: Entry, model: torch.nn.Module, seed: int, **sizes: int) -> None:
    example = entry.example(seed, **sizes)
    with torch.no_grad():
        want = model(**example).numpy()
    (got,) = run(graph, {k: v.numpy() for k, v in example.items()}).values()
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.abs(got - want).max() <= TOLERANCE * np.ptp(want)


def onnx_bytes(model: torch.nn.Module, entry: Entry, dynamic: bool = False) -> bytes:
    shapes = {k: {a: torch.export.Dim.DYNAMIC for a in axes} for k, axes in entry.dynamic.items()} if dynamic else None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, kwargs=entry.example(), dynamo=True, verbose=False, dynamic_shapes=shapes)
    assert program is not None
    buffer = io.BytesIO()
    program.save(buffer)
    return buffer.getvalue()


def assert_lawful(graph: Graph, model: torch.nn.Module) -> None:
    verify(graph)
    assert parse_graph(print_graph(graph), graph.constants) == graph
    layers = {n.name for n in graph if n.definition.macs is not None}
    assert layers and layers <= {path for path, _ in model.named_modules()}, "layers are called by their module path"


@pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO)
def test_a_module_equals_pytorch_for_any_batch(entry: Entry) -> None:
    model = entry.make()
    graph = load_torch(model, entry.example(), dynamic=entry.dynamic)
    assert_lawful(graph, model)
    assert [v.name for v in graph.inputs] == list(entry.inputs) and list(graph.outputs) == ["output"]
    assert entry.layer in {n.name for n in graph if n.definition.macs is not None}
    assert_equals_torch(graph, entry, model, seed=1)
    assert_equals_torch(graph, entry, model, seed=2, batch=3, seq=7)


@pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO)
def test_its_onnx_file_equals_pytorch(entry: Entry) -> None:
    model = entry.make()
    graph = load_onnx(onnx_bytes(model, entry))
    assert_lawful(graph, model)
    assert_equals_torch(graph, entry, model, seed=1)
    assert_equals_torch(verify(simplify(graph)), entry, model, seed=2)


@pytest.mark.parametrize("name", ["resnet9", "transformer", "gpt"])
def test_an_onnx_file_with_dynamic_dims_equals_pytorch_at_two_sizes(name: str) -> None:
    entry = ZOO[name]
    model = entry.make()
    graph = load_onnx(onnx_bytes(model, entry, dynamic=True))
    assert_lawful(graph, model)
    assert_equals_torch(graph, entry, model, seed=1)
    assert_equals_torch(simplify(graph), entry, model, seed=2, batch=3, seq=7)


def test_the_table_shared_by_embedding_and_head_is_one_constant() -> None:
    entry = ZOO["gpt"]
    model = entry.make()
    graph = load_torch(model, entry.example())
    assert graph.parameter_count <= sum(p.numel() for p in model.parameters()) + 1100  # a mask and positions are folded in
    users = graph.users["tok.weight"]
    assert [n.op for n in users] == ["gather", "linear"]


@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_689_512), ("resnet50", 25_557_032), ("mobilenetv2", 3_504_872)])
def test_full_sizes_have_the_parameters_of_the_published_networks(name: str, parameters: int) -> None:
    from zoo.vision import BasicBlock, Bottleneck, MobileNetV2, ResNet

    make = {
        "resnet18": lambda: ResNet(BasicBlock, (2, 2, 2, 2)),
        "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3)),
        "mobilenetv2": MobileNetV2,
    }
    with torch.device("meta"):
        assert sum(p.numel() for p in make[name]().parameters()) == parameters
