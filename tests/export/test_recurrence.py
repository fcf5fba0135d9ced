"""LSTM and GRU in ONNX by their integer arithmetic: ONNX Runtime gives lowbit's bytes, all of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import lowbit
from benchmarks.ort_agreement import compare, quantized
from lowbit.errors import FormatError, InputError, UnsupportedOp
from lowbit.export.onnx import export_onnx, onnx_bytes, recurrence
from lowbit.export.onnx.check import run_onnx
from lowbit.ir.build import Builder
from lowbit.ir.graph import Constant, Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.ops.rnn_common import plain_options
from lowbit.pipeline import quantize
from lowbit.types import Array, TensorType

TIME, BATCH, WIDTH, HIDDEN = 9, 3, 6, 5
Feed = dict[str, Array]


def network(
    kind: str, layers: int, direction: str, layout: int = 0, reset_first: bool = False, states: bool = False, only: str = ""
) -> Graph:
    """Recurrent layers alone; y of the last and the last states of all are outputs (or `only` one), `states` are inputs."""
    rng, b = np.random.default_rng(layers), Builder()
    gates, d = 4 if kind == "lstm" else 3, 2 if direction == "bidirectional" else 1
    attrs: dict[str, Any] = {"hidden": HIDDEN, "layout": layout, **plain_options(gates, direction)}
    if kind == "gru":
        attrs["linear_before_reset"] = not reset_first
    outer, state = ((BATCH, TIME), (BATCH, d, HIDDEN)) if layout else ((TIME, BATCH), (d, BATCH, HIDDEN))
    x = b.input("x", TensorType((*outer, WIDTH), "float32"))
    outputs: dict[str, Value] = {}
    for i in range(layers):
        width = x.shape[2]
        shapes = ((d, gates * HIDDEN, width), (d, gates * HIDDEN, HIDDEN), (d, 2 * gates * HIDDEN))
        weights = [b.constant(rng.normal(0, 0.6, s).astype(np.float32), f"{i}{n}") for n, s in zip("wrb", shapes, strict=True)]
        given = [b.input(f"{n}{i}", TensorType(state, "float32")) for n in ("h", "c")[: gates - 2]] if states else []
        y, *last = b.add_node(kind, x, *weights, *given, name=f"layer{i}", **attrs)
        outputs |= {f"last{i}{j}": v for j, v in enumerate(last)}
        if i + 1 == layers:
            outputs["y"] = y
        else:
            x = b.add("reshape", y if layout else b.add("transpose", y, perm=(0, 2, 1, 3)), shape=(*outer, d * HIDDEN))
    return b.finish({k: v for k, v in outputs.items() if only in ("", k)})


def feeds(graph: Graph, count: int = 4) -> list[Feed]:
    rng = np.random.default_rng(3)
    shapes = {v.name: [int(n) for n in v.shape] for v in graph.inputs}
    return [{k: rng.normal(0, 1 if k == "x" else 0.5, s).astype(np.float32) for k, s in shapes.items()} for _ in range(count)]


def in_integers(graph: Graph, recipe: str = "int8") -> Graph:
    q: Graph = quantize(graph, feeds(graph)[:3], recipe=recipe, guard=False)
    return q


def same_bytes(q: Graph, feed: Feed, op: str) -> bool:
    """Whether ONNX Runtime and the interpreter of the integer graph agree to the last bit, as the file says and optimized."""
    lowered, data = lower(q), onnx_bytes(q, recurrences="integer")
    assert not lowered.islands and any(n.op == op for n in lowered.graph.nodes)
    model = onnx.ModelProto.FromString(data)
    onnx.checker.check_model(model, full_check=True)
    assert {"Scan"} <= {n.op_type for n in model.graph.node} and not {"LSTM", "GRU"} & {n.op_type for n in model.graph.node}
    want = run(lowered.graph, feed)
    assert all(len(np.unique(v)) > 4 for v in want.values()), "the layer says nothing"
    for optimize in (False, True):
        got = run_onnx(data, feed, optimize=optimize)
        if any(got[k].shape != v.shape or got[k].dtype != v.dtype or not np.array_equal(got[k], v) for k, v in want.items()):
            return False
    return True


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_onnx_runtime_gives_the_layers_very_bytes(kind: str, layers: int, direction: str) -> None:
    graph = network(kind, layers, direction)
    assert same_bytes(in_integers(graph), feeds(graph)[3], f"q_{kind}")


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(
    "options",
    [{"layout": 1}, {"layout": 1, "states": True}, {"states": True}, {"reset_first": True}, {"reset_first": True, "states": True}],
    ids=str,
)
def test_layouts_given_states_and_both_resets_are_kept(kind: str, options: dict[str, Any]) -> None:
    graph = network(kind, 1, "bidirectional", **options)
    assert same_bytes(in_integers(graph), feeds(graph)[3], f"q_{kind}")


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("recipe", ["uint8", "int16", "int16-w16", "w4a8"])
def test_other_widths_are_exact_too(kind: str, recipe: str) -> None:
    graph = network(kind, 2, "bidirectional")
    assert same_bytes(in_integers(graph, recipe), feeds(graph)[3], f"q_{kind}")


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_sequence_that_goes_on_keeps_its_inner_state(kind: str) -> None:
    """On frames the states are inputs and outputs; a GRU has its state twice, which ONNX's own op cannot say."""
    q = in_integers(network(kind, 1, "forward", only="y"))
    stream = lowbit.streaming(q, frame=3, axis=0)
    state = {v.name: np.zeros([int(n) for n in v.shape], v.type.dtype.numpy) for v in stream.graph.inputs if v.name != "x"}
    assert len(state) == 2
    pieces, x = [], feeds(q)[3]["x"]
    for t in range(0, TIME, 3):
        feed = {"x": x[t : t + 3], **state}
        assert same_bytes(stream.graph, feed, f"q_{kind}")
        found = run_onnx(onnx_bytes(stream.graph, recurrences="integer"), feed)
        state = {k: found[out] for k, out in stream.state.items()}
        pieces.append(found["y"])
    assert np.array_equal(np.concatenate(pieces), run(lower(q).graph, {"x": x})["y"])


@pytest.mark.parametrize("name", ["lstm_lm", "gru_lm"])
def test_every_integer_layer_of_a_language_network_is_equal(name: str) -> None:
    found = compare(name, "int8", *quantized(name, "int8", batch=2))
    assert {"lstm", "gru"} & {r.op for r in found.layers} and found.bytes == found.total
    assert found.differ == 0


def test_large_cells_are_equal() -> None:
    """Beyond 8, where tanh is all but 1."""
    graph = network("lstm", 1, "forward", states=True)
    data = [{k: v * np.float32(40 if k.startswith("c") else 1) for k, v in f.items()} for f in feeds(graph)]
    q = quantize(graph, data[:3], recipe="int8", guard=False)
    assert same_bytes(q, data[3], "q_lstm")


def test_the_float_form_is_the_standard_op_and_another_function() -> None:
    graph = network("lstm", 2, "bidirectional")
    q, feed = in_integers(graph), feeds(graph)[3]
    data = onnx_bytes(q)
    assert data == onnx_bytes(q, recurrences="float")
    assert [n.op_type for n in onnx.ModelProto.FromString(data).graph.node].count("LSTM") == 2
    want, got = run(lower(q).graph, feed), run_onnx(data, feed)
    assert not all(np.array_equal(want[k], got[k]) for k in want)


@pytest.mark.parametrize("make", [lambda g: g, lambda g: in_integers(g, "int4-weights")], ids=["float", "weights only"])
def test_a_layer_that_lowbit_computes_in_float_stays_the_standard_op(make: Any) -> None:
    graph = make(network("gru", 1, "forward"))
    assert onnx_bytes(graph, recurrences="integer") == onnx_bytes(graph)


def test_the_file_is_tried_against_integers_and_shares_its_table(tmp_path: Path) -> None:
    q = in_integers(network("gru", 2, "bidirectional"))
    report = export_onnx(q, tmp_path / "m.onnx", recurrences="integer")
    assert report.checked and report.agreement is not None and report.agreement.max_error == 0
    model = onnx.load(tmp_path / "m.onnx")
    assert [t.dims[0] for t in model.graph.initializer if list(t.dims) == [1 << 16]] == [1 << 16]
    again = lowbit.load(tmp_path / "m.onnx")  # its Scan is written out: a layer no more, but what it computes
    assert not any(n.op == "gru" for n in again.nodes)


def test_a_layer_of_other_bytes_is_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Floor for Round moves codes by one: within what a file of float brackets is allowed, and not what was promised."""

    def floored(self: Any, do: Any, t: str) -> str:
        return as_it_is(self, lambda op, *a, **k: do("Floor" if op == "Round" else op, *a, **k), t)  # type: ignore[no-any-return]

    as_it_is = recurrence._Layer.rounded
    monkeypatch.setattr(recurrence._Layer, "rounded", floored)
    with pytest.raises(FormatError, match=r"lstm 'layer0'.*other integers than lowbit: \d+ of \d+ differ"):
        export_onnx(in_integers(network("lstm", 2, "bidirectional")), tmp_path / "m.onnx", recurrences="integer")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_onnx_runtimes_default_session_refuses_says_what_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuses(data: bytes, inputs: Feed, *, optimize: bool = False, fused: bool = False) -> Feed:
        if fused or (optimize and not allowed):
            raise RuntimeError("output_dtype INT8 does not match y_zero_point type UINT8")
        return run_onnx(data, inputs, optimize=optimize)

    monkeypatch.setattr("lowbit.export.onnx.check.run_onnx", refuses)
    q = in_integers(network("lstm", 1, "forward"))
    allowed = True
    assert export_onnx(q, tmp_path / "a.onnx").ran.endswith("session.qdqisint8allowed = 1 does (SessionOptions.add_session_config_entry)")
    allowed = False
    assert export_onnx(q, tmp_path / "a.onnx").ran.endswith("does not match y_zero_point type UINT8; ORT_DISABLE_ALL runs it")


def test_what_cannot_be_said_is_refused(tmp_path: Path) -> None:
    q = in_integers(network("lstm", 1, "forward"), "int8-dynamic")
    with pytest.raises(UnsupportedOp) as e:
        export_onnx(q, tmp_path / "m.onnx", recurrences="integer")
    assert "lstm 'layer0': its input and states are quantized at run time, which has no integer form in ONNX" in str(e.value)
    assert 'recurrences="float"' in str(e.value) and list(tmp_path.iterdir()) == []
    with pytest.raises(UnsupportedOp, match="gru 'layer0': its input or state is int4, which ONNX cannot move from step to step"):
        onnx_bytes(in_integers(network("gru", 1, "forward"), "w4a4"), recurrences="integer")
    good = in_integers(network("lstm", 1, "forward"))
    (bias,) = (n.inputs[3] for n in good.nodes if n.op == "lstm" and n.inputs[3] is not None)
    huge = Constant(bias, np.full_like(good.constants[bias.name].data, np.inf))
    with pytest.raises(UnsupportedOp, match="lstm 'layer0': its gates may leave the range of float32"):
        onnx_bytes(dataclasses.replace(good, constants={**good.constants, bias.name: huge}), recurrences="integer")
    with pytest.raises(InputError, match="recurrences='int8' does not exist") as wrong:
        export_onnx(q, tmp_path / "m.onnx", recurrences="int8")
    assert wrong.value.hint == "one of float, integer"


def test_the_command_line_takes_the_same_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lowbit.cli import main

    q = in_integers(network("lstm", 1, "forward"))
    q.save(tmp_path / "m.lowbit")
    line = ["export", str(tmp_path / "m.lowbit"), "-o", str(tmp_path / "m.onnx"), "--recurrences", "integer", "--json"]
    assert main(line) == 0
    assert json.loads(capsys.readouterr().out)["agreement"]["max_error"] == 0
    assert (tmp_path / "m.onnx").read_bytes() == onnx_bytes(q, recurrences="integer")
