"""Networks that are run on emulated machines, by name, and their projects built for them."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from boards import link
from codegen_tools import c_files
from codegen_zoo import float_graph
from native_laws import integer_graph
from plan_networks import network
from state_networks import quantized

import lowbit
from benchmarks.tiny.models import MODELS
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule
from zoo.vision import ResNet9

NETWORKS = ["mlp", "net", "dscnn", "mlp int16", "resnet", "transformer", "lstm", "gru"]
TINY = {f"tiny-{m.name}": m for m in MODELS}  # the zoo has an LSTM and a transformer of its own
INTEGER = ["demo int8", "demo int16", "dscnn w4a8", "dscnn int16", "frames lstm", "frames gru"]  # other recipes; audio, frame by frame
FLOAT = ["mlp int8-dynamic", "mlp int4-weights", "dscnn float", "lstm_lm int8-dynamic"]


def need(*programs: str) -> None:
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"NOT TESTED: {', '.join(missing)} not installed")


@cache
def graph(name: str) -> tuple[Graph, dict[str, str]]:
    """A network, and its states (input → output). "dscnn w4a8" is a network of the zoo and a recipe."""
    what, _, how = name.partition(" ")
    if what == "frames":  # dilated, strided and depthwise causal convolutions, then an LSTM or a GRU
        stream = lowbit.streaming(quantized(24, "int8", how)[0], frame=2)
        return stream.graph, dict(stream.state)
    if how:
        g, feed = float_graph(what)
        return lower(g if how == "float" else lowbit.quantize(g, [feed], recipe=how, guard=False)).graph, {}
    if name in TINY:
        return lower(TINY[name].graph()).graph, {}
    if name == "net":
        return network(), {}
    if name == "resnet":
        torch.manual_seed(0)
        image = torch.randn(1, 3, 32, 32)
        g = lowbit.load(ResNet9(width=8).eval(), inputs=(image,))
        return lower(lowbit.quantize(g, [{g.inputs[0].name: image.numpy()}], rules=[CalibratedQuantRule(".*", "int8")])).graph, {}
    return integer_graph({"lstm": "lstm_lm", "gru": "gru_lm"}.get(name, name))[0], {}


def emitted(name: str, target: str, folder: Path, **options: bool) -> Path:
    """The project's folder. Integers give every bit; floats do so as long as nobody adds in another order, as `ref` never does."""
    g, state = graph(name)
    done = lowbit.emit_c(g, folder, target=target, state=state or None, vectors=2 if state else 1, measure=False, **options)  # type: ignore[arg-type]
    assert done.exact or name in FLOAT
    return folder


def program(folder: Path, target: str, out: Path, no_float: bool = False) -> Path:
    """The project's self test for the board."""
    return link([*c_files(folder), folder / "selftest.c"], target, out, no_float=no_float)
