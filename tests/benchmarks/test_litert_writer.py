"""benchmarks/litert_writer.py: LiteRT runs the files, and gives what the networks mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.types import Array
from zoo import entry

pytest.importorskip("ai_edge_litert", reason="the extra bench is not installed")

from ai_edge_litert.interpreter import Interpreter

from benchmarks.litert_writer import Unwritable, tflite


def network(name: str) -> tuple[Graph, dict[str, Array]]:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    return g, dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))


def by_litert(data: bytes, feed: dict[str, Array], tmp_path: Path) -> Array:
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    (x,) = feed.values()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ascontiguousarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x))
    interpreter.invoke()
    found: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return found


@pytest.mark.parametrize("name", ["mlp", "dscnn", "mobilenetv2"])
def test_litert_gives_the_network_s_outputs(name: str, tmp_path: Path) -> None:
    graph, feed = network(name)
    (want,) = run(graph, feed).values()
    assert np.abs(by_litert(tflite(graph), feed, tmp_path) - want).max() <= 1e-4 * np.abs(want).max()
    quantized = lowbit.quantize(graph, [feed], rules=[CalibratedQuantRule(".*", "int8")])
    (meant,) = run(quantized, feed).values()
    scale = float(np.abs(meant).max() / 127)
    got = by_litert(tflite(quantized, (scale, 0)), feed, tmp_path)
    assert np.allclose(got / scale, np.rint(got / scale), atol=1e-3)  # on the grid that was asked for
    assert np.abs(got - meant).max() <= 2.5 * scale  # half a step, and what other roundings of sums add


def test_what_it_does_not_know_is_named() -> None:
    graph, _ = network("gru_lm")
    with pytest.raises(Unwritable, match="is not known here"):
        tflite(graph)
