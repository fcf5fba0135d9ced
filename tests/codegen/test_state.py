"""States that a network keeps from call to call, in C and in the graph: frames one after the other give what the whole sequence gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import selftest
from native_laws import ISAS
from state_networks import causal, delays, normal, quantized, recurrent, rng

import lowbit
from lowbit.cli import main
from lowbit.errors import InputError, ShapeError, UnsupportedOp
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType


def frames_of(stream: lowbit.Streaming, x: Array, frame: int, isa: str | None = None) -> list[Array]:
    """The outputs, frame by frame, from states of zero on: the interpreter's, or those of kernels of an instruction set."""
    graph = lower(stream.graph).graph
    session = None if isa is None else Session(graph, isa=isa)
    assert session is None or session.backend == "native"
    held = {v.name: np.zeros([int(d) for d in v.shape], np.float32) for v in graph.inputs if v.name in stream.state}
    found = []
    for at in range(0, x.shape[2], frame):
        given = {"x": x[:, :, at : at + frame], **held}
        got = run(graph, given) if session is None else session.run(given)
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


@pytest.mark.parametrize("frame", [2, 6])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("recipe", ["int8", "w4a8", "int16"])
def test_frames_of_a_gru_hand_on_the_16_bits_inside(recipe: str, before: bool, frame: int) -> None:
    q, x = quantized(24, recipe, "gru", linear_before_reset=before)
    stream = lowbit.streaming(q, frame=frame)
    assert len(stream.state) == 6 and stream.state["gru:s:state"] == "gru:s:state:next"  # of four convolutions, h and s
    assert next(n for n in lower(stream.graph).graph.nodes if n.op == "q_gru").outputs[2].type.dtype.name == "int16"
    whole = run(lower(q).graph, {"x": x})["y"]
    for isa in (None, *ISAS) if recipe == "int8" else (None,):
        assert np.concatenate(frames_of(stream, x, frame, isa)).tobytes() == whole.tobytes()


def test_without_the_bits_inside_frames_of_a_gru_would_differ() -> None:
    """The law above can fail: h alone, widened at every frame, is not enough."""
    q, x = quantized(24, "int8", "gru", linear_before_reset=True)
    stream = lowbit.streaming(q, frame=2)
    poor = lowbit.Streaming(stream.graph, {**stream.state, "gru:s:state": "gru:h:state:next"})
    assert np.concatenate(frames_of(poor, x, 2)).tobytes() != run(lower(q).graph, {"x": x})["y"].tobytes()


def test_frames_of_floats_give_the_whole_sequence() -> None:
    q, x = quantized(24, "float")
    assert np.allclose(np.concatenate(frames_of(lowbit.streaming(q, frame=4), x, 4)), run(q, {"x": x})["y"], atol=1e-6)


@pytest.mark.parametrize("inside", [False, True])
def test_states_are_kept_in_a_struct_with_their_integers_and_an_lstm_s_cells(inside: bool, tmp_path: Path) -> None:
    q, _ = quantized(24, "int8")
    stream = lowbit.streaming(q, frame=4)
    emitted = lowbit.emit_c(stream.graph, tmp_path / "c", state=stream.state, io_in_arena=inside, vectors=6, measure=False)
    header = emitted.files["model.h"]
    assert emitted.exact and header.split("typedef struct")[1].split("}")[0].count(" float ") == 1
    assert (
        "float s_lstm_c_state[5];" in header
        and "int8_t s_conv3d1s1_state[6];" in header
        and "void model_reset(model_state *state);" in header
    )
    assert "0 of 84 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    assert emitted.state_bytes == 4 * 5 + 5 + 3 * 2 + 8 * 4 + 8 * 2 + 8 * 3 + 1 and f"MODEL_STATE_BYTES {emitted.state_bytes}" in header
    assert emitted.ram_bytes == emitted.arena_bytes + emitted.io_bytes + emitted.state_bytes


@pytest.mark.parametrize(("op", "target"), [("lstm", "host"), ("gru", "host"), ("gru", "portable")])
def test_c_frame_by_frame_gives_the_bits_of_the_whole_sequence(op: str, target: str, tmp_path: Path) -> None:
    """The self test holds the frames of one sequence: what C gives for them is the whole's answer, cut into pieces."""
    q, x = quantized(24, "int8", op)
    stream = lowbit.streaming(q, frame=4)
    scale, zero = _input_params(stream)
    ints = np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)
    samples = [{"x": ints[:, :, i : i + 4]} for i in range(0, 24, 4)]
    emitted = lowbit.emit_c(stream.graph, tmp_path / "c", target=target, state=stream.state, samples=samples, vectors=6, measure=False)
    assert f"{'float s_lstm_c' if op == 'lstm' else 'int16_t s_gru_s'}_state[5];" in emitted.files["model.h"]
    assert "0 of 84 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    text = emitted.files["selftest.c"].split("known_out[VECTORS]")[1].split("};")[0]
    known = [float.fromhex(w.strip("{},f\n ")) for w in text.split("=")[1].replace("{", " ").replace("}", " ").split(",") if w.strip()]
    assert np.array_equal(np.array(known, np.float32), run(lower(q).graph, {"x": x})["y"].reshape(-1))


def _input_params(stream: lowbit.Streaming) -> tuple[np.float32, int]:
    node = next(n for n in stream.graph.nodes if n.op == "quantize_linear" and n.inputs[0] is not None and n.inputs[0].name == "x")
    scale, zero = stream.graph.constant(node.inputs[1]), stream.graph.constant(node.inputs[2])
    assert scale is not None and zero is not None
    return np.float32(scale), int(zero)


@pytest.mark.parametrize("inside", [False, True])
def test_states_may_become_one_another(inside: bool, tmp_path: Path) -> None:
    state = {"h": "h2", "d": "d2", "e": "e2"}
    emitted = lowbit.emit_c(delays(), tmp_path / "c", state=state, io_in_arena=inside, vectors=4, measure=False)
    assert "0 of 32 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
    assert emitted.state_bytes == 48


QUANTIZED = {"axis": 0, "block_size": 0}


def integer_states(form: str) -> Graph:
    """States that are int8 at both ends of the given graph, where -5 is the real number 0."""
    b = Builder("integers")
    x, h = b.input("x", TensorType((1, 4), "float32")), b.input("h", TensorType((1, 4), "int8"))
    params = b.constant(np.float32(0.25)), b.constant(np.int8(-5))
    if form == "operand":  # of an op on integers
        q = b.add("quantize_linear", x, *params, **QUANTIZED, to="int8")
        sums = {"x_zero": -5, "y_zero": -5, "z_zero": -5, "mx": 0.5, "my": 0.5, "lo": -128, "hi": 127, "to": "int8"}
        n = b.add("q_add", q, h, name="sum", **sums)
        return b.finish({"y": b.add("dequantize_linear", n, *params, **QUANTIZED), "hn": n})
    held = b.add("reshape", b.add("reshape", h, shape=(4,)), shape=(1, 4)) if form == "moved" else h
    half = b.add("mul", b.add("add", x, b.add("dequantize_linear", held, *params, **QUANTIZED)), b.constant(np.float32(0.5)))
    return b.finish({"y": half, "hn": b.add("quantize_linear", half, *params, **QUANTIZED, to="int8")})


@pytest.mark.parametrize("form", ["dequantized", "moved", "operand"])
def test_states_that_are_integers_in_the_graph_begin_at_their_zero_point(form: str, tmp_path: Path) -> None:
    emitted = lowbit.emit_c(integer_states(form), tmp_path / "c", state={"h": "hn"}, vectors=3, measure=False)
    reset = emitted.files["model.c"].split("void model_reset(")[1]
    assert "state->s_h[i] = -5;" in reset and "does not tell" not in emitted.files["model.h"]
    assert "0 of 12 outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")


def test_states_of_integers_that_mean_nothing_known_begin_at_0() -> None:
    b = Builder()
    x, n = b.input("x", TensorType((1,), "int32")), b.input("count", TensorType((1,), "int32"))
    files = lowbit.emit_c(b.finish({"y": b.add("add", x, n), "next": n}), None, state={"count": "next"}, measure=False).files
    assert "The network does not tell what integers mean in s_count: they become 0." in files["model.h"]
    assert "state->s_count[i] = 0;" in files["model.c"]


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"frame": 0}, "frame=0, a whole number from 1 to 2,147,483,647 is needed"),
        ({"frame": "a"}, "frame='a', a whole number from 1"),
        ({"frame": None}, "frame=None, a whole number from 1"),
        ({"frame": 2.5}, r"frame=2\.5, a whole number from 1"),
        ({"frame": True}, "frame=True, a whole number from 1"),
        ({"frame": 2, "axis": "t"}, "axis='t', a whole number is needed"),
        ({"frame": 2, "axis": 3}, r"axis=3, input 'x' is float32\[1, 3, 24\]: it has 3 axes"),
        ({"frame": 2, "axis": -4}, r"axis=-4, input 'x' is float32\[1, 3, 24\]: it has 3 axes"),
        ({"frame": 2, "inputs": ("nope",)}, r"inputs=\('nope',\), 'nope' is no input.\n  Try: one of x"),
        ({"frame": 2, "inputs": "x"}, "inputs= is 'x', a list .or another iterable. is needed"),
        ({"frame": 2, "inputs": (3,)}, "a name in inputs=3, a text is needed"),
        ({"frame": 2, "inputs": ()}, r"inputs=\(\), one at least has time"),
    ],
)
def test_wrong_options_of_frames_say_what_is_needed(options: dict[str, object], said: str) -> None:
    with pytest.raises(lowbit.LowbitError, match=said):
        lowbit.streaming(causal(24), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("op", ["lstm", "gru"])
@pytest.mark.parametrize("direction", ["bidirectional", "reverse"])
def test_recurrences_that_go_back_are_refused(op: str, direction: str) -> None:
    b = Builder()
    x = b.input("x", TensorType((6, 1, 8), "float32"))
    graph = b.finish({"y": recurrent(b, op, x, direction)})
    calibration = [{"x": rng.normal(size=(6, 1, 8)).astype(np.float32)}]
    for g in (graph, lowbit.quantize(graph, calibration, recipe="int8", guard=False)):
        with pytest.raises(UnsupportedOp, match=rf"{op} '{op}': it cannot run frame by frame: it reads time backwards"):
            lowbit.streaming(g, frame=2, axis=0)


def test_a_first_state_of_8_bits_is_refused() -> None:
    b = Builder()
    x, h = b.input("x", TensorType((6, 1, 8), "float32")), b.input("h", TensorType((1, 1, 5), "float32"))
    parts = [b.constant(normal(1, *s)) for s in ((15, 8), (15, 5), (30,))]
    y = b.add("gru", x, *parts, h, name="gru", hidden=5, direction="forward", activations=("Sigmoid", "Tanh"), layout=0)
    calibration = [{"x": rng.normal(size=(6, 1, 8)).astype(np.float32), "h": np.zeros((1, 1, 5), np.float32)}]
    q = lowbit.quantize(b.finish({"y": y}), calibration, recipe="int8", guard=False)
    with pytest.raises(UnsupportedOp, match=r"gru 'gru': .* holds fewer bits than a GRU in integers does inside"):
        lowbit.streaming(q, frame=2, axis=0, inputs=("x",))


def test_the_command_line_takes_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delays().save(tmp_path / "delays.lowbit")
    command = ["emit-c", str(tmp_path / "delays.lowbit"), "-o", str(tmp_path / "out"), "--state", "h:h2", "--state", "d:d2"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state_bytes"] == 32
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--state", "h"])
    capsys.readouterr()
    for wrong, said in (
        (
            ["--state", "h:nothing"],
            "--state 'h:nothing' is no input and output of the network.\n  Try: an input of x, h, d, e, =, an output",
        ),
        (["--state", "h=h2"], "--state names 'h' twice"),
        (["--time-axis", "1"], "--time-axis is for --streaming"),
    ):
        assert main([*command, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_the_command_line_takes_names_with_colons_and_signs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that streaming makes too; where two readings are possible, none is taken."""
    stream = lowbit.streaming(causal(24), frame=2)
    stream.graph.save(tmp_path / "frames.lowbit")
    command = ["emit-c", str(tmp_path / "frames.lowbit"), "-o", str(tmp_path / "out"), "--json"]
    for sign in ":=":
        assert main([*command, *(w for name, out in stream.state.items() for w in ("--state", f"{name}{sign}{out}"))]) == 0
        want = lowbit.emit_c(stream.graph, None, state=stream.state, measure=False).state_bytes
        assert json.loads(capsys.readouterr().out)["state_bytes"] == want > 0
    b = Builder()
    one, two = (b.input(n, TensorType((2,), "float32")) for n in ("a", "a:b"))
    b.finish({"c": b.add("relu", one), "b:c": b.add("relu", two)}).save(tmp_path / "two.lowbit")
    assert main(["emit-c", str(tmp_path / "two.lowbit"), "-o", str(tmp_path / "two"), "--state", "a:b:c"]) == 2
    assert "--state 'a:b:c' is both 'a', 'b:c' and 'a:b', 'c'" in capsys.readouterr().err


def test_the_command_line_makes_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q, _ = quantized(24, "int8")
    q.save(tmp_path / "whole.lowbit")
    command = ["emit-c", str(tmp_path / "whole.lowbit"), "-o", str(tmp_path / "out"), "--streaming", "4"]
    assert main([*command, "--json"]) == 0
    stream = lowbit.streaming(q, frame=4)
    want = lowbit.emit_c(stream.graph, None, state=stream.state)
    assert json.loads(capsys.readouterr().out)["state_bytes"] == want.state_bytes > 0
    assert {path: (tmp_path / "out" / path).read_text() for path in want.files} == dict(want.files)
    assert main([*command, "--time-axis", "2"]) == 0
    assert {path: (tmp_path / "out" / path).read_text() for path in want.files} == dict(want.files)
    assert main([*command, "--time-axis", "7"]) == 1
    assert "axis=7, input 'x' is float32[1, 3, 24]: it has 3 axes" in capsys.readouterr().err


def test_multiplications_of_a_recurrence_are_counted_once() -> None:
    q, _ = quantized(24, "int8")
    rows = [
        line.split("|") for line in lowbit.emit_c(q, None, measure=False).files["README.md"].splitlines() if line.startswith("| lstm |")
    ]
    assert sum(int(r[4].replace(",", "")) for r in rows if "\\" not in r[2]) == 12 * 20 * (8 + 5)
