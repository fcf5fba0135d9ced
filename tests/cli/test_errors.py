"""The command line on models and data that are wrong: what is shown, what is said, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowbit
from lowbit.cli import main
from lowbit.cli.common import parse_shapes

DEMO = str(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx")


def write(path: Path, nodes: list[onnx.NodeProto], *domains: str) -> str:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in ("x", "y"))
    opsets = [helper.make_opsetid(d, 17 if not d else 1) for d in ("", *domains)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets), path)
    return str(path)


@pytest.fixture
def unsupported(tmp_path: Path) -> str:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="act"),
        helper.make_node("Wobble", ["a"], ["b"], name="strange", domain="my.shop"),
        helper.make_node("Neg", ["b"], ["y"], name="last"),
    ]
    return write(tmp_path / "m.onnx", nodes, "my.shop")


def test_inspect_of_a_model_with_unsupported_ops_shows_all_nodes_and_which(unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsupported]) == 1
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines() if line.strip()[:1].isdigit()]
    assert [r[:3] for r in rows] == [["0", "act", "Relu"], ["1", "strange", "my.shop::Wobble"], ["2", "last", "Neg"]]
    assert "not supported" in " ".join(rows[1]) and "not supported" not in " ".join(rows[0])
    assert "my.shop::Wobble (1x, first at node 1 'strange')" in said.err and "Try: lowbit inspect" not in said.err


def test_inspect_of_it_as_json_is_one_value(unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", unsupported, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [n["problem"] is None for n in found["nodes"]] == [True, False, True] and "Wobble" in found["error"]


def test_other_verbs_point_to_the_nodes_of_the_file(unsupported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", unsupported]) == 1
    assert "Try: lowbit inspect m.onnx --onnx" in capsys.readouterr().err
    assert main(["inspect", unsupported, "--onnx", "--node", "1"]) == 0
    assert "strange" in (text := capsys.readouterr().out) and "act" not in text
    assert main(["inspect", unsupported, "--onnx", "--node", "9"]) == 2
    assert "no node of the file is number or name '9'" in capsys.readouterr().err


def test_an_error_at_a_node_names_the_command_that_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["y"], name="turn", perm=[0, 0])]
    path = write(tmp_path / "m.onnx", nodes)
    assert main(["inspect", path]) == 1
    assert "Transpose 'turn' (m.onnx, node 1)" in (text := capsys.readouterr().err)
    assert "Try: lowbit inspect m.onnx --onnx --node 1" in text


def test_nodes_in_branches_are_numbered_behind_the_node_that_holds_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = helper.make_empty_tensor_value_info("out")
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["out"])], "b", [], [out])
    other = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["out"], axis=0)], "b", [], [out])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], name="choice", then_branch=inner, else_branch=other),
    ]
    assert main(["inspect", write(tmp_path / "m.onnx", nodes), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["nodes"]
    assert [n["number"] for n in found] == ["0", "1", "2", "2.0", "2.0"]
    assert [bool(n["problem"]) for n in found] == [False, False, True, False, False]


def test_shapes_are_split_at_commas_and_between_digits() -> None:
    assert parse_shapes(["x=1,maxlen"]) == {"x": [1, "maxlen"]}
    assert parse_shapes(["x=3x224 x 224"]) == {"x": [3, 224, 224]}
    assert parse_shapes(["x=batch,x1"]) == {"x": ["batch", "x1"]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.npz", b"PK\x03\x04 and then nothing", "not a readable .npy or .npz file"),
        ("x.npz", b"", "not a readable .npy or .npz file"),
        ("x.npy", b"\x93NUMPY\x01\x00", "not a readable .npy or .npz file"),
    ],
)
def test_input_files_that_are_damaged_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["run", DEMO, "--input", str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().err


def test_arrays_of_objects_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", image=np.array([{}, None], dtype=object))
    assert main(["run", DEMO, "--input", str(tmp_path / "x.npz")]) == 1
    assert "array 'image' cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("batch", [10**9, 10**18])
def test_sizes_beyond_all_memory_are_refused(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DEMO, "--shapes", f"batch={batch}"]) == 1
    assert "no memory for random numbers" in capsys.readouterr().err
