"""Mistakes of a first day: each is one short message with a way out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.cli.common import tell
from lowbit.dims import symbol
from lowbit.errors import FormatError
from lowbit.ir.build import Builder
from lowbit.types import TensorType

DEMO = str(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx")


def code(line: str) -> int:
    try:
        return main(line.split())
    except SystemExit as e:
        return int(str(e.code))


def test_a_wrong_option_is_told_without_all_options_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(f"quantize {DEMO} --recipe int7 -o x.lowbit") == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: argument --recipe: invalid choice: 'int7'") and said.endswith("\n  Try: int8; lowbit quantize -h\n")
    assert said.count("\n") == 2 and "--max-bytes" not in said


def test_shapes_of_several_dimensions_are_told_how_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(f"inspect {DEMO} --shapes batch=1 height=28") == 2
    assert "Try: --shapes height=28, one for each dimension" in capsys.readouterr().err
    assert code(f"inspect {DEMO} --shapes batch=1,height=28") == 2
    assert "Try: --shapes batch=1 --shapes height=28" in capsys.readouterr().err


def test_the_size_that_a_hint_proposes_holds_a_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("window")
    x = b.input("x", TensorType((1, 1, symbol("h") - 2, 8), "float32"))
    b.finish({"y": b.add("relu", x)}).save(tmp_path / "m.lowbit")
    assert code(f"run {tmp_path}/m.lowbit") == 1
    said = capsys.readouterr().err
    assert "--shapes h=64" in said and code(f"run {tmp_path}/m.lowbit --shapes h=64") == 0, said


def test_empty_paths_and_missing_files_are_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", DEMO, "--data", "", "-o", f"{tmp_path}/q.lowbit"]) == 1
    assert "FormatError: --data: the path is empty." in capsys.readouterr().err
    assert main(["inspect", ""]) == 1
    assert "FormatError: the path is empty.\n  Try: the path of an .onnx" in capsys.readouterr().err
    assert code(f"quantize {DEMO} --data {tmp_path}/none.npz -o {tmp_path}/q.lowbit") == 1
    assert f"FormatError: {tmp_path}/none.npz: there is no such file or folder.\n" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", image=np.zeros((8, 1, 28, 28), np.float32))
    assert code(f"eval {DEMO} --data {tmp_path}/x.npz --labels {tmp_path}/none.csv") == 1
    assert f"FormatError: {tmp_path}/none.csv: there is no such file.\n" in capsys.readouterr().err


def test_a_graph_is_not_saved_under_a_name_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", "", "/"):
        with pytest.raises(FormatError, match=r"a graph is written as \.lowbit"):
            lowbit.load(DEMO).save(name)


def test_c_is_not_written_among_other_files_unawares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thesis.tex").write_text("mine")
    line = f"emit-c {DEMO} --shapes batch=1 -o"
    assert code(f"{line} .") == 2
    assert "usage: .: it holds 1 files or folders that lowbit did not write (thesis.tex …).\n  Try: -o c" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    assert code(f"{line} c") == 0 and code(f"{line} c") == 0  # its own files are replaced
    assert code(f"{line} . --force") == 0 and (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_quantized_network_that_is_run_on_nan_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).random((8, 1, 28, 28), np.float32)
    lowbit.quantize(lowbit.load(DEMO), [x], guard=False).save(tmp_path / "q.lowbit")
    x[0, 0, 0, 0] = np.nan
    np.save(tmp_path / "x.npy", x)
    assert code(f"run {tmp_path}/q.lowbit --input {tmp_path}/x.npy") == 0
    assert "warning: input 'image' holds NaN or infinities, which a quantized network takes as numbers" in capsys.readouterr().err


def test_an_export_that_is_within_its_limits_is_said_to_be_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", reason="the peer is not installed")
    x = np.random.default_rng(0).random((8, 1, 28, 28), np.float32)
    lowbit.quantize(lowbit.load(DEMO), [x], guard=False).save(tmp_path / "q.lowbit")
    assert code(f"export {tmp_path}/q.lowbit -o {tmp_path}/q.onnx") == 0
    said = capsys.readouterr().out
    assert "on random inputs: fine, errors up to " in said and " root mean square, where 0.1 is the limit) against " in said
    assert code(f"export {DEMO} -o {tmp_path}/f.onnx") == 0
    assert "(the limit is 0.001)" in capsys.readouterr().out


def test_sentences_end_between_words_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    tell("a rather long sentence " * 12 + "\nsecond line")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(len(x) <= 80 for x in lines) and lines[-1] == "second line"
    assert all(set(x.split()) <= {"a", "rather", "long", "sentence"} for x in lines[:-1])
