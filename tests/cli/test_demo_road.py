"""The shipped network and images, written as files, take a new user through every verb without a word of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

from lowbit.cli import main
from lowbit.cli.demo import ROAD, SEEN, UNSEEN, arrays, prepare
from lowbit.runtime import timing

PAGE = ROOT / "docs" / "cli.md"


def test_the_whole_road_runs_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "SECONDS", 0.0)  # that the search takes for each time
    assert main(["demo", "--files", "fashion"]) == 0
    printed = [line.removeprefix("next   ") for line in capsys.readouterr().out.splitlines() if line.startswith("next   ")]
    assert printed == [line.format("fashion") for line in ROAD]
    for line in printed:
        assert main(line.split()[1:]) == 0, (line, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert "written: fashion/small.lowbit" in shown and "bit by bit" in shown and "onnx.checker passed" in shown
    assert {p.name for p in Path("fashion").iterdir()} == {
        "cnn.onnx", "seen.npz", "unseen.npz", "record.json", "small.lowbit", "report.html", "small.onnx", "c",
        "test.npz", "labels.npy", "best.lowbit",
    }  # fmt: skip


def test_the_page_of_the_command_line_has_the_same_lines() -> None:
    assert "\n".join(["lowbit demo --files fashion", *(line.format("fashion") for line in ROAD)]) in PAGE.read_text()


def test_the_files_hold_the_images_that_calibration_saw_and_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        assert main(["demo", "--files", str(tmp_path / folder)]) == 0
    for name, file, count in (
        ("seen", "fashion_calibration_256.npz", SEEN),
        ("unseen", "fashion_test_1000.npz", UNSEEN),
        ("test", "fashion_test_1000.npz", 1000),
    ):
        with np.load(tmp_path / "one" / f"{name}.npz") as z:
            assert np.array_equal(z["image"], prepare(arrays(file, "images")[0][:count])) and z["image"].dtype == np.float32
        assert (tmp_path / "one" / f"{name}.npz").read_bytes() == (tmp_path / "two" / f"{name}.npz").read_bytes()


def test_the_labels_are_those_of_the_test_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--files", str(tmp_path)]) == 0
    assert np.array_equal(np.load(tmp_path / "labels.npy"), arrays("fashion_test_1000.npz", "labels")[0])


def test_files_that_cannot_be_written_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--files", str(tmp_path / "file")]) == 1
    assert "FormatError" in capsys.readouterr().err
    assert main(["demo", "--files", str(tmp_path / "new"), "--images", "3"]) == 2
    assert "--files takes neither --images nor --test-set" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
