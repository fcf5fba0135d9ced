"""The command line: what goes to stdout, exit codes, and what is written."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

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
    assert main(["inspect", DEMO, "--node", "nothing"]) == 2
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
        (["run", DEMO, "--input", "none.npy"], 1, "none.npy: there is no such file"),
        (["run", DEMO, "--input", f"image={__file__}"], 1, "not a readable"),
        (["inspect", DEMO, "--shapes", "batch"], 2, "is not NAME=DIMS"),
        (["inspect", DEMO, "--shapes", "z=3"], 2, "--shapes names z, which is no input and no open dimension"),
        (["inspect", DEMO, "--shapes", "batch=1", "--shapes", "batch=2"], 2, "--shapes names 'batch' twice"),
        (["inspect", DEMO, "--shapes", "image=1,2,28,28"], 1, "the model has (batch, 1, 28, 28)"),
        (["run", DEMO, "--shapes", "batch=1", "--out", "y.txt"], 2, "outputs are written as .npz, or .npy for one"),
        (["run", DEMO, "--shapes", "batch=1", "--out", "none/y.npz"], 1, "its folder does not exist"),
    ],
)
def test_what_the_user_got_wrong_is_said_in_one_error(argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert "Traceback" not in captured.err


def test_usage_is_exit_code_2_and_a_traceback_needs_debug() -> None:
    numbers = ["run", DEMO, "--seed", "-1"], ["run", DEMO, "--seed", "9" * 40], ["verify", DEMO, "--random", "0"]
    for argv, code in (([], 2), (["nothing"], 2), (["inspect"], 2), (["--version"], 0), *((n, 2) for n in numbers)):
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
    report = json.loads(out(capsys, "demo", "--json"))
    assert report["images"] == 1000
    rows = {r["network"]: r for r in report["rows"]}
    assert list(rows) == ["float32", "int8", "w4a8"]
    assert rows["float32"]["top1"] >= 0.9
    assert rows["int8"]["top1"] >= rows["float32"]["top1"] - 0.005  # a thousand images: five of them
    assert rows["w4a8"]["top1"] >= rows["float32"]["top1"] - 0.015
    assert rows["w4a8"]["bytes"] < rows["int8"]["bytes"] < rows["float32"]["bytes"] / 3
    assert int(report["coverage"]["int8"].split(" of ")[0]) >= 14  # the clock has a say in which layers stay float


def test_shapes_are_read_as_written() -> None:
    assert parse_shapes(["x=1,3,8", "n=4", "y=8,"]) == {"x": [1, 3, 8], "n": 4, "y": [8]}
    with pytest.raises(InputError, match="-3 is no size, they are from 0 on"):
        parse_shapes(["x=1,-3"])
    with pytest.raises(InputError, match="neither a number nor a name"):
        parse_shapes(["x=1,3.5"])


def test_inputs_are_given_once_and_one_output_may_be_npy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((1, 1, 28, 28), np.float32))
    assert main(["run", DEMO, "--input", str(file), "--input", f"image={file}"]) == 2
    assert "--input gives 'image' twice" in capsys.readouterr().err
    out(capsys, "run", DEMO, "--input", str(file), "--out", str(tmp_path / "y.npy"))
    assert np.load(tmp_path / "y.npy").shape == (1, 10)


def evil(tmp_path: Path) -> str:
    """A model whose names hold an escape sequence, a C1 control and a change of direction."""
    x, y = (helper.make_tensor_value_info(f"{n}\x1b]0;x\x07", TensorProto.FLOAT, [2]) for n in "xy")
    node = helper.make_node("Relu", [x.name], [y.name], name="a\x1b[31m\x9b2J\u202e\r")
    model = helper.make_model(helper.make_graph([node], "g\x1b[2J", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "evil.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.mark.parametrize("argv", ["inspect", "inspect --node 0", "inspect --json", "inspect --text", "run", "run --json"])
def test_names_in_a_model_do_not_steer_the_terminal(argv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = argv.split()
    text = out(capsys, verb, evil(tmp_path), *rest)
    assert not set("\x1b\x07\x9b\u202e\r") & set(text)
    assert "\\u001b" in text if rest in (["--json"], ["--text"]) else "\\x1b" in text


def test_errors_do_not_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    assert main(["run", evil(tmp_path), "--input", str(tmp_path / "x.npy")]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\\x1b]0;x" in err


class Full(io.TextIOWrapper):
    """A stream on a full disk."""

    def write(self, s: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_output_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as m:
        m.setattr(sys, "stdout", Full(io.BytesIO(), encoding="utf-8"))
        assert main(["inspect", DEMO]) == 1
    assert capsys.readouterr().err == "the output cannot be written: No space left on device\n"


def test_an_ascii_terminal_gets_what_it_can_show() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for argv in (["inspect", DEMO], ["demo", "--images", "1", "--json"]):
        done = subprocess.run([sys.executable, "-m", "lowbit", *argv], env=env, capture_output=True)
        assert done.returncode == 0 and done.stdout.isascii() and not done.stderr
    assert json.loads(done.stdout)["images"] == 1


def test_an_interrupt_during_imports_is_exit_code_130() -> None:
    code = """if True:
        import sys, lowbit.__main__
        class Slow:
            def __getattr__(self, name): raise KeyboardInterrupt
        sys.modules["lowbit.cli"] = Slow()
        sys.exit(lowbit.__main__.main())"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_wrong_instruction_set_in_the_environment_stops_every_verb_but_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOWBIT_ISA", "sse9")
    assert main(["inspect", DEMO]) == 2
    assert "LOWBIT_ISA=sse9 is not an instruction set of this build.\n  Try: one of ref" in capsys.readouterr().err
    assert main(["doctor", "--quick"]) == 0
    monkeypatch.setenv("LOWBIT_ISA", "")
    monkeypatch.setenv("LOWBIT_THREADS", "foo")
    assert main(["inspect", DEMO]) == 2
    assert "LOWBIT_THREADS=foo is not a number of threads" in capsys.readouterr().err
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "measurement   not possible: LOWBIT_THREADS=foo is not a number of threads" in said
    assert "problems\n  LOWBIT_THREADS=foo is not a number of threads: nothing that uses threads runs\n    Try: 1 to 4,096" in said
