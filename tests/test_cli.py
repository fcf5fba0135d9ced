"""The command line: what goes to stdout, exit codes, and what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.cli.common import parse_shapes
from lowbit.errors import InputError

DEMO = str(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx")


def out(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # progress goes to terminals only
    return captured.out


def test_inspect_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(out(capsys, "inspect", DEMO, "--json", "--shapes", "batch=2"))
    assert sum(r["parameters"] for r in found["rows"]) == found["parameters"]
    assert sum(r["macs"] for r in found["rows"]) == found["macs"]
    assert sum(r["weight_bytes"] for r in found["rows"]) == found["parameter_bytes"]
    single = json.loads(out(capsys, "inspect", DEMO, "--json", "--shapes", "batch=1"))
    assert found["macs"] == 2 * single["macs"]


def test_inspect_shows_open_dimensions_and_one_layer(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "inspect", DEMO)
    assert "--shapes batch=1" in text
    assert "conv" in text
    assert "attributes" not in out(capsys, "inspect", DEMO, "--node", "0")
    assert main(["inspect", DEMO, "--node", "nothing"]) == 1
    assert "no layer is number or name 'nothing'" in capsys.readouterr().err


def test_inspect_text_parses_back(capsys: pytest.CaptureFixture[str]) -> None:
    from lowbit.ir.text import parse_graph

    g = lowbit.load(DEMO)
    assert parse_graph(out(capsys, "inspect", DEMO, "--text"), g.constants) == g


def test_run_writes_the_outputs_it_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    np.save(tmp_path / "x.npy", x)
    report = json.loads(out(capsys, "run", DEMO, "--input", str(tmp_path / "x.npy"), "--out", str(tmp_path / "y.npz"), "--json"))
    y = np.load(tmp_path / "y.npz")["logits"]
    assert y.shape == (3, 10)
    assert report["outputs"]["logits"]["shape"] == [3, 10]
    assert np.array_equal(y, lowbit.compile(lowbit.load(DEMO))(x))


def test_run_without_input_needs_bound_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DEMO]) == 1
    assert "--shapes batch=1" in capsys.readouterr().err
    assert "random numbers for image" in out(capsys, "run", DEMO, "--shapes", "batch=1")


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["inspect", "none.onnx"], 1, "there is no such file"),
        (["run", DEMO, "--input", "none.npy"], 1, "not a readable"),
        (["run", DEMO, "--input", f"image={__file__}"], 1, "not a readable"),
        (["inspect", DEMO, "--shapes", "batch"], 1, "is not NAME=DIMS"),
        (["inspect", DEMO, "--shapes", "z=3"], 1, "which is no input"),
    ],
)
def test_what_the_user_got_wrong_is_said_in_one_error(argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert "Traceback" not in captured.err


def test_usage_is_exit_code_2_and_a_traceback_needs_debug() -> None:
    for argv, code in (([], 2), (["nothing"], 2), (["inspect"], 2), (["--version"], 0)):
        with pytest.raises(SystemExit) as e:
            main(argv)
        assert e.value.code == code
    with pytest.raises(lowbit.FormatError):
        main(["inspect", "none.onnx", "--debug"])


def test_python_dash_m_and_a_closed_pipe(tmp_path: Path) -> None:
    shell = f"{sys.executable} -m lowbit inspect {DEMO} | head -1"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout
    assert "Traceback" not in done.stderr


def test_demo_reaches_the_accuracy_it_was_trained_to(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(out(capsys, "demo", "--json", "--images", "100"))
    assert report["images"] == 100
    rows = {r["network"]: r for r in report["rows"]}
    assert list(rows) == ["float32", "int8", "w4a8"]
    assert rows["float32"]["top1"] >= 0.9
    assert rows["int8"]["top1"] >= rows["float32"]["top1"] - 0.02
    assert rows["w4a8"]["top1"] >= rows["float32"]["top1"] - 0.05
    assert rows["w4a8"]["bytes"] < rows["int8"]["bytes"] < rows["float32"]["bytes"] / 3
    assert report["coverage"]["int8"] == "19 of 19 layers integer"


def test_shapes_are_read_as_written() -> None:
    assert parse_shapes(["x=1,3,8", "n=4", "y=8,"]) == {"x": [1, 3, 8], "n": 4, "y": [8]}
    with pytest.raises(InputError, match="neither a number nor a name"):
        parse_shapes(["x=1,-3"])
