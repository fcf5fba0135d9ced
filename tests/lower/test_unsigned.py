"""uint8 runs as int8 whose codes are less by 128: the same reals, natively and as C, whoever quantized the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from codegen_tools import selftest
from codegen_zoo import float_graph
from native_laws import ISAS, same

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.lower.signed import signed
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

NETWORKS = ("demo", "mlp", "resnet9", "dscnn", "unet", "lstm_lm", "gru_lm", "transformer", "gpt", "vit")


def unsigned(name: str) -> tuple[Graph, dict[str, Array]]:
    """A network's brackets by the recipe uint8."""
    g, feed = float_graph(name)
    return lowbit.quantize(g, [feed], recipe="uint8", guard=False), feed


def made_integers(graph: Graph) -> set[str]:
    return {o.name for n in graph.nodes for o in n.outputs if o.type.dtype.is_integer}


def bytes_in_and_out(zero: int | None = 7) -> Graph:
    """A camera's bytes → a convolution → bytes, and beside them what was read, turned around."""
    rng = np.random.default_rng(1)
    b = Builder("camera")
    x = b.input("x", TensorType((1, 3, 9, 7), "uint8"))

    def constants(scale: float, zero: int | None) -> list[object]:
        return [b.constant(np.float32(scale)), None if zero is None else b.constant(np.uint8(zero))]

    real = b.add("dequantize_linear", x, *constants(1 / 64, zero), axis=0, block_size=0)
    w = b.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), name="w")
    weights = b.add("dequantize_linear", w, b.constant(np.float32(0.01)), axis=0, block_size=0)
    y = b.add("conv", real, weights, name="conv", stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    codes = b.add("quantize_linear", y, *constants(0.05, 131), to="uint8", axis=0, block_size=0, out="codes")
    again = b.add("relu", b.add("dequantize_linear", codes, *constants(0.05, 131), axis=0, block_size=0))
    back = b.add("quantize_linear", again, *constants(0.03, None), to="uint8", axis=0, block_size=0, out="back")
    return verify(b.finish({"codes": codes, "back": back, "turned": b.add("transpose", x, perm=(0, 2, 3, 1))}))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_uint8_run_natively_on_int8(name: str) -> None:
    graph, feed = unsigned(name)
    done = lower(graph)
    assert {v.type.dtype.name for n in graph.nodes for v in n.outputs} & {"uint8"}
    assert not {v.type.dtype.name for n in done.graph.nodes for v in n.outputs} & {"uint8"}
    want = run(done.graph, feed)
    for isa in ISAS:
        session = Session(done.graph, threads=2, isa=isa)
        assert session.backend == "native" and same(want, session.run(feed)), isa


@pytest.mark.parametrize("name", NETWORKS)
def test_the_shift_changes_no_real_number(name: str) -> None:
    graph, feed = unsigned(name)
    moved = verify(signed(graph))
    assert signed(moved) is moved
    assert same(run(graph, feed), run(moved, feed))
    assert made_integers(moved) == made_integers(graph)  # they keep their names


@pytest.mark.parametrize("zero", [None, 0, 7, 128, 255])
def test_bytes_given_and_taken_stay_unsigned(zero: int | None, tmp_path: Path) -> None:
    graph = bytes_in_and_out(zero)
    feed = {"x": np.random.default_rng(2).integers(0, 256, (1, 3, 9, 7)).astype(np.uint8)}
    fake, want = run(graph, feed), run(lower(graph).graph, feed)
    assert same(run(signed(graph), feed), fake)
    for name in graph.outputs:
        assert want[name].dtype == np.uint8
        assert np.abs(want[name].astype(int) - fake[name]).max() <= 1
    for isa in ISAS:
        session = lowbit.compile(graph, isa=isa)
        assert session.backend == "native" and same(want, session.run(feed)), isa
    folder = tmp_path / "c"
    assert lowbit.emit_c(graph, folder, samples=[feed], vectors=1, measure=False).exact
    selftest(folder, tmp_path / "test")
    assert "const uint8_t" in (folder / "model.h").read_text()


def test_images_of_bytes_are_cast_natively() -> None:
    b = Builder("image")
    x = b.input("x", TensorType((2, 300), "uint8"))
    y = b.add("mul", b.add("cast", x, to="float32"), b.constant(np.float32(1 / 255)))
    session = Session(b.finish({"y": y}))
    feed = {"x": np.random.default_rng(0).integers(0, 256, (2, 300)).astype(np.uint8)}
    assert session.backend == "native"
    assert session.run(feed)["y"].tobytes() == (feed["x"].astype(np.float32) * np.float32(1 / 255)).tobytes()


def test_a_file_of_another_tool_with_uint8_activations_runs_natively(tmp_path: Path) -> None:
    graph, feed = unsigned("resnet9")
    path = tmp_path / "u8.onnx"
    lowbit.export_onnx(graph, path)
    session = lowbit.compile(lowbit.load(path))
    assert session.backend == "native"
    assert same(session.run(feed), run(lower(graph).graph, feed))


@pytest.mark.parametrize("name", ["demo", "transformer"])
def test_a_report_measures_uint8_as_it_does_int8(name: str) -> None:
    g, feed = float_graph(name)
    reports = [lowbit.compare(g, lowbit.quantize(g, [feed], recipe=r, guard=False), [feed]) for r in ("int8", "uint8")]
    for one, two in zip(*(r.layers for r in reports), strict=True):
        assert (one.layer, one.kind, one.became) == (two.layer, two.kind, two.became)
        for a, b in ((one.local_db, two.local_db), (one.accumulated_db, two.accumulated_db)):
            assert (a is None) == (b is None) and (a is None or abs(a - b) < 6 or min(a, b) > 60), one.layer
