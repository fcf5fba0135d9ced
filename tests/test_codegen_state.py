"""States that a network keeps from call to call, in C and in the graph: frames one after the other give what the whole sequence gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import selftest

import lowbit
from lowbit.cli import main
from lowbit.errors import InputError, ShapeError, UnsupportedOp
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.types import Array, TensorType

rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def conv(b: Builder, x: Value, out: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1, pads: bool = True) -> Value:
    left = (kernel - 1) * dilation if pads else 0
    w = b.constant(normal(out, int(x.shape[1]) // groups, kernel))
    window = {"stride": (stride,), "pads": (left, 0), "dilation": (dilation,), "groups": groups}
    return b.add("conv", x, w, b.constant(normal(out)), name=f"conv{kernel}d{dilation}s{stride}", **window)


def causal(time: int) -> Graph:
    """Dilated, strided and depthwise causal convolutions with a residual sum, an LSTM behind them, a layer for each time."""
    b = Builder("causal")
    x = b.input("x", TensorType((1, 3, time), "float32"))
    h = b.add("relu", conv(b, x, 8, 3))
    h = b.add("add", h, conv(b, h, 8, 3, dilation=2), name="residual")
    h = b.add("pad", h, pads=(0, 0, 2, 0, 0, 0), mode="constant", value=0.0, name="pad")
    h = b.add("relu", conv(b, h, 8, 3, groups=8, pads=False))
    h = conv(b, h, 8, 4, stride=2)
    h = b.add("transpose", h, perm=(2, 0, 1))
    w, r = b.constant(normal(1, 20, 8)), b.constant(normal(1, 20, 5))
    options = {"hidden": 5, "direction": "forward", "activations": ("Sigmoid", "Tanh", "Tanh"), "layout": 0}
    y = b.add("lstm", h, w, r, b.constant(normal(1, 40)), name="lstm", **options)
    y = b.add("reshape", y, shape=(time // 2, 1, 5))
    return b.finish({"y": b.add("linear", y, b.constant(normal(4, 5)), b.constant(normal(4)), name="head")})


def quantized(time: int, recipe: str) -> tuple[Graph, Array]:
    global rng
    rng = np.random.default_rng(7)
    g = causal(time)
    x = np.random.default_rng(1).normal(size=(1, 3, time)).astype(np.float32)
    return (g if recipe == "float" else lowbit.quantize(g, [{"x": x}], recipe=recipe, guard=False)), x


def frames_of(stream: lowbit.Streaming, x: Array, frame: int) -> list[Array]:
    """The outputs of the interpreter, frame by frame, from states of zero on."""
    graph = lower(stream.graph).graph
    held = {v.name: np.zeros([int(d) for d in v.shape], np.float32) for v in graph.inputs if v.name in stream.state}
    found = []
    for at in range(0, x.shape[2], frame):
        got = run(graph, {"x": x[:, :, at : at + frame], **held})
        held = {name: got[out] for name, out in stream.state.items()}
        found.append(got["y"])
    return found


@pytest.mark.parametrize("frame", [2, 6])
@pytest.mark.parametrize("recipe", ["int8", "w4a8", "int8-dynamic"])
def test_frames_give_the_bits_of_the_whole_sequence(recipe: str, frame: int) -> None:
    q, x = quantized(24, recipe)
    stream = lowbit.streaming(q, frame=frame)
    whole = run(lower(q).graph, {"x": x})["y"]
    got = np.concatenate(frames_of(stream, x, frame))
    assert len(stream.state) == 6  # of four convolutions, h and c
    if recipe == "int8-dynamic":  # its convolutions are float
        assert np.abs(got - whole).max() < 1e-2
    else:
        assert got.tobytes() == whole.tobytes()


def test_frames_of_floats_give_the_whole_sequence() -> None:
    q, x = quantized(24, "float")
    assert np.allclose(np.concatenate(frames_of(lowbit.streaming(q, frame=4), x, 4)), run(q, {"x": x})["y"], atol=1e-6)


@pytest.mark.parametrize("inside", [False, True])
def test_states_are_kept_in_a_struct_of_integers(inside: bool, tmp_path: Path) -> None:
    q, _ = quantized(24, "int8")
    stream = lowbit.streaming(q, frame=4)
    emitted = lowbit.emit_c(stream.graph, tmp_path / "c", state=stream.state, io_in_arena=inside, vectors=6, measure=False)
    header = emitted.files["model.h"]
    assert emitted.exact and "float" not in header.split("typedef struct")[1].split("}")[0]
    assert (
        "int16_t s_lstm_c_state[5];" in header
        and "int8_t s_conv3d1s1_state[6];" in header
        and "void model_reset(model_state *state);" in header
    )
    assert "0 of 84 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    assert emitted.state_bytes == 2 * 5 + 5 + 3 * 2 + 8 * 4 + 8 * 2 + 8 * 3 + 1 and f"MODEL_STATE_BYTES {emitted.state_bytes}" in header
    assert emitted.ram_bytes == emitted.arena_bytes + emitted.io_bytes + emitted.state_bytes


def test_c_frame_by_frame_gives_the_bits_of_the_whole_sequence(tmp_path: Path) -> None:
    """The self test holds the frames of one sequence: what C gives for them is the whole's answer, cut into pieces."""
    q, x = quantized(24, "int8")
    stream = lowbit.streaming(q, frame=4)
    scale, zero = _input_params(stream)
    ints = np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)
    samples = [{"x": ints[:, :, i : i + 4]} for i in range(0, 24, 4)]
    emitted = lowbit.emit_c(stream.graph, tmp_path / "c", state=stream.state, samples=samples, vectors=6, measure=False)
    selftest(tmp_path / "c", tmp_path / "selftest")
    text = emitted.files["selftest.c"].split("known_out[VECTORS]")[1].split("};")[0]
    known = [float.fromhex(w.strip("{},f\n ")) for w in text.split("=")[1].replace("{", " ").replace("}", " ").split(",") if w.strip()]
    assert np.array_equal(np.array(known, np.float32), run(lower(q).graph, {"x": x})["y"].reshape(-1))


def _input_params(stream: lowbit.Streaming) -> tuple[np.float32, int]:
    node = next(n for n in stream.graph.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == "x")
    scale, zero = stream.graph.constant(node.inputs[1]), stream.graph.constant(node.inputs[2])
    assert scale is not None and zero is not None
    return np.float32(scale), int(zero)


def delays() -> Graph:
    """y = x + h, and a line of delays: h becomes x, d becomes h, and e stays."""
    b = Builder("delays")
    x, h, d, e = (b.input(n, TensorType((1, 4), "float32")) for n in "xhde")
    return b.finish({"y": b.add("mul", b.add("add", x, h), b.add("add", d, e)), "h2": x, "d2": h, "e2": e})


@pytest.mark.parametrize("inside", [False, True])
def test_states_may_become_one_another(inside: bool, tmp_path: Path) -> None:
    state = {"h": "h2", "d": "d2", "e": "e2"}
    emitted = lowbit.emit_c(delays(), tmp_path / "c", state=state, io_in_arena=inside, vectors=4, measure=False)
    assert "0 of 32 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    assert emitted.state_bytes == 48


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(InputError, match=r"state 'nothing' is no input.\n  Try: one of x, h, d, e"):
        lowbit.emit_c(delays(), None, state={"nothing": "h2"}, measure=False)
    with pytest.raises(InputError, match="state 'h' becomes 'nothing', which is no output"):
        lowbit.emit_c(delays(), None, state={"h": "nothing"}, measure=False)
    with pytest.raises(InputError, match="two states become one output"):
        lowbit.emit_c(delays(), None, state={"h": "h2", "d": "h2"}, measure=False)
    b = Builder()
    x = b.input("x", TensorType((1, 4), "float32"))
    with pytest.raises(ShapeError, match=r"state 'x' is float32\[1, 4\], but 'y', which it becomes, is float32\[4\]"):
        lowbit.emit_c(b.finish({"y": b.add("reshape", x, shape=(4,))}), None, state={"x": "y"}, measure=False)


def test_layers_that_look_ahead_are_refused() -> None:
    b = Builder()
    x = b.input("x", TensorType((1, 3, 8), "float32"))
    window = {"stride": (1,), "pads": (1, 1), "dilation": (1,), "groups": 1}
    y = b.add("conv", x, b.constant(normal(2, 3, 3)), None, name="front", **window)
    with pytest.raises(UnsupportedOp, match=r"conv 'front': it cannot run frame by frame: it is not causal: 1 times are padded"):
        lowbit.streaming(b.finish({"y": y}), frame=4)
    mean = b.add("reduce_mean", x, axes=(2,), keepdims=False, name="pool")
    with pytest.raises(UnsupportedOp, match=r"reduce_mean 'pool': .* looks at several times at once"):
        lowbit.streaming(b.finish({"y": mean}), frame=4)
    with pytest.raises(ShapeError, match="a frame has 3 times here, its stride is 2"):
        lowbit.streaming(causal(24), frame=3)
    with pytest.raises(InputError, match="frame is 0"):
        lowbit.streaming(causal(24), frame=0)


def test_the_command_line_takes_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delays().save(tmp_path / "delays.lowbit")
    command = ["emit-c", str(tmp_path / "delays.lowbit"), "-o", str(tmp_path / "out"), "--state", "h:h2", "--state", "d:d2"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state_bytes"] == 32
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--state", "h"])


def test_multiplications_of_a_recurrence_are_counted_once() -> None:
    q, _ = quantized(24, "int8")
    rows = [
        line.split("|") for line in lowbit.emit_c(q, None, measure=False).files["README.md"].splitlines() if line.startswith("| lstm |")
    ]
    assert sum(int(r[4].replace(",", "")) for r in rows if "\\" not in r[2]) == 12 * 20 * (8 + 5)
