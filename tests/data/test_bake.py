"""Preprocessing as part of the network: bytes in, and not a bit of any result is another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from codegen_tools import selftest

import lowbit
from lowbit.data import bake
from lowbit.data.bake import preprocessing_of
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.dims import symbol
from lowbit.errors import InputError
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.types import Array, TensorType

IMAGENET = "mean=0.485,0.456,0.406,std=0.229,0.224,0.225"


def network(channels: int = 3, layout: str = "nchw") -> Graph:
    """A padded convolution: zeros around the picture are no pixel's value, so a mean cannot go into its bias."""
    rng = np.random.default_rng(0)
    b = Builder("padded")
    shape = (symbol("n"), channels, 6, 6) if layout == "nchw" else (symbol("n"), 6, 6, channels)
    x = first = b.input("x", TensorType(shape, "float32"))
    if layout == "nhwc":
        first = b.add("transpose", x, perm=(0, 3, 1, 2))
    w, bias = (b.constant(rng.standard_normal(s).astype(np.float32)) for s in ((8, channels, 3, 3), (8,)))
    y = b.add("relu", b.add("conv", first, w, bias, name="conv", stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1))
    y = b.add("reduce_mean", y, axes=(2, 3), keepdims=False)
    return b.finish({"y": b.add("linear", y, b.constant(rng.standard_normal((4, 8)).astype(np.float32)), name="fc")})


def pixels(channels: int = 3, count: int = 5) -> Array:
    return np.random.default_rng(1).integers(0, 256, (count, 6, 6, channels), np.uint8)


def prepared(x: Array, text: str, layout: str = "nchw") -> Array:
    real = ImagePreprocessing.parse(text).normalized(x)
    return np.ascontiguousarray(real.transpose(0, 3, 1, 2)) if layout == "nchw" else real


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("channels", "text"), [(3, IMAGENET), (1, "mean=0.5,std=0.25"), (3, "scale=127.5,mean=1")])
def test_no_bit_changes_in_float_and_in_integers(layout: str, channels: int, text: str) -> None:
    graph, x = network(channels, layout), pixels(channels)
    reals = prepared(x, text, layout)
    for given in (graph, lowbit.quantize(graph, [reals, reals[:3]], guard=False)):
        baked = bake(given, text)
        assert str(baked.inputs[0].type) == f"uint8[n, 6, 6, {channels}]"
        wanted, session = lowbit.compile(given)(reals), lowbit.compile(baked)
        assert np.array_equal(session(x), wanted) and session.backend == "native"
        assert np.array_equal(run(lower(baked).graph, {"x": x})["y"], run(lower(given).graph, {"x": reals})["y"])


def test_integers_come_from_one_look_at_a_table() -> None:
    reals = prepared(pixels(), IMAGENET)
    baked = bake(lowbit.quantize(network(), [reals, reals[:3]], guard=False), IMAGENET)
    ops = [n.op for n in lower(baked).graph.nodes]
    assert ops[:2] == ["transpose", "channel_table"] and "quantize_linear" not in ops


def test_pixels_can_come_with_their_channels_first() -> None:
    graph, x = network(), pixels()
    baked = bake(graph, IMAGENET, layout="nchw")
    assert np.array_equal(
        lowbit.compile(baked)(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), lowbit.compile(graph)(prepared(x, IMAGENET))
    )


def test_a_baked_network_can_be_quantized_on_pixels() -> None:
    graph, x = network(), pixels(count=8)
    plain = lowbit.quantize(graph, [prepared(x, IMAGENET)], guard=False)
    baked = lowbit.quantize(bake(graph, IMAGENET), [x], guard=False)
    assert np.array_equal(lowbit.compile(baked)(x), lowbit.compile(plain)(prepared(x, IMAGENET)))


def test_onnx_runtime_gives_the_same(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    x = pixels()
    for given in (network(), lowbit.quantize(network(), [prepared(x, IMAGENET)], guard=False)):
        baked = bake(given, IMAGENET)
        lowbit.export_onnx(baked, tmp_path / "baked.onnx")
        theirs = ort.InferenceSession(str(tmp_path / "baked.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        ours = lowbit.compile(baked)(x)
        step = np.abs(ours).max() / 100
        assert np.abs(theirs - ours).max() < step
        again = lowbit.load(tmp_path / "baked.onnx")
        assert np.array_equal(lowbit.compile(again)(x), ours)


def test_normalization_that_a_file_spells_out_becomes_a_table() -> None:
    b = Builder("spelled")
    x = b.input("x", TensorType((2, 3, 4, 4), "uint8"))
    y = b.add("div", b.add("cast", x, to="float32"), b.constant(np.float32(255).reshape(())))
    y = b.add("sub", y, b.constant(np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1)))
    y = b.add("div", y, b.constant(np.float32([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1)))
    graph = b.finish({"y": b.add("sigmoid", y)})
    from lowbit.passes import simplify

    simple = simplify(graph)
    assert [n.op for n in simple.nodes] == ["channel_table", "sigmoid"]
    given = {"x": np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4), np.uint8)}
    assert np.array_equal(run(simple, given)["y"], run(graph, given)["y"])


def test_the_preprocessing_stays_with_the_network(tmp_path: Path) -> None:
    baked = bake(network(), IMAGENET)
    baked.save(tmp_path / "baked.lowbit")
    stored = preprocessing_of(lowbit.load(tmp_path / "baked.lowbit"), "x")
    assert stored is not None and ImagePreprocessing.from_json(stored).mean == (0.485, 0.456, 0.406)


def test_emitted_c_takes_the_cameras_bytes(tmp_path: Path) -> None:
    """The self test holds the session's outputs for these pixels, and compares every bit."""
    graph, x = network(), pixels(count=1)
    q = lowbit.quantize(graph, [prepared(pixels(), IMAGENET)], guard=False)
    baked = bind(bake(q, IMAGENET), {"n": 1})
    lowbit.emit_c(baked, tmp_path / "c", samples=[{"x": x}], float_io=True)
    assert "void model_run(const uint8_t *in, float *out)" in (tmp_path / "c" / "model.h").read_text()
    assert "0 of 2 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")


def test_wrong_calls() -> None:
    for call, said in {
        lambda: bake(network()): "no preprocessing is stored with the network",
        lambda: bake(network(), IMAGENET, input="z"): r"input='z' is none of them: x",
        lambda: bake(network(), IMAGENET, layout="hwc"): "layout='hwc', nhwc or nchw is needed",
        lambda: bake(network(), 3): "preprocessing=3, a text like",  # type: ignore[arg-type]
        lambda: bake(bake(network(), IMAGENET), IMAGENET): "it takes integers already",
    }.items():
        with pytest.raises(InputError, match=said):
            call()
