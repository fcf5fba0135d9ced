"""Real trained networks compute in lowbit what they compute in ONNX Runtime or PyTorch. `make e2e` runs this; it fetches 200 MB once."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowbit
from lowbit.frontends.onnx import load_onnx
from lowbit.frontends.torch import load_torch
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.passes import simplify
from lowbit.quantization.recipes import recipe
from lowbit.runtime.session import Session
from lowbit.types import Array
from zoo import fetched

TOLERANCE = 1e-4  # of the output's range
Arrays = Mapping[str, Array]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def print_(height: int, width: int) -> Array:
    """Lines of dark glyph-like strokes on white, so that the networks that read print have something to see."""
    x = np.ones((1, 3, height, width), np.float32)
    for top in range(16, height - 16, 36):
        for left in range(12, width - 16, 10):
            x[:, :, top : top + 16, left : left + 6] = np.where(rng(left).random((16, 6)) < 0.55, -1, 1)
    return x


def photo(height: int, width: int) -> Array:
    """Smooth patches with some noise, normalized."""
    small = torch.from_numpy(rng().uniform(-1, 1, (1, 3, height // 8, width // 8)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(small, (height, width), mode="bilinear").numpy()
    return (smooth + 0.1 * rng(1).standard_normal(smooth.shape)).astype(np.float32)


def tone(frames: int, size: int) -> Array:
    t = np.arange(frames * size) / 16000
    wave = np.sin(2 * np.pi * 220 * t) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * t)) + 0.05 * rng().standard_normal(t.size)
    return wave.reshape(frames, size).astype(np.float32)


ONNX: dict[str, tuple[Callable[[], Path], Arrays]] = {
    "ocr rec": (lambda: fetched.ocr("rec"), {"x": print_(48, 320)}),
    "ocr det": (lambda: fetched.ocr("det"), {"x": print_(96, 160)}),
    "ocr cls": (lambda: fetched.ocr("cls"), {"x": print_(48, 192)}),
    "silero": (fetched.silero, {"input": tone(20, 576), "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}),
    "mnist-conv": (fetched.mnist_conv, {"Input3": rng().uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)}),
}
IDS = rng().integers(1000, 20000, (2, 24))
MASK = (np.arange(24) < np.array([[24], [15]])).astype(np.int64)
TORCH: dict[str, tuple[Callable[[], torch.nn.Module], Arrays]] = {
    "efficientnet-lite0": (fetched.efficientnet_lite0, {"inputs": photo(224, 224)}),
    "minilm": (fetched.minilm, {"ids": IDS, "mask": MASK}),
    "crepe": (fetched.crepe_tiny, {"x": tone(4, 1024)}),
}


def assert_close(got: Arrays, want: list[Array]) -> None:
    assert len(got) == len(want)
    for (name, g), w in zip(got.items(), want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype, name
        assert np.ptp(w) > 1e-3, f"{name} says nothing"
        assert np.abs(g - w).max() <= TOLERANCE * np.ptp(w), name


@cache
def torch_case(name: str) -> tuple[torch.nn.Module, Arrays, list[Array]]:
    build, inputs = TORCH[name]
    model = build()
    with torch.no_grad():
        want = model(**{k: torch.from_numpy(v) for k, v in inputs.items()})
    return model, inputs, [want.numpy()]


def exported(model: torch.nn.Module, inputs: Arrays) -> bytes:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, kwargs={k: torch.from_numpy(v) for k, v in inputs.items()}, dynamo=True, verbose=False)
    assert program is not None
    buffer = io.BytesIO()
    program.save(buffer)
    return buffer.getvalue()


def assert_equal_before_and_after_simplify(graph: Graph, inputs: Arrays, want: list[Array]) -> None:
    assert_close(run(verify(graph), inputs), want)
    assert_close(run(verify(simplify(graph)), inputs), want)


# Sizes that the finder of lines can add to its own, halved five times and doubled again, are multiples of 32.
SYMBOLIC = {name: {"x": [1, 3, "32*h", "32*w"]} if name == "ocr det" else None for name in ONNX}


@pytest.mark.parametrize("name", ONNX)
@pytest.mark.parametrize("bound", [False, True], ids=["symbolic", "bound"])
def test_an_onnx_file_equals_onnx_runtime(name: str, bound: bool) -> None:
    import onnxruntime

    path, inputs = ONNX[name][0](), ONNX[name][1]
    want: list[Any] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, dict(inputs))
    graph = load_onnx(path, {k: v.shape for k, v in inputs.items()} if bound else SYMBOLIC[name])
    assert bound or graph.symbols or name == "mnist-conv"
    assert_equal_before_and_after_simplify(graph, inputs, want)


@pytest.mark.parametrize("name", TORCH)
def test_a_module_equals_pytorch(name: str) -> None:
    model, inputs, want = torch_case(name)
    assert_equal_before_and_after_simplify(load_torch(model, inputs), inputs, want)


@pytest.mark.parametrize("name", TORCH)
def test_its_onnx_file_equals_pytorch(name: str) -> None:
    model, inputs, want = torch_case(name)
    graph = load_onnx(exported(model, inputs))
    assert_equal_before_and_after_simplify(graph, inputs, want)


def test_a_sentence_encoder_takes_any_number_and_length_of_sentences() -> None:
    model, _, _ = torch_case("minilm")
    dims = {0: "batch", 1: "seq"}
    graph = simplify(load_torch(model, {"ids": IDS[:, :6], "mask": MASK[:, :6]}, dynamic={"ids": dims, "mask": dims}))
    for n, length in ((1, 5), (2, 24)):
        inputs = {"ids": IDS[:n, :length], "mask": MASK[:n, :length]}
        with torch.no_grad():
            want = model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).numpy()
        assert_close(run(graph, inputs), [want])


@pytest.mark.parametrize("name", [*ONNX, *TORCH])
def test_its_int8_graph_runs_natively_with_the_bits_of_the_interpreter(name: str) -> None:
    if name in ONNX:
        inputs = ONNX[name][1]
        graph = lowbit.load(ONNX[name][0](), shapes={k: v.shape for k, v in inputs.items()})
    else:
        model, inputs, _ = torch_case(name)
        graph = lowbit.load(model, inputs=tuple(torch.from_numpy(v) for v in inputs.values()))
    feed = dict(zip([v.name for v in graph.inputs], inputs.values(), strict=True))
    integer = lower(lowbit.quantize(graph, [feed], rules=recipe("int8"))).graph
    session = Session(integer, threads=2)
    left = {n.op for p in session._programs.values() for part in p.parts if not part.native for n in part.graph.nodes}
    assert left == set(), "ops that run in the interpreter"
    got = session.run(feed)
    assert all(np.array_equal(got[k], v) for k, v in run(integer, feed).items())
